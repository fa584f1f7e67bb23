//! Threads that are held back after their calls, as by a slow filesystem.
//!
//! A program of its own (`harness = false`): commands are recorded by a process with one thread,
//! and test harnesses have several. It starts itself as recorder and as command (`roles`).

#![allow(clippy::unwrap_used)] // A test program: what fails, fails the test.

mod roles;

use std::io::{BufRead, BufReader};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use recording::{Event, Kind, Nanos, Recording};
use testkit::Scene;

const MINUTE: u64 = 60_000_000;
/// What is not held for a minute has ended long before this, on any machine.
const AT_ONCE: Duration = Duration::from_secs(100);

/// A directory whose calls are held, with one file in it.
struct HeldCalls {
    scene: Scene,
}

impl HeldCalls {
    fn new() -> HeldCalls {
        let scene = Scene::new();
        std::fs::create_dir(scene.path("slow")).unwrap();
        std::fs::write(scene.path("slow/file"), "").unwrap();
        HeldCalls { scene }
    }

    fn slow(&self) -> PathBuf {
        self.scene.path("slow")
    }

    fn file(&self) -> String {
        self.slow().join("file").into_os_string().into_string().unwrap()
    }

    fn rec(&self) -> PathBuf {
        self.scene.path("rec")
    }

    /// The recorder, holding calls below `slow` for so many microseconds.
    fn held(&self, how: &str, micros: u64, words: &[&str]) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["record", how, &micros.to_string()]).arg(self.slow()).arg(self.rec());
        command.args(words).stdin(Stdio::null()).stdout(Stdio::piped());
        command
    }

    /// The same for a role of this program on the file.
    fn role(&self, how: &str, micros: u64, role: &str, more: &[&str]) -> Command {
        let this = std::env::current_exe().unwrap();
        let file = self.file();
        let mut words = vec![this.to_str().unwrap(), role, &file];
        words.extend(more);
        self.held(how, micros, &words)
    }

    fn recording(&self) -> Recording {
        Recording::open(&self.rec()).unwrap()
    }

    /// The recorded calls of a kind on the slow directory and what is in it.
    fn calls(&self, kind: Kind) -> Vec<Event> {
        let recording = self.recording();
        assert!(recording.is_whole());
        let slow = self.slow();
        let is_slow = |event: &&Event| {
            let path = event.path.map(|path| recording.path(path));
            path.is_some_and(|path| path.starts_with(slow.as_os_str().as_encoded_bytes()))
        };
        let of_kind = recording.events.iter().filter(|event| event.kind() == kind);
        of_kind.filter(is_slow).copied().collect()
    }
}

/// The numbers that a command prints, one a line.
#[track_caller]
fn numbers(command: &mut Command) -> Vec<u64> {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", output.status);
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

fn quantile(times: &mut [u64], part: f64) -> u64 {
    times.sort_unstable();
    times[((times.len() - 1) as f64 * part) as usize]
}

fn a_call_takes_as_long_as_was_asked_for() {
    for micros in [200, 1000] {
        let held = HeldCalls::new();
        let mut took = numbers(&mut held.role("apart", micros, "stats", &["2000"]));
        let [least, median, most] = [0.0, 0.5, 0.95].map(|part| quantile(&mut took, part));
        println!("asked for {micros} us: least {least} ns, p50 {median} ns, p95 {most} ns");
        // Of what the tracer's switches cost, only as much is taken off as they ever cost.
        assert!(least > micros * 990, "{least}");
        assert!(median >= micros * 1000, "{median}");
        assert!(median < micros * 2000, "{median}");
        // The recording shows the delay.
        let stats = held.calls(Kind::Stat);
        assert_eq!(stats.len(), 2000);
        assert!(stats.iter().all(|stat| stat.took > Nanos((micros - 30) * 1000)));
    }
}

fn steps_of_one_call_follow_one_another() {
    let held = HeldCalls::new();
    let mut took = numbers(&mut held.role("steps", 100, "stats", &["500"]));
    let median = quantile(&mut took, 0.5);
    assert!((400_000..800_000).contains(&median), "{median}");
}

fn four_processes_wait_for_one_server() {
    let held = HeldCalls::new();
    let this = std::env::current_exe().unwrap();
    let file = held.file();
    let script = format!(
        "for n in 1 2 3 4; do {} stats {file} 500 > {}/$n & done; wait",
        this.display(),
        held.scene.directory().display(),
    );
    assert!(held.held("one-server", 200, &["sh", "-c", &script]).status().unwrap().success());
    for n in 1..=4 {
        let text = std::fs::read_to_string(held.scene.path(n.to_string())).unwrap();
        let mut took: Vec<u64> = text.lines().map(|line| line.parse().unwrap()).collect();
        let median = quantile(&mut took, 0.5);
        println!("process {n} of 4 at one server of 200 us: p50 {median} ns");
        assert!((780_000..1_200_000).contains(&median), "{median}");
    }
}

fn threads_are_held_side_by_side() {
    let held = HeldCalls::new();
    let mut command = held.role("apart", 10_000, "threads", &["16"]);
    let [together, shortest] = numbers(&mut command)[..] else { panic!() };
    println!("16 threads, 20 calls each of 10 ms: {} ms", together / 1_000_000);
    assert!(shortest > 9_900_000, "{shortest}");
    assert!(together > 200_000_000);
    // One after the other they would take 3.2 s.
    assert!(together < 1_600_000_000, "{together}");
    assert_eq!(held.calls(Kind::Stat).len(), 320);
}

fn all_metadata_is_held_and_data_is_not() {
    let held = HeldCalls::new();
    let slow = held.slow();
    let script = "cd \"$1\"; ls . >/dev/null; cat file; echo x > new; mv new other; ln -s x y; \
        readlink y; stat -f . > /dev/null; test -r file";
    let words = ["sh", "-c", script, "sh", slow.to_str().unwrap()];
    assert!(held.held("apart", 20_000, &words).status().unwrap().success());
    for kind in [Kind::Chdir, Kind::Open, Kind::List, Kind::Change, Kind::Readlink, Kind::Statfs] {
        let calls = held.calls(kind);
        assert!(!calls.is_empty(), "{kind:?}");
        assert!(calls.iter().all(|call| call.took > Nanos(19_900_000)), "{kind:?}");
    }
    for kind in [Kind::Fstat, Kind::Read, Kind::Close] {
        let calls = held.calls(kind);
        assert!(!calls.is_empty(), "{kind:?}");
        assert!(calls.iter().any(|call| call.took < Nanos(10_000_000)), "{kind:?}");
    }
}

/// Waits until a command's thread is held in its first slow call, and gives its process id.
#[track_caller]
fn held_process(child: &Child) -> i32 {
    let deadline = Instant::now() + AT_ONCE;
    let mut stopped = (0, 0);
    while stopped.1 < 20 {
        let command = the_child_of(the_child_of(child.id() as i32));
        // The state of a traced thread that is stopped: proc_pid_stat(5).
        let stat = std::fs::read_to_string(format!("/proc/{command}/stat")).unwrap_or_default();
        let is_stopped = stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('t'));
        stopped = match stopped {
            (same, times) if is_stopped && same == command => (same, times + 1),
            _ => (command, 0),
        };
        assert!(Instant::now() < deadline, "it is not held: {stat}");
        std::thread::sleep(Duration::from_millis(5));
    }
    stopped.0
}

fn the_child_of(pid: i32) -> i32 {
    let deadline = Instant::now() + AT_ONCE;
    loop {
        let path = format!("/proc/{pid}/task/{pid}/children");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        if let Some(child) = text.split_whitespace().next() {
            return child.parse().unwrap();
        }
        assert!(Instant::now() < deadline, "{pid} has no child");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn send(pid: i32, signal: i32) {
    // SAFETY: a signal to a process that this test started.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

/// Whether a child's end comes at once.
#[track_caller]
fn ends_at_once(mut child: Child) -> std::process::ExitStatus {
    let deadline = Instant::now() + AT_ONCE;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("it did not end");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn a_held_process_dies_by_a_signal_at_once() {
    for signal in [libc::SIGKILL, libc::SIGTERM, libc::SIGINT, libc::SIGHUP, 40] {
        let held = HeldCalls::new();
        let child = held.role("apart", MINUTE, "stats", &["1"]).spawn().unwrap();
        send(held_process(&child), signal);
        assert_eq!(ends_at_once(child).signal(), Some(signal));
        let [stat] = held.calls(Kind::Stat)[..] else { panic!("the call is recorded") };
        assert!(stat.took < Nanos(20_000_000_000));
    }
}

fn control_c_ends_a_held_command_and_becalm() {
    let held = HeldCalls::new();
    let child = held.role("apart", MINUTE, "stats", &["1"]).process_group(0).spawn().unwrap();
    held_process(&child);
    send(-(child.id() as i32), libc::SIGINT);
    assert_eq!(ends_at_once(child).signal(), Some(libc::SIGINT));
}

fn a_signal_with_a_handler_waits_for_the_calls_end() {
    let held = HeldCalls::new();
    let mut child = held.role("apart", 2_000_000, "handles", &[]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().unwrap(), "ready");
    send(held_process(&child), libc::SIGTERM);
    assert_eq!(lines.next().unwrap(), "true");
    assert!(lines.next().unwrap().parse::<u64>().unwrap() >= 1_999_000_000);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

fn a_held_process_stops_after_its_call_and_can_be_continued() {
    let held = HeldCalls::new();
    let mut child = held.role("apart", 1_000_000, "stats", &["1"]).spawn().unwrap();
    send(held_process(&child), libc::SIGSTOP);
    // The front stops with it.
    let mut status = 0;
    // SAFETY: waits for a child of this process; the status outlives the call.
    unsafe { libc::waitpid(child.id() as i32, &mut status, libc::WUNTRACED) };
    assert!(libc::WIFSTOPPED(status), "{status:x}");
    let command = the_child_of(the_child_of(child.id() as i32));
    send(command, libc::SIGCONT);
    send(child.id() as i32, libc::SIGCONT);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.next().unwrap().parse::<u64>().unwrap() >= 999_000_000);
    assert_eq!(ends_at_once(child).code(), Some(0));
}

fn a_held_thread_keeps_no_other_from_ending_or_replacing_the_process() {
    for (role, status) in [("one-of-two-ends", 23), ("one-of-two-executes", 24)] {
        let held = HeldCalls::new();
        let child = held.role("apart", MINUTE, role, &[]).spawn().unwrap();
        assert_eq!(ends_at_once(child).code(), Some(status), "{role}");
        assert_eq!(held.calls(Kind::Stat).len(), 1);
    }
}

fn when_the_recorder_is_killed_a_held_process_dies() {
    let held = HeldCalls::new();
    let child = held.role("apart", MINUTE, "stats", &["1"]).stderr(Stdio::null()).spawn().unwrap();
    let command = held_process(&child);
    send(the_child_of(child.id() as i32), libc::SIGKILL);
    assert!(!ends_at_once(child).success());
    let deadline = Instant::now() + AT_ONCE;
    while Path::new(&format!("/proc/{command}/exe")).read_link().is_ok() {
        assert!(Instant::now() < deadline);
    }
}

fn the_exit_status_passes() {
    let held = HeldCalls::new();
    let slow = held.slow();
    let words = ["sh", "-c", "ls \"$1\"; exit 7", "sh", slow.to_str().unwrap()];
    assert_eq!(held.held("apart", 200, &words).status().unwrap().code(), Some(7));
}

fn threads_are_held_however_calls_are_seen_and_where_sigchld_is_ignored() {
    for (variable, ignored) in [("ALL_SYSCALLS", false), ("OLD_KERNEL", false), ("NONE", true)] {
        let held = HeldCalls::new();
        let mut command = held.role("apart", 2000, "stats", &["50"]);
        if ignored {
            // SAFETY: a system call between fork and exec.
            unsafe {
                command.pre_exec(|| {
                    libc::signal(libc::SIGCHLD, libc::SIG_IGN);
                    Ok(())
                });
            }
        }
        let mut took = numbers(command.env(variable, "1"));
        assert!(quantile(&mut took, 0.0) > 1_980_000, "{variable}");
        assert!(quantile(&mut took, 0.5) < 6_000_000, "{variable}");
    }
}

fn main() {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    let is_role = |word: &std::ffi::OsString| !word.to_string_lossy().starts_with('-');
    if words.first().is_some_and(is_role) && !words.is_empty() && words.len() > 1 {
        std::process::exit(roles::play(words));
    }
    a_call_takes_as_long_as_was_asked_for();
    steps_of_one_call_follow_one_another();
    four_processes_wait_for_one_server();
    threads_are_held_side_by_side();
    all_metadata_is_held_and_data_is_not();
    a_held_process_dies_by_a_signal_at_once();
    control_c_ends_a_held_command_and_becalm();
    a_signal_with_a_handler_waits_for_the_calls_end();
    a_held_process_stops_after_its_call_and_can_be_continued();
    a_held_thread_keeps_no_other_from_ending_or_replacing_the_process();
    when_the_recorder_is_killed_a_held_process_dies();
    the_exit_status_passes();
    threads_are_held_however_calls_are_seen_and_where_sigchld_is_ignored();
}
