//! A process whose memory has been collapsed forks faster, and is otherwise what it was.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use fork::collapse::{Collapsed, Error};

fn collapse(pid: i32) -> Result<Collapsed, Error> {
    fork::collapse::collapse(pid, &|_, _| {})
}

/// A program that talks by lines, and is killed at the end.
struct Talker {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Talker {
    fn start(command: &mut Command) -> Talker {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Talker { child, to, from: BufReader::new(from) }
    }

    fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    fn say(&mut self, line: &str) {
        writeln!(self.to, "{line}").unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn ask(&mut self, line: &str) -> String {
        self.say(line);
        self.line()
    }

    fn signal(&self, signal: i32) {
        // SAFETY: a system call with two numbers.
        assert_eq!(unsafe { libc::kill(self.pid(), signal) }, 0);
    }

    fn status(&self, name: &str) -> String {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line[name.len()..].trim().to_owned()
    }

    /// What must not change: signals, threads, mappings (but for their size on the stack).
    fn outside(&self) -> Vec<String> {
        let names = ["SigBlk:", "SigIgn:", "SigCgt:", "Threads:", "TracerPid:"];
        let mut outside: Vec<_> = names.iter().map(|name| self.status(name)).collect();
        outside.push(fs::read_to_string(format!("/proc/{}/maps", self.pid())).unwrap());
        outside
    }
}

impl Drop for Talker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A bash that reads commands, with a variable of so many megabytes.
fn bash(megabytes: u64) -> Talker {
    let mut bash = Talker::start(Command::new("bash").args(["--norc", "--noprofile"]));
    let grown = format!("printf -v big '%*s' {} x; echo ${{#big}}", megabytes << 20);
    assert_eq!(bash.ask(&grown), (megabytes << 20).to_string());
    bash
}

fn c_program(folder: &Path, name: &str) -> PathBuf {
    let program = folder.join(name);
    let source = format!("{}/tests/collapse/{name}.c", env!("CARGO_MANIFEST_DIR"));
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-pthread", "-o"]).arg(&program).arg(source).arg("-lrt");
    assert!(gcc.status().unwrap().success());
    program
}

/// By the fastest fork before and after: others may have been held up by the machine.
fn gain(collapsed: &Collapsed) -> f64 {
    let fastest = |times: &[u64]| *times.iter().min().unwrap() as f64;
    fastest(&collapsed.fork_before_ns) / fastest(&collapsed.fork_after_ns)
}

/// So many bytes are in huge pages, and a fork takes less for that; but for what this machine, at
/// this moment, has no huge pages for (or where they are its default).
fn gained(collapsed: &Collapsed, least: u64) {
    let (before, after) = (collapsed.before.huge_bytes, collapsed.after.huge_bytes);
    assert!(after + collapsed.refused_bytes >= least, "{collapsed:?}");
    if before < least / 10 && collapsed.refused_bytes < least / 10 {
        assert!(gain(collapsed) > 2.0, "{collapsed:?}");
    }
}

#[test]
fn a_large_bash_forks_faster_and_is_otherwise_as_it_was() {
    let mut bash = bash(200);
    let before = bash.outside();
    let collapsed = collapse(bash.pid()).unwrap();
    assert_eq!(bash.outside(), before);
    gained(&collapsed, 190 << 20);
    assert_eq!(bash.ask("echo ${#big} ${big: -1}"), format!("{} x", 200 << 20));
    assert_eq!(bash.ask("/bin/echo started"), "started");
    // No child that it did not make.
    assert_eq!(bash.ask("wait; echo $?; jobs"), "0");
}

#[test]
fn what_has_been_collapsed_has_nothing_more_to_gain() {
    let bash = bash(100);
    collapse(bash.pid()).unwrap();
    let again = collapse(bash.pid()).map(|collapsed| collapsed.after.huge_bytes);
    assert!(matches!(again, Err(Error::Small(..)) | Ok(_)), "{again:?}");
}

/// The C program, with so many megabytes and threads.
fn busy(folder: &Path, megabytes: u64, threads: u32) -> Talker {
    let mut program = Command::new(c_program(folder, "busy"));
    let mut busy = Talker::start(program.args([megabytes.to_string(), threads.to_string()]));
    assert_eq!(busy.line(), "ready");
    busy
}

/// The numbers of its account, by their names.
fn account(busy: &mut Talker) -> impl Fn(&str) -> u64 {
    busy.signal(libc::SIGUSR1);
    let line = busy.line();
    move |name| {
        let mut words = line.split(' ').skip_while(|word| *word != name);
        words.nth(1).unwrap().parse().unwrap()
    }
}

#[test]
fn no_signal_is_lost_no_call_fails_and_nothing_computed_changes() {
    let folder = tempfile::tempdir().unwrap();
    for threads in [0, 5] {
        let mut busy = busy(folder.path(), 64, threads);
        for number in 1..=100 {
            // At times all is in huge pages: it makes small ones again.
            while let Err(error) = collapse(busy.pid()) {
                assert!(matches!(error, Error::Small(..)), "{error}");
                sleep(Duration::from_millis(1));
            }
            queue(&busy, number);
        }
        let account = account(&mut busy);
        assert_eq!((account("errors"), account("same")), (0, 1), "{threads} threads");
        assert_eq!(account("queued"), 100);
        // A tick that is due while another one is pending is counted as its overrun.
        let (expired, counted) = (account("expired"), account("counted"));
        assert!(expired.abs_diff(counted) <= 2, "{counted} of {expired} ticks");
    }
}

/// Sends a queued signal with a number.
fn queue(to: &Talker, number: i32) {
    let value = libc::sigval { sival_ptr: number as usize as *mut libc::c_void };
    // SAFETY: a system call with numbers; the value is one, not an address.
    assert_eq!(unsafe { libc::sigqueue(to.pid(), libc::SIGRTMIN(), value) }, 0);
}

#[test]
fn a_wait_that_is_interrupted_goes_on_as_if_it_had_not_been() {
    const ROUNDS: usize = 120;
    let folder = tempfile::tempdir().unwrap();
    let mut waits = Command::new(c_program(folder.path(), "waits"));
    let mut waits = Talker::start(waits.arg(ROUNDS.to_string()));
    let mut interrupted = 0;
    for _ in 0..ROUNDS {
        let wanted = waits.ask("");
        sleep(Duration::from_millis(10));
        match collapse(waits.pid()) {
            Ok(_) => interrupted += 1,
            // On a busy machine the wait may be over, and its memory gone.
            Err(Error::Small(..)) => {}
            Err(error) => panic!("{error}"),
        }
        match wanted.as_str() {
            "waiting for signal" => waits.signal(libc::SIGUSR1),
            "waiting for line" => waits.say(""),
            wanted => assert_eq!(wanted, "waiting for time"),
        }
        let answer = waits.line();
        assert!(answer.starts_with("good "), "{answer}");
    }
    assert!(interrupted > ROUNDS / 2, "{interrupted}");
}

#[test]
fn a_stopped_job_stays_stopped_and_goes_on_when_it_is_told_to() {
    let mut bash = bash(50);
    bash.signal(libc::SIGSTOP);
    until(|| bash.status("State:").starts_with('T'));
    // It stays pending until the process goes on, which it does for becalm.
    bash.signal(libc::SIGSTOP);
    for _ in 0..2 {
        collapse_more(&bash);
        until(|| bash.status("State:") == "T (stopped)");
    }
    sleep(Duration::from_millis(50));
    assert_eq!(bash.status("State:"), "T (stopped)");
    bash.signal(libc::SIGCONT);
    assert_eq!(bash.ask("echo ${#big}"), (50_u64 << 20).to_string());
}

#[test]
fn a_stop_that_comes_meanwhile_stops_the_whole_process_and_a_continue_ends_it() {
    let folder = tempfile::tempdir().unwrap();
    for threads in [0, 3] {
        let mut busy = busy(folder.path(), 64, threads);
        let done = AtomicBool::new(false);
        let (to, is_done) = (&busy, &done);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for signal in [libc::SIGSTOP, libc::SIGCONT].iter().cycle() {
                    if *signal == libc::SIGSTOP && is_done.load(Ordering::Relaxed) {
                        return;
                    }
                    to.signal(*signal);
                    sleep(Duration::from_micros(300));
                }
            });
            (0..50).for_each(|_| collapse_more(&busy));
            done.store(true, Ordering::Relaxed);
        });
        busy.signal(libc::SIGSTOP);
        until(|| busy.status("State:") == "T (stopped)");
        busy.signal(libc::SIGCONT);
        let account = account(&mut busy);
        assert_eq!((account("errors"), account("same")), (0, 1), "{threads} threads");
    }
}

/// Collapses what there is to collapse.
fn collapse_more(talker: &Talker) {
    match collapse(talker.pid()) {
        Ok(_) | Err(Error::Small(..)) => {}
        Err(error) => panic!("{error}"),
    }
}

fn until(mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < Duration::from_secs(100), "it never came");
        sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_python_of_500_megabytes_keeps_its_objects_and_threads() {
    let program = "import hashlib, sys, threading, subprocess\n\
        big = bytes(range(256)) * (500 << 12)\n\
        small = [str(number) for number in range(200000)]\n\
        lock = threading.Lock(); lock.acquire()\n\
        waiting = threading.Thread(target=lock.acquire, daemon=True); waiting.start()\n\
        def said(): return hashlib.sha256(big).hexdigest() + str(hash(tuple(small)))\n\
        first = said(); print('ready', flush=True); sys.stdin.readline()\n\
        print(first == said(), waiting.is_alive(), flush=True)\n\
        print(subprocess.run(['echo', 'child'], capture_output=True).stdout, flush=True)\n";
    let mut python = Talker::start(Command::new("/usr/bin/python3").args(["-c", program]));
    assert_eq!(python.line(), "ready");
    let before = python.outside();
    let collapsed = collapse(python.pid()).unwrap();
    assert_eq!(python.outside(), before);
    gained(&collapsed, 490 << 20);
    assert_eq!(python.ask(""), "True True");
    assert_eq!(python.line(), "b'child\\n'");
}

#[test]
fn what_cannot_be_collapsed_is_refused_and_left_as_it_was() {
    let own = collapse(std::process::id() as i32);
    assert!(matches!(own, Err(Error::Own(_))), "{own:?}");
    let none = collapse(4_194_303);
    assert!(matches!(none, Err(Error::Gone(_))), "{none:?}");
    let thread_of_kernel = collapse(2);
    assert!(thread_of_kernel.is_err());
    let mut small = Talker::start(Command::new("bash").args(["--norc", "--noprofile"]));
    assert_eq!(small.ask("echo here"), "here");
    let refused = collapse(small.pid());
    assert!(matches!(refused, Err(Error::Small(..))), "{refused:?}");
    assert_eq!(small.ask("echo still"), "still");
}

#[test]
fn a_process_that_is_traced_already_is_refused() {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-o", "/dev/null", "bash", "--norc", "-c"]);
    let mut traced =
        Talker::start(strace.arg("printf -v big '%*s' 9999999 x; echo $$; read; echo $REPLY"));
    let pid = traced.line().parse().unwrap();
    let refused = collapse(pid).unwrap_err().to_string();
    assert!(refused.contains("(strace)"), "{refused}");
    assert_eq!(traced.ask("still"), "still");
}

#[test]
fn a_process_under_a_seccomp_filter_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("confined.c");
    let text = "#include <sys/prctl.h>\n#include <linux/seccomp.h>\n#include <unistd.h>\n\
        int main(void) { prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT); write(1, \"in\\n\", 3);\
        char byte; read(0, &byte, 1); write(1, \"on\\n\", 3); for (;;) read(0, &byte, 1); }\n";
    fs::write(&source, text).unwrap();
    let program = folder.path().join("confined");
    assert!(Command::new("gcc").arg("-o").args([&program, &source]).status().unwrap().success());
    let mut confined = Talker::start(&mut Command::new(program));
    assert_eq!(confined.line(), "in");
    let refused = collapse(confined.pid());
    assert!(matches!(refused, Err(Error::Confined(_))), "{refused:?}");
    assert_eq!(confined.ask(""), "on");
}
