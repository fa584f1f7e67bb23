//! What was found out about the programs and shells here, kept beside the libraries: who starts the
//! next command asks none of them again.

use std::path::{Path, PathBuf};

use rustix::fs::StatVfsMountFlags;
use rustix::process::{Resource, getrlimit};
use serde::{Deserialize, Serialize};

use super::hosts::{self, Host};
use super::programs::{self, BuiltinProgram, ProgramMatch, SearchPath};
use super::{BuiltinsError, directory, script};

pub(super) const FILE: &str = "found";

/// No such file of becalm's is longer.
const LONGEST: usize = 1 << 20;

/// The programs that shells may do themselves, and the shells that take the library.
#[derive(Clone)]
pub(super) struct FoundPrograms {
    pub programs: Vec<BuiltinProgram>,
    pub hosts: Vec<(Host, PathBuf)>,
}

#[derive(Serialize, Deserialize)]
struct KeptFindings {
    /// All files that it depends on, as [`seen`] has them.
    seen: String,
    programs: Vec<ProgramMatch>,
    hosts: Vec<(Host, PathBuf)>,
    /// What the libraries are told of them: of files that are the same it need not be asked again.
    known: String,
}

/// Which files the names that are looked for lead to: a line each.
pub(super) fn seen(path: &SearchPath) -> String {
    let names = programs::inside().chain(hosts::names());
    let found = names.map(|name| (name.to_owned(), path.find(name).map(|(_, about)| about)));
    let places = hosts::places().map(|at| (at.display().to_string(), at.metadata().ok()));
    let lines = found.chain(places).map(|(name, about)| {
        let identity = about.as_ref().map_or("-".to_owned(), programs::identity);
        format!("{name} {identity}\n")
    });
    lines.collect()
}

/// What was found with the same files, where all that it needs is still there, byte for byte.
pub(super) fn read(directory: &Path, seen: &str) -> Option<FoundPrograms> {
    let content = directory::read(&directory.join(FILE), LONGEST)?;
    let kept: KeptFindings = serde_json::from_slice(directory::unsealed(&content)?).ok()?;
    if kept.seen != seen {
        return None;
    }
    let may_execute = rustix::fs::statvfs(directory)
        .is_ok_and(|mount| !mount.f_flag.contains(StatVfsMountFlags::NOEXEC));
    // Whoever tidies /tmp takes files, not directories, away.
    let is_whole = script::is_whole(&directory.join("bash_env"))
        && hosts::are_whole(directory)
        && directory::is_content(
            &directory.join(hosts::LIST),
            &hosts::list(directory, &kept.known),
        );
    let found = FoundPrograms { programs: programs::named(kept.programs)?, hosts: kept.hosts };
    (may_execute && is_whole).then_some(found)
}

/// Whether a limit may have had a program fail when it was tried.
pub(super) fn is_limited() -> bool {
    const ENOUGH: u64 = 256;
    let few_files = getrlimit(Resource::Nofile).current.is_some_and(|most| most < ENOUGH);
    let limits = [Resource::As, Resource::Data, Resource::Fsize, Resource::Cpu];
    few_files || limits.iter().any(|limit| getrlimit(*limit).current.is_some())
}

/// Keeps what was found. What was found under limits is not kept, nor a path that is no text: all is
/// asked anew.
pub(super) fn keep(
    directory: &Path,
    seen: &str,
    found: &FoundPrograms,
) -> Result<(), BuiltinsError> {
    if is_limited() {
        return Ok(());
    }
    let programs = found.programs.iter().map(|program| program.known.clone()).collect();
    let known = hosts::known(found);
    let kept = KeptFindings { seen: seen.to_owned(), programs, hosts: found.hosts.clone(), known };
    match serde_json::to_vec(&kept) {
        Ok(text) => directory::keep(&directory.join(FILE), &directory::sealed(text)),
        Err(_) => Ok(()),
    }
}
