//! What changed between two runs.

use recording::query::{CallFilter, GroupBy, tables};
use recording::{Recording, diff};
use testkit::made::{Made, ask};

fn run(calls: &[(&str, &str)]) -> Recording {
    let mut made = Made::new();
    let demo = made.command("/bin/demo");
    for (name, path) in calls {
        made.call(demo, ask(name, path).missing());
    }
    made.recording()
}

#[test]
fn rows_are_paired_by_key_and_the_largest_change_comes_first() {
    let many = [("openat", "/a"); 9];
    let before = run(&[&many[..], &[("access", "/b"), ("readlink", "/c")]].concat());
    let after = run(&[("access", "/b"), ("readlink", "/c"), ("stat", "/d"), ("stat", "/d")]);
    let (a, b) = tables(&before, &after, GroupBy::Syscall, &CallFilter::default());
    let rows = diff::tables(&a, &b);
    let changes: Vec<_> = rows
        .iter()
        .map(|row| (row.key.as_str(), row.before.metadata_ops, row.after.metadata_ops))
        .collect();
    let expected = [("openat", 9, 0), ("stat", 0, 2), ("access", 1, 1), ("readlink", 1, 1)];
    assert_eq!(changes, expected);
    assert_eq!(rows[1].before.key, "stat", "a row that is missing has the key all the same");
}

#[test]
fn a_run_compared_with_itself_has_not_changed() {
    let run = run(&[("openat", "/a"), ("stat", "/b")]);
    for by in GroupBy::ALL {
        let (a, b) = tables(&run, &run, by, &CallFilter::default());
        assert!(diff::tables(&a, &b).iter().all(|row| row.before == row.after), "{by}");
    }
    let paths = diff::paths(&run, &run);
    assert!(paths.only_a.is_empty() && paths.only_b.is_empty());
    assert_eq!(paths.both.len(), 2);
}

#[test]
fn paths_of_either_run_are_listed_with_how_often_they_were_asked_for() {
    let before = run(&[("openat", "/a"), ("stat", "//a/."), ("openat", "/b"), ("close", "/z")]);
    let after = run(&[("openat", "/a"), ("openat", "/c")]);
    let paths = diff::paths(&before, &after);
    let list = |counts: &[diff::PathCount]| {
        counts.iter().map(|c| (c.path.clone(), c.before, c.after)).collect::<Vec<_>>()
    };
    assert_eq!(list(&paths.only_a), [("/b".into(), 1, 0)]);
    assert_eq!(list(&paths.only_b), [("/c".into(), 0, 1)]);
    assert_eq!(list(&paths.both), [("/a".into(), 2, 1)]);
}
