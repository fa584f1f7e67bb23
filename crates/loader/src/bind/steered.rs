//! What the environment of a start decides, rather than the files: LD_LIBRARY_PATH, LD_PRELOAD,
//! GLIBC_TUNABLES and their like.
//!
//! Who else starts a program does so without them. So each start is simulated without an
//! environment, too: both must load afterwards what they load today, and what an environment alone
//! leads to is written into no file.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::OsString;
use std::path::PathBuf;

use super::collect::ElfFileNames;
use super::compare::served;
use super::resolve::{LoaderRun, ResolvedBy};
use crate::{Dlopen, FileId, LoaderSetting};

/// An environment that programs were started in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StartEnvironment {
    /// Its variables: those count that loaders read ([`LoaderSetting::with_environment`]).
    pub variables: BTreeMap<OsString, OsString>,
    /// The programs, by paths without symbolic links.
    pub programs: BTreeSet<PathBuf>,
    /// What they were then seen to open, each of them: everyone's starts are taken to go on so, and one
    /// that is not among the files is simulated for what it loads of them.
    pub opens: Vec<Dlopen>,
}

impl StartEnvironment {
    /// Whether a file is started in it; a library may be opened in any.
    pub(super) fn concerns(&self, file: &ElfFileNames) -> bool {
        !file.is_program() || file.names.iter().any(|name| self.programs.contains(name))
    }

    /// A setting with these variables.
    pub(super) fn applied_to(&self, setting: LoaderSetting) -> LoaderSetting {
        setting.with_environment(|name| self.variables.get(name).cloned())
    }
}

/// The files that programs load in an environment alone.
pub(super) fn brought(programs: &[LoaderRun]) -> HashSet<FileId> {
    let loaded = |in_environment: bool| -> HashSet<FileId> {
        let runs = programs.iter().filter(|run| run.environment.is_some() == in_environment);
        runs.flat_map(|run| &run.members).map(|member| member.id).collect()
    };
    loaded(true).difference(&loaded(false)).copied().collect()
}

/// What another object's list leads to is the environment's choice, where that alone brings in
/// whose list it is.
pub(super) fn mark(programs: &mut [LoaderRun], brought: &HashSet<FileId>) {
    for run in programs.iter_mut().filter(|run| run.environment.is_some()) {
        for number in 0..run.members.len() {
            let ResolvedBy::ByList { of, .. } = run.members[number].found else { continue };
            if run.members[number].asked_by != Some(of) && brought.contains(&run.members[of].id) {
                run.members[number].found = ResolvedBy::ByEnvironment;
            }
        }
    }
}

/// Whether an environment leads an object to other files than those that it loads without one.
pub(super) fn is_steered(plain: &LoaderRun, in_environment: &LoaderRun) -> bool {
    let there: HashMap<_, _> = served(in_environment).into_iter().collect();
    served(plain).iter().any(|(id, needs)| there.get(id) != Some(needs))
}
