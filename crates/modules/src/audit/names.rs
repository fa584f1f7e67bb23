//! Rules about the names in a tree.

use std::collections::HashMap;
use std::path::Path;

use super::finding::{AuditFinding, Rule};
use super::report::About;
use crate::tree::{Cookie, Entry, Kind, Tree};

/// From this many files on, a directory is crowded.
const CROWDED: u64 = 200;

/// What the names of a tree give rise to.
pub(super) fn findings(tree: &Tree, about: &About<'_>) -> Vec<AuditFinding> {
    let named = tree.entries.iter().filter_map(|entry| {
        let (rule, text, calls) = of(entry, about)?;
        Some(about.finding(rule, &tree.path(entry), text, calls))
    });
    let mut findings: Vec<AuditFinding> = named.collect();
    findings.extend(crowded(tree, about));
    findings
}

/// What is wrong with a name, in words, and the calls that every `avail` makes for it.
fn of(entry: &Entry, about: &About<'_>) -> Option<(Rule, String, u64)> {
    Some(match &entry.kind {
        Kind::Loop { to } if to.as_os_str().is_empty() => {
            (Rule::Loop, "it leads back to the modulepath".to_owned(), 1)
        }
        Kind::Loop { to } => (Rule::Loop, format!("it leads back to {}", to.display()), 1),
        Kind::Special => (Rule::Special, "no regular file".to_owned(), 2),
        Kind::Dangling => (Rule::Dangling, "it leads nowhere".to_owned(), 2),
        Kind::Unreadable { why, .. } => (Rule::Unreadable, why.to_string(), 2),
        Kind::IgnoredFile | Kind::IgnoredDirectory if !is_top_version(entry) => {
            (Rule::Ignored, "ignored by its name".to_owned(), 1)
        }
        Kind::File(Cookie::Missing) if is_lua(entry) => {
            return about.reads_tcl.then(|| (Rule::Lua, "a modulefile of Lmod".to_owned(), 4));
        }
        Kind::File(Cookie::Missing) if is_empty(entry) => (Rule::Stray, "empty".to_owned(), 4),
        Kind::File(Cookie::Missing) => (Rule::Stray, "no magic cookie".to_owned(), 4),
        Kind::File(Cookie::Version(asked)) if !about.takes(asked) => {
            (Rule::NewerCookie, format!("it asks for Modules {asked}"), 4)
        }
        _ => return None,
    })
}

/// At the top, `.version` is passed over without a call.
fn is_top_version(entry: &Entry) -> bool {
    entry.name == Path::new(".version")
}

fn is_lua(entry: &Entry) -> bool {
    entry.name.extension().is_some_and(|extension| extension == "lua")
}

fn is_empty(entry: &Entry) -> bool {
    entry.stamp.is_some_and(|stamp| stamp.size == 0)
}

fn crowded(tree: &Tree, about: &About<'_>) -> Vec<AuditFinding> {
    let mut files: HashMap<&Path, u64> = HashMap::new();
    for entry in tree.entries.iter().filter(|entry| matches!(entry.kind, Kind::File(_))) {
        *files.entry(entry.name.parent().unwrap_or(Path::new(""))).or_default() += 1;
    }
    let crowded = files.into_iter().filter(|(_, count)| *count >= CROWDED);
    let findings = crowded.map(|(directory, count)| {
        let path = if directory.as_os_str().is_empty() {
            tree.root.clone()
        } else {
            tree.root.join(directory)
        };
        about.finding(Rule::Crowded, &path, format!("{count} files"), 4 * count)
    });
    findings.collect()
}
