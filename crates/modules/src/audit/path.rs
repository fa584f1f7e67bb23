//! Rules about modulepaths themselves.

use std::path::Path;

use super::finding::{AuditFinding, AuditRule};
use super::report::FindingContext;
use crate::site::ModulepathOddity;
use crate::tree::{ModulepathTree, TreeEntryKind};

/// Filesystems that are served over a network, by their numbers (statfs(2), linux/magic.h and
/// the filesystems' own sources).
const NETWORK: &[(u32, &str)] = &[
    (0x6969, "NFS"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x1983_0326, "BeeGFS"),
    (0x00c3_6400, "Ceph"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0xaad7_aaea, "PanFS"),
    (0x0102_1997, "9p"),
    (0x7461_636f, "OCFS2"),
    (0x0116_1970, "GFS2"),
];

/// Which network filesystem a path is on, if it is on one that is known.
pub(super) fn network(path: &Path) -> Option<&'static str> {
    let number = rustix::fs::statfs(path).ok()?.f_type as u32;
    NETWORK.iter().find(|(known, _)| *known == number).map(|(_, name)| *name)
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
