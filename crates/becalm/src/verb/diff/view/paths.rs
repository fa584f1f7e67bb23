//! `becalm diff --paths`: which paths either run asked for.

use recording::diff::{self, PathCount};
use schemars::JsonSchema;
use serde::Serialize;
use term::number::{count, counted};
use term::{Column, Table, style};

use super::{NamedRecording, cells, heading, side_by_side};
use crate::recording_head::RecordingHead;

/// What `becalm diff --paths` answers: as JSON, docs/schema/becalm.diff.md; as text,
/// [`PathsDiff::render`]. Numbers are metadata operations that named the path.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PathsDiff {
    /// `becalm.diff/1`.
    pub schema: &'static str,
    /// The first recording.
    pub before: RecordingHead,
    /// The second.
    pub after: RecordingHead,
    /// Paths that only the first asked for, the most asked for first.
    pub only_before: Vec<PathCount>,
    /// Paths that only the second asked for, the most asked for first.
    pub only_after: Vec<PathCount>,
    /// Paths that both asked for, a different number of times; the largest difference first.
    pub differ: Vec<PathCount>,
    /// How many paths both asked for equally often.
    pub same: u64,
}

impl PathsDiff {
    /// Compares the paths of two recordings.
    pub fn of(before: NamedRecording, after: NamedRecording) -> PathsDiff {
        let paths = diff::paths(before.1, after.1);
        let both = paths.both.len();
        let differ: Vec<_> =
            paths.both.into_iter().filter(|path| path.before != path.after).collect();
        PathsDiff {
            schema: "becalm.diff/1",
            before: RecordingHead::of(before.0, before.1),
            after: RecordingHead::of(after.0, after.1),
            same: (both - differ.len()) as u64,
            only_before: largest_first(paths.only_a),
            only_after: largest_first(paths.only_b),
            differ: largest_first(differ),
        }
    }

    /// The comparison as a person reads it, at most `columns` columns wide, with at most `rows`
    /// paths in each of its three lists.
    pub fn render(&self, columns: usize, rows: usize) -> String {
        let headline = format!(
            "{} asked for only before, {} only after; {} in both a different number of times, \
             {} equally often",
            counted(self.only_before.len() as u64, "path", "paths"),
            count(self.only_after.len() as u64),
            count(self.differ.len() as u64),
            count(self.same),
        );
        let mut text = heading(&headline, &self.before, &self.after, columns);
        let lists = [
            (!self.only_before.is_empty()).then(|| only("only before", &self.only_before, rows)),
            (!self.only_after.is_empty()).then(|| only("only after", &self.only_after, rows)),
            (!self.differ.is_empty()).then(|| both("in both", &self.differ, rows)),
        ];
        for list in lists.into_iter().flatten() {
            text.push('\n');
            text.push_str(&list.render(columns));
        }
        text.push('\n');
        if self.lists().any(|list| list.len() > rows) {
            text.push_str("Add --all for every path.\n");
        }
        let files = format!("{} {}", self.before.quoted_file(), self.after.quoted_file());
        text.push_str(&style::next(&format!("becalm diff {files} --by prefix")));
        text
    }

    fn lists(&self) -> impl Iterator<Item = &[PathCount]> {
        [&self.only_before[..], &self.only_after, &self.differ].into_iter()
    }
}

/// Paths of one side.
fn only(title: &str, paths: &[PathCount], rows: usize) -> Table {
    let mut table = Table::new([Column::path(title), Column::number("operations")]);
    for (name, before, after) in shown(paths, rows) {
        table.row([name, count(before + after)]);
    }
    table
}

/// Paths of both sides.
fn both(title: &str, paths: &[PathCount], rows: usize) -> Table {
    let mut table = side_by_side(title);
    for (name, before, after) in shown(paths, rows) {
        table.row(cells(&name, before, after));
    }
    table
}

/// The first `rows` paths, and the rest of them as one, each with its two numbers.
fn shown(paths: &[PathCount], rows: usize) -> Vec<(String, u64, u64)> {
    let (first, rest) = paths.split_at(rows.min(paths.len()));
    let mut shown: Vec<_> =
        first.iter().map(|path| (path.path.clone(), path.before, path.after)).collect();
    if !rest.is_empty() {
        let sum = |of: fn(&PathCount) -> u64| rest.iter().map(of).sum();
        let name = format!("({} more)", count(rest.len() as u64));
        shown.push((name, sum(|path| path.before), sum(|path| path.after)));
    }
    shown
}

/// Stable: paths that changed as much stay in order of their names.
fn largest_first(mut paths: Vec<PathCount>) -> Vec<PathCount> {
    paths.sort_by_key(|path| std::cmp::Reverse(path.before.abs_diff(path.after)));
    paths
}
