//! `becalm export`: where its output goes, and what is left when it cannot. That the formats are
//! right is tested where they are written.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::Stdio;

use crate::sample::*;

const FORMATS: [&str; 8] =
    ["jsonl", "strace", "chrome", "folded", "csv", "perfetto", "speedscope", "parquet"];

fn export(arguments: &[&str], directory: &Path) -> std::process::Output {
    command([&["export", "emacs.becalm"], arguments].concat())
        .current_dir(directory)
        .output()
        .unwrap()
}

/// What a directory holds, hidden files included.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_file_gets_the_bytes_that_standard_output_would() {
    let directory = tempfile::tempdir().unwrap();
    emacs_recording(directory.path());
    for format in FORMATS {
        let piped = export(&["--format", format], directory.path());
        assert_eq!((piped.status.code(), stderr(&piped).as_str()), (Some(0), ""));
        assert!(!piped.stdout.is_empty(), "{format}");
        let said = quiet_success(&export(&["--format", format, "-o", "out"], directory.path()));
        assert!(said.starts_with(&format!("out: 10 system calls as {format}, ")), "{said}");
        assert_eq!(fs::read(directory.path().join("out")).unwrap(), piped.stdout, "{format}");
        assert_eq!(names(directory.path()), ["emacs.becalm", "out"]);
    }
}

/// Of many processes, of which each has a row of its own.
#[test]
fn the_same_recording_gives_the_same_bytes_each_time() {
    let directory = tempfile::tempdir().unwrap();
    let many = "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do cat /dev/null & done; wait";
    let recorded = command(["record", "-o", "emacs.becalm", "--", "sh", "-c", many])
        .current_dir(directory.path())
        .output()
        .unwrap();
    assert!(recorded.status.success(), "{}", stderr(&recorded));
    for format in FORMATS {
        let first = export(&["--format", format], directory.path()).stdout;
        assert!(!first.is_empty(), "{format}");
        assert!(export(&["--format", format], directory.path()).stdout == first, "{format}");
    }
}

#[test]
fn behind_what_goes_to_standard_output_by_its_name_comes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    emacs_recording(directory.path());
    for format in FORMATS {
        let plain = export(&["--format", format], directory.path());
        let named = export(&["--format", format, "-o", "/dev/stdout"], directory.path());
        assert_eq!((named.status.code(), stderr(&named).as_str()), (Some(0), ""));
        assert_eq!(named.stdout, plain.stdout, "{format}");
    }
}

#[test]
fn an_old_file_is_replaced_whole_and_its_permissions_are_those_of_a_new_one() {
    let directory = tempfile::tempdir().unwrap();
    emacs_recording(directory.path());
    let out = directory.path().join("out");
    fs::write(&out, "x".repeat(100_000)).unwrap();
    let plain = fs::metadata(&out).unwrap().mode();
    quiet_success(&export(&["--format", "csv", "-o", "out"], directory.path()));
    assert!(!fs::read_to_string(&out).unwrap().contains("xxxx"));
    assert_eq!(fs::metadata(&out).unwrap().mode(), plain);
}

#[test]
fn a_symbolic_link_stays_and_what_it_points_to_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    emacs_recording(directory.path());
    fs::create_dir(directory.path().join("data")).unwrap();
    fs::write(directory.path().join("data/real"), "old").unwrap();
    symlink("data/real", directory.path().join("link")).unwrap();
    quiet_success(&export(&["--format", "csv", "-o", "link"], directory.path()));
    assert!(directory.path().join("link").is_symlink());
    assert_ne!(fs::read_to_string(directory.path().join("data/real")).unwrap(), "old");
}

#[test]
fn the_recording_itself_is_never_overwritten_by_whatever_name() {
    let directory = tempfile::tempdir().unwrap();
    let file = emacs_recording(directory.path());
    let before = fs::read(&file).unwrap();
    symlink("emacs.becalm", directory.path().join("link")).unwrap();
    fs::hard_link(&file, directory.path().join("hard")).unwrap();
    for name in ["emacs.becalm", "./emacs.becalm", "link", "hard"] {
        let said = failure(&export(&["--format", "csv", "-o", name], directory.path()));
        assert!(said.contains(&format!("{name}: is the recording itself; choose")), "{said}");
    }
    assert_eq!(fs::read(&file).unwrap(), before);
}

#[test]
fn a_full_disk_leaves_neither_a_half_written_file_nor_a_changed_old_one() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("emacs.becalm");
    let mut sample = Sample::new(&file, "/usr/bin/emacs", &["emacs"]);
    for _ in 0..2_000 {
        emacs(&mut sample);
    }
    sample.end();
    fs::write(directory.path().join("out"), "old").unwrap();
    // A file size limit stops a write as a full disk does (EFBIG, with SIGXFSZ ignored).
    let script = format!(
        "trap '' XFSZ; ulimit -f 100; exec '{}' export emacs.becalm --format jsonl -o out",
        env!("CARGO_BIN_EXE_becalm")
    );
    let output = std::process::Command::new("bash")
        .args(["-c", &script])
        .current_dir(directory.path())
        .output()
        .unwrap();
    let said = failure(&output);
    assert!(said.starts_with("becalm: out: File too large"), "{said}");
    assert_eq!(fs::read_to_string(directory.path().join("out")).unwrap(), "old");
    assert_eq!(names(directory.path()), ["emacs.becalm", "out"]);
}

#[test]
fn a_full_standard_output_is_a_failure() {
    let directory = tempfile::tempdir().unwrap();
    emacs_recording(directory.path());
    for arguments in
        [&["export", "emacs.becalm", "--format", "csv"][..], &["report", "emacs.becalm"]]
    {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let output = command(arguments)
            .current_dir(directory.path())
            .stdout(Stdio::from(full))
            .output()
            .unwrap();
        assert!(
            failure(&output).starts_with("becalm: standard output: No space left"),
            "{arguments:?}"
        );
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("emacs.becalm");
    let mut sample = Sample::new(&file, "/usr/bin/emacs", &["emacs"]);
    for _ in 0..5_000 {
        emacs(&mut sample);
    }
    sample.end();
    for format in &FORMATS[..5] {
        let mut child = command(["export", "emacs.becalm", "--format", format])
            .current_dir(directory.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = String::new();
        BufReader::with_capacity(64, child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        // Folded stacks are few: they fit the pipe, and nobody notices.
        let quiet = if *format == "folded" { 0 } else { 141 };
        assert_eq!((child.wait().unwrap().code(), said.as_str()), (Some(quiet), ""), "{format}");
    }
}

#[test]
fn a_pipe_or_a_device_is_written_to_not_replaced() {
    let directory = tempfile::tempdir().unwrap();
    emacs_recording(directory.path());
    let piped = export(&["--format", "csv"], directory.path());
    let fifo = directory.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let reader = std::thread::spawn({
        let fifo = fifo.clone();
        move || fs::read(fifo).unwrap()
    });
    quiet_success(&export(&["--format", "csv", "-o", "fifo"], directory.path()));
    assert_eq!(reader.join().unwrap(), piped.stdout);
    assert_eq!(names(directory.path()), ["emacs.becalm", "fifo"]);
}

#[test]
fn where_nothing_can_be_written_one_line_says_why() {
    let directory = tempfile::tempdir().unwrap();
    emacs_recording(directory.path());
    let expect = |name: &str, what: &str| {
        let said = failure(&export(&["--format", "csv", "-o", name], directory.path()));
        assert!(said.starts_with(&format!("becalm: {name}: {what}")), "{said}");
    };
    expect("none/out", "No such file or directory");
    expect(".", "is a directory; give a file's name");
    expect("emacs.becalm/out", "Not a directory");
    assert_eq!(names(directory.path()), ["emacs.becalm"]);
}

#[test]
fn json_says_what_was_written() {
    let directory = tempfile::tempdir().unwrap();
    emacs_recording(directory.path());
    let output = export(&["--format", "csv", "-o", "out", "--json"], directory.path());
    let answer = json(&output);
    assert_eq!(answer["schema"], "becalm.export/1");
    assert_eq!((answer["format"].as_str(), answer["output"].as_str()), (Some("csv"), Some("out")));
    assert_eq!(answer["output_bytes"], fs::metadata(directory.path().join("out")).unwrap().len());
    assert_eq!(answer["whole"], true);
    for no_file in [&["--json"][..], &["--json", "-o", "-"]] {
        let output = export(&[&["--format", "csv"], no_file].concat(), directory.path());
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    }
}

#[test]
fn a_cut_recording_is_exported_as_far_as_it_goes_and_said_to_be_cut() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("emacs.becalm");
    let mut sample = Sample::new(&file, "/usr/bin/emacs", &["emacs"]);
    emacs(&mut sample);
    sample.cut();
    let output = export(&["--format", "csv"], directory.path());
    assert_eq!(output.status.code(), Some(0));
    assert!(
        stderr(&output).starts_with("becalm: emacs.becalm: the recording is cut ("),
        "{}",
        stderr(&output)
    );
    assert!(stdout(&output).contains("/usr/share/emacs/none"));
}

#[test]
fn wrong_usage_is_status_two() {
    let directory = tempfile::tempdir().unwrap();
    emacs_recording(directory.path());
    for arguments in [&[][..], &["--format", "xml"], &["--format", "csv", "--weight", "heavy"]] {
        assert_eq!(export(arguments, directory.path()).status.code(), Some(2), "{arguments:?}");
    }
}
