//! Rules about a modulepath's `.modulecache`: what `becalm modules cache check` says of it.

use super::finding::{AuditFinding, AuditRule};
use super::report::FindingContext;
use crate::cache::{self, Fault};
use crate::site::ModulesSite;
use crate::tree::{ModulepathTree, TreeEntryKind};

/// What a modulepath's cache gives rise to.
pub(super) fn findings(
    tree: &ModulepathTree,
    site: Option<&ModulesSite>,
    about: &FindingContext<'_>,
) -> Vec<AuditFinding> {
    if !tree.entries.iter().any(|entry| entry.kind == TreeEntryKind::Cache) {
        return Vec::new();
    }
    let checked = cache::check(&tree.root, site);
    let finding = |fault: &Fault| {
        let rule = rule(fault.kind)?;
        let text = match &fault.name {
            Some(name) => format!("{name}: {}", fault.what),
            None => fault.what.clone(),
        };
        Some(about.finding(rule, &checked.cache, text, 0))
    };
    checked.faults.iter().filter_map(finding).collect()
}

fn rule(kind: cache::FaultKind) -> Option<AuditRule> {
    Some(match kind {
        cache::FaultKind::Hostile | cache::FaultKind::Untrusted => AuditRule::UntrustedCache,
        cache::FaultKind::Disclosing => AuditRule::DisclosingCache,
        cache::FaultKind::Partial => AuditRule::BrokenCache,
        cache::FaultKind::Stale => AuditRule::StaleCache,
        cache::FaultKind::ForeignVersion => AuditRule::ForeignCache,
        cache::FaultKind::Unused | cache::FaultKind::Unchecked => AuditRule::UnusedCache,
        cache::FaultKind::Absent => return None,
    })
}
