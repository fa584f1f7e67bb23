//! Rules about modulepaths themselves.

use std::path::Path;

use proc::FilesystemKind;

use super::finding::{AuditFinding, AuditRule};
use super::report::FindingContext;
use crate::site::ModulepathOddity;
use crate::tree::{ModulepathTree, TreeEntryKind};

/// Which network filesystem a path is on, if it is on one that is known.
pub(super) fn network(path: &Path) -> Option<&'static str> {
    FilesystemKind::of(path)?.of_other_machines()
}

/// What a modulepath gives rise to.
pub(super) fn findings(
    tree: &ModulepathTree,
    odd: Option<ModulepathOddity>,
    about: &FindingContext<'_>,
) -> Vec<AuditFinding> {
    let root = &tree.root;
    let finding = |rule, text: &str| about.finding(rule, root, text.to_owned(), 0);
    let mut findings = Vec::new();
    match odd {
        Some(ModulepathOddity::Relative) => {
            findings.push(finding(AuditRule::OddModulepath, "it depends on the working directory"));
        }
        Some(ModulepathOddity::Variable) => findings.push(finding(
            AuditRule::OddModulepath,
            "it has a variable in it, and was not walked as Modules would read it",
        )),
        None => {}
    }
    match tree.top.kind {
        TreeEntryKind::Directory { .. } => {}
        TreeEntryKind::Dangling => {
            findings.push(finding(AuditRule::MissingModulepath, "it is not there"))
        }
        TreeEntryKind::Unreadable { why, .. } => {
            findings.push(about.finding(AuditRule::Unreadable, root, why.to_string(), 1));
        }
        _ => findings.push(finding(AuditRule::NoDirectory, "it is a file")),
    }
    if let Some(filesystem) = network(root) {
        findings.push(finding(AuditRule::Network, filesystem));
    }
    if tree.is_cut {
        let text = format!("only {} names were looked at", tree.entries.len());
        findings.push(about.finding(AuditRule::TooLarge, root, text, 0));
    }
    findings
}
