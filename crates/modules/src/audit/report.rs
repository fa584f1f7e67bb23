//! All of it as a value.

use std::collections::BTreeMap;
use std::path;

use recording::Name;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    AuditFinding, AuditRule, Census, CommandPrediction, Level, Measured, ModuleCommand, Timeout,
    UserView,
};
use super::{cache, measure, names, path as modulepaths, predict, rc};
use crate::site::{ModulepathOddity, ModulesSite, Release};
use crate::tree::{ModulepathTree, TreeEntryKind};

/// How many findings of one rule are kept; all are counted.
const KEPT: usize = 1000;

/// What to look at, and how.
pub struct AuditRequest<'a> {
    /// The modulepaths, and what is odd about them.
    pub modulepaths: &'a [(path::PathBuf, Option<ModulepathOddity>)],
    /// The site's Modules, if it has one.
    pub site: Option<&'a ModulesSite>,
    /// Whether trees are read by Lmod only: then files of Lua are no strays.
    pub is_lmod: bool,
    /// The name to load; without one, the first of the directory with the most files.
    pub load: Option<String>,
    /// How long a real command may take; none runs no command.
    pub timeout: Option<Timeout>,
}

/// What was found.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Audit {
    /// The release of the site's Modules.
    pub release: Option<String>,
    /// Its `modulecmd.tcl`.
    pub command: Option<Name>,
    /// The modulepaths.
    pub modulepaths: Vec<AuditedModulepath>,
    /// What commands cost, for each user.
    pub costs: Vec<CommandCost>,
    /// How often each rule was met, those with the most calls first.
    pub rules: Vec<RuleSum>,
    /// What was found, at most 1,000 of each rule.
    pub findings: Vec<AuditFinding>,
}

/// A modulepath.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AuditedModulepath {
    /// Where.
    pub path: Name,
    /// The network filesystem that it is on, if it is on one that is known.
    pub network: Option<String>,
    /// Whether it has a `.modulecache`.
    pub has_cache: bool,
    /// What is in it.
    pub census: Census,
}

/// What a command costs a user.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CommandCost {
    /// As it is typed: `module avail`.
    pub command: String,
    /// Who.
    pub user: String,
    /// By the model, without a cache; none without a Modules.
    pub predicted: Option<CommandPrediction>,
    /// By the real command.
    pub measured: Option<Measured>,
    /// Why it was not run, where it was to be.
    pub not_measured: Option<String>,
}

/// How often a rule was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RuleSum {
    /// Which.
    pub rule: AuditRule,
    /// How bad it is.
    pub level: Level,
    /// How often.
    pub count: u64,
    /// The calls of an `avail` that are made for them.
    pub calls: u64,
}

/// What a finding has to know of its surroundings.
pub(super) struct FindingContext<'a> {
    modulepath: Name,
    release: Option<&'a Release>,
    /// Whether an Environment Modules reads the tree.
    pub(super) reads_tcl: bool,
    user: Option<String>,
}

impl FindingContext<'_> {
    /// Whether the site's Modules takes a file with that cookie.
    pub(super) fn takes(&self, asked: &str) -> bool {
        self.release.is_none_or(|release| !release.is_older_than(asked))
    }

    pub(super) fn finding(
        &self,
        rule: AuditRule,
        path: &path::Path,
        text: String,
        calls: u64,
    ) -> AuditFinding {
        AuditFinding {
            rule,
            level: rule.level(),
            modulepath: self.modulepath.clone(),
            path: Name::of(path),
            line: None,
            text,
            calls,
            users: self.user.iter().cloned().collect(),
        }
    }
}

/// Audits modulepaths as several users see them. What all see alike is found in the first view;
/// what else is unreadable is found in each. Tells how many of how many commands have been run.
///
/// Real commands are run if a timeout is given: this then forks, so call it while the process has
/// one thread.
pub fn audit(views: &[UserView], wanted: &AuditRequest<'_>, progress: &dyn Fn(u64, u64)) -> Audit {
    let mut findings = Vec::new();
    for (at, (path, odd)) in wanted.modulepaths.iter().enumerate() {
        let mut about = FindingContext {
            modulepath: Name::of(path),
            release: wanted.site.map(|site| &site.release),
            reads_tcl: !wanted.is_lmod,
            user: None,
        };
        if let Some(tree) = views.first().and_then(|view| view.trees.get(at)) {
            findings.extend(of_tree(tree, *odd, wanted, &about));
        }
        for view in views.iter().skip(1) {
            about.user = Some(view.name.clone());
            let Some(tree) = view.trees.get(at) else { continue };
            findings.extend(unreadable(tree, &about));
        }
    }
    let findings = merged(findings);
    Audit {
        release: wanted.site.map(|site| site.release.text().to_owned()),
        command: wanted.site.map(|site| Name::of(&site.command)),
        modulepaths: paths(views, wanted),
        costs: costs(views, wanted, progress),
        rules: sums(&findings),
        findings: kept(findings),
    }
}

fn of_tree(
    tree: &ModulepathTree,
    odd: Option<ModulepathOddity>,
    wanted: &AuditRequest<'_>,
    about: &FindingContext<'_>,
) -> Vec<AuditFinding> {
    let mut findings = modulepaths::findings(tree, odd, about);
    findings.extend(names::findings(tree, about));
    if about.reads_tcl {
        findings.extend(rc::findings(tree, about));
        findings.extend(cache::findings(tree, wanted.site, about));
    }
    findings
}

fn unreadable(tree: &ModulepathTree, about: &FindingContext<'_>) -> Vec<AuditFinding> {
    let findings = tree.unreadable().map(|(entry, why)| {
        about.finding(AuditRule::Unreadable, &tree.path(entry), why.to_string(), 2)
    });
    findings.collect()
}

/// The same thing for several users is one finding.
fn merged(findings: Vec<AuditFinding>) -> Vec<AuditFinding> {
    let mut merged: Vec<AuditFinding> = Vec::with_capacity(findings.len());
    let mut places: BTreeMap<(AuditRule, Name, String), usize> = BTreeMap::new();
    for finding in findings {
        let place = (finding.rule, finding.path.clone(), finding.text.clone());
        match places.get(&place) {
            Some(at) => {
                let known = &mut merged[*at];
                let everyone = known.users.is_empty();
                known.users.extend(finding.users.into_iter().filter(|_| !everyone));
            }
            None => {
                places.insert(place, merged.len());
                merged.push(finding);
            }
        }
    }
    merged
}

fn sums(findings: &[AuditFinding]) -> Vec<RuleSum> {
    let mut sums: BTreeMap<AuditRule, RuleSum> = BTreeMap::new();
    for finding in findings {
        let RuleSum { count, calls, .. } = sums.entry(finding.rule).or_insert(RuleSum {
            rule: finding.rule,
            level: finding.level,
            count: 0,
            calls: 0,
        });
        *count += 1;
        *calls += finding.calls;
    }
    let mut sums: Vec<RuleSum> = sums.into_values().collect();
    sums.sort_by_key(|sum| (std::cmp::Reverse((sum.level, sum.calls, sum.count)), sum.rule));
    sums
}

fn kept(mut findings: Vec<AuditFinding>) -> Vec<AuditFinding> {
    findings.sort_by(|a, b| {
        b.level
            .cmp(&a.level)
            .then(a.rule.cmp(&b.rule))
            .then(b.calls.cmp(&a.calls))
            .then(a.path.cmp(&b.path))
    });
    let mut counts: BTreeMap<AuditRule, usize> = BTreeMap::new();
    findings.retain(|finding| {
        let count = counts.entry(finding.rule).or_default();
        *count += 1;
        *count <= KEPT
    });
    findings
}

fn paths(views: &[UserView], wanted: &AuditRequest<'_>) -> Vec<AuditedModulepath> {
    let trees = views.first().map_or(&[][..], |view| &view.trees);
    let paths = trees.iter().map(|tree| AuditedModulepath {
        path: Name::of(&tree.root),
        network: modulepaths::network(&tree.root).map(str::to_owned),
        has_cache: tree.entries.iter().any(|entry| entry.kind == TreeEntryKind::Cache),
        census: Census::of(tree, wanted.site.map(|site| &site.release)),
    });
    paths.collect()
}

/// What each command costs each user who is asked for. Where root looks for others, it is not one
/// of them.
fn costs(
    views: &[UserView],
    wanted: &AuditRequest<'_>,
    progress: &dyn Fn(u64, u64),
) -> Vec<CommandCost> {
    let Some(site) = wanted.site else { return Vec::new() };
    let views = if views.len() > 1 { &views[1..] } else { views };
    let mut costs = Vec::new();
    for view in views {
        let trees: Vec<&ModulepathTree> = view.trees.iter().collect();
        let load = wanted.load.clone().or_else(|| crowded_module(&trees));
        let asks = [
            Some(ModuleCommand::Avail),
            load.map(ModuleCommand::Load),
            Some(ModuleCommand::Whatis),
        ];
        for ask in asks.into_iter().flatten() {
            progress(costs.len() as u64, 3 * views.len() as u64);
            costs.push(cost(&ask, view, &trees, site, wanted));
        }
    }
    costs
}

fn cost(
    ask: &ModuleCommand,
    view: &UserView,
    trees: &[&ModulepathTree],
    site: &ModulesSite,
    wanted: &AuditRequest<'_>,
) -> CommandCost {
    let predicted = predict(ask, trees, site);
    let (measured, not_measured) = match wanted.timeout {
        None => (None, None),
        Some(_) if predicted.hangs => (None, Some("it would wait for a FIFO for ever".to_owned())),
        Some(timeout) => {
            let roots: Vec<_> = trees.iter().map(|tree| tree.root.as_path()).collect();
            match measure(ask, &roots, site, view.user.as_ref(), timeout) {
                Ok(measured) => (Some(measured), None),
                Err(why) => (None, Some(why)),
            }
        }
    };
    CommandCost {
        command: format!("module {}", ask.words().join(" ")),
        user: view.name.clone(),
        predicted: Some(predicted),
        measured,
        not_measured,
    }
}

/// The module with the most files in one directory: to load it is what costs most.
pub fn crowded_module(trees: &[&ModulepathTree]) -> Option<String> {
    let mut files: BTreeMap<&str, u64> = BTreeMap::new();
    let all = trees.iter().flat_map(|tree| &tree.entries);
    for entry in
        all.filter(|entry| matches!(entry.kind, TreeEntryKind::File(_)) && !entry.is_dotted())
    {
        let mut parts = entry.name.iter();
        if let (Some(first), Some(_)) = (parts.next().and_then(|part| part.to_str()), parts.next())
        {
            *files.entry(first).or_default() += 1;
        }
    }
    files
        .into_iter()
        .max_by_key(|(name, count)| (*count, std::cmp::Reverse(*name)))
        .map(|(name, _)| name.to_owned())
}

impl Audit {
    /// Whether something is wrong: a finding that is more than a note.
    pub fn is_wrong(&self) -> bool {
        self.rules.iter().any(|sum| sum.level > Level::Note)
    }
}
