//! `becalm lab fork collapse` and `fork bench`: what they say, and what is left when becalm is killed.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::BECALM;
use testkit::answer;
use testkit::run;
use testkit::user::{as_a_user, is_root, scene_for_a_user};

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
/// line. It says whether all that they ever computed was right.
const PYTHON: &str = "import hashlib, mmap, sys, threading\n\
    def fresh():\n\
    \x20   memory = mmap.mmap(-1, 8 << 20)\n\
    \x20   memory.write(bytes(range(256)) * (8 << 12))\n\
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

#[test]
fn a_process_of_many_threads_goes_on_when_becalm_is_killed_at_any_of_its_system_calls() {
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("trace");
    let mut python = Process::start(Command::new("/usr/bin/python3").args(["-c", PYTHON]));
    assert_eq!(python.line(), "ready");
    let strace = |python: &Process, words: &[&str]| {
        let mut strace = Command::new("strace");
        strace.arg("-f").args(words).arg("-o").arg(&trace).arg(BECALM);
        run(strace.args(["lab", "fork", "collapse", "--json", &python.pid()]))
    };
    let ran = strace(&python, &[]);
    // Where it is refused, that touches the process no more.
    assert!([0, 1].contains(&ran.code()), "{}", ran.err());
    let calls = fs::read_to_string(&trace).unwrap();
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    let mut moments = Vec::new();
    for line in calls.lines() {
        let call = line.split_once(' ').unwrap().1.trim_start().split('(').next().unwrap();
        let at = times.entry(call).or_default();
        *at += 1;
        // What comes before has nothing to do with the process.
        if call == "pidfd_open" || !moments.is_empty() {
            moments.push((call, *at));
        }
    }
    for forbidden in ["ptrace", "process_vm_writev", "kill", "tgkill", "pidfd_send_signal"] {
        assert!(!times.contains_key(forbidden), "{calls}");
    }
    moments.retain(|(call, _)| *call != "exit_group" && !call.starts_with('+'));
    assert!(moments.iter().any(|(call, _)| *call == "process_madvise"), "{calls}");
    for (call, at) in moments {
        assert_eq!(python.ask("again"), "True", "before {call} number {at}");
        let inject = format!("inject={call}:signal=KILL:when={at}");
        strace(&python, &["-e", &format!("trace={call}"), "-e", &inject]);
        let status = fs::read_to_string(format!("/proc/{}/status", python.pid())).unwrap();
        assert!(status.contains("TracerPid:\t0\n"), "{call} number {at}: {status}");
        assert!(status.contains("Threads:\t6\n"), "{call} number {at}: {status}");
    }
    assert_eq!(python.ask("last"), "True");
}

#[test]
fn who_may_not_is_told_so_and_what_needs_no_privilege() {
    let (scene, _) = scene_for_a_user(&[]);
    let mut bash = Process::start(&mut as_a_user(&["bash", "--norc", "--noprofile"]));
    assert_eq!(bash.ask("printf -v big '%*s' 20000000 x; echo ok"), "ok");
    let ran = run(&mut as_a_user(&[&scene.at("becalm"), "lab", "fork", "collapse", &bash.pid()]));
    assert_eq!(ran.code(), 1, "{}", ran.err());
    assert!(ran.err().contains("becalm run --hugepages"), "{}", ran.err());
    assert_eq!(bash.ask("echo ${#big}"), "20000000");
}
