//! Recordings that are cut, damaged, blind or none at all: never a panic, never shown as whole.

use crate::BECALM;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::sample::*;

#[test]
fn a_cut_recording_is_counted_and_said_to_be_cut() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("cut.becalm");
    let mut sample = Sample::new(&file, "/usr/bin/emacs", &["emacs"]);
    emacs(&mut sample);
    sample.cut();
    let output = becalm(["report", file.to_str().unwrap(), "--json"]);
    assert_eq!(output.status.code(), Some(0));
    let said = stderr(&output);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("cut.becalm: the recording is cut (it was not ended"), "{said}");
    let answer = json(&output);
    assert_eq!(answer["whole"], false);
    assert!(answer["cut"].as_str().unwrap().contains("not ended"));
    assert_eq!(answer["total"]["metadata_ops"], 9);
}

#[test]
fn a_recording_that_was_truncated_at_any_byte_is_never_shown_as_whole() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = fs::read(emacs_recording(directory.path())).unwrap();
    let file = directory.path().join("short.becalm");
    for length in (0..bytes.len()).step_by(7) {
        fs::write(&file, &bytes[..length]).unwrap();
        let output = becalm(["report", file.to_str().unwrap(), "--json"]);
        let said = stderr(&output);
        assert_eq!(said.lines().count(), 1, "{length}: {said}");
        match output.status.code() {
            Some(0) => assert_eq!(json(&output)["whole"], false, "{length}"),
            code => assert_eq!((code, output.stdout.len()), (Some(1), 0), "{length}"),
        }
        // Without an operation up to the cut it does not say that there was none.
        let said = stderr(&becalm(["scale", file.to_str().unwrap()]));
        assert!(said.contains("cut") || said.contains("not a recording"), "{length}: {said}");
    }
}

#[test]
fn a_recording_with_any_byte_changed_is_never_shown_as_whole_and_never_panics() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = fs::read(emacs_recording(directory.path())).unwrap();
    let file = directory.path().join("flipped.becalm");
    for at in (0..bytes.len()).step_by(5) {
        let mut flipped = bytes.clone();
        flipped[at] ^= 0x41;
        fs::write(&file, &flipped).unwrap();
        let output = becalm(["report", file.to_str().unwrap(), "--json"]);
        let said = stderr(&output);
        assert!(said.lines().count() == 1 && !said.contains("panicked"), "{at}: {said}");
        match output.status.code() {
            Some(0) => assert_eq!(json(&output)["whole"], false, "{at}"),
            code => assert_eq!((code, output.stdout.len()), (Some(1), 0), "{at}"),
        }
    }
}

#[test]
fn a_recording_that_ended_before_its_processes_is_not_whole() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("early.becalm");
    Sample::new(&file, "/usr/bin/daemon", &["daemon"]).end_early();
    let output = becalm(["report", file.to_str().unwrap(), "--json"]);
    assert_eq!(json(&output)["whole"], false);
    let cut = json(&output)["cut"].as_str().unwrap().to_owned();
    assert!(cut.starts_with("1 process was still running when the recording ended"), "{cut}");
    assert_eq!(stderr(&output), format!("becalm: {}: {cut}\n", file.display()));
}

#[test]
fn a_blind_spot_is_named_with_its_process_and_the_recording_is_not_whole() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ring.becalm");
    let mut sample = Sample::new(&file, "/usr/bin/fio", &["fio"]);
    sample.call("openat", b"/etc/fio", FOUND).io_uring();
    sample.end();
    let output = becalm(["report", file.to_str().unwrap(), "--json"]);
    let answer = json(&output);
    assert_eq!(answer["blind"][0]["kind"], "io_uring");
    assert_eq!(answer["whole"], false);
    let says = answer["blind"][0]["text"].as_str().unwrap();
    assert!(says.starts_with("fio used io_uring: "), "{says}");
    assert_eq!(stderr(&output), format!("becalm: {}: {says}\n", file.display()));
}

#[test]
fn what_is_no_readable_recording_gives_one_line_that_says_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let file = directory.path().join(name);
        fs::write(&file, bytes).unwrap();
        file
    };
    let report = |file: &Path| failure(&becalm(["report".as_ref(), file.as_os_str()]));
    let expect = |file: &Path, what: &str, remedy: &str| {
        let said = report(file);
        let name = file.to_str().unwrap();
        assert!(said.starts_with(&format!("becalm: {name}: ")), "{said}");
        assert!(said.contains(what) && said.contains(&format!("; {remedy}")), "{said}");
        assert!(!said.contains("os error"), "{said}");
    };
    expect(&directory.path().join("none"), "No such file", "make one with: becalm record");
    expect(directory.path(), "directory", "give the recording's own file");
    expect(&write("foreign", b"ELF or whatever"), "not a recording", "make one with");
    expect(&write("empty", b""), "not a recording", "make one with");
    expect(
        &write("future", b"becalm-record 2\n"),
        "format 2",
        "read it with the becalm that made it",
    );
    expect(&write("headless", b"becalm-record 1\n"), "header", "record the command again");
}

#[test]
fn a_recording_one_may_not_read_gives_one_line_that_says_whom_to_ask() {
    let directory = tempfile::tempdir().unwrap();
    let file = emacs_recording(directory.path());
    fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = directory.path().join("becalm");
    // Not fs::copy: a test that forks meanwhile would keep the file open for writing.
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_becalm")).arg(&program).status();
    assert!(copied.unwrap().success());
    let mut command = Command::new(&program);
    command.args(["report", file.to_str().unwrap()]);
    if fs::read(&file).is_ok() {
        // Root reads everything, so become nobody.
        std::os::unix::process::CommandExt::uid(&mut command, 65534);
    }
    let said = failure(&command.output().unwrap());
    assert!(said.contains("Permission denied") && said.contains("; ask its owner"), "{said}");
}

#[test]
fn a_small_file_takes_little_memory_and_one_that_would_take_much_is_refused_in_a_line() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("forged.becalm");
    for (what, record) in forged::bulky() {
        forged::bomb(&file, &record);
        assert!(fs::metadata(&file).unwrap().len() < 40_000, "{what}");
        for verb in [&["report"][..], &["fork", "lines"]] {
            let mut limited = Command::new("prlimit");
            limited.args(["--as=400000000", "--", BECALM]).args(verb).arg(&file);
            let output = limited.output().unwrap();
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(1), "{what}: {said}");
            let name = "forged.becalm: damaged: it unpacks to more than any recording of its size";
            assert!(said.contains(name) && said.lines().count() == 1, "{what}: {said}");
        }
    }
}

#[test]
fn a_path_that_no_kernel_takes_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("deep.becalm");
    let mut sample = Sample::new(&file, "/usr/bin/program", &["program"]);
    sample.call("openat", &b"/a".repeat(16 << 10), FOUND);
    sample.end();
    let output = becalm(["report", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("deep.becalm: damaged: a path longer than any"));
}

/// Where each step looked at all processes above, this would take hours.
#[test]
fn a_chain_of_a_million_processes_is_read_and_reported_on() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("chain.becalm");
    forged::chain(&file, 1_000_000);
    let file = file.to_str().unwrap();
    for words in [
        &["report", file, "--by", "line"][..],
        &["report", file, "--by", "process"],
        &["fork", "lines", file],
        &["python", "scan", file],
        &["export", file, "--format", "folded"],
        &["export", file, "--format", "chrome"],
        &["scale", file, "--ranks", "8"],
    ] {
        let mut command = Command::new("timeout");
        let output = command.args(["600", BECALM]).args(words).output().unwrap();
        assert!(matches!(output.status.code(), Some(0 | 1)), "{words:?}: {}", stderr(&output));
    }
}
