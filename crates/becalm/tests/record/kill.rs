//! Signals sent to becalm, and its sudden death.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use recording::Recording;
use testkit::live::wait_until;
use testkit::scene::running;
use testkit::seen::marks;
use testkit::terminal::Terminal;
use testkit::{Live, Scene, run, trap};

/// What people, terminals and batch systems send.
const SENT: [i32; 20] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGTERM,
    libc::SIGXCPU,
    libc::SIGPROF,
    libc::SIGWINCH,
    libc::SIGIO,
    libc::SIGPWR,
    35,
    // As for a core dump of a command that hangs.
    libc::SIGABRT,
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
];

fn send(pid: i32, signal: i32) {
    // SAFETY: kill has no preconditions; the pid, or group, is of a child of this test.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

/// Whether a process is gone, or is only waiting to be reaped.
fn is_gone(pid: &str) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return true };
    matches!(stat.rsplit_once(") ").map(|(_, rest)| rest.as_bytes()[0]), Some(b'Z' | b'X'))
}

#[test]
fn when_becalm_is_killed_all_die_and_the_recording_until_then_is_readable() {
    let scene = Scene::new();
    let script = "(setsid sh -c 'echo $$; read never < $1' sh \"$1\") & \
        sh -c 'echo $$; read never < $1' sh \"$1\" & \
        \"$2\" early 500 > /dev/null; echo $$; read never < $1";
    let fifo = scene.at("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let opens = trap("opens");
    let mut live = Live::start(&mut scene.record(&["sh", "-c", script, "sh", &fifo, &opens]));
    let pids = [live.line(), live.line(), live.line()];
    assert!(!pids.iter().any(|pid| is_gone(pid)));
    // What was done a moment ago is on the disk, though the command still runs.
    let rec = scene.rec();
    wait_until("the calls are on the disk", || {
        Recording::open(rec.as_ref()).is_ok_and(|recording| marks(&recording, "early-") == 500)
    });
    live.child.kill().unwrap();
    for pid in &pids {
        wait_until("a process of the command is gone", || is_gone(pid));
    }
    let recording = scene.recording();
    assert_eq!(marks(&recording, "early-"), 500);
    assert!(recording.cut.is_some() && !recording.is_whole());
}

#[test]
fn when_the_recorder_alone_is_killed_becalm_says_so_and_the_recording_stays() {
    let scene = Scene::new();
    let opens = trap("opens");
    let script = "\"$1\" early 500 > /dev/null; echo $$; read line";
    let mut live = Live::start(&mut scene.record(&["sh", "-c", script, "sh", &opens]));
    let command = live.line();
    let rec = scene.rec();
    wait_until("the calls are on the disk", || {
        Recording::open(rec.as_ref()).is_ok_and(|recording| marks(&recording, "early-") == 500)
    });
    let children = format!("/proc/{0}/task/{0}/children", live.pid());
    // The first of them; the other notes signals.
    let children = fs::read_to_string(children).unwrap();
    let recorder = children.split_whitespace().next().unwrap();
    send(recorder.parse().unwrap(), libc::SIGKILL);
    let ran = live.end();
    assert_eq!(ran.code(), 125);
    assert!(ran.err().contains("killed by signal 9"), "{}", ran.err());
    wait_until("the command is gone", || is_gone(&command));
    assert_eq!(marks(&scene.recording(), "early-"), 500);
    assert!(!scene.shows_a_whole_recording());
}

/// Starts the counting command with becalm leading a process group of its own.
fn counting(scene: &Scene, words: &[&str]) -> Live {
    let count_signals = trap("count_signals");
    let mut all = vec![count_signals.as_str()];
    all.extend(words);
    let mut live = Live::start(scene.record(&all).process_group(0));
    assert_eq!(live.line(), "ready");
    live
}

/// Asserts that the command gets a signal that was just sent, and gets it once.
#[track_caller]
fn assert_comes_once(scene: &Scene, mut live: Live, signal: i32) {
    assert_eq!(live.line(), format!("got {signal:02}"), "signal {signal}");
    assert!(!live.says_anything_within(Duration::from_millis(200)), "signal {signal} came twice");
    let ran = live.end();
    assert_eq!((ran.code(), ran.out()), (9, format!("{signal} x 1\nend\n")), "signal {signal}");
    assert!(scene.shows_a_whole_recording(), "signal {signal}");
}

#[test]
fn a_signal_to_becalm_reaches_the_command_once() {
    for signal in SENT {
        let scene = Scene::new();
        let live = counting(&scene, &[]);
        send(live.pid(), signal);
        assert_comes_once(&scene, live, signal);
    }
}

#[test]
fn a_signal_to_the_group_reaches_the_command_once() {
    for signal in SENT {
        let scene = Scene::new();
        let live = counting(&scene, &[]);
        send(-live.pid(), signal);
        assert_comes_once(&scene, live, signal);
    }
}

#[test]
fn a_signal_from_the_command_to_its_group_reaches_it_once_and_leaves_becalm_alone() {
    for signal in SENT {
        let scene = Scene::new();
        let live = counting(&scene, &["group", &signal.to_string()]);
        assert_comes_once(&scene, live, signal);
    }
}

/// As in a container that was entered: the session and the group are of processes that have no
/// number there.
#[test]
fn a_hangup_reaches_a_command_in_a_pid_namespace_that_its_session_is_outside_of() {
    let scene = Scene::new();
    let script = r#""$@" & until [ -e "$READY" ]; do sleep 0.05; done; kill -HUP $!; wait $!"#;
    let ready = format!("{}.ready", scene.rec());
    let hears = "trap 'echo hung up; exit 9' HUP; : > \"$READY\"; while :; do sleep 0.05; done";
    let mut unshare = Command::new("unshare");
    unshare.args(["--pid", "--fork", "--mount-proc", "sh", "-c", script, "sh"]);
    let mut inside = running(unshare, &scene.record(&["sh", "-c", hears]));
    let ran = run(inside.env("READY", ready));
    assert_eq!((ran.code(), ran.out(), ran.err()), (9, "hung up\n".into(), String::new()));
}

#[test]
fn in_a_pid_namespace_with_the_proc_of_another_nothing_is_recorded_of_strangers() {
    let scene = Scene::new();
    let within = |inner: &Command| {
        let mut unshare = Command::new("unshare");
        unshare.args(["--pid", "--fork"]);
        run(&mut running(unshare, inner))
    };
    assert_eq!(within(Command::new(testkit::scene::becalm()).arg("doctor")).code(), 1);
    let ran = within(&scene.record(&["true"]));
    assert_eq!(ran.code(), 125);
    assert!(ran.err().contains("another PID namespace's"), "{}", ran.err());
    assert_eq!(ran.err().lines().count(), 1);
}

#[test]
fn a_command_that_a_signal_ends_is_recorded_to_its_end() {
    let scene = Scene::new();
    let mut live = Live::start(&mut scene.record(&["sh", "-c", "echo ready; read line"]));
    assert_eq!(live.line(), "ready");
    send(live.pid(), libc::SIGTERM);
    wait_until("becalm has ended", || live.child.try_wait().unwrap().is_some());
    let ran = live.end();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&ran.status), Some(libc::SIGTERM));
    assert!(scene.shows_a_whole_recording());
}

#[test]
fn a_time_limit_ends_the_command_and_its_recording_is_whole() {
    let scene = Scene::new();
    let mut timeout = Command::new("timeout");
    timeout.arg("0.3");
    let ran = run(&mut running(timeout, &scene.record(&["sleep", "1000"])));
    assert_eq!((ran.code(), ran.err()), (124, String::new()));
    assert!(scene.shows_a_whole_recording());
}

#[test]
fn control_c_is_one_interrupt() {
    let scene = Scene::new();
    let mut command = scene.record(&[&trap("count_signals")]);
    let mut terminal = Terminal::start(&mut command);
    terminal.expect("ready");
    terminal.send("\x03");
    terminal.expect("got 02");
    terminal.send("\x1c"); // Control-\: SIGQUIT
    terminal.expect("got 03");
    terminal.send("\x04"); // Control-D: the end of its input
    terminal.expect("2 x 1\r\n3 x 1\r\nend");
    wait_until("the recording is whole", || scene.shows_a_whole_recording());
}
