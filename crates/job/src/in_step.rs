//! Ranks that do one thing after the other, all at the same moment, for the process that had a
//! launcher start them.
//!
//! What ranks say comes by the launcher, which brings their standard output. What they are told is in
//! one file: whoever opens a file of a network filesystem sees what was written before
//! (close-to-open consistency), even where names and attributes are cached; so the file is there
//! before any rank is, and its size never changes. It names a moment a little ahead, as all ranks
//! do not read it at the same one.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, Signal, kill_process_group};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Before what a rank says: other lines are the launcher's, or a prolog's.
const LINE: &str = "becalm-rank ";
/// The size of the file in which ranks are told what to do.
const GO_BYTES: usize = 64;
/// So much later begins what ranks are told to begin: each has read it by then.
const AHEAD: Duration = Duration::from_millis(400);
/// How often a rank looks.
const LOOK: Duration = Duration::from_millis(100);
/// How long a launcher that was asked to end may take for it.
const PATIENCE: Duration = Duration::from_secs(5);

/// What ranks are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepGo {
    /// Which step, from 1.
    pub step: u32,
    /// For the rank that does something alone: its number.
    pub chosen: u32,
    /// When, in nanoseconds since 1970.
    at: u64,
}

/// What comes of waiting for ranks.
#[derive(Debug)]
pub enum RankAnswer {
    /// One of them says something.
    Said(String),
    /// Nobody did, for as long as was waited.
    Nothing,
    /// The launcher has ended, and so all of them.
    Ended,
}

/// Ranks that a launcher started for this process.
pub struct RanksInStep {
    launcher: Child,
    go: File,
    said: Receiver<String>,
    answers: VecDeque<String>,
    errors: Option<JoinHandle<String>>,
    /// What the launcher and the ranks said beside.
    words: String,
}

impl StepGo {
    fn text(self) -> String {
        let text = format!("step {} chosen {} at {} .", self.step, self.chosen, self.at);
        format!("{text:<width$}\n", width = GO_BYTES - 1)
    }

    fn of(text: &str) -> Option<StepGo> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let ["step", step, "chosen", chosen, "at", at, "."] = words[..] else { return None };
        let (step, chosen) = (step.parse().ok()?, chosen.parse().ok()?);
        Some(StepGo { step, chosen, at: at.parse().ok()? })
    }
}

/// Nanoseconds since 1970, by this node's clock.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}

impl RanksInStep {
    /// Starts a launcher with these words, the last of which are the ranks' own. `go` is a new file
    /// that ranks can read.
    ///
    /// # Errors
    /// Of the file, and of a launcher that cannot be started.
    pub fn start(words: &[OsString], go: &Path) -> io::Result<RanksInStep> {
        let file = File::options().write(true).create_new(true).open(go)?;
        file.write_all_at(StepGo { step: 0, chosen: 0, at: 0 }.text().as_bytes(), 0)?;
        file.sync_all()?;
        let (program, rest) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        command.args(rest).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Ctrl-C is for this process, which then ends the launcher.
        command.process_group(0);
        // SAFETY: between fork and exec, only system calls are made, on memory of the child's own.
        unsafe {
            command.pre_exec(|| {
                launch::restore_signals();
                launch::signals::block_only(&launch::signals::set([]));
                Ok(())
            });
        }
        let mut launcher = command.spawn()?;
        let (tell, said) = channel();
        if let Some(out) = launcher.stdout.take() {
            std::thread::spawn(move || {
                let mut out = BufReader::new(out);
                let mut line = Vec::new();
                while out.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
                    if tell.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                        return;
                    }
                    line.clear();
                }
            });
        }
        let errors = launcher.stderr.take().map(|errors| std::thread::spawn(move || last(errors)));
        let (answers, words) = (VecDeque::new(), String::new());
        Ok(RanksInStep { launcher, go: file, said, answers, errors, words })
    }

    /// Waits until a rank says something.
    pub fn next(&mut self, wait: Duration) -> RankAnswer {
        let until = Instant::now() + wait;
        loop {
            if let Some(answer) = self.answers.pop_front() {
                return RankAnswer::Said(answer);
            }
            match self.said.recv_timeout(until.saturating_duration_since(Instant::now())) {
                // A launcher may put the lines of two ranks into one, and words before each.
                Ok(line) if line.contains(LINE) => {
                    self.answers.extend(line.split(LINE).skip(1).map(str::to_owned));
                }
                Ok(line) if has_words(&line) => line.trim().clone_into(&mut self.words),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => return RankAnswer::Nothing,
                Err(RecvTimeoutError::Disconnected) => return RankAnswer::Ended,
            }
        }
    }

    /// Tells all ranks to begin a step.
    ///
    /// # Errors
    /// Of writing the file.
    pub fn begin(&mut self, step: u32, chosen: u32) -> io::Result<()> {
        let go = StepGo { step, chosen, at: now() + AHEAD.as_nanos() as u64 };
        self.go.write_all_at(go.text().as_bytes(), 0)?;
        self.go.sync_all()
    }

    /// Waits for the launcher so long, then ends it. How it ended, and its last words.
    pub fn end(mut self, wait: Duration) -> (Option<ExitStatus>, String) {
        let mut status = self.wait(wait);
        let group = Pid::from_raw(self.launcher.id() as i32);
        if let Some(group) = group.filter(|_| status.is_none()) {
            let _ = kill_process_group(group, Signal::TERM);
            status = self.wait(PATIENCE);
        }
        if status.is_none() {
            let _ = self.launcher.kill();
            status = self.launcher.wait().ok();
        }
        // What the launcher has left may keep its standard error open: that is not waited for.
        let until = Instant::now() + Duration::from_secs(1);
        while self.errors.as_ref().is_some_and(|it| !it.is_finished()) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        let said = self.errors.take().filter(JoinHandle::is_finished);
        let said = said.and_then(|said| said.join().ok()).filter(|said| !said.is_empty());
        (status, said.unwrap_or(self.words))
    }

    fn wait(&mut self, wait: Duration) -> Option<ExitStatus> {
        let until = Instant::now() + wait;
        loop {
            match self.launcher.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if Instant::now() < until => std::thread::sleep(LOOK / 10),
                _ => return None,
            }
        }
    }
}

/// The last line with words in it.
fn last(mut from: impl Read) -> String {
    /// No more is kept of what somebody says at length.
    const MOST: usize = 64 << 10;
    let (mut kept, mut part) = (Vec::new(), [0; 4096]);
    while let Ok(length @ 1..) = from.read(&mut part) {
        kept.extend_from_slice(&part[..length]);
        let over = kept.len().saturating_sub(MOST);
        kept.drain(..over);
    }
    let text = String::from_utf8_lossy(&kept);
    text.lines().map(str::trim).rfind(|line| has_words(line)).unwrap_or_default().to_owned()
}

/// Whether a line says something: mpirun draws lines around what it says.
fn has_words(line: &str) -> bool {
    line.contains(char::is_alphanumeric)
}

/// One of the ranks, as it sees it.
pub struct StepRank {
    go: PathBuf,
    until: Instant,
}

impl StepRank {
    /// A rank that reads this file, and gives up after so long.
    pub fn of(go: &Path, patience: Duration) -> StepRank {
        StepRank { go: go.to_owned(), until: Instant::now() + patience }
    }

    /// Waits until a step begins. None: it never will, as whoever would say so is gone.
    pub fn wait_for(&self, step: u32) -> Option<StepGo> {
        let mut unread = 0;
        while Instant::now() < self.until {
            let text = fs::read_to_string(&self.go);
            // One look may fail on a filesystem that is slow in making things known.
            unread = if text.is_ok() { 0 } else { unread + 1 };
            match text.ok().and_then(|text| StepGo::of(&text)) {
                Some(go) if go.step >= step => {
                    let left = Duration::from_nanos(go.at.saturating_sub(now()));
                    // A clock that is far behind keeps nobody waiting.
                    std::thread::sleep(left.min(2 * AHEAD));
                    return Some(go);
                }
                _ if unread > 5 => return None,
                _ => std::thread::sleep(LOOK),
            }
        }
        None
    }

    /// Says something to whoever had the ranks started.
    ///
    /// # Errors
    /// Of standard output.
    pub fn say(&self, answer: &impl Serialize) -> io::Result<()> {
        term::print(&format!("{LINE}{}\n", serde_json::to_string(answer)?))
    }

    /// What was said, read back.
    pub fn heard<T: DeserializeOwned>(said: &str) -> Option<T> {
        serde_json::Deserializer::from_str(said).into_iter::<T>().next()?.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ranks_are_told_is_read_back_and_always_of_one_size() {
        let go = StepGo { step: 3, chosen: u32::MAX, at: u64::MAX };
        assert_eq!(go.text().len(), GO_BYTES);
        assert_eq!(StepGo::of(&go.text()), Some(go));
        assert_eq!(StepGo::of(&go.text()[..40]), None, "half of it");
    }
}
