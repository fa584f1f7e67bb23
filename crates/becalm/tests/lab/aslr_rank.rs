//! What a rank of a campaign tells of a command that knows nothing of it: its processors, a control
//! loop, its vector registers. And the command notices nothing of that.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use crate::BECALM;
use serde_json::Value;
use testkit::user::{as_a_user, scene_for_a_user};
use testkit::{run, trap};

const MARK: &str = "becalm.aslr.rank/1 ";

/// `becalm lab aslr rank`, which looks at all that it can.
fn words<'a>(becalm: &'a str, command: &[&'a str]) -> Vec<&'a str> {
    let options = ["lab", "aslr", "rank", "--layout", "on", "--machine", "--vectors", "--"];
    [&[becalm], &options[..], command].concat()
}

#[track_caller]
fn told_by(command: &mut Command) -> Value {
    let ran = run(command);
    assert_eq!(ran.code(), 0, "{}", ran.err());
    let out = ran.out();
    serde_json::from_str(out.trim().strip_prefix(MARK).unwrap_or_else(|| panic!("{out}"))).unwrap()
}

#[track_caller]
fn told(command: &[&str]) -> Value {
    let words = words(BECALM, command);
    told_by(Command::new(words[0]).args(&words[1..]))
}

/// What the first thread left, on a processor that has such registers.
fn if_there_are(dirty: bool) -> Value {
    let flags = fs::read_to_string("/proc/cpuinfo").unwrap();
    let has_upper = flags.split_whitespace().any(|flag| flag == "avx");
    if has_upper { dirty.into() } else { Value::Null }
}

#[test]
fn a_rank_tells_whether_its_first_thread_left_upper_halves_in_use() {
    let program = trap("upper_halves");
    for (how, dirty) in [
        ("clean", false),
        ("dirty", true),
        ("by-thread", false),
        ("by-child", false),
        ("exec", false),
        ("first-ends", true),
    ] {
        let told = told(&[&program, how]);
        assert_eq!(told["dirty_upper"], if_there_are(dirty), "{how}: {told}");
        assert!(told["control"].as_f64().unwrap() > 0.0, "{how}: {told}");
        assert!(told["first_cpu"].is_u64() && told["last_cpu"].is_u64(), "{how}: {told}");
    }
}

#[test]
fn what_is_not_seen_is_not_told() {
    let program = trap("upper_halves");
    // Another thread's exec ends the first one, and the process lives on untraced.
    let executed = told(&[&program, "exec-by-thread"]);
    assert!(executed["dirty_upper"].is_null() && executed["last_cpu"].is_u64(), "{executed}");
    let rank = ["lab", "aslr", "rank", "--layout", "off"];
    let untraced =
        told_by(Command::new(BECALM).args(rank).args(["--machine", "--", &program, "dirty"]));
    assert!(untraced["dirty_upper"].is_null() && untraced["control"].is_f64(), "{untraced}");
    let alone = told_by(Command::new(BECALM).args(rank).args(["--", &program, "dirty"]));
    assert!(alone["last_cpu"].is_null() && alone["control"].is_null(), "{alone}");
}

#[test]
fn a_rank_tells_on_which_processor_it_ended() {
    let allowed = fs::read_to_string("/proc/self/status").unwrap();
    let list = allowed.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    let last: u32 = list.trim().rsplit([',', '-']).next().unwrap().parse().unwrap();
    let told = told(&["taskset", "-c", &last.to_string(), &trap("upper_halves"), "dirty"]);
    assert_eq!(told["last_cpu"], last, "{told}");
    assert_eq!(told["dirty_upper"], if_there_are(true), "{told}");
}

#[test]
fn a_rank_that_stops_stays_stopped_until_it_is_continued() {
    let told = told(&[&trap("upper_halves"), "stops"]);
    assert!(told["wall"].as_f64().unwrap() >= 0.2, "{told}");
    assert_eq!(told["dirty_upper"], if_there_are(true), "{told}");
}

#[test]
fn a_rank_that_gets_many_signals_gets_them_all_and_is_let_alone() {
    let told = told(&[&trap("upper_halves"), "signals"]);
    assert!(told["dirty_upper"].is_null() && told["last_cpu"].is_u64(), "{told}");
}

#[test]
fn a_rank_ends_as_its_command_does() {
    for (line, status, signal) in [
        ("exit 3", Some(3), None),
        ("kill -KILL $$", None, Some(9)),
        ("kill -TERM $$", None, Some(15)),
        ("kill -SEGV $$", None, Some(11)),
    ] {
        let words = words(BECALM, &["sh", "-c", line]);
        let ran = run(Command::new(words[0]).args(&words[1..]));
        assert_eq!((ran.status.code(), ran.status.signal()), (status, signal), "{line}");
        assert_eq!(ran.out(), "", "{line}");
    }
    let executed = words(BECALM, &["no-such-command"]);
    assert_eq!(run(Command::new(executed[0]).args(&executed[1..])).code(), 127);
}

/// What the trap says; a rank's own output is dropped, so it says it on standard error.
#[track_caller]
fn said(trap: &[&str]) -> String {
    let line = [&["sh", "-c", "exec \"$@\" >&2", "sh"], trap].concat();
    let words = words(BECALM, &line);
    run(Command::new(words[0]).args(&words[1..])).err()
}

#[test]
fn signals_reach_a_rank_as_they_would_without_a_tracer() {
    let handled = said(&[&trap("timer_storm")]);
    assert!(handled.starts_with("unexplained EINTR: 0; any explained: 1"), "{handled}");
    let signal = libc::SIGCHLD.to_string();
    for call in ["recv with a timeout", "epoll_wait", "semop", "epoll_wait, to its end"] {
        let ignored = said(&[&trap("ignored_storm"), call, &signal, "default"]);
        assert_eq!(ignored, "interrupted 0 times, in time\n", "{call}");
    }
    assert_eq!(said(&[&trap("queued_signals")]), said_untraced(&trap("queued_signals")));
    assert_eq!(said(&[&trap("stops")]), "stopped, continued, killed\n");
}

fn said_untraced(program: &str) -> String {
    run(&mut Command::new(program)).out()
}

#[test]
fn an_ordinary_user_is_told_the_same() {
    let (scene, copies) = scene_for_a_user(&[&trap("upper_halves")]);
    let becalm = scene.at("becalm");
    for (how, dirty) in [("dirty", true), ("clean", false)] {
        let told = told_by(&mut as_a_user(&words(&becalm, &[&copies[0], how])));
        assert_eq!(told["dirty_upper"], if_there_are(dirty), "{told}");
        assert!(told["control"].is_f64() && told["last_cpu"].is_u64(), "{told}");
    }
}
