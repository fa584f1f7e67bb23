//! Rules about a modulepath's `.modulecache`: what `becalm modules cache check` says of it.

use super::finding::{AuditFinding, Rule};
use super::report::About;
use crate::cache::{self, Fault};
use crate::site::Site;
use crate::tree::{Kind, Tree};

/// What a modulepath's cache gives rise to.
pub(super) fn findings(tree: &Tree, site: Option<&Site>, about: &About<'_>) -> Vec<AuditFinding> {
    if !tree.entries.iter().any(|entry| entry.kind == Kind::Cache) {
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

fn rule(kind: cache::Kind) -> Option<Rule> {
    Some(match kind {
        cache::Kind::Hostile | cache::Kind::Untrusted => Rule::UntrustedCache,
        cache::Kind::Disclosing => Rule::DisclosingCache,
        cache::Kind::Partial => Rule::BrokenCache,
        cache::Kind::Stale => Rule::StaleCache,
        cache::Kind::ForeignVersion => Rule::ForeignCache,
        cache::Kind::Unused | cache::Kind::Unchecked => Rule::UnusedCache,
        cache::Kind::Absent => return None,
    })
}
