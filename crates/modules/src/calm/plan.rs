//! From trees to decisions. Nothing is written, and nothing is run but what `index` reads.

use std::path::{Path, PathBuf};

use super::files::{ExistingFile, PlannedFile};
use super::upkeep::{KeptFresh, crontab_line};
use super::{CalmPart, CalmPartKind, CalmState, counts, hook_file, owner};
use crate::avail::site_refusal;
use crate::cache;
use crate::index::{IndexStore, build};
use crate::site::{Environment, ModulepathOddity, ModulesSite, User, UserError};
use crate::tidy::{Ground, TidyOptions, TidyView, Tidying, caller, whom_to_ask};
use crate::tree::ModulepathTree;

/// What to plan for.
pub struct CalmRequest<'a> {
    /// The site's Modules.
    pub site: &'a ModulesSite,
    /// The environment of whoever plans.
    pub environment: &'a Environment,
    /// The modulepaths, and what is odd about them.
    pub modulepaths: &'a [(PathBuf, Option<ModulepathOddity>)],
    /// Whose view must stay the same; nobody named: whom `tidy` asks.
    pub users: &'a [User],
    /// Files for shells ([`super::hook_files`]).
    pub hooks: Vec<PlannedFile>,
    /// Whether and how it is kept fresh.
    pub upkeep: Option<Upkeep<'a>>,
}

/// How indexes and caches are kept true.
pub struct Upkeep<'a> {
    /// The program.
    pub becalm: &'a str,
    /// Where units are written; none where there is no systemd.
    pub directory: Option<&'a Path>,
}

/// What is to be done, and what is not.
#[derive(Clone, Debug, Default)]
pub struct CalmPlan {
    /// Each part, in the order in which they are done.
    pub parts: Vec<CalmPart>,
    /// What is done in the trees.
    pub tidying: Tidying,
    /// The modulepaths that can be looked at, as whoever applies the plan sees them, and then as
    /// those do who are asked before and after.
    pub views: Vec<TidyView>,
    /// Files that are made: for shells, and for systemd.
    pub files: Vec<PlannedFile>,
    /// The calls that an `avail` makes on the trees now,
    pub calls_before: u64,
    /// and once the plan is applied.
    pub calls_after: u64,
}

impl CalmPlan {
    /// Whether nothing is to be done.
    pub fn is_empty(&self) -> bool {
        self.parts.iter().all(|part| part.state != CalmState::Planned)
    }

    /// Whether nothing keeps `avail` from walking, nor can: every cache and index is left out.
    pub fn is_hopeless(&self) -> bool {
        self.with(CalmPartKind::Cache).is_empty()
            && self.with(CalmPartKind::Index).is_empty()
            && self.is_empty()
    }

    /// The modulepaths for which a part is to be done.
    pub fn planned(&self, kind: CalmPartKind) -> Vec<PathBuf> {
        self.of(kind, &[CalmState::Planned]).collect()
    }

    /// The modulepaths that have a part, or are to.
    fn with(&self, kind: CalmPartKind) -> Vec<PathBuf> {
        self.of(kind, &[CalmState::There, CalmState::Planned]).collect()
    }

    fn of<'a>(
        &'a self,
        kind: CalmPartKind,
        states: &'a [CalmState],
    ) -> impl Iterator<Item = PathBuf> + 'a {
        let parts = self.parts.iter();
        let these = parts.filter(move |part| part.part == kind && states.contains(&part.state));
        these.map(|part| part.path.clone())
    }
}

/// Plans. This forks: call it while the process has one thread.
///
/// # Errors
/// If a user cannot be asked what he sees.
pub fn plan(request: &CalmRequest<'_>) -> Result<CalmPlan, UserError> {
    let mut planner = Planner { request, plan: CalmPlan::default(), left_alone: Vec::new() };
    let trees = planner.look()?;
    planner.tidy(&trees);
    planner.caches(&trees);
    planner.indexes(&trees);
    planner.hooks();
    planner.upkeep();
    planner.count();
    planner.plan.parts.sort_by_key(|part| part.part);
    Ok(planner.plan)
}

struct Planner<'a> {
    request: &'a CalmRequest<'a>,
    plan: CalmPlan,
    /// Modulepaths that are not ours to change, and why.
    left_alone: Vec<(PathBuf, String)>,
}

impl Planner<'_> {
    fn decide(&mut self, kind: CalmPartKind, path: &Path, state: CalmState, text: &str) {
        self.plan.parts.push(CalmPart::new(kind, path, state, text));
    }

    /// The trees of the modulepaths for which something can be planned.
    fn look(&mut self) -> Result<Vec<ModulepathTree>, UserError> {
        let mut paths = Vec::new();
        for (path, odd) in self.request.modulepaths {
            match odd {
                None => paths.push(path.clone()),
                Some(_) => self.pass_over(path, "it is no absolute path"),
            }
        }
        let own = TidyView::of(&caller()?, &paths)?;
        let mut trees = Vec::new();
        for tree in own.trees {
            match owner::unusable(&tree) {
                None => trees.push(tree),
                Some(why) => self.pass_over(&tree.root, &why),
            }
        }
        for tree in &trees {
            self.left_alone.extend(owner::not_ours(tree).map(|why| (tree.root.clone(), why)));
        }
        let users = match self.request.users {
            [] => whom_to_ask(&trees)?,
            users => users.to_vec(),
        };
        let roots: Vec<PathBuf> = trees.iter().map(|tree| tree.root.clone()).collect();
        self.plan.views.push(TidyView { user: own.user, trees: trees.clone() });
        for user in users {
            self.plan.views.push(TidyView::of(&user, &roots)?);
        }
        Ok(trees)
    }

    fn pass_over(&mut self, path: &Path, why: &str) {
        for kind in [CalmPartKind::Tidy, CalmPartKind::Cache, CalmPartKind::Index] {
            self.decide(kind, path, CalmState::LeftOut, why);
        }
    }

    fn not_ours(&self, root: &Path) -> Option<String> {
        let known = self.left_alone.iter().find(|(path, _)| path == root);
        known.map(|(_, why)| why.clone())
    }

    fn tidy(&mut self, trees: &[ModulepathTree]) {
        if trees.is_empty() {
            return;
        }
        let left_alone = self.left_alone.iter().map(|(path, _)| path.clone()).collect();
        let options = TidyOptions { left_alone, ..TidyOptions::default() };
        let ground = Ground { site: self.request.site, views: &self.plan.views };
        self.plan.tidying = crate::tidy::plan(&ground, &options);
        for tree in trees {
            let (state, text) = match self.not_ours(&tree.root) {
                Some(why) => (CalmState::LeftOut, why),
                None => tidied(&self.plan.tidying, &tree.root),
            };
            self.decide(CalmPartKind::Tidy, &tree.root, state, &text);
        }
    }

    fn caches(&mut self, trees: &[ModulepathTree]) {
        for tree in trees {
            let (state, text) = self.cache(&tree.root);
            self.decide(CalmPartKind::Cache, &tree.root, state, &text);
        }
    }

    /// A cache that is there must be true; a new one must make no `load` dearer.
    fn cache(&self, root: &Path) -> (CalmState, String) {
        let site = self.request.site;
        if !cache::reads_caches(site) {
            return (CalmState::LeftOut, format!("Modules {} reads no caches", site.release));
        }
        let checked = cache::check(root, Some(site));
        if checked.is_good() {
            return (CalmState::There, "it is true".into());
        }
        let fault = checked.faults.first().map_or(String::new(), |fault| fault.what.clone());
        let is_there = root.join(cache::NAME).symlink_metadata().is_ok();
        match (self.not_ours(root), is_there, cache::load_note(site)) {
            (Some(why), true, _) => {
                (CalmState::LeftOut, format!("it is wrong ({fault}), and {why}"))
            }
            (Some(why), false, _) => (CalmState::LeftOut, why),
            (None, true, _) if checked.wants_build() => {
                (CalmState::Planned, format!("built anew: {fault}"))
            }
            (None, true, _) => (CalmState::LeftOut, fault),
            (None, false, Some(dearer)) => (CalmState::LeftOut, dearer),
            (None, false, None) => (CalmState::Planned, "built, and checked against a walk".into()),
        }
    }

    fn indexes(&mut self, trees: &[ModulepathTree]) {
        let site_refuses = site_refusal(self.request.site);
        let store = IndexStore::of(self.request.environment);
        let cached = self.plan.planned(CalmPartKind::Cache);
        for tree in trees {
            let root = &tree.root;
            let held = store.held(root);
            let is_true = held.as_ref().is_ok_and(|held| {
                held.names(root).is_ok_and(|names| names.is_fresh(|_| true, true))
            });
            let changes = cached.contains(root)
                || self
                    .plan
                    .tidying
                    .saved_in
                    .iter()
                    .any(|(path, saved)| path == root && *saved > 0);
            let (state, text) = match &site_refuses {
                Some(why) => (CalmState::LeftOut, why.clone()),
                None if changes => (CalmState::Planned, "made once the tree is changed".into()),
                None if is_true => (CalmState::There, "it is true".into()),
                None => match build(root, self.request.site, 0) {
                    Ok(_) if held.is_ok() => {
                        (CalmState::Planned, "made anew: the tree has changed".into())
                    }
                    Ok(_) => (CalmState::Planned, "made".into()),
                    Err(why) => (CalmState::LeftOut, format!("left to Modules: {why}")),
                },
            };
            self.decide(CalmPartKind::Index, root, state, &text);
        }
    }

    fn hooks(&mut self) {
        let has_index = !self.plan.with(CalmPartKind::Index).is_empty();
        for file in &self.request.hooks {
            let (state, text) = match file.now() {
                ExistingFile::Same => {
                    (CalmState::There, "shells that evaluate it ask becalm first".into())
                }
                ExistingFile::Another => {
                    (CalmState::LeftOut, "there is a file that is not becalm's".into())
                }
                ExistingFile::Ours if !has_index => {
                    (CalmState::LeftOut, "no modulepath has an index to ask".into())
                }
                ExistingFile::Ours => (CalmState::Planned, hook_file::evaluated(&file.path)),
            };
            if state == CalmState::Planned {
                self.plan.files.push(file.clone());
            }
            self.decide(CalmPartKind::Hook, &file.path, state, &text);
        }
    }

    fn upkeep(&mut self) {
        let Some(upkeep) = &self.request.upkeep else { return };
        let cached = self.plan.with(CalmPartKind::Cache);
        let mut indexed = self.plan.with(CalmPartKind::Index);
        indexed.retain(|path| !cached.contains(path));
        let CalmRequest { site, environment, .. } = *self.request;
        let kept = KeptFresh { becalm: upkeep.becalm, site, environment, cached, indexed };
        let commands = kept.commands();
        let place = upkeep.directory.unwrap_or(Path::new("crontab"));
        let left_out = |why: String| (CalmState::LeftOut, why);
        let (state, text) = match upkeep.directory {
            _ if commands.is_empty() => left_out("no modulepath has a cache or an index".into()),
            None => {
                left_out(format!("no systemd here; for a crontab: {}", crontab_line(&commands)))
            }
            Some(directory) => match kept.units(directory) {
                Err(why) => left_out(why),
                Ok(units) => self.units(&units),
            },
        };
        self.decide(CalmPartKind::Upkeep, place, state, &text);
    }

    fn units(&mut self, units: &[PlannedFile]) -> (CalmState, String) {
        let now: Vec<ExistingFile> = units.iter().map(PlannedFile::now).collect();
        if now.iter().any(|now| matches!(now, ExistingFile::Another)) {
            return (CalmState::LeftOut, "there is a unit that is not becalm's".into());
        }
        let missing = units.iter().zip(&now).filter(|(_, now)| !matches!(now, ExistingFile::Same));
        let missing: Vec<PlannedFile> = missing.map(|(unit, _)| unit.clone()).collect();
        if missing.is_empty() {
            return (CalmState::There, "its units are there".into());
        }
        self.plan.files.extend(missing);
        (CalmState::Planned, "a timer of every ten minutes, which you enable".into())
    }

    /// As the last of the users sees the trees: for root, nobody, whom commands are run as.
    fn count(&mut self) {
        let site = self.request.site;
        let trees = self.plan.views.last().map(|view| view.trees.clone()).unwrap_or_default();
        for tree in &trees {
            let part = self
                .plan
                .parts
                .iter()
                .find(|part| part.part == CalmPartKind::Index && part.path == tree.root);
            let state = part.map(|part| part.state);
            let is_asked =
                !self.plan.parts.iter().any(|part| {
                    part.part == CalmPartKind::Hook && part.state == CalmState::Planned
                });
            let tidying = &self.plan.tidying;
            let before = match state {
                Some(CalmState::There) if is_asked => counts::indexed(tree),
                _ => counts::walked(tree, site),
            };
            let after = match state {
                Some(CalmState::There | CalmState::Planned) => {
                    counts::indexed_and_tidied(tree, tidying)
                }
                _ => counts::walked_and_tidied(tree, site, tidying),
            };
            self.plan.calls_before += before;
            self.plan.calls_after += after;
        }
    }
}

/// What is tidied in a modulepath, or why nothing is.
fn tidied(tidying: &Tidying, root: &Path) -> (CalmState, String) {
    let merged = tidying.merged.iter().filter(|one| one.path.starts_with(root)).count() as u64;
    let moved = tidying.moved.iter().filter(|one| one.from.starts_with(root)).count() as u64;
    let mut kept = tidying.kept.iter().filter(|one| one.path.starts_with(root));
    let reason = match tidying.saved_in.is_empty() {
        // Nothing was planned for any of them.
        true => tidying.kept.first(),
        false => kept.clone().next(),
    };
    let stay = kept.by_ref().count() as u64;
    let counted = term::number::counted;
    let stays = reason.map(|one| {
        // It is an option of that verb.
        let why = one.reason.replace("--slower-load", "becalm modules tidy --slower-load");
        format!("{} as before: {why}", counted(stay.max(1), "file stays", "files stay"))
    });
    if merged + moved == 0 {
        return match stays {
            Some(text) => (CalmState::LeftOut, text),
            None => (CalmState::There, "nothing to tidy".into()),
        };
    }
    let saved =
        tidying.saved_in.iter().find(|(path, _)| path == root).map_or(0, |(_, saved)| *saved);
    let parts = [
        (merged > 0).then(|| format!("{} merged", counted(merged, "rc file", "rc files"))),
        (moved > 0).then(|| format!("{} moved out", counted(moved, "stray", "strays"))),
    ];
    let done: Vec<String> = parts.into_iter().flatten().collect();
    let stays = stays.map(|text| format!("; {text}")).unwrap_or_default();
    let calls = counted(saved, "call", "calls");
    (CalmState::Planned, format!("{}: {calls} less{stays}", done.join(", ")))
}
