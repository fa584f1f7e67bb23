//! The steps of Modules' cookbook 'Reduce I/O load', in its order, and becalm's own.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;

use super::StatusGround;
use crate::audit::{ModuleCommand, predict};
use crate::cache;
use crate::calm::{CalmPartKind, CalmState};
use crate::tidy::{Ground, TidyOptions, TidySubject, Tidying, plan};
use crate::tree::{ChangeStamp, Cookie, ModulepathTree, Rc, TreeEntry, TreeEntryKind};

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum IoStep {
    /// The library in C that Modules does its I/O with.
    ExtensionLibrary,
    /// rc files merged into one at each modulepath's root.
    MergedRcFiles,
    /// `mcookie_check` set to `eval`.
    NoCookieChecks,
    /// Modulepaths of virtual modules.
    VirtualModules,
    /// Modules' own cache.
    Cache,
    /// becalm's index.
    Index,
}

impl IoStep {
    /// In a few words.
    pub fn words(self) -> &'static str {
        match self {
            IoStep::ExtensionLibrary => "1 extension library",
            IoStep::MergedRcFiles => "2 rc files merged",
            IoStep::NoCookieChecks => "3 mcookie_check eval",
            IoStep::VirtualModules => "4 virtual modules",
            IoStep::Cache => "5 cache",
            IoStep::Index => "becalm's index",
        }
    }
}

/// What is to be said of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepState {
    /// It is done.
    Done,
    /// It would help.
    Helps,
    /// It would not help, or would take more than it gives, or cannot be done here.
    LeftOut,
}

/// A step, here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StepStatus {
    /// Which.
    pub step: IoStep,
    /// What is to be said of it.
    pub state: StepState,
    /// The calls on the trees that one `avail` makes once it is done, and nothing else besides; none
    /// where that is not known.
    pub avail_calls: Option<u64>,
    /// Why, where there is something to say.
    pub why: Option<String>,
}

pub(super) fn all(ground: &StatusGround<'_>) -> Vec<StepStatus> {
    let Some(view) = ground.plan.views.last().filter(|view| !view.trees.is_empty()) else {
        return Vec::new();
    };
    let stepper = Stepper {
        ground,
        trees: &view.trees,
        now: walked(ground, &view.trees.iter().collect::<Vec<_>>()),
    };
    vec![
        stepper.library(),
        stepper.merged(),
        stepper.unchecked(),
        stepper.virtually(),
        stepper.cached(),
        stepper.indexed(),
    ]
}

fn walked(ground: &StatusGround<'_>, trees: &[&ModulepathTree]) -> u64 {
    predict(&ModuleCommand::Avail, trees, ground.site).calls.all()
}

struct Stepper<'a> {
    ground: &'a StatusGround<'a>,
    trees: &'a [ModulepathTree],
    /// The calls that `avail` makes on the trees as they are, without cache and index.
    now: u64,
}

impl Stepper<'_> {
    fn step(
        step: IoStep,
        state: StepState,
        avail_calls: Option<u64>,
        why: Option<String>,
    ) -> StepStatus {
        StepStatus { step, state, avail_calls, why }
    }

    fn planned(&self, options: &TidyOptions) -> Tidying {
        let ground = Ground { site: self.ground.site, views: &self.ground.plan.views };
        plan(&ground, options)
    }

    /// Without it, each name is looked at with Tcl's own means: what is measured is more than the
    /// model says.
    fn library(&self) -> StepStatus {
        let library = self.ground.site.extension_library();
        let (state, why) = match library {
            Some(library) if library.is_file() => (StepState::Done, None),
            Some(library) => {
                let why = format!("{} is not there: install it with Modules", library.display());
                (StepState::Helps, Some(why))
            }
            None => (StepState::LeftOut, Some("this release does not say where it is".into())),
        };
        Self::step(IoStep::ExtensionLibrary, state, Some(self.now), why)
    }

    fn merged(&self) -> StepStatus {
        let tidying = &self.ground.plan.tidying;
        let below = self.trees.iter().flat_map(|tree| &tree.entries);
        let below = below.filter(|entry| matches!(entry.kind, TreeEntryKind::Rc(..)));
        let below = below.filter(|entry| entry.name.iter().count() > 1).count();
        let kept = reason(tidying, TidySubject::Rc);
        let left = self
            .ground
            .plan
            .parts
            .iter()
            .find(|part| part.part == CalmPartKind::Tidy && part.state == CalmState::LeftOut);
        let after = self.now.saturating_sub(tidying.saved_calls);
        match (tidying.merged.len(), below) {
            (0, 0) => Self::step(IoStep::MergedRcFiles, StepState::Done, Some(self.now), None),
            (0, _) => {
                let why = kept.or_else(|| left.map(|part| part.text.clone()));
                Self::step(IoStep::MergedRcFiles, StepState::LeftOut, None, why)
            }
            (merged, all) => {
                let why = format!("{merged} of {all}, and {} strays moved", tidying.moved.len());
                Self::step(IoStep::MergedRcFiles, StepState::Helps, Some(after), Some(why))
            }
        }
    }

    fn unchecked(&self) -> StepStatus {
        let step = IoStep::NoCookieChecks;
        if self.ground.site.setting("mcookie_check") == Some("eval") {
            return Self::step(step, StepState::Done, Some(self.now), None);
        }
        let tidying = self.planned(&TidyOptions { no_cookie_checks: true, ..Default::default() });
        if tidying.environment.is_empty() {
            let why = reason(&tidying, TidySubject::CookieCheck);
            return Self::step(step, StepState::LeftOut, None, why);
        }
        let after = Some(self.now.saturating_sub(tidying.saved_calls));
        if self.are_indexed() {
            let why = "an index opens no modulefile, and needs no site-wide setting".to_owned();
            return Self::step(step, StepState::LeftOut, after, Some(why));
        }
        let why = format!(
            "becalm modules tidy --no-cookie-checks {}",
            term::shell_line(self.trees.iter().map(|tree| &tree.root))
        );
        Self::step(step, StepState::Helps, after, Some(why))
    }

    /// Whether each modulepath is answered from an index, or would be.
    fn are_indexed(&self) -> bool {
        let parts = &self.ground.plan.parts;
        let mut indexes = parts.iter().filter(|part| part.part == CalmPartKind::Index);
        indexes.all(|part| part.state != CalmState::LeftOut)
    }

    fn virtually(&self) -> StepStatus {
        let step = IoStep::VirtualModules;
        if self.trees.iter().all(is_virtual) {
            return Self::step(step, StepState::Done, Some(self.now), None);
        }
        // Nothing is made there; it only has to be no modulepath's own.
        let directory = PathBuf::from("/becalm-virtual-modulepaths");
        let options = TidyOptions { virtual_in: Some(directory), ..Default::default() };
        let tidying = self.planned(&options);
        if tidying.virtuals.len() < self.trees.len() {
            let why = reason(&tidying, TidySubject::Virtual);
            return Self::step(step, StepState::LeftOut, None, why);
        }
        let made = tidying.virtuals.iter();
        let trees: Vec<_> = made.map(|made| virtual_tree(&made.path, &made.content)).collect();
        let after = walked(self.ground, &trees.iter().collect::<Vec<_>>());
        let why = "each load would look at every module's file".to_owned();
        Self::step(step, StepState::LeftOut, Some(after), Some(why))
    }

    fn cached(&self) -> StepStatus {
        let (state, why) = self.of_parts(CalmPartKind::Cache);
        let is_read = cache::reads_caches(self.ground.site) && state == StepState::Done;
        let measured = self.ground.audit.costs.iter().find(|cost| cost.command == "module avail");
        let measured = measured.and_then(|cost| cost.measured);
        let calls = measured.filter(|_| is_read).map(|measured| measured.calls.all());
        Self::step(IoStep::Cache, state, calls, why)
    }

    fn indexed(&self) -> StepStatus {
        let (state, why) = self.of_parts(CalmPartKind::Index);
        let calls = (state != StepState::LeftOut).then_some(self.ground.plan.calls_after);
        Self::step(IoStep::Index, state, calls, why)
    }

    /// What is planned, where anything is; else why something is left out.
    fn of_parts(&self, kind: CalmPartKind) -> (StepState, Option<String>) {
        let parts = || self.ground.plan.parts.iter().filter(move |part| part.part == kind);
        let first = |state| parts().find(move |part| part.state == state);
        if let Some(part) = first(CalmState::Planned) {
            return (StepState::Helps, Some(part.text.clone()));
        }
        match first(CalmState::LeftOut) {
            Some(part) => (StepState::LeftOut, Some(part.text.clone())),
            None => (StepState::Done, None),
        }
    }
}

fn reason(tidying: &Tidying, subject: TidySubject) -> Option<String> {
    let mut kept = tidying.kept.iter();
    kept.find(|kept| kept.what == subject).map(|kept| kept.reason.clone())
}

/// Whether a modulepath holds nothing but an rc file with virtual modules.
fn is_virtual(tree: &ModulepathTree) -> bool {
    let mut kinds = tree.entries.iter().map(|entry| &entry.kind);
    let is_rc = |kind: &TreeEntryKind| matches!(kind, TreeEntryKind::Rc(..) | TreeEntryKind::Cache);
    let text = crate::tree::content(&tree.root.join(".modulerc"), 16 << 20).unwrap_or_default();
    kinds.all(is_rc) && String::from_utf8_lossy(&text).contains("module-virtual")
}

/// A modulepath that holds one rc file.
fn virtual_tree(root: &Path, content: &[u8]) -> ModulepathTree {
    let stamp = ChangeStamp {
        device: 0,
        inode: 0,
        size: content.len() as u64,
        modified: 0,
        changed: 0,
        mode: 0o100_644,
        user: 0,
        group: 0,
    };
    let entry = |name: &str, kind| TreeEntry {
        name: name.into(),
        kind,
        is_link: false,
        stamp: Some(stamp),
    };
    ModulepathTree {
        root: root.to_owned(),
        top: entry("", TreeEntryKind::Directory { names: 1 }),
        entries: vec![entry(".modulerc", TreeEntryKind::Rc(Rc::Modulerc, Cookie::Plain))],
        is_cut: false,
    }
}
