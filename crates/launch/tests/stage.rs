//! What a command finds on the stage, and that nothing is left of it when it is ended.
//!
//! A program of its own (`harness = false`): a stage is forked off a process with one thread,
//! and test harnesses have several.
#![allow(clippy::unwrap_used)] // A test program.

use std::os::unix::process::CommandExt;
use std::time::{Duration, Instant};

use launch::{CommandLine, Ended, Stage, StageError, StageOutcome, Timed};

fn play(stage: &Stage, line: &str) -> Result<StageOutcome<Timed>, StageError> {
    let command = CommandLine::parse(line.as_ref()).unwrap().command();
    stage.play(|| launch::timed(&command).unwrap())
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn is_running(mark: &str) -> bool {
    let mut pgrep = std::process::Command::new("pgrep");
    pgrep.args(["-f", mark]).output().unwrap().status.success()
}

fn its_output_is_captured_and_its_end_and_time_come_back() {
    let played = play(&Stage::new(), "sh -c 'echo out; echo err >&2; sleep 0.1; exit 3'").unwrap();
    assert_eq!((text(&played.stdout.head), text(&played.stderr.head)), ("out\n", "err\n"));
    assert_eq!(played.result.ended, Ended::Exited(3));
    assert!(played.result.wall >= Duration::from_millis(100), "{:?}", played.result);
    assert!(!played.left_open);
}

fn it_has_nothing_to_read_no_terminal_and_the_variables_it_was_given() {
    let mut stage = Stage::new();
    stage.environment = vec![("BECALM_TEST".into(), "here".into())];
    let line = "sh -c 'read line || echo nothing; true </dev/tty || echo none; echo $BECALM_TEST'";
    let played = play(&stage, line).unwrap();
    let said = text(&played.stdout.head);
    assert!(said.starts_with("nothing\n") && said.contains("here"), "{said}");
    assert_eq!(std::env::var_os("BECALM_TEST"), None);
    stage.input = "/etc/passwd".into();
    let played = play(&stage, "sha256sum").unwrap();
    let direct = std::process::Command::new("sha256sum").arg("/etc/passwd").output().unwrap();
    assert_eq!(text(&played.stdout.head)[..64], text(&direct.stdout)[..64]);
    stage.input = "/no/such/file".into();
    assert!(matches!(play(&stage, "true"), Err(StageError::Input { .. })));
}

fn of_becalms_environment_another_user_gets_what_programs_need_to_start() {
    let stage = Stage {
        environment: vec![("BECALM_TEST".into(), "here".into())],
        for_another_user: true,
        ..Stage::new()
    };
    let played = play(&stage, "env").unwrap();
    let said = text(&played.stdout.head);
    let mut names: Vec<&str> =
        said.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    assert!(names.contains(&"PATH") && names.contains(&"BECALM_TEST"), "{said}");
    // There is something to keep back, such as what cargo sets.
    assert!(std::env::vars_os().any(|(name, _)| !launch::is_for_another_user(&name)));
    names.retain(|name| *name != "BECALM_TEST" && !launch::is_for_another_user(name.as_ref()));
    assert!(names.iter().all(|name| ["PWD", "OLDPWD", "SHLVL", "_"].contains(name)), "{names:?}");
}

fn signals_are_as_they_were() {
    let masks = "grep -E 'Sig(Blk|Ign)' /proc/self/status";
    let played = play(&Stage::new(), masks).unwrap();
    let mut direct = std::process::Command::new("sh");
    // Forked, as the stage's command is: what glibc's posix_spawn starts ignores two signals more,
    // which are glibc's own.
    // SAFETY: the closure makes system calls only.
    let direct = unsafe {
        direct.pre_exec(|| {
            launch::restore_signals();
            Ok(())
        })
    };
    let direct = direct.args(["-c", masks]).output().unwrap();
    assert_eq!(text(&played.stdout.head), text(&direct.stdout));
}

/// No step takes this long, however busy the machine is.
const HANGS: Duration = Duration::from_secs(100);

fn all_of_a_command_that_takes_too_long_is_ended() {
    let stage = Stage { timeout: Some(Duration::from_millis(300)), ..Stage::new() };
    let start = Instant::now();
    // It ignores SIGTERM, and so does its child.
    let played = play(&stage, "sh -c 'trap \"\" TERM; sleep 4711.5; :'");
    assert!(matches!(played, Err(StageError::TimedOut(_))), "{played:?}");
    assert!(start.elapsed() < HANGS);
    assert!(!is_running("sleep 4711[.]5"));
}

fn a_child_left_behind_that_holds_the_output_is_not_waited_for() {
    let start = Instant::now();
    let played = play(&Stage::new(), "sh -c 'echo said; sleep 200 & :'").unwrap();
    assert!(played.left_open);
    assert_eq!(text(&played.stdout.head), "said\n");
    assert!(start.elapsed() < HANGS, "{:?}", start.elapsed());
}

/// What takes its time to go once it was said, as the mounts of a rehearsal do.
#[derive(serde::Serialize, serde::Deserialize)]
struct SlowToGo;

impl Drop for SlowToGo {
    fn drop(&mut self) {
        std::thread::sleep(Duration::from_millis(300));
    }
}

fn a_stage_that_takes_its_time_to_end_is_no_child_left_behind() {
    let played = Stage::new().play(|| SlowToGo).unwrap();
    assert!(!played.left_open);
}

fn a_gigabyte_of_output_takes_no_memory() {
    let before = peak();
    let played = play(&Stage::new(), "head -c 1000000000 /dev/zero").unwrap();
    assert_eq!(played.stdout.bytes, 1_000_000_000);
    assert!(peak() - before < 8 << 10, "grew from {before} to {} KiB", peak());
}

/// This process's largest resident set, in KiB (proc_pid_status(5)).
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

fn a_request_to_end_ends_the_command_and_comes_back() {
    let me = std::process::id();
    let line = format!("sh -c 'sleep 0.1; kill -TERM {me}; exec sleep 4712.5'");
    let played = play(&Stage::new(), &line);
    assert!(matches!(played, Err(StageError::Interrupted(libc::SIGTERM))), "{played:?}");
    assert!(!is_running("sleep 4712[.]5"));
}

fn a_stage_that_dies_is_an_error() {
    let played = Stage::new().play(|| std::process::abort());
    let played: Result<StageOutcome<()>, _> = played;
    assert!(matches!(played, Err(StageError::Died(Ended::Signaled(_)))), "{played:?}");
    let played: Result<StageOutcome<()>, _> = Stage::new().play(|| panic!("on purpose"));
    assert!(matches!(played, Err(StageError::Died(Ended::Exited(125)))), "{played:?}");
}

fn main() {
    let tests: [(&str, fn()); 10] = [
        (
            "its_output_is_captured_and_its_end_and_time_come_back",
            its_output_is_captured_and_its_end_and_time_come_back,
        ),
        (
            "it_has_nothing_to_read_no_terminal_and_the_variables_it_was_given",
            it_has_nothing_to_read_no_terminal_and_the_variables_it_was_given,
        ),
        (
            "of_becalms_environment_another_user_gets_what_programs_need_to_start",
            of_becalms_environment_another_user_gets_what_programs_need_to_start,
        ),
        ("signals_are_as_they_were", signals_are_as_they_were),
        (
            "all_of_a_command_that_takes_too_long_is_ended",
            all_of_a_command_that_takes_too_long_is_ended,
        ),
        (
            "a_child_left_behind_that_holds_the_output_is_not_waited_for",
            a_child_left_behind_that_holds_the_output_is_not_waited_for,
        ),
        (
            "a_stage_that_takes_its_time_to_end_is_no_child_left_behind",
            a_stage_that_takes_its_time_to_end_is_no_child_left_behind,
        ),
        ("a_gigabyte_of_output_takes_no_memory", a_gigabyte_of_output_takes_no_memory),
        (
            "a_request_to_end_ends_the_command_and_comes_back",
            a_request_to_end_ends_the_command_and_comes_back,
        ),
        ("a_stage_that_dies_is_an_error", a_stage_that_dies_is_an_error),
    ];
    for (name, test) in tests {
        println!("test {name}");
        test();
    }
}
