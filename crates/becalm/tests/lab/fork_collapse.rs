//! `becalm lab fork collapse` and `fork bench`: what they say, and what is left when becalm is killed.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::BECALM;
use testkit::answer;
use testkit::user::is_root;
#[cfg(target_arch = "x86_64")]
use testkit::user::{as_a_user, scene_for_a_user};
use testkit::{Ran, run};

fn becalm(words: &[&str]) -> Command {
    let mut becalm = Command::new(BECALM);
    becalm.args(words).env("COLUMNS", "100");
    becalm
}

/// A process that answers a line by a line.
struct Process {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Process {
    fn start(command: &mut Command) -> Process {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Process { child, to, from: BufReader::new(from) }
    }

    /// A bash with a variable of so many megabytes.
    fn bash(megabytes: u64) -> Process {
        let mut bash = Process::start(Command::new("bash").args(["--norc", "--noprofile"]));
        let grow = format!("printf -v big '%*s' {} x; echo ok", megabytes << 20);
        assert_eq!(bash.ask(&grow), "ok");
        bash
    }

    fn pid(&self) -> String {
        self.child.id().to_string()
    }

    fn line(&mut self) -> String {
        let mut answer = String::new();
        self.from.read_line(&mut answer).unwrap();
        answer.trim_end().to_owned()
    }

    fn ask(&mut self, line: &str) -> String {
        writeln!(self.to, "{line}").unwrap();
        self.line()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_json_of_collapse_is_as_its_schema_says() {
    if !is_root() {
        return;
    }
    let bash = Process::bash(100);
    let ran = run(&mut becalm(&["lab", "fork", "collapse", "--json", &bash.pid()]));
    assert_eq!(answer::parse(ran.out())["schema"], "becalm.lab.fork.collapse/1");
}

#[test]
fn the_json_of_bench_is_as_its_schema_says() {
    let ran =
        run(&mut becalm(&["lab", "fork", "bench", "--most", "10", "--rounds", "3", "--json"]));
    let value = answer::parse(ran.out());
    let rows = value["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 3);
    assert!(rows.iter().all(|row| row["fork_ns"].as_u64().unwrap() > 1000));
}

#[test]
fn a_process_with_nothing_to_gain_is_refused_with_status_1() {
    let bash = Process::bash(0);
    let ran = run(&mut becalm(&["lab", "fork", "collapse", &bash.pid()]));
    assert_eq!(ran.code(), 1);
}

/// A Python whose threads compute all the time, on memory that is in small pages again at each
/// line: where the kernel gives huge ones by itself, each is split by giving a part of it back. It says
/// whether all that they ever computed was right.
const PYTHON: &str = "import hashlib, mmap, sys, threading\n\
    def fresh():\n\
    \x20   memory = mmap.mmap(-1, 8 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n\
    \x20   for use in (1, 2):\n\
    \x20       for at in range(0, 8 << 20, 2 << 20): memory.madvise(mmap.MADV_DONTNEED, at, mmap.PAGESIZE)\n\
    \x20       memory.seek(0); memory.write(bytes(range(256)) * (8 << 12))\n\
    \x20   return memory\n\
    def digest(): return hashlib.sha256(memory).digest()\n\
    memory = fresh(); right = digest(); wrong = []\n\
    def work():\n\
    \x20   while True:\n\
    \x20       if digest() != right: wrong.append(1)\n\
    for _ in range(5): threading.Thread(target=work, daemon=True).start()\n\
    print('ready', flush=True)\n\
    for line in sys.stdin:\n\
    \x20   memory = fresh(); print(digest() == right and not wrong, flush=True)\n";

/// What becalm leaves in a process when it is killed is room that the next one has not.
const KILLS_OF_A_PROCESS: usize = 8;

/// Kills becalm before each call that it makes, from the `first` on that has to do with the process,
/// which must go on and be right. Returns how often each call was made without that.
fn killed_at_each_call(
    start: &dyn Fn() -> Process,
    strace: &dyn Fn(&Process, &[&str]) -> Ran,
    first: &str,
    trace: &Path,
) -> BTreeMap<String, usize> {
    let mut python = start();
    assert_eq!(python.line(), "ready");
    let ran = strace(&python, &[]);
    assert_eq!(ran.code(), 0, "{}{}", ran.out(), ran.err());
    let calls = fs::read_to_string(trace).unwrap();
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    let mut moments = Vec::new();
    for line in calls.lines() {
        let call = line.split_once(' ').unwrap().1.trim_start().split('(').next().unwrap();
        let at = times.entry(call.to_owned()).or_default();
        *at += 1;
        // What comes before has nothing to do with the process.
        if call == first || !moments.is_empty() {
            moments.push((call, *at));
        }
    }
    moments.retain(|(call, _)| *call != "exit_group" && !call.starts_with(['+', '-', '<']));
    // Looking again whether the thread has stopped is the same moment once more.
    let looks = |call: &str| call == "wait4" || call.ends_with("nanosleep");
    let is_new = |number: &usize| {
        let before = moments[number.saturating_sub(2)..*number].iter();
        !looks(moments[*number].0) || before.filter(|(call, _)| looks(call)).count() < 2
    };
    let moments: Vec<_> = (0..moments.len()).filter(is_new).map(|at| moments[at]).collect();
    let mut killed = 0;
    for (number, (call, at)) in moments.iter().enumerate() {
        if number % KILLS_OF_A_PROCESS == 0 {
            assert_eq!(python.ask("last"), "True");
            python = start();
            assert_eq!(python.line(), "ready");
        }
        assert_eq!(python.ask("again"), "True", "before {call} number {at}");
        let inject = format!("inject={call}:signal=KILL:when={at}");
        let ran = strace(&python, &["-e", &format!("trace={call}"), "-e", &inject]);
        // Had it nothing to do, or was refused, that would be told.
        assert!(!ran.err().contains("becalm: process"), "{call} number {at}: {}", ran.err());
        killed += usize::from(ran.status.code() != Some(0));
        let status = fs::read_to_string(format!("/proc/{}/status", python.pid())).unwrap();
        assert!(status.contains("TracerPid:\t0\n"), "{call} number {at}: {status}");
        assert!(status.contains("Threads:\t6\n"), "{call} number {at}: {status}");
    }
    println!("{killed} of {} moments hit", moments.len());
    // How often it waits is not the same each time.
    assert!(killed * 10 >= moments.len() * 7, "{killed} of {}", moments.len());
    assert_eq!(python.ask("last"), "True");
    times
}

#[test]
fn a_process_of_many_threads_goes_on_when_becalm_is_killed_at_any_of_its_system_calls() {
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("trace");
    let start = || Process::start(Command::new("/usr/bin/python3").args(["-c", PYTHON]));
    let strace = |python: &Process, words: &[&str]| {
        let mut strace = Command::new("strace");
        strace.arg("-f").args(words).arg("-o").arg(&trace).arg(BECALM);
        run(strace.args(["lab", "fork", "collapse", "--json", &python.pid()]))
    };
    let times = killed_at_each_call(&start, &strace, "pidfd_open", &trace);
    // One to see whether it may, others to do it.
    assert!(times["process_madvise"] > 1, "{times:?}");
    if is_root() {
        for forbidden in ["ptrace", "process_vm_writev", "kill", "tgkill", "pidfd_send_signal"] {
            assert!(!times.contains_key(forbidden), "{times:?}");
        }
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_process_that_lends_a_thread_goes_on_when_becalm_is_killed_at_any_of_its_system_calls() {
    let (scene, _) = scene_for_a_user(&[]);
    let (trace, becalm) = (scene.at("trace"), scene.at("becalm"));
    let start = || Process::start(&mut as_a_user(&["/usr/bin/python3", "-c", PYTHON]));
    let strace = |python: &Process, words: &[&str]| {
        let pid = python.pid();
        let after = ["-o", &trace, &becalm, "lab", "fork", "collapse", "--json", &pid];
        run(&mut as_a_user(&[&["strace", "-f"], words, &after].concat()))
    };
    let times = killed_at_each_call(&start, &strace, "ptrace", Path::new(&trace));
    assert!(times["ptrace"] > 30, "{times:?}");
}

/// One program after the other in one process, each with the sum of those before it.
#[cfg(target_arch = "x86_64")]
const EXECUTES: &str = "
import os, sys
left, total = int(sys.argv[1]), int(sys.argv[2])
memory = bytearray(range(256)) * (24 << 12)
total += sum(memory[::4099])
if left == 0:
    print(total)
    sys.exit(7)
os.execv('/usr/bin/python3', ['python3', '-c', os.environ['CODE'], str(left - 1), str(total)])
";

#[test]
#[cfg(target_arch = "x86_64")]
fn a_process_that_executes_other_programs_meanwhile_is_neither_held_nor_changed() {
    let (scene, _) = scene_for_a_user(&[]);
    let words = ["/usr/bin/python3", "-c", EXECUTES, "40", "0"];
    let started = || {
        let mut python = as_a_user(&words);
        python.env("CODE", EXECUTES).stdout(Stdio::piped());
        python.spawn().unwrap()
    };
    let plain = started().wait_with_output().unwrap();
    let mut python = started();
    let pid = python.id().to_string();
    let becalm = scene.at("becalm");
    let mut collapsed = 0;
    while python.try_wait().unwrap().is_none() {
        let words = ["timeout", "-s", "KILL", "20", &*becalm, "lab", "fork", "collapse", &pid];
        let ran = run(&mut as_a_user(&words));
        assert_ne!(ran.code(), 137, "it hangs");
        collapsed += 1;
    }
    let ran = python.wait_with_output().unwrap();
    assert_eq!((ran.status.code(), ran.stdout), (plain.status.code(), plain.stdout));
    assert!(plain.status.code() == Some(7) && collapsed > 3, "{collapsed}");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn without_a_right_a_thread_is_lent_and_where_none_is_what_needs_none_is_said() {
    let (scene, _) = scene_for_a_user(&[]);
    let mut bash = Process::start(&mut as_a_user(&["bash", "--norc", "--noprofile"]));
    assert_eq!(bash.ask("printf -v big '%*s' 20000000 x; echo ok"), "ok");
    let collapse = |bash: &Process, words: &[&str]| {
        let words = [&[&*scene.at("becalm"), "lab", "fork", "collapse"], words, &[&bash.pid()]];
        run(&mut as_a_user(&words.concat()))
    };
    let ran = collapse(&bash, &["--json"]);
    assert_eq!(ran.code(), 0, "{}", ran.err());
    let value = answer::parse(ran.out());
    assert_eq!(value["by"], "thread", "{value:#}");
    assert!(value["stopped_ns"].as_u64().unwrap() > 0, "{value:#}");
    assert_eq!(bash.ask("echo ${#big}"), "20000000");
    // A job that is stopped stays so.
    writeln!(bash.to, "printf -v more '%*s' 20000000 x; kill -STOP $$; echo on").unwrap();
    let state = || fs::read_to_string(format!("/proc/{}/stat", bash.pid())).unwrap();
    while !state().contains(") T ") {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let ran = collapse(&bash, &[]);
    assert_eq!(ran.code(), 1, "{}", ran.err());
    assert!(ran.err().contains("it is stopped, or traced"), "{}", ran.err());
    assert!(ran.err().contains("becalm run --hugepages"), "{}", ran.err());
}
