//! A program of becalm's choice that answers over two pipes, and never hangs who asks: what it is
//! handed and what it answers goes through its standard input and output, and each answer has a time
//! limit.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Gid, Uid};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, chdir, kill_process_group, setsid, waitpid};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use rustix::thread::{set_thread_gid, set_thread_groups, set_thread_uid};

use crate::child::{FAILED, die_with, fork_with};
use crate::execution::{Arguments, Execution, c_string};
use crate::lookup::{CannotStart, Command, explain};
use crate::{inherited, signals};

/// One that was killed is waited for this long; in a call that no signal ends it stays.
const MERCY: Duration = Duration::from_secs(1);
const AGAIN: Duration = Duration::from_millis(5);

/// What a helper is started with.
#[derive(Clone, Debug)]
pub struct HelperSetting {
    /// All of its environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Its working directory.
    pub directory: PathBuf,
    /// The user and group that it runs as; only root can choose. It then has no other group.
    pub user: Option<(u32, u32)>,
    /// How long an answer may take.
    pub limit: Duration,
}

/// A helper that runs. It leads a session of its own, has no terminal, and ends with this value, and
/// with the thread that started it; so does what it has started.
#[derive(Debug)]
pub struct Helper {
    pid: Pid,
    has_ended: bool,
    input: Option<File>,
    output: File,
    limit: Duration,
    until: Instant,
}

impl Helper {
    /// Starts it. What it writes to standard error is dropped.
    ///
    /// # Errors
    /// [`CannotStart`].
    pub fn start(command: &Command, setting: &HelperSetting) -> Result<Helper, CannotStart> {
        let execution = Execution::of(command)?;
        let environment = environment(&setting.environment)?;
        let directory = c_string(setting.directory.as_os_str().as_bytes())?;
        let dropped: OwnedFd = File::options().write(true).open("/dev/null")?.into();
        let (answers, to_answers) = pipe()?;
        let (questions, to_questions) = pipe()?;
        let (mut failure, to_failure) = pipe().map(|(out, into)| (File::from(out), into))?;
        let parent = std::process::id() as i32;
        // None of the pipes is a standard descriptor: Rust's runtime has filled those that were
        // closed.
        let become_it = || -> Result<(), Errno> {
            let _ = setsid();
            inherited::restore();
            signals::block_only(&signals::set([]));
            dup2_stdin(&questions)?;
            dup2_stdout(&to_answers)?;
            dup2_stderr(&dropped)?;
            if let Some((user, group)) = setting.user {
                let (user, group) = (Uid::from_raw(user), Gid::from_raw(group));
                set_thread_groups(&[group])?;
                set_thread_gid(group)?;
                set_thread_uid(user)?;
            }
            chdir(directory.as_c_str())?;
            // After the change of the user, which takes it back.
            if !die_with(parent) {
                return Err(Errno::SRCH);
            }
            Ok(())
        };
        let (pid, ()) = fork_with((), |()| {
            let error = match become_it() {
                Err(error) => error.raw_os_error(),
                Ok(()) => {
                    let error = execution.execute_in(&environment);
                    error.raw_os_error().unwrap_or(libc::EIO)
                }
            };
            let _ = rustix::io::write(&to_failure, &error.to_le_bytes());
            FAILED
        })?;
        drop((questions, to_answers, to_failure, dropped));
        let pid = Pid::from_raw(pid).ok_or_else(|| io::Error::other("no process was forked"))?;
        let mut helper = Helper {
            pid,
            has_ended: false,
            input: Some(to_questions.into()),
            output: answers.into(),
            limit: setting.limit,
            until: Instant::now() + setting.limit,
        };
        let mut error = [0; 4];
        match failure.read_exact(&mut error) {
            // The descriptor closed as it became the program.
            Err(_) => Ok(helper),
            Ok(()) => {
                helper.end();
                let error = io::Error::from_raw_os_error(i32::from_le_bytes(error));
                Err(explain(execution.path, error))
            }
        }
    }

    /// Its standard input, once.
    pub fn input(&mut self) -> Option<File> {
        self.input.take()
    }

    /// From now on, what is read next may take the time of an answer.
    pub fn expect(&mut self) {
        self.until = Instant::now() + self.limit;
    }

    /// How long an answer may take.
    pub fn limit(&self) -> Duration {
        self.limit
    }

    /// Ends it, and what it has started. Whoever writes to its input fails.
    pub fn end(&mut self) {
        self.input = None;
        if self.has_ended {
            return;
        }
        self.has_ended = true;
        let _ = kill_process_group(self.pid, Signal::KILL);
        let until = Instant::now() + MERCY;
        while matches!(waitpid(Some(self.pid), WaitOptions::NOHANG), Ok(None) | Err(Errno::INTR))
            && Instant::now() < until
        {
            std::thread::sleep(AGAIN);
        }
    }
}

impl Read for Helper {
    /// Reads of its standard output.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] where nothing comes in time.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let left = self.until.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left).map_err(io::Error::other)?;
            let mut output = [PollFd::new(&self.output, PollFlags::IN)];
            match poll(&mut output, Some(&left)) {
                Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
                Ok(_) => return (&self.output).read(buffer),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.end();
    }
}

fn environment(all: &[(OsString, OsString)]) -> io::Result<Arguments> {
    let line = |(name, value): &(OsString, OsString)| {
        c_string(&[name.as_bytes(), b"=", value.as_bytes()].concat())
    };
    Ok(Arguments::of(all.iter().map(line).collect::<io::Result<Vec<CString>>>()?))
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (out, into) = io::pipe()?;
    Ok((out.into(), into.into()))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};

    use super::*;

    fn start(words: &[&str], limit: Duration) -> Result<Helper, CannotStart> {
        let argv = words.iter().map(Into::into).collect();
        let setting = HelperSetting {
            environment: vec![("NAME".into(), "value".into())],
            directory: "/".into(),
            user: None,
            limit,
        };
        Helper::start(&Command::of(argv), &setting)
    }

    #[test]
    fn it_is_asked_and_answers_with_the_environment_and_directory_that_it_was_given() {
        let script = "while read -r line; do echo \"$line $NAME $PWD $HOME\"; done";
        let mut helper = start(&["sh", "-c", script], Duration::from_secs(60)).unwrap();
        let mut input = helper.input().unwrap();
        let mut output = BufReader::new(helper);
        for word in ["one", "two"] {
            writeln!(input, "{word}").unwrap();
            let mut answer = String::new();
            output.read_line(&mut answer).unwrap();
            assert_eq!(answer, format!("{word} value / \n"));
        }
        drop(input);
        assert_eq!(output.read(&mut [0]).unwrap(), 0, "it ends with its input");
    }

    #[test]
    fn one_that_hangs_is_ended_with_all_that_it_has_started() {
        let limit = Duration::from_millis(300);
        let script = "trap '' TERM HUP; sleep 1000 & echo $!; wait";
        let mut helper = start(&["sh", "-c", script], limit).unwrap();
        let began = Instant::now();
        let mut text = [0; 32];
        let length = helper.read(&mut text).unwrap();
        let pid = String::from_utf8_lossy(&text[..length]).trim().to_owned();
        helper.expect();
        let error = helper.read(&mut text).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(helper);
        assert!(began.elapsed() < Duration::from_secs(10));
        // Its parent is gone: it is killed, or already taken away.
        let state = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let is_gone = || state().is_empty() || state().contains(") Z ");
        for _ in 0..200 {
            if is_gone() {
                return;
            }
            std::thread::sleep(AGAIN);
        }
        panic!("{}", state());
    }

    #[test]
    fn what_cannot_start_says_why() {
        let error = start(&["/etc/passwd"], Duration::from_secs(1)).unwrap_err();
        assert_eq!(error.exit_status(), 126, "{error}");
        let error = start(&["no-such-command-here"], Duration::from_secs(1)).unwrap_err();
        assert_eq!(error.exit_status(), 127, "{error}");
    }
}
