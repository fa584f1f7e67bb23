//! What the reader must know first, and what no recording may do to the reader.

#![allow(clippy::unwrap_used)] // A test program: what fails, fails the test.

mod support;

use explain::{ExplainOptions, Findings, WarningKind};
use recording::{Blind, ProcessId, Record, Recording, StartCall};
use support::*;

fn kinds(findings: &Findings) -> Vec<WarningKind> {
    findings.warnings.iter().map(|warning| warning.kind).collect()
}

#[test]
fn a_whole_recording_has_no_warning() {
    assert_eq!(Tale::of_app().explained().warnings, []);
}

#[test]
fn a_cut_recording_is_told_as_a_lower_bound() {
    let mut tale = Tale::of_app();
    tale.times(300, "stat", "/data", YES);
    let findings = explained(&tale.cut());
    assert_eq!(kinds(&findings), [WarningKind::Cut]);
    assert!(findings.warnings[0].text.contains("lower bounds"));
    assert_eq!(findings.storms[0].metadata_ops, 300, "what is there is explained");
    assert_eq!(findings.totals.status, None);
}

#[test]
fn processes_that_still_run_are_named() {
    let mut tale = Tale::of_app();
    for name in ["a", "b", "c", "d", "e"] {
        let child = tale.start(Some(0), StartCall::Fork);
        tale.exec(child, &format!("/bin/{name}d"), &format!("/bin/{name}d"), &[name], &[]);
    }
    tale.end(0, 10, 10);
    let findings = explained(&tale.told_while_running());
    assert_eq!(kinds(&findings), [WarningKind::Running]);
    let text = &findings.warnings[0].text;
    assert!(text.starts_with("5 processes were still running"), "{text}");
    assert!(text.ends_with("ad (pid 1001), bd (pid 1002) and 3 more"), "{text}");
}

#[test]
fn what_ran_already_is_told_to_be_a_part_of_a_run() {
    let mut tale = Tale::of_app();
    tale.start(Some(0), StartCall::Joined);
    tale.end(0, 10, 10);
    let mut recording = tale.told_while_running();
    let age = recording::Nanos(190_000_000_000);
    recording.header.joined = Some(recording::JoinedRun { pids: vec![1000], age });
    let findings = explained(&recording);
    assert_eq!(kinds(&findings), [WarningKind::Joined]);
    let text = &findings.warnings[0].text;
    assert!(text.contains("after its start, and then left to itself with 1 process"), "{text}");
}

#[test]
fn a_recording_that_goes_on_behind_a_daemon_is_not_called_cut() {
    let mut tale = Tale::of_app();
    tale.start(Some(0), StartCall::Fork);
    tale.end(0, 10, 10);
    let recording = tale.cut();
    let options = ExplainOptions { still_running: 1, ..ExplainOptions::default() };
    let findings = explain::explain(&recording, &options);
    assert_eq!(kinds(&findings), [WarningKind::Running]);
    assert!(findings.warnings[0].text.starts_with("the command has ended, 1 of its"));
}

#[test]
fn each_blind_spot_is_told_once_with_the_programs_it_concerns() {
    let mut tale = Tale::of_app();
    let process = ProcessId(0);
    for _ in 0..3 {
        for blind in [
            Blind::IoUring { process },
            Blind::Setuid { process, path: "/usr/bin/su\ndo".into() },
            Blind::TracerRefused { process },
            Blind::OwnFilter { process },
            Blind::OuterFilter,
            Blind::Unreadable { process },
            Blind::OtherRoot { process },
        ] {
            tale.record(&Record::Blind(blind));
        }
    }
    let findings = tale.explained();
    let expected = [
        WarningKind::IoUring,
        WarningKind::OtherRoot,
        WarningKind::OuterFilter,
        WarningKind::OwnFilter,
        WarningKind::Setuid,
        WarningKind::TracerRefused,
        WarningKind::Unreadable,
    ];
    assert_eq!(kinds(&findings), expected);
    assert!(findings.warnings[0].text.starts_with("app used io_uring"));
    let setuid = &findings.warnings[4].text;
    assert!(setuid.starts_with(r"/usr/bin/su\x0ado gets privileges"), "{setuid}");
}

#[test]
fn a_command_that_failed_is_told() {
    let tale = Tale::of_app();
    let mut recording = tale.told();
    for (status, text) in [
        (recording::ExitStatus::Exited(3), "the command ended with status 3: "),
        (recording::ExitStatus::Signaled(11), "the command was killed by signal 11: "),
    ] {
        recording.processes[0].end.as_mut().unwrap().status = status;
        let findings = explained(&recording);
        assert_eq!(kinds(&findings), [WarningKind::Failed]);
        assert!(findings.warnings[0].text.starts_with(text), "{findings:?}");
    }
}

#[test]
fn an_empty_recording_is_calm() {
    for recording in [Recording::default(), Tale::without_program(&["app"]).told()] {
        let findings = explained(&recording);
        assert_eq!(findings.storms, []);
        assert_eq!(findings.verdict, explain::StartVerdict::Calm, "{}", findings.headline);
    }
}

#[test]
fn paths_that_are_no_text_reach_no_sentence_raw() {
    let mut tale = Tale::of_app();
    let hostile = b"/data/a\nb\x1b[2J\xff $(reboot)";
    for _ in 0..300 {
        tale.call_on_bytes("stat", hostile, YES);
    }
    let findings = tale.explained();
    let json = serde_json::to_string(&findings).unwrap();
    assert!(json.contains(r"/data/a\\x0ab\\x1b[2J\\xff"), "{json}");
    assert!(!json.contains(r"\u001b") && !json.contains(r"\n"), "{json}");
}

#[test]
fn findings_are_read_back_as_they_were_written() {
    let mut tale = Tale::of_app();
    tale.times(300, "stat", "/data", YES);
    let findings = tale.explained();
    let json = serde_json::to_string(&findings).unwrap();
    assert_eq!(serde_json::from_str::<Findings>(&json).unwrap(), findings);
}
