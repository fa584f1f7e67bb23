//! The traps of tracing, one test each: the program behaves as without becalm, and the
//! recording misses nothing, or says what it misses. The programs are in tests/traps.

use std::collections::BTreeMap;
use std::process::Command;

use super::BACKEND;
#[cfg(target_arch = "x86_64")]
use recording::Abi;
use recording::{Blind, ExitStatus, Kind, Outcome, StartCall};
use testkit::scene::running;
use testkit::seen::{calls_below, calls_on, end_of, marks, process_of};
#[cfg(target_arch = "x86_64")]
use testkit::trap_with;
use testkit::user::{as_a_user, is_root, record_as_a_user, scene_for_a_user};
use testkit::{Scene, both, run, trap};

const AS_IS: &str = "exec \"$@\"";

#[test]
fn exec_from_a_thread_that_is_not_the_first_keeps_the_process() {
    for how in ["first-waits", "first-is-gone", "all-execute"].repeat(5) {
        let (ran, recording) = BACKEND.assert_same(AS_IS, &[&trap("exec_from_thread"), how]);
        assert_eq!((ran.code(), ran.out()), (7, "after exec\n".into()));
        assert_eq!(recording.processes.len(), 1);
        assert_eq!(recording.processes[0].execs.len(), 2, "{how}");
        assert_eq!(end_of(&recording.processes[0]), ExitStatus::Exited(7));
        assert_eq!(marks(&recording, "after-exec"), 1);
    }
}

#[test]
fn a_process_outlives_its_first_thread() {
    let (ran, recording) = BACKEND.assert_same(AS_IS, &[&trap("first_thread_ends")]);
    assert_eq!(ran.code(), 9);
    assert_eq!(end_of(&recording.processes[0]), ExitStatus::Exited(9));
    assert_eq!(marks(&recording, "without-first-"), 20);
}

#[test]
fn a_child_that_is_its_parents_sibling_is_seen() {
    let (_, recording) = BACKEND.assert_same(AS_IS, &[&trap("sibling")]);
    assert_eq!(end_of(&recording.processes[1]), ExitStatus::Exited(6));
    assert_eq!(marks(&recording, "sibling-"), 10);
}

#[test]
fn every_call_of_every_thread_is_seen() {
    let (_, recording) = BACKEND.assert_same(AS_IS, &[&trap("threads"), "60", "50"]);
    assert_eq!(marks(&recording, "thread-"), 3000);
    assert_eq!(recording.processes.len(), 1);
    assert_eq!(recording.processes[0].threads, 60);
    let mut by_thread = BTreeMap::<u32, usize>::new();
    for call in calls_below(&recording, b"/nonexistent/thread-") {
        *by_thread.entry(call.thread).or_default() += 1;
    }
    assert_eq!(by_thread.into_values().collect::<Vec<_>>(), [50; 60]);
}

#[test]
fn a_vforked_child_and_its_parent_keep_their_order() {
    let (_, recording) = BACKEND.assert_same(AS_IS, &[&trap("vfork")]);
    let how: Vec<_> = recording.processes.iter().map(|process| process.how).collect();
    assert_eq!(how, [StartCall::Command, StartCall::Vfork, StartCall::Vfork]);
    assert_eq!(end_of(&recording.processes[1]), ExitStatus::Exited(3));
    assert_eq!(end_of(process_of(&recording, "sh")), ExitStatus::Exited(4));
    assert_eq!(marks(&recording, "vfork-exits"), 1);
}

#[test]
fn posix_spawn_is_seen_and_so_is_its_failure() {
    let (_, recording) = BACKEND.assert_same(AS_IS, &[&trap("spawn")]);
    assert_eq!(recording.processes.len(), 3);
    assert!(recording.processes[1..].iter().all(|process| process.how == StartCall::Vfork));
    assert_eq!(end_of(process_of(&recording, "sh")), ExitStatus::Exited(6));
    assert_eq!(recording.processes[2].execs.len(), 0);
    assert_eq!(calls_below(&recording, b"/nonexistent/program").len(), 1);
}

#[test]
fn ten_thousand_short_children_are_all_seen() {
    let (_, recording) = BACKEND.assert_same(AS_IS, &[&trap("children"), "10000"]);
    assert_eq!(recording.processes.len(), 10_001);
    for (number, child) in recording.processes[1..].iter().enumerate() {
        assert_eq!(end_of(child), ExitStatus::Exited(number as u8));
        assert_eq!(child.parent, Some(recording.processes[0].id));
    }
    for (number, call) in calls_below(&recording, b"/nonexistent/child-").iter().enumerate() {
        assert_eq!(recording.shown(call.path.unwrap()), format!("/nonexistent/child-{number}"));
        assert_eq!(call.process.0 as usize, number + 1);
    }
    assert_eq!(marks(&recording, "child-"), 10_000);
}

#[test]
fn a_parent_sees_its_child_stop_and_go_on_and_be_killed() {
    let (_, recording) = BACKEND.assert_same(AS_IS, &[&trap("stops")]);
    assert_eq!(end_of(&recording.processes[1]), ExitStatus::Signaled(libc::SIGKILL as u8));
}

#[test]
fn real_time_signals_come_in_order_with_their_values() {
    let (_, recording) = BACKEND.assert_same(AS_IS, &[&trap("queued_signals")]);
    assert!(recording.signals >= 150);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn calls_by_the_32_bit_gate_are_seen_under_their_own_names() {
    let (_, recording) = BACKEND.assert_same(AS_IS, &[&trap("int80")]);
    let calls = calls_below(&recording, b"/nonexistent/int80");
    assert_eq!(calls.len(), 1);
    assert_eq!((calls[0].call.abi(), calls[0].call.name()), (Abi::I386, "open".to_owned()));
    assert_eq!(calls[0].outcome, Outcome::Failed(2));
    let gate = recording.events.iter().filter(|event| event.call.abi() == Abi::I386);
    assert_eq!(gate.map(|event| event.call.name()).collect::<Vec<_>>(), ["open", "open", "close"]);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_32_bit_program_is_seen() {
    let (_, recording) = BACKEND.assert_same(AS_IS, &[&trap_with("opens", &["-m32"]), "m32", "20"]);
    assert_eq!(marks(&recording, "m32-"), 20);
    for call in calls_below(&recording, b"/nonexistent/m32-") {
        assert_eq!((call.call.abi(), call.kind()), (Abi::I386, Kind::Open));
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn x32_calls_are_answered_as_the_kernel_answers() {
    BACKEND.assert_same(AS_IS, &[&trap("x32")]);
}

#[test]
fn a_handled_timer_storm_interrupts_no_call_that_no_handler_interrupted() {
    let (ran, recording) = BACKEND.assert_same(AS_IS, &[&trap("timer_storm")]);
    assert!(ran.out().starts_with("unexplained EINTR: 0;"), "{}", ran.out());
    assert!(recording.signals > 10);
}

/// Under strace most of these fail by tens of thousands of EINTR.
#[test]
fn a_storm_of_signals_ignored_by_default_goes_unnoticed_by_every_blocking_call() {
    assert_unnoticed(libc::SIGCHLD, "default");
}

#[test]
fn a_storm_of_signals_ignored_on_request_goes_unnoticed_by_every_blocking_call() {
    assert_unnoticed(libc::SIGUSR1, "ignore");
}

#[track_caller]
fn assert_unnoticed(signal: i32, how: &str) {
    let signal = signal.to_string();
    for call in [
        "read",
        "recv with a timeout",
        "epoll_wait",
        "epoll_wait with a timeout",
        "poll",
        "semop",
        "futex",
        "sigtimedwait",
        "nanosleep, to its end",
        "epoll_wait, to its end",
        "semtimedop, to its end",
    ] {
        let (ran, _) = BACKEND.assert_same(AS_IS, &[&trap("ignored_storm"), call, &signal, how]);
        assert_eq!(ran.out(), "interrupted 0 times, in time\n", "{call}, signal {signal}");
    }
}

/// On Arm a call looks the same when it is left and when its handler has ended.
#[test]
fn a_call_is_ended_once_by_its_handler_and_by_no_ignored_signal_beside_it() {
    for call in ["epoll_wait", "semop", "poll"] {
        let (ran, _) = BACKEND.assert_same(AS_IS, &[&trap("handler_beside_ignored"), call]);
        assert_eq!(ran.out(), "handled 40, EINTR lost 0, unexplained 0\n", "{call}");
    }
}

/// Whether the recording, and becalm's own words, say that a tracer was refused.
#[track_caller]
fn assert_says_tracer_refused(scene: &Scene, words: &[&str]) {
    let ran = run(&mut scene.record(words));
    let recording = scene.recording();
    assert!(recording.is_whole());
    let refused = |blind: &Blind| matches!(blind, Blind::TracerRefused { .. });
    assert!(recording.blinds.iter().any(refused), "{:?}", recording.blinds);
    let said: Vec<_> =
        ran.err().lines().filter(|line| line.starts_with("becalm: ")).map(str::to_owned).collect();
    assert_eq!(said.len(), 1, "{}", ran.err());
    assert!(said[0].contains("trace"), "{}", said[0]);
}

#[test]
fn a_command_that_traces_is_refused_and_becalm_says_so() {
    let (scene, gdb) = (BACKEND.scene(), BACKEND.scene());
    let traceme = trap("traceme");
    assert_says_tracer_refused(&scene, &[&traceme]);
    assert_says_tracer_refused(&scene, &["strace", "-o", "/dev/null", "true"]);
    assert_says_tracer_refused(
        &scene,
        &["strace", "-f", "-o", "/dev/null", "sh", "-c", "true; true"],
    );
    assert_says_tracer_refused(&gdb, &["gdb", "-nx", "-batch", "-ex", "run", "/bin/true"]);
}

#[test]
fn under_another_tracer_becalm_refuses_in_one_line() {
    let scene = BACKEND.scene();
    let witness = scene.at("witness");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-o", "/dev/null"]);
    let ran = run(&mut running(strace, &scene.record(&["touch", &witness])));
    assert_eq!(ran.code(), 125, "{}", ran.err());
    assert_eq!(ran.err().lines().count(), 1, "{}", ran.err());
    assert!(ran.err().contains("itself traced by process"), "{}", ran.err());
    assert!(ran.err().contains("(strace)"), "{}", ran.err());
    assert!(!scene.shows_a_whole_recording());
    assert!(!std::path::Path::new(&witness).exists(), "the command ran");
}

#[test]
fn becalm_under_becalm_refuses_and_the_outer_one_says_so_too() {
    let (inner, outer) = (BACKEND.scene(), BACKEND.scene());
    let witness = inner.at("witness");
    let ran = run(&mut running(outer.record(&[""; 0]), &inner.record(&["touch", &witness])));
    assert_eq!(ran.code(), 125, "{}", ran.err());
    assert_eq!(ran.err().lines().count(), 2, "{}", ran.err());
    assert!(ran.err().lines().any(|line| line.contains("itself traced")), "{}", ran.err());
    assert!(!inner.shows_a_whole_recording());
    assert!(!std::path::Path::new(&witness).exists(), "the command ran");
    let refused = |blind: &Blind| matches!(blind, Blind::TracerRefused { .. });
    assert!(outer.recording().blinds.iter().any(refused));
}

#[test]
fn under_an_outer_user_notify_filter_nothing_is_missed_in_silence() {
    let scene = BACKEND.scene();
    let opens = trap("opens");
    let record = scene.record(&[&opens, "notified", "60"]);
    let ran = run(&mut running(Command::new(trap("user_notify")), &record));
    assert_eq!(ran.code(), 0, "{}", ran.err());
    assert_eq!(ran.out(), "notified 60\n");
    let recording = scene.recording();
    assert!(recording.is_whole());
    assert_eq!(marks(&recording, "notified-"), 60);
    assert!(recording.blinds.contains(&Blind::OuterFilter), "{:?}", recording.blinds);
}

#[test]
fn io_uring_is_a_declared_blind_spot() {
    let scene = BACKEND.scene();
    let [untraced, traced] = both(&scene, AS_IS, &[&trap("uring")]);
    assert_eq!((traced.status, traced.out()), (untraced.status, untraced.out()));
    if untraced.out() != "opened by io_uring\n" {
        eprintln!("skipped: {}", untraced.out());
        return;
    }
    let blinds = scene.recording().blinds;
    assert!(blinds.iter().any(|blind| matches!(blind, Blind::IoUring { .. })), "{blinds:?}");
    assert!(
        traced.err().lines().count() == 1 && traced.err().contains("io_uring"),
        "{}",
        traced.err()
    );
}

#[test]
fn a_setuid_program_of_an_ordinary_user_is_declared() {
    if !is_root() {
        return;
    }
    let (scene, programs) = scene_for_a_user(&[&trap("identity")]);
    let scene = scene.on(BACKEND);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o4755);
    std::fs::set_permissions(&programs[0], mode).unwrap();
    let ran = run(&mut record_as_a_user(&scene, &[&programs[0]]));
    assert_eq!(ran.code(), 0, "{}", ran.err());
    assert!(ran.out().ends_with("ids: 65534 65534 65534 65534\n"), "{}", ran.out());
    let recording = scene.recording();
    let declared = recording.blinds.iter().find_map(|blind| match blind {
        Blind::Setuid { path, .. } => Some(path.clone()),
        _ => None,
    });
    assert_eq!(declared.as_ref(), Some(&programs[0]), "{:?}", recording.blinds);
    assert!(ran.err().lines().count() == 1 && ran.err().contains(&programs[0]), "{}", ran.err());
}

#[test]
fn what_gets_no_rights_untraced_either_has_lost_none() {
    if !is_root() {
        return;
    }
    let (scene, programs) = scene_for_a_user(&[&trap("identity"), "/bin/cat"]);
    let scene = scene.on(BACKEND);
    let [identity, cat] = &programs[..] else { panic!("{programs:?}") };
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o4755);
    std::fs::set_permissions(identity, mode).unwrap();
    assert_eq!(run(Command::new("setcap").args(["cap_net_raw+ep", cat])).code(), 0);
    let reads = format!("{cat} /proc/self/status; true");
    let tests: [(&[&str], &str); 4] = [
        // The owner is nobody's in the namespace, and its root has all capabilities.
        (&["unshare", "-Ur", identity], "ids: 0 0 0 0\n"),
        (&["unshare", "-Ur", "sh", "-c", &reads], "CapPrm:\t000001ff"),
        // Who makes a namespace has them all until it executes a program. Without `no_new_privs`, which a
        // filter needs, so has what is executed in it.
        (&["unshare", "-U", cat, "/proc/self/status"], "CapPrm:\t0000000000002000\n"),
        (&["unshare", "-U", "sh", "-c", &reads], "CapPrm:\t000000000000"),
    ];
    for (words, said) in tests {
        let ran = run(&mut record_as_a_user(&scene, words));
        assert_eq!(ran.code(), 0, "{words:?}: {}", ran.err());
        assert!(ran.out().contains(said), "{words:?}: {}", ran.out());
        let recording = scene.recording();
        let named = recording.blinds.iter().find_map(|blind| match blind {
            Blind::Setuid { path, .. } => Some(path.as_str()),
            _ => None,
        });
        let lost = ran.out().contains("CapPrm:\t0000000000000000\n").then_some(cat.as_str());
        assert_eq!(named, lost, "{words:?} {}", ran.out());
        assert_eq!(ran.err().lines().count(), usize::from(lost.is_some()), "{}", ran.err());
    }
    // Whoever started becalm has ruled them out already.
    let words = [
        scene.at("becalm"),
        "record".into(),
        "-o".into(),
        scene.at("r"),
        "--".into(),
        identity.clone(),
    ];
    let ran = run(as_a_user(&[&["setpriv".into(), "--no-new-privs".into()], &words[..]].concat())
        .current_dir("/"));
    assert_eq!((ran.code(), ran.err()), (0, String::new()));
}

#[test]
fn a_child_cloned_to_be_untraced_is_traced_and_unharmed() {
    for call in ["clone", "clone3"] {
        let (_, recording) = BACKEND.assert_same(AS_IS, &[&trap("untraced_clone"), call]);
        assert_eq!(marks(&recording, "untraced-"), 10, "{call}");
        assert_eq!(end_of(&recording.processes[1]), ExitStatus::Exited(4), "{call}");
    }
}

#[test]
fn a_commands_own_seccomp_filter_works_and_is_declared() {
    let scene = BACKEND.scene();
    let [untraced, traced] = both(&scene, AS_IS, &[&trap("own_filter")]);
    assert_eq!((traced.status, traced.out()), (untraced.status, untraced.out()));
    let recording = scene.recording();
    let declared = |blind: &Blind| matches!(blind, Blind::OwnFilter { .. });
    assert!(recording.blinds.iter().any(declared), "{:?}", recording.blinds);
    assert_eq!(marks(&recording, "filtered"), 1);
}

/// The kernel lets nobody into strict mode who has a filter, and becalm's is one.
#[test]
fn strict_mode_works_or_its_refusal_is_declared() {
    let scene = BACKEND.scene();
    let [untraced, traced] = both(&scene, AS_IS, &[&trap("strict")]);
    assert_eq!((untraced.code(), untraced.out()), (4, "strict\n".into()));
    let declared = |blind: &Blind| matches!(blind, Blind::OwnFilter { .. });
    let is_declared = scene.recording().blinds.iter().any(declared);
    assert!((traced.status, traced.out()) == (untraced.status, untraced.out()) || is_declared);
}

#[test]
fn a_process_in_another_root_is_followed_and_declared() {
    if !is_root() {
        return;
    }
    let scene = BACKEND.scene();
    let root = scene.subdirectory("root");
    scene.file("root/inside", "", 0o644);
    let [untraced, traced] = both(&scene, AS_IS, &[&trap("chroot"), &root]);
    assert_eq!((traced.status, traced.out()), (untraced.status, untraced.out()));
    let recording = scene.recording();
    let child = recording.processes[1].id;
    assert!(
        recording.blinds.contains(&Blind::OtherRoot { process: child }),
        "{:?}",
        recording.blinds
    );
    // Its paths are given as seen from outside, where the reader is.
    assert_eq!(calls_on(&recording, format!("{root}/inside").as_bytes()).len(), 1);
    let from_inside = format!("{root}/nonexistent/from-inside");
    assert_eq!(calls_on(&recording, from_inside.as_bytes()).len(), 1);
    assert_eq!(marks(&recording, "from-outside"), 1);
}

#[test]
fn hostile_paths_are_answered_as_without_and_recorded_to_the_byte() {
    let scene = BACKEND.scene();
    let [untraced, traced] = both(&scene, AS_IS, &[&trap("odd_paths")]);
    assert_eq!(traced, untraced);
    let recording = scene.recording();
    assert!(recording.is_whole());
    for path in [
        &b"/nonexistent/at-the-edge"[..],
        b"/nonexistent/two\nlines",
        b"/nonexistent/\xff\xfe\x80",
        b"/nonexistent/\x1b[31mred\t",
    ] {
        assert_eq!(calls_on(&recording, path).len(), 1, "{}", path.escape_ascii());
    }
    let mut long = b"/a".repeat(2047);
    long.push(b'a');
    assert_eq!(calls_on(&recording, &long).len(), 1, "4095 bytes");
    // The 16 odd calls are the program's only failed ones but the loader's; none is missing
    // for want of a path.
    let bad = recording
        .events
        .iter()
        .filter(|event| event.outcome == Outcome::Failed(libc::EFAULT as u16));
    assert_eq!(bad.count(), 7);
    let long = recording
        .events
        .iter()
        .filter(|event| event.outcome == Outcome::Failed(libc::ENAMETOOLONG as u16));
    assert_eq!(long.count(), 2);
}

#[test]
fn relative_paths_are_recorded_in_full_from_every_kind_of_place() {
    let scene = BACKEND.scene();
    let ran = run(&mut scene.record(&[&trap("places"), &scene.subdirectory("top")]));
    assert_eq!(ran.code(), 0, "{}", ran.err());
    let recording = scene.recording();
    assert!(ran.out().lines().count() > 14);
    for path in ran.out().lines() {
        let calls = calls_on(&recording, path.as_bytes());
        assert_eq!(calls.len(), 1, "{path}");
        assert_eq!(calls[0].outcome, Outcome::Failed(2), "{path}");
    }
}

#[test]
fn both_paths_of_a_call_that_takes_two_are_recorded() {
    let scene = BACKEND.scene();
    let script = "cd $1; touch a; mv a b; ln b c; ln -s target d";
    let ran = run(&mut scene.record(&["sh", "-c", script, "sh", &scene.subdirectory("top")]));
    assert_eq!(ran.code(), 0, "{}", ran.err());
    let recording = scene.recording();
    let two = |name: &str| -> Vec<(String, String)> {
        let all = recording
            .events
            .iter()
            .filter(|event| event.call.name().starts_with(name) && event.other_path.is_some());
        all.map(|event| {
            (recording.shown(event.path.unwrap()), recording.shown(event.other_path.unwrap()))
        })
        .collect()
    };
    assert_eq!(two("rename"), [(scene.at("top/a"), scene.at("top/b"))]);
    assert_eq!(two("link"), [(scene.at("top/b"), scene.at("top/c"))]);
    // A symbolic link's text is not looked up by the call that makes it.
    let made = calls_on(&recording, scene.at("top/d").as_bytes());
    assert!(made.iter().any(|call| call.call.name().starts_with("symlink")), "{made:?}");
}

#[test]
fn executions_that_fail_are_recorded_and_the_shell_steps_in_as_without() {
    let scene = BACKEND.scene();
    let directory = scene.subdirectory("top");
    let again = scene.subdirectory("again");
    let untraced = run(Command::new(trap("failed_exec")).arg(&directory));
    let traced = run(&mut scene.record(&[&trap("failed_exec"), &again]));
    assert_eq!(traced, untraced);
    assert_eq!(traced.code(), 8);
    let recording = scene.recording();
    let failed = |name: &str| -> Vec<Outcome> {
        let calls = calls_below(&recording, format!("{again}/{name}").as_bytes());
        calls.iter().filter(|call| call.kind() == Kind::Exec).map(|call| call.outcome).collect()
    };
    for (name, error) in [
        ("missing", libc::ENOENT),
        ("garbage", libc::ENOEXEC),
        ("lost", libc::ENOENT),
        ("directory", libc::EACCES),
        ("plain/below", libc::ENOTDIR),
        ("script", libc::ENOEXEC),
    ] {
        assert_eq!(failed(name), [Outcome::Failed(error as u16)], "{name}");
    }
    let program = recording.processes[0].execs.last().unwrap();
    assert_eq!(recording.shown(program.path), "/bin/sh");
    assert_eq!(program.argv[1..], ["./script", "me"]);
}

#[test]
fn thread_groups_killed_in_the_middle_of_calls_end_for_becalm_too() {
    let (_, recording) = BACKEND.assert_same(AS_IS, &[&trap("killed_threads")]);
    assert_eq!(recording.processes.len(), 21);
    for child in &recording.processes[1..] {
        assert_eq!(end_of(child), ExitStatus::Signaled(libc::SIGKILL as u8));
    }
}

#[test]
fn a_pid_used_again_is_another_process() {
    if !is_root() {
        return;
    }
    let scene = BACKEND.scene();
    let mut unshare = Command::new("unshare");
    unshare.args(["--pid", "--fork", "--mount-proc"]);
    let ran = run(&mut running(unshare, &scene.record(&[&trap("pid_reuse"), "200"])));
    assert_eq!(ran.code(), 0, "{}", ran.err());
    let recording = scene.recording();
    assert!(recording.is_whole());
    assert_eq!(recording.processes.len(), 101);
    assert_eq!(recording.processes[0].threads, 100);
    for (number, call) in calls_below(&recording, b"/nonexistent/reused-").iter().enumerate() {
        assert_eq!(recording.shown(call.path.unwrap()), format!("/nonexistent/reused-{number}"));
        let process = if number % 2 == 1 { 0 } else { number / 2 + 1 };
        assert_eq!((call.process.0 as usize, call.thread), (process, 4000));
    }
    assert_eq!(marks(&recording, "reused-"), 200);
    for (number, child) in recording.processes[1..].iter().enumerate() {
        assert_eq!((child.pid, end_of(child)), (4000, ExitStatus::Exited(2 * number as u8)));
    }
}

#[test]
fn a_command_that_closes_all_descriptors_is_still_seen() {
    let (ran, recording) = BACKEND.assert_same(AS_IS, &[&trap("close_all")]);
    assert_eq!(ran.code(), 6);
    assert_eq!(marks(&recording, "closed-"), 10);
}

#[test]
fn an_undumpable_process_of_root_is_seen() {
    if !is_root() {
        return;
    }
    let (_, recording) = BACKEND.assert_same(AS_IS, &[&trap("undumpable")]);
    assert_eq!((marks(&recording, "dumpable"), marks(&recording, "undumpable-")), (1, 10));
}

#[test]
fn an_undumpable_process_of_an_ordinary_user_is_counted_and_its_paths_declared_missing() {
    let (scene, programs) = scene_for_a_user(&[&trap("undumpable")]);
    let scene = scene.on(BACKEND);
    let ran = run(&mut record_as_a_user(&scene, &[&programs[0]]));
    assert_eq!((ran.code(), ran.out()), (0, "still undumpable\n".into()), "{}", ran.err());
    let recording = scene.recording();
    assert!(recording.is_whole());
    let opens = recording.events.iter().filter(|event| {
        event.kind() == Kind::Open && event.outcome == Outcome::Failed(libc::ENOENT as u16)
    });
    assert!(opens.count() >= 11, "calls are missing");
    let paths = marks(&recording, "undumpable-");
    let command = recording.processes[0].id;
    let declared = recording.blinds.contains(&Blind::Unreadable { process: command });
    assert!(paths == 10 || declared, "{paths} paths, {:?}", recording.blinds);
}

#[test]
fn a_death_signal_comes_when_the_parent_dies_and_not_before() {
    let (ran, _) = BACKEND.assert_same(AS_IS, &[&trap("death_signal")]);
    assert_eq!(ran.out(), "death signal: SIGTERM\n");
}

/// A program of three threads that leaks, or not; its sanitizer stops them all to look.
const LEAKS: &str = "
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static int ready[2];
static void *wait_for_ever(void *kept) {
    void *volatile own = malloc(10);
    write(ready[1], \"\", 1);
    pause();
    return own ? kept : 0;
}
int main(int argc, char **argv) {
    pthread_t thread;
    char byte;
    pipe(ready);
    for (int i = 0; i < 2; i++) {
        pthread_create(&thread, 0, wait_for_ever, malloc(20));
        read(ready[0], &byte, 1);
    }
    void *volatile lost = malloc(100);
    if (argc == 1) free(lost);
    lost = 0;
    return 0;
}
";

#[test]
fn a_sanitizer_that_stops_its_own_threads_finds_leaks_as_without_becalm() {
    for sanitizer in ["leak", "address"] {
        let scene = BACKEND.scene();
        let (source, program) = (scene.file("leaks.c", LEAKS, 0o644), scene.at("leaks"));
        let sanitized = format!("-fsanitize={sanitizer}");
        let gcc = ["-O0", "-w", &sanitized, "-pthread", "-o", &program, &source];
        assert!(Command::new("gcc").args(gcc).status().unwrap().success());
        for words in [vec![program.as_str()], vec![program.as_str(), "leak"]] {
            for _ in 0..5 {
                let [untraced, traced] = both(&scene, AS_IS, &words);
                assert_eq!(traced.code(), untraced.code(), "{words:?}: {}", traced.err());
                let found = |text: &str| text.contains("SUMMARY") && text.contains("100 byte");
                assert_eq!(found(&traced.err()), words.len() > 1, "{}", traced.err());
                assert!(
                    !scene
                        .recording()
                        .blinds
                        .iter()
                        .any(|blind| { matches!(blind, Blind::TracerRefused { .. }) })
                );
            }
        }
    }
}
