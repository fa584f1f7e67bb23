//! `--until`: a command whose start is over is let go of, and runs on as if nobody had watched.

use std::path::Path;
use std::process::Command;

use recording::{LetGoReason, Recording};
use rustix::process::{Pid, Signal, kill_process};
use testkit::both::from;
use testkit::live::{Live, wait_until};
use testkit::scene::running;
use testkit::terminal::Terminal;
use testkit::trap::trap_with;
use testkit::user::{as_a_user, is_root, scene_for_a_user};
use testkit::{Ran, Scene, run, trap};

use crate::BECALM;

fn record<S: AsRef<std::ffi::OsStr>>(scene: &Scene, until: &str, words: &[S]) -> Command {
    scene.record_with(Path::new(BECALM), &["--until", until], words)
}

/// What ended the watching.
#[track_caller]
fn why(recording: &Recording) -> LetGoReason {
    recording.let_go().unwrap_or_else(|| panic!("watched to its end")).why.clone()
}

/// What the trap `let_go` says of each of its threads and of its child, and of what it becomes.
fn assert_nothing_is_left(ran: &Ran) {
    let out = ran.out();
    assert_eq!(ran.code(), 0, "{out}{}", ran.err());
    assert!(out.starts_with("traced\n"), "{out}");
    let nothing = "tracer 0, filters 0, no new privileges 0";
    assert_eq!(out.lines().filter(|line| line.ends_with(nothing)).count(), 5, "{out}");
    assert!(out.ends_with("TracerPid:\t0\n"), "{out}");
}

#[test]
fn nothing_of_the_recorder_is_left_in_any_thread_or_child() {
    for program in [trap("let_go"), trap_with("let_go", &["-static"])] {
        let scene = Scene::new();
        assert_nothing_is_left(&run(&mut record(&scene, "quiet", &[&program])));
        assert!(matches!(why(&scene.recording()), LetGoReason::Quiet { .. }));
    }
}

#[test]
fn a_program_of_an_ordinary_user_and_of_another_c_library_has_nothing_left() {
    let (scene, programs) = scene_for_a_user(&[&trap("let_go")]);
    let musl = scene.at("musl");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/traps/let_go.c");
    let built = run(Command::new("musl-gcc").args(["-O1", "-static", source, "-o", &musl]));
    assert_eq!(built.code(), 0, "{}", built.err());
    for program in [&programs[0], &musl] {
        let own = scene.at("becalm");
        let record = scene.record_with(Path::new(&own), &["--until", "0.2"], &[program]);
        assert_nothing_is_left(&run(&mut running(as_a_user(&[""; 0]), &record)));
    }
}

#[test]
fn a_program_does_the_same_wherever_it_is_let_go_of() {
    const TRAPS: [&[&str]; 13] = [
        &["children", "100"],
        &["exec_from_thread", "exec"],
        &["first_thread_ends"],
        &["killed_threads"],
        &["queued_signals"],
        &["sibling"],
        &["spawn"],
        &["stops"],
        &["threads", "30", "50"],
        &["timer_storm"],
        &["ignored_storm"],
        &["untraced_clone"],
        &["vfork"],
    ];
    for words in TRAPS {
        let program = trap(words[0]);
        let words: Vec<&str> =
            [&program].into_iter().map(|it| &**it).chain(words[1..].iter().copied()).collect();
        let alone = run(Command::new(words[0]).args(&words[1..]));
        for until in ["0", "0.002", "0.006", "0.015", "0.04"] {
            let scene = Scene::new();
            let ran = run(&mut record(&scene, until, &words));
            assert_eq!((ran.status, ran.out()), (alone.status, alone.out()), "{words:?} {until}");
        }
    }
}

#[test]
fn each_condition_ends_the_watching_and_is_said() {
    let scene = Scene::new();
    let file = scene.file("in.nml", "", 0o644);
    let script = format!("exec 3<{file}; env true; sleep 0.6; cat /etc/hostname");
    let until = |until: &str| {
        let ran = run(&mut record(&scene, until, &["sh", "-c", &script]));
        assert_eq!(ran.code(), 0, "{}", ran.err());
        (scene.recording(), ran.err())
    };
    let (recording, err) = until("open:*.nml");
    assert_eq!(why(&recording), LetGoReason::Open { path: file.clone() });
    assert!(err.contains(&format!("watched until {file} was opened (")), "{err}");
    assert_eq!(recording.processes.len(), 1);
    let (recording, _) = until("exec:sleep");
    assert_eq!(why(&recording), LetGoReason::Exec { name: "sleep".into() });
    assert!(matches!(why(&until("0.3").0), LetGoReason::Passed { .. }));
    assert!(matches!(why(&until("quiet").0), LetGoReason::Quiet { .. }));
    let (recording, err) = until("exit");
    assert!(recording.is_whole() && recording.let_go().is_none(), "{err}");
    assert_eq!(until("exec:no-such-program").0.let_go(), None);
}

#[test]
fn check_and_report_say_that_it_was_a_start_alone() {
    let scene = Scene::new();
    let rec = scene.at("start");
    let checked = run(Command::new(BECALM).args(["check", "-o", &rec, "--json", "--"]).args([
        "sh",
        "-c",
        "sleep 1; exit 7",
    ]));
    assert_eq!(checked.code(), 7, "{}", checked.err());
    let check: serde_json::Value = serde_json::from_slice(&checked.stdout).unwrap();
    let kinds: Vec<_> =
        check["warnings"].as_array().unwrap().iter().map(|it| &it["kind"]).collect();
    assert!(kinds.contains(&&"let_go".into()), "{check:#}");
    let report = run(Command::new(BECALM).args(["report", &rec, "--json"]));
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
    assert!(report["let_go"]["why"]["quiet"].is_object(), "{report:#}");
    assert_eq!(report["whole"], false);
}

#[test]
fn a_set_user_id_program_has_its_privileges_after_the_start() {
    if !is_root() {
        return;
    }
    let (scene, programs) = scene_for_a_user(&["/usr/bin/id"]);
    let chmod = run(Command::new("sh").args(["-c", "chown 0 $0; chmod 4755 $0", &programs[0]]));
    assert_eq!(chmod.code(), 0);
    let script = format!("sleep 0.4; exec {} -u", programs[0]);
    let own = scene.at("becalm");
    let record = scene.record_with(Path::new(&own), &["--until", "0.1"], &["sh", "-c", &script]);
    let ran = run(&mut running(as_a_user(&[""; 0]), &record));
    assert_eq!((ran.code(), ran.out().as_str()), (0, "0\n"), "{}", ran.err());
}

/// A field of /proc/PID/status, without its name.
fn status(pid: i32, name: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"));
    line.unwrap_or_default().to_owned()
}

#[test]
fn a_stopped_command_stays_stopped_and_goes_on_when_it_is_told_to() {
    let scene = Scene::new();
    let script = "echo $$; kill -STOP $$; echo goes on; exit 3";
    let mut live = Live::start(&mut record(&scene, "0.3", &["sh", "-c", script]));
    let pid: i32 = live.line().parse().unwrap();
    wait_until("it is let go of", || status(pid, "TracerPid") == "0");
    wait_until("it is stopped", || status(pid, "State").starts_with('T'));
    wait_until("becalm is, too", || status(live.pid(), "State").starts_with('T'));
    kill_process(Pid::from_raw(pid).unwrap(), Signal::CONT).unwrap();
    live.wait_for("goes on");
    assert_eq!(live.end().code(), 3);
}

#[test]
fn a_command_that_was_let_go_of_stops_and_goes_on_with_its_job() {
    let scene = Scene::new();
    let answers =
        "sleep 0.3; while read line; do echo \"read $line\"; test $line != end || exit 7; done";
    let command = record(&scene, "0.1", &["sh", "-c", &format!("'{answers}'")]);
    let words: Vec<_> = command.get_args().map(|word| word.to_str().unwrap()).collect();
    let mut terminal = Terminal::bash();
    terminal.send(&format!("{BECALM} {}\n", words.join(" ")));
    terminal.stop_and_resume(&["one", "two"]);
    terminal.end_with("end", "read end", 7);
    assert!(matches!(why(&scene.recording()), LetGoReason::Passed { .. }));
}

#[test]
fn control_backslash_ends_the_watching_and_not_the_command() {
    let scene = Scene::new();
    let script =
        "'echo up; read line; echo \"read $line\"; grep TracerPid /proc/$$/status; exit 5'";
    let command = record(&scene, "100", &["sh", "-c", script]);
    let words: Vec<_> = command.get_args().map(|word| word.to_str().unwrap()).collect();
    let mut terminal = Terminal::bash();
    terminal.send(&format!("{BECALM} {}\n", words.join(" ")));
    terminal.expect("up");
    terminal.send("\x1c");
    wait_until("it is recorded", || {
        Recording::open(Path::new(&scene.rec())).is_ok_and(|it| it.let_go().is_some())
    });
    terminal.send("line\n");
    terminal.expect("read line");
    terminal.expect("TracerPid:\t0");
    terminal.sees_status(5);
    assert_eq!(why(&scene.recording()), LetGoReason::Asked);
}

#[test]
fn a_signal_reaches_a_command_that_was_let_go_of_once() {
    let scene = Scene::new();
    let counts = "n=0; trap 'n=$((n + 1))' USR1; trap 'echo $n; exit 4' TERM; echo up; \
                  while :; do sleep 0.05; done";
    for (to, times) in [("$becalm", "1"), ("-$becalm", "1")] {
        let mut live = Live::start(&mut running(
            from("set -m; \"$@\" & becalm=$!; echo $becalm; wait $becalm; wait $becalm"),
            &record(&scene, "0.2", &["sh", "-c", counts]),
        ));
        let becalm: i32 = live.line().parse().unwrap();
        live.wait_for("up");
        wait_until("it is let go of", || {
            Recording::open(Path::new(&scene.rec())).is_ok_and(|it| it.let_go().is_some())
        });
        let to = to.replace("$becalm", &becalm.to_string());
        for signal in ["USR1", "TERM"] {
            run(Command::new("kill").args(["-s", signal, "--", &to]));
            std::thread::sleep(std::time::Duration::from_millis(300));
        }
        assert_eq!(live.line(), times, "{to}");
        live.end();
    }
}

#[test]
fn a_command_that_was_let_go_of_outlives_its_recorder() {
    let scene = Scene::new();
    let alive = scene.at("alive");
    let script = format!("echo $$; sleep 1.5; echo done > {alive}");
    let mut live = Live::start(&mut record(&scene, "0.2", &["sh", "-c", &script]));
    let pid: i32 = live.line().parse().unwrap();
    wait_until("it is let go of", || status(pid, "TracerPid") == "0");
    let recorder: i32 = status(pid, "PPid").parse().unwrap();
    kill_process(Pid::from_raw(recorder).unwrap(), Signal::KILL).unwrap();
    wait_until("it has done its work", || Path::new(&alive).exists());
    let ran = live.end();
    assert_eq!(ran.code(), 125);
    assert!(ran.err().contains("which it had let go of, runs on"), "{}", ran.err());
}

/// Closes the terminal whose session the command leads, a second after its start.
const HANG_UP: &str = "import os, pty, sys, time
pid, terminal = pty.fork()
if pid == 0: os.execv(sys.argv[1], sys.argv[1:])
time.sleep(1); os.close(terminal)";

#[test]
fn the_end_of_the_terminal_reaches_the_command_where_becalm_leads_its_session() {
    for until in ["exit", "0.1"] {
        let scene = Scene::new();
        let heard = scene.at("heard");
        let script = format!("trap 'echo gone > {heard}; exit' HUP; while :; do sleep 0.05; done");
        let command = record(&scene, until, &["sh", "-c", &script]);
        let python = Command::new("python3")
            .args(["-c", HANG_UP])
            .arg(command.get_program())
            .args(command.get_args())
            .status();
        assert!(python.unwrap().success());
        wait_until("it has heard", || Path::new(&heard).exists());
    }
}
