//! What attempts teach: which files to treat with more caution, and which to leave as they are.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use remedy::{Obstacle, Plan, Step};

use super::attempt::Unmade;
use super::wanted::{BindFacts, Caution};
use super::{BindChange, Binding, UnboundFile};
use crate::edit::Refused;

/// What has been learnt so far.
#[derive(Default)]
pub(super) struct Lessons {
    pub cautions: HashMap<usize, Caution>,
    pub left_out: Vec<UnboundFile>,
    /// The files that would be bound, and cannot be changed.
    pub barred: HashSet<usize>,
    /// The files that have no room, and might grow.
    pub cramped: HashSet<usize>,
}

impl Lessons {
    pub fn leave_out(&mut self, known: &BindFacts<'_>, number: usize, reason: String) {
        self.cautions.insert(number, Caution::Leave);
        self.left_out.push(UnboundFile { path: known.files[number].path().to_owned(), reason });
    }

    /// Files of which no edit can be made. What has no room is tried with fewer names first.
    pub fn take_refused(&mut self, known: &BindFacts<'_>, refused: Vec<(usize, Unmade)>) {
        for (number, refused) in refused {
            let lacks_room = matches!(refused, Unmade::Refused(Refused::NoRoom { .. }));
            if lacks_room && !self.cautions.contains_key(&number) {
                self.cautions.insert(number, Caution::Spare);
            } else {
                if lacks_room {
                    self.cramped.insert(number);
                }
                self.leave_out(known, number, refused.to_string());
            }
        }
    }

    /// Edited files because of which a start would load something else: without their lists of
    /// directories perhaps, or at all.
    pub fn take_differing(&mut self, known: &BindFacts<'_>, files: &BTreeSet<usize>) {
        let otherwise = |number: &usize| !self.keep_list(*number);
        let edited_at_all: BTreeSet<usize> = files.iter().copied().filter(otherwise).collect();
        self.leave_differing(known, &edited_at_all);
    }

    /// Edited files because of which starts would look up more than today: a list that stays may do.
    pub fn take_costly(&mut self, known: &BindFacts<'_>, files: &[usize]) {
        for number in files {
            if !self.keep_list(*number) {
                let reason = "edited, it would have starts look up more than today";
                self.leave_out(known, *number, reason.to_owned());
            }
        }
    }

    /// Edited files of starts that would load something else.
    pub fn leave_differing(&mut self, known: &BindFacts<'_>, files: &BTreeSet<usize>) {
        for number in files {
            let reason = "edited, it would make a start load something else than today";
            self.leave_out(known, *number, reason.to_owned());
        }
    }

    /// Has a file keep its list of directories; false, if it keeps that already.
    fn keep_list(&mut self, number: usize) -> bool {
        let is_new = self.cautions.get(&number).is_none_or(|known| *known < Caution::KeepList);
        if is_new {
            self.cautions.insert(number, Caution::KeepList);
        }
        is_new
    }

    /// What `remedy` would not do of a plan: asked before the plan is shown, by the same questions
    /// as when it is applied, so that one file never keeps the others from being bound. False, if
    /// it would do all of it.
    pub fn take_obstacles(&mut self, known: &BindFacts<'_>, binding: &Binding) -> bool {
        let plan = binding.to_plan(String::new());
        let state = remedy::state_directory().unwrap_or_default();
        let checked = Some(known.checked);
        let options = remedy::Options { checked, ..remedy::Options::new(state) };
        let obstacles = remedy::obstacles(&plan, &options);
        let Some(first) = obstacles.first() else { return false };
        let numbers: HashMap<&Path, usize> =
            known.files.iter().enumerate().map(|(number, file)| (file.path(), number)).collect();
        // The files that cannot be changed, and those that rely on what cannot be added.
        let (mut fixed, mut relying) = (BTreeMap::new(), BTreeMap::new());
        for Obstacle { step, error } in &obstacles {
            let step = &plan.steps[*step];
            let is_patch = matches!(step, Step::Patch { .. });
            let files = if is_patch { &mut fixed } else { &mut relying };
            let concerned = binding.changes.iter().filter(|change| match is_patch {
                true => change.path == target(step),
                false => uses(change, target(step)),
            });
            for number in concerned.filter_map(|change| numbers.get(change.path.as_path())) {
                files.entry(*number).or_insert_with(|| without_path(error, target(step)));
            }
        }
        self.tell_of_directories(&plan, &obstacles);
        if fixed.is_empty() && relying.is_empty() {
            // What relies on it is not among what is changed: then nothing is.
            let all =
                binding.changes.iter().filter_map(|change| numbers.get(change.path.as_path()));
            fixed.extend(all.map(|number| (*number, first.error.to_string())));
        }
        for (number, reason) in fixed {
            self.barred.insert(number);
            self.leave_out(known, number, reason);
        }
        for (number, reason) in relying {
            // Without the directory, the file can do with the list that it has.
            if !self.keep_list(number) {
                self.barred.insert(number);
                self.leave_out(known, number, reason);
            }
        }
        true
    }

    /// Of what cannot be added, the first directory stands for all that would be in it.
    fn tell_of_directories(&mut self, plan: &Plan, obstacles: &[Obstacle]) {
        let is_directory =
            |obstacle: &&Obstacle| matches!(plan.steps[obstacle.step], Step::Directory { .. });
        let first = obstacles.iter().filter(is_directory).min_by_key(|obstacle| obstacle.step);
        self.left_out.extend(first.map(|Obstacle { step, error }| UnboundFile {
            path: target(&plan.steps[*step]).to_owned(),
            reason: format!(
                "it cannot be made, so that files keep their lists of directories: {error}"
            ),
        }));
    }

    /// The files that stay as they are, each with the first reason.
    pub fn into_left_out(self) -> Vec<UnboundFile> {
        let mut told: HashSet<PathBuf> = HashSet::new();
        self.left_out.into_iter().filter(|left| told.insert(left.path.clone())).collect()
    }
}

/// An error in words, which begin with another path than this one or with none.
fn without_path(error: &remedy::Error, path: &Path) -> String {
    let text = error.to_string();
    text.strip_prefix(&format!("{}: ", path.display())).unwrap_or(&text).to_owned()
}

/// What a step changes.
fn target(step: &Step) -> &Path {
    match step {
        Step::Patch { path, .. }
        | Step::Create { path, .. }
        | Step::Replace { path, .. }
        | Step::Rewrite { path, .. }
        | Step::Link { path, .. }
        | Step::Directory { path, .. }
        | Step::Take { path, .. }
        | Step::Rely { path, .. }
        | Step::Remove { path } => path,
    }
}

/// Whether an edited file relies on what is added at a path: it names that, or something in it; or
/// it names the directory that it is in.
fn uses(change: &BindChange, added: &Path) -> bool {
    let lists = change.search.iter().flat_map(|list| list.after().as_bytes().split(|b| *b == b':'));
    let needed = change.needed.iter().map(|(_, name)| name.as_bytes());
    let mut named = lists.chain(needed).filter(|name| !name.is_empty());
    named.any(|name| {
        let name = Path::new(OsStr::from_bytes(name));
        name.starts_with(added) || added.starts_with(name)
    })
}
