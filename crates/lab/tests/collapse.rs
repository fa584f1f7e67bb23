//! A process whose memory has been collapsed has less to copy at a fork, and is otherwise what it
//! was. Without the right to do so, becalm refuses.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

#[cfg(target_arch = "x86_64")]
use lab::collapse::CollapseCaller;
use lab::collapse::{CollapseError, Collapsed};

fn collapse(pid: i32) -> Result<Collapsed, CollapseError> {
    lab::collapse::collapse(pid, &|_, _| {})
}

/// By a thread of the process, as for who may not from outside: x86-64's alone.
#[cfg(target_arch = "x86_64")]
fn by_a_thread(pid: i32) -> Result<Collapsed, CollapseError> {
    lab::collapse::collapse_by(Some(CollapseCaller::Thread), pid, &|_, _| {})
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

fn c_program(directory: &Path, name: &str) -> PathBuf {
    let program = directory.join(name);
    let source = format!("{}/tests/collapse/{name}.c", env!("CARGO_MANIFEST_DIR"));
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-pthread", "-o"]).arg(&program).arg(source).arg("-lrt");
    assert!(gcc.status().unwrap().success());
    program
}

/// Whether this process may collapse another's memory: as root, but not in a container.
fn may_collapse() -> bool {
    const SYS_NICE: u64 = 1 << 23;
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let caps = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap().trim();
    let users = fs::read_to_string("/proc/self/uid_map").unwrap();
    let is_machine = users.split_whitespace().collect::<Vec<_>>() == ["0", "0", "4294967295"];
    let may = is_machine && u64::from_str_radix(caps, 16).unwrap() & SYS_NICE != 0;
    assert!(may || std::env::var_os("CI").is_none(), "CI runs this as root");
    may
}

/// So many bytes are in huge pages, and a fork copies less for that; but for what this machine, at
/// this moment, has no huge pages for (or where they are its default).
fn gained(collapsed: &Collapsed, least: u64) {
    let (before, after) = (&collapsed.before, &collapsed.after);
    assert!(after.huge_bytes + collapsed.refused_bytes >= least, "{collapsed:?}");
    if before.huge_bytes < least / 10 && collapsed.refused_bytes < least / 10 {
        assert!(before.fork_entries > 2 * after.fork_entries, "{collapsed:?}");
    }
}

#[test]
fn a_large_bash_has_less_to_copy_and_is_otherwise_as_it_was() {
    if !may_collapse() {
        return;
    }
    let mut bash = bash(200);
    let before = bash.outside();
    let collapsed = collapse(bash.pid()).unwrap();
    assert_eq!(bash.outside(), before);
    gained(&collapsed, 190 << 20);
    assert_eq!(bash.ask("echo ${#big} ${big: -1}"), format!("{} x", 200 << 20));
    assert_eq!(bash.ask("/bin/echo started"), "started");
}

#[test]
fn what_has_been_collapsed_has_nothing_more_to_gain() {
    if !may_collapse() {
        return;
    }
    let bash = bash(100);
    collapse(bash.pid()).unwrap();
    let again = collapse(bash.pid()).map(|collapsed| collapsed.after.huge_bytes);
    assert!(matches!(again, Err(CollapseError::Small(..)) | Ok(_)), "{again:?}");
}

/// The C program, with so many megabytes and threads.
fn busy(directory: &Path, megabytes: u64, threads: u32) -> Talker {
    let mut program = Command::new(c_program(directory, "busy"));
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
    if !may_collapse() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    for threads in [0, 5] {
        let mut busy = busy(directory.path(), 64, threads);
        for number in 1..=20 {
            // At times all is in huge pages: it makes small ones again.
            while let Err(error) = collapse(busy.pid()) {
                assert!(matches!(error, CollapseError::Small(..)), "{error}");
                sleep(Duration::from_millis(1));
            }
            queue(&busy, number);
        }
        let account = account(&mut busy);
        assert_eq!((account("errors"), account("same")), (0, 1), "{threads} threads");
        assert_eq!(account("queued"), 20);
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
fn a_stopped_job_stays_stopped_and_goes_on_when_it_is_told_to() {
    if !may_collapse() {
        return;
    }
    let mut bash = bash(50);
    bash.signal(libc::SIGSTOP);
    until(|| bash.status("State:").starts_with('T'));
    collapse_more(&bash);
    assert_eq!(bash.status("State:"), "T (stopped)");
    bash.signal(libc::SIGCONT);
    assert_eq!(bash.ask("echo ${#big}"), (50_u64 << 20).to_string());
}

/// Collapses what there is to collapse.
fn collapse_more(talker: &Talker) {
    match collapse(talker.pid()) {
        Ok(_) | Err(CollapseError::Small(..)) => {}
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
    if !may_collapse() {
        return;
    }
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
    assert!(matches!(own, Err(CollapseError::Own(_))), "{own:?}");
    let none = collapse(4_194_303);
    assert!(matches!(none, Err(CollapseError::Gone(_))), "{none:?}");
    assert!(collapse(2).is_err(), "a thread of the kernel's");
    if !may_collapse() {
        return;
    }
    let mut small = Talker::start(Command::new("bash").args(["--norc", "--noprofile"]));
    assert_eq!(small.ask("echo here"), "here");
    let refused = collapse(small.pid());
    assert!(matches!(refused, Err(CollapseError::Small(..))), "{refused:?}");
    assert_eq!(small.ask("echo still"), "still");
}

#[test]
fn what_a_debugger_or_a_filter_has_is_collapsed_all_the_same() {
    if !may_collapse() {
        return;
    }
    let script = "printf -v big '%*s' 9999999 x; echo $$; read; echo $REPLY";
    let mut strace = Command::new("strace");
    let mut traced =
        Talker::start(strace.args(["-f", "-o", "/dev/null", "bash", "--norc", "-c", script]));
    let pid = traced.line().parse().unwrap();
    collapse(pid).unwrap();
    assert_eq!(traced.ask("still"), "still");
    // No system call is made in its name that a filter could mind.
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("confined.c");
    let text = "#include <linux/seccomp.h>\n#include <stdlib.h>\n#include <string.h>\n\
        #include <sys/prctl.h>\n#include <unistd.h>\n\
        int main(void) { char *big = malloc(16 << 20), byte; memset(big, 'x', 16 << 20);\
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT); write(1, \"in\\n\", 3); read(0, &byte, 1);\
        write(1, big[9 << 20] == 'x' ? \"on\\n\" : \"no\\n\", 3); for (;;) read(0, &byte, 1); }\n";
    fs::write(&source, text).unwrap();
    let program = directory.path().join("confined");
    assert!(Command::new("gcc").arg("-o").args([&program, &source]).status().unwrap().success());
    let mut confined = Talker::start(&mut Command::new(program));
    assert_eq!(confined.line(), "in");
    until(|| confined.status("Seccomp:") == "1");
    collapse(confined.pid()).unwrap();
    assert_eq!(confined.ask(""), "on");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_lent_thread_does_it_without_any_right_and_nothing_is_changed_by_that() {
    let mut bash = bash(200);
    let before = bash.outside();
    let collapsed = by_a_thread(bash.pid()).unwrap();
    assert_eq!(bash.outside(), before);
    assert_eq!(collapsed.by, CollapseCaller::Thread);
    gained(&collapsed, 190 << 20);
    assert_eq!(bash.ask("echo ${#big} ${big: -1}"), format!("{} x", 200 << 20));
    assert_eq!(bash.ask("/bin/echo started"), "started");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_lent_thread_loses_no_signal_no_call_fails_and_nothing_computed_changes() {
    let directory = tempfile::tempdir().unwrap();
    for threads in [0, 5] {
        let mut busy = busy(directory.path(), 64, threads);
        for number in 1..=20 {
            while let Err(error) = by_a_thread(busy.pid()) {
                assert!(matches!(error, CollapseError::Small(..)), "{error}");
                sleep(Duration::from_millis(1));
            }
            queue(&busy, number);
        }
        let account = account(&mut busy);
        assert_eq!((account("errors"), account("same")), (0, 1), "{threads} threads");
        assert_eq!(account("queued"), 20);
        let (expired, counted) = (account("expired"), account("counted"));
        assert!(expired.abs_diff(counted) <= 2, "{counted} of {expired} ticks");
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_lent_thread_that_computes_goes_on_with_all_its_registers() {
    // One thread that never waits, on memory that is new, and in small pages, each turn.
    let program = "import hashlib, mmap, zlib\n\
        print('ready', flush=True)\n\
        while True:\n\
        \x20   big = mmap.mmap(-1, 16 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n\
        \x20   big.write(b'1' * (16 << 20))\n\
        \x20   x = sum(i * 0.5 for i in range(90000))\n\
        \x20   print(hashlib.sha256(big).hexdigest(), zlib.crc32(big), x, flush=True)\n";
    let mut python = Talker::start(Command::new("/usr/bin/python3").args(["-c", program]));
    assert_eq!(python.line(), "ready");
    let first = python.line();
    let mut times = 0;
    for turn in 0..60 {
        // Its memory may be too new, or it may write to the pipe at that moment.
        for _ in 0..50 {
            match by_a_thread(python.pid()) {
                Ok(_) => {
                    times += 1;
                    break;
                }
                Err(CollapseError::Small(..) | CollapseError::Unprivileged { .. }) => {
                    sleep(Duration::from_millis(1));
                }
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(python.line(), first, "{turn}");
    }
    assert!(times > 20, "{times}");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_signal_that_comes_while_a_thread_is_lent_ends_its_call_as_it_would_otherwise() {
    // Python runs a handler when the call that waits has ended with EINTR, and not before.
    let program = "import mmap, os, signal\n\
        big = None\n\
        def fresh(*unused):\n\
        \x20   global big\n\
        \x20   big = mmap.mmap(-1, 32 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n\
        \x20   big.write(b'1' * (32 << 20)); print('handled', flush=True)\n\
        signal.signal(signal.SIGUSR1, fresh); fresh()\n\
        while True: os.read(0, 1)\n";
    let mut python = Talker::start(Command::new("/usr/bin/python3").args(["-c", program]));
    assert_eq!(python.line(), "handled");
    let (pid, mut lent) = (python.pid(), 0);
    for turn in 0..60 {
        let collapsing = std::thread::spawn(move || by_a_thread(pid));
        sleep(Duration::from_micros(500 * turn));
        python.signal(libc::SIGUSR1);
        lent += u32::from(collapsing.join().unwrap().is_ok());
        assert_eq!(python.line(), "handled", "{turn}");
    }
    assert!(lent > 20, "{lent}");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn no_thread_is_lent_where_that_could_be_noticed() {
    let refused = |pid| match by_a_thread(pid) {
        Err(CollapseError::Unprivileged { why: Some(why), .. }) => why.to_string(),
        other => panic!("{other:?}"),
    };
    let mut stopped = bash(50);
    stopped.signal(libc::SIGSTOP);
    until(|| stopped.status("State:").starts_with('T'));
    assert_eq!(refused(stopped.pid()), "it is stopped, or traced");
    stopped.signal(libc::SIGCONT);
    assert_eq!(stopped.ask("echo ${#big}"), (50_u64 << 20).to_string());
    // Waiting where an interruption ends the wait: epoll_wait (signal(7)).
    let program = "import select\nbig = bytearray(50 << 20)\n\
        for at in range(0, len(big), 4096): big[at] = 1\n\
        print('ready', flush=True)\nselect.epoll().poll()\n";
    let mut waiting = Talker::start(Command::new("/usr/bin/python3").args(["-c", program]));
    assert_eq!(waiting.line(), "ready");
    until(|| {
        fs::read_to_string(format!("/proc/{}/syscall", waiting.pid()))
            .is_ok_and(|call| call.starts_with("232 "))
    });
    let why = refused(waiting.pid());
    assert!(why.contains("an interruption would end"), "{why}");
    let script = "printf -v big '%*s' 9999999 x; echo $$; read; echo $REPLY";
    let mut strace = Command::new("strace");
    let mut traced =
        Talker::start(strace.args(["-f", "-o", "/dev/null", "bash", "--norc", "-c", script]));
    let pid = traced.line().parse().unwrap();
    assert_eq!(refused(pid), "it is stopped, or traced");
    assert_eq!(traced.ask("still"), "still");
}
