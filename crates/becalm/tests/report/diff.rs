//! `becalm diff` on recordings whose every call is known.

use std::path::{Path, PathBuf};

use crate::sample::*;
use recording::Outcome;

/// The start of [`emacs`] after its search was calmed: 6 metadata operations, 1 missing. One
/// path is new, four are gone, one is asked for twice.
fn calmed_recording(directory: &Path) -> PathBuf {
    let file = directory.join("after.becalm");
    let mut sample = Sample::new(&file, "/usr/bin/emacs", &["emacs", "--version"]);
    sample
        .loader("openat", LONG, FOUND)
        .call("close", LONG, Outcome::Returned(0))
        .call("openat", b"/usr/share/emacs/site-lisp/subdirs.el", FOUND)
        .call("newfstatat", b"/usr/share/emacs/29.1/lisp", Outcome::Returned(0))
        .call("newfstatat", b"/usr/share/emacs/29.1/lisp", Outcome::Returned(0))
        .call("newfstatat", b"/usr/share/emacs/none", MISSING)
        .call("openat", b"/etc/new", FOUND)
        .call("openat", NO_TEXT, FOUND)
        .call("openat", HOSTILE, FOUND);
    sample.end();
    file
}

fn diff(columns: usize, options: &[&str]) -> String {
    let directory = tempfile::tempdir().unwrap();
    emacs_recording(directory.path());
    calmed_recording(directory.path());
    let arguments = [&["diff", "emacs.becalm", "after.becalm"], options].concat();
    let output = command(arguments)
        .current_dir(directory.path())
        .env("COLUMNS", columns.to_string())
        .output()
        .unwrap();
    quiet_success(&output)
}

#[test]
fn two_runs_are_shown_side_by_side_with_the_change() {
    assert_eq!(
        diff(80, &[]),
        "11 % fewer metadata operations: 8 instead of 9\n\
         before  emacs.becalm  emacs --version\n\
         after   after.becalm  emacs --version\n\
         \n\
         cause           before  after  change  change %\n\
         loader (start)       4      1      -3     -75 %\n\
         program              5      7      +2     +40 %\n\
         total                9      8      -1     -11 %\n\
         \n\
         Next: becalm diff emacs.becalm after.becalm --paths\n"
    );
}

#[test]
fn by_syscall_it_compares_calls_not_only_metadata_operations() {
    let text = diff(80, &["--by", "syscall"]);
    assert!(text.starts_with("10 % fewer system calls: 9 instead of 10\n"), "{text}");
    assert!(text.contains("\nclose            1      1       0       0 %\n"), "{text}");
    assert!(text.contains("\nopenat           6      5      -1     -17 %\n"), "{text}");
}

#[test]
fn paths_are_listed_by_which_run_asked_for_them() {
    let text = diff(80, &["--paths"]);
    assert_eq!(
        text.lines().take(2).collect::<Vec<_>>().join(" "),
        "3 paths asked for only before, 1 only after; 1 in both a different number of times, 5 \
         equally often"
    );
    let list = |title: &str| -> Vec<&str> {
        let from = text.lines().skip_while(|line| !line.starts_with(title)).skip(1);
        from.take_while(|line| !line.is_empty())
            .map(|line| line.split(' ').next().unwrap())
            .collect()
    };
    assert_eq!(
        list("only before  "),
        ["/opt/a/lib", "/opt/a/lib/libz.so.1", "/opt/b/lib/libz.so.1"]
    );
    assert_eq!(list("only after  "), ["/etc/new"]);
    assert_eq!(list("in both  "), ["/usr/share/emacs/29.1/lisp"]);
}

#[test]
fn of_two_real_runs_the_one_file_more_is_the_one_path_more() {
    let directory = tempfile::tempdir().unwrap();
    let record = |name: &str, files: &[&str]| {
        let arguments = [&["record", "-o", name, "--", "/bin/cat"], files].concat();
        let done = command(arguments).env_clear().current_dir(directory.path()).output().unwrap();
        assert!(done.status.success(), "{}", stderr(&done));
    };
    std::fs::write(directory.path().join("one"), "").unwrap();
    std::fs::write(directory.path().join("two"), "").unwrap();
    record("a.becalm", &["one"]);
    record("b.becalm", &["one", "two", "one"]);
    let compare = command(["diff", "a.becalm", "b.becalm", "--paths", "--json"])
        .current_dir(directory.path())
        .output()
        .unwrap();
    quiet_success(&compare);
    let path = |name: &str, before: u64, after: u64| {
        let path = directory.path().canonicalize().unwrap().join(name);
        serde_json::json!([{ "path": path, "before": before, "after": after }])
    };
    let answer = json(&compare);
    assert_eq!(answer["only_before"], serde_json::json!([]));
    assert_eq!(answer["only_after"], path("two", 0, 1));
    assert_eq!(answer["differ"], path("one", 1, 2));
    assert!(answer["same"].as_u64() >= Some(3));
}

#[test]
fn less_is_green_and_more_is_red_on_a_terminal_only() {
    let directory = tempfile::tempdir().unwrap();
    emacs_recording(directory.path());
    calmed_recording(directory.path());
    let shown = on_a_terminal(80, directory.path(), "diff emacs.becalm after.becalm");
    assert!(shown.contains("\x1b[32m-3\x1b[0m"), "{shown:?}");
    assert!(shown.contains("\x1b[31m+2\x1b[0m"), "{shown:?}");
    assert!(!diff(80, &[]).contains('\x1b'));
    let refused = on_a_terminal(80, directory.path(), "diff emacs.becalm after.becalm | cat");
    assert!(!refused.contains('\x1b'), "{refused:?}");
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for columns in [80, 40] {
        for options in
            [&["--by", "prefix"][..], &["--by", "cause"], &["--by", "library"], &["--paths"]]
        {
            for line in diff(columns, options).lines().filter(|line| !line.starts_with("Next: ")) {
                let width = term::width::of(line);
                assert!(width <= columns, "{options:?} in {columns}: {width} in {line:?}");
            }
        }
    }
}

#[test]
fn the_same_recording_twice_has_no_change() {
    let directory = tempfile::tempdir().unwrap();
    let file = emacs_recording(directory.path());
    let text = quiet_success(&becalm(["diff".as_ref(), file.as_os_str(), file.as_os_str()]));
    assert!(text.starts_with("As many metadata operations as before: 9\n"), "{text}");
    let rows: Vec<_> = text.lines().filter(|line| line.ends_with('%')).skip(1).collect();
    assert!(rows.len() == 3 && rows.iter().all(|row| row.ends_with(" 0       0 %")), "{text}");
}

#[test]
fn a_recording_of_all_calls_is_compared_over_the_calls_that_both_hold() {
    let directory = tempfile::tempdir().unwrap();
    let few = emacs_recording(directory.path());
    let all = directory.path().join("all.becalm");
    let header = recording::Header { all_syscalls: true, ..Default::default() };
    let mut sample = Sample::with_header(&all, "/usr/bin/emacs", vec!["emacs".into()], &header);
    emacs(&mut sample);
    sample.call("brk", b"", FOUND);
    sample.end();
    let output =
        becalm(["diff", few.to_str().unwrap(), all.to_str().unwrap(), "--by", "syscall", "--json"]);
    let answer = json(&output);
    assert_eq!(answer["default_set"], true);
    assert_eq!(answer["total"]["after"]["calls"], 10);
    assert!(answer["rows"].as_array().unwrap().iter().all(|row| row["key"] != "brk"));
}

#[test]
fn each_recording_that_is_not_whole_is_said_to_be() {
    let directory = tempfile::tempdir().unwrap();
    let whole = emacs_recording(directory.path());
    let cut = directory.path().join("cut.becalm");
    let mut sample = Sample::new(&cut, "/usr/bin/emacs", &["emacs"]);
    emacs(&mut sample);
    sample.cut();
    let output = becalm(["diff", whole.to_str().unwrap(), cut.to_str().unwrap(), "--json"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(stderr(&output).lines().count(), 1);
    assert!(stderr(&output).contains("cut.becalm: the recording is cut ("), "{}", stderr(&output));
    assert_eq!(json(&output)["before"]["whole"], true);
    assert_eq!(json(&output)["after"]["whole"], false);
}

#[test]
fn one_unreadable_recording_is_named_and_nothing_is_compared() {
    let directory = tempfile::tempdir().unwrap();
    let file = emacs_recording(directory.path());
    let said = failure(&becalm(["diff", file.to_str().unwrap(), "/none.becalm"]));
    assert!(said.starts_with("becalm: /none.becalm: No such file"), "{said}");
    assert_eq!(becalm(["diff", file.to_str().unwrap()]).status.code(), Some(2));
}

#[test]
fn both_forms_of_json_are_as_their_schema_says() {
    let value = |options: &[&str]| testkit::answer::parse(diff(80, options));
    for by in ["cause", "prefix", "process", "syscall", "library"] {
        assert_eq!(value(&["--json", "--by", by])["by"], by);
    }
    assert!(value(&["--json", "--paths"])["only_before"].is_array());
}

#[test]
fn the_schemas_example_is_what_becalm_says() {
    let said: serde_json::Value = serde_json::from_str(&diff(80, &["--json"])).unwrap();
    assert_eq!(testkit::answer::example("becalm.diff.md"), said);
}
