//! What a recording can make its readers take: memory and time are bounded by its size.

use std::fs;
use std::path::Path;
use std::process::Command;

use recording::Recording;

use crate::BECALM;
use crate::sample::*;

/// Every verb that reads a recording from a file.
fn readers(file: &str) -> Vec<Vec<&str>> {
    let mut readers = vec![
        vec!["scale", file, "--ranks", "8"],
        vec!["fork", "lines", file],
        vec!["python", "scan", file],
        vec!["diff", file, file],
        vec!["report", file, "--below", "/a"],
    ];
    for by in ["cause", "prefix", "process", "syscall", "library", "module", "line"] {
        readers.push(vec!["report", file, "--by", by]);
    }
    readers.push(vec!["report", file, "--html", "/dev/null"]);
    for format in
        ["jsonl", "strace", "chrome", "folded", "csv", "perfetto", "speedscope", "parquet"]
    {
        readers.push(vec!["export", file, "--format", format]);
    }
    readers
}

#[test]
fn a_forged_recording_takes_no_verb_more_than_its_size_is_worth() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("forged.becalm");
    for (what, forge) in forged::STEEP {
        forge(&file);
        let size = fs::metadata(&file).unwrap().len();
        for words in readers(file.to_str().unwrap()) {
            let mut limited = Command::new("prlimit");
            limited.args(["--as=700000000", "--cpu=60", "--", BECALM]).args(&words);
            let output = limited.output().unwrap();
            let said = stderr(&output);
            assert!(
                matches!(output.status.code(), Some(0 | 1)),
                "{what}, {size} bytes, {words:?}: {:?} {said}",
                output.status
            );
            assert!(!said.contains("panicked"), "{what}, {words:?}: {said}");
        }
    }
}

#[test]
fn a_call_on_a_path_of_thousands_of_components_over_and_over_is_refused_in_a_line() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("deep.becalm");
    forged::deep_calls(&file);
    assert!(fs::metadata(&file).unwrap().len() < 60_000);
    let said = failure(&becalm(["report".as_ref(), file.as_os_str()]));
    assert!(said.contains("damaged: it unpacks to more than any recording of its size"), "{said}");
}

/// The largest resident set of becalm with these words, in bytes: as becalm itself records it.
fn most_held(directory: &Path, words: &[&str]) -> u64 {
    let seen = directory.join("seen.becalm");
    let recorded = Command::new(BECALM)
        .args(["record", "--until", "exit", "-o"])
        .args([seen.as_os_str(), "--".as_ref(), BECALM.as_ref()])
        .args(words)
        .output()
        .unwrap();
    assert_eq!(recorded.status.code(), Some(0), "{words:?}: {}", stderr(&recorded));
    Recording::open(&seen).unwrap().processes[0].end.unwrap().usage.max_rss.0
}

#[test]
fn a_report_on_a_million_calls_holds_less_than_150_mb() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("million.becalm");
    let sink = Box::new(fs::File::create(&file).unwrap());
    let mut writer = recording::Writer::new(sink, &testkit::made::header()).unwrap();
    let ended = testkit::made::storm::record(&mut writer, 1_000_000);
    writer.finish(ended).unwrap();
    let name = file.to_str().unwrap();
    for by in ["cause", "prefix", "process", "syscall", "library", "module", "line"] {
        let held = most_held(directory.path(), &["report", name, "--by", by]);
        assert!(held < 150_000_000, "--by {by}: {held} bytes");
    }
    let page = directory.path().join("million.html");
    let held = most_held(directory.path(), &["report", name, "--html", page.to_str().unwrap()]);
    assert!(held < 150_000_000, "--html: {held} bytes");
    assert!(fs::metadata(&page).unwrap().len() < 2_000_000);
}
