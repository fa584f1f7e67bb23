//! Rules about the names in a tree.

use std::collections::HashMap;
use std::path::Path;

use super::finding::{AuditFinding, AuditRule};
use super::report::FindingContext;
use crate::tree::{Cookie, ModulepathTree, TreeEntry, TreeEntryKind};

/// From this many files on, a directory is crowded.
const CROWDED: u64 = 200;

/// What the names of a tree give rise to.
pub(super) fn findings(tree: &ModulepathTree, about: &FindingContext<'_>) -> Vec<AuditFinding> {
    let named = tree.entries.iter().filter_map(|entry| {
        let (rule, text, calls) = of(entry, about)?;
        Some(about.finding(rule, &tree.path(entry), text, calls))
    });
    let mut findings: Vec<AuditFinding> = named.collect();
    findings.extend(crowded(tree, about));
    findings
}

/// What is wrong with a name, in words, and the calls that every `avail` makes for it.
fn of(entry: &TreeEntry, about: &FindingContext<'_>) -> Option<(AuditRule, String, u64)> {
    Some(match &entry.kind {
        TreeEntryKind::Loop { to } if to.as_os_str().is_empty() => {
            (AuditRule::Loop, "it leads back to the modulepath".to_owned(), 1)
        }
        TreeEntryKind::Loop { to } => {
            (AuditRule::Loop, format!("it leads back to {}", to.display()), 1)
        }
        TreeEntryKind::Special => (AuditRule::Special, "no regular file".to_owned(), 2),
        TreeEntryKind::Dangling => (AuditRule::Dangling, "it leads nowhere".to_owned(), 2),
        TreeEntryKind::Unreadable { why, .. } => (AuditRule::Unreadable, why.to_string(), 2),
        TreeEntryKind::IgnoredFile | TreeEntryKind::IgnoredDirectory if !is_top_version(entry) => {
            (AuditRule::Ignored, "ignored by its name".to_owned(), 1)
        }
        TreeEntryKind::File(Cookie::Missing) if is_lua(entry) => {
            return about.reads_tcl.then(|| (AuditRule::Lua, "a modulefile of Lmod".to_owned(), 4));
        }
        TreeEntryKind::File(Cookie::Missing) if is_empty(entry) => {
            (AuditRule::Stray, "empty".to_owned(), 4)
        }
        TreeEntryKind::File(Cookie::Missing) => (AuditRule::Stray, "no magic cookie".to_owned(), 4),
        TreeEntryKind::File(Cookie::Version(asked)) if !about.takes(asked) => {
            (AuditRule::NewerCookie, format!("it asks for Modules {asked}"), 4)
        }
        _ => return None,
    })
}

/// At the top, `.version` is passed over without a call.
fn is_top_version(entry: &TreeEntry) -> bool {
    entry.name == Path::new(".version")
}

fn is_lua(entry: &TreeEntry) -> bool {
    entry.name.extension().is_some_and(|extension| extension == "lua")
}

fn is_empty(entry: &TreeEntry) -> bool {
    entry.stamp.is_some_and(|stamp| stamp.size == 0)
}

fn crowded(tree: &ModulepathTree, about: &FindingContext<'_>) -> Vec<AuditFinding> {
    let mut files: HashMap<&Path, u64> = HashMap::new();
    for entry in tree.entries.iter().filter(|entry| matches!(entry.kind, TreeEntryKind::File(_))) {
        *files.entry(entry.name.parent().unwrap_or(Path::new(""))).or_default() += 1;
    }
    let crowded = files.into_iter().filter(|(_, count)| *count >= CROWDED);
    let findings = crowded.map(|(directory, count)| {
        let path = if directory.as_os_str().is_empty() {
            tree.root.clone()
        } else {
            tree.root.join(directory)
        };
        about.finding(AuditRule::Crowded, &path, format!("{count} files"), 4 * count)
    });
    findings.collect()
}
