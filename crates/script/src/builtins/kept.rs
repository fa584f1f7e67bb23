//! What was found out about the programs and shells here, kept beside the libraries: who starts the
//! next command asks none of them again.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::StatVfsMountFlags;
use rustix::process::{Resource, getrlimit};
use serde::{Deserialize, Serialize};

use super::hosts::{self, Host};
use super::programs::{self, BuiltinProgram, ProgramMatch, SearchPath};
use super::{BuiltinsError, directory};

const FILE: &str = "found";

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

/// What was found with the same files, where all that it needs is still there.
pub(super) fn read(directory: &Path, seen: &str) -> Option<FoundPrograms> {
    let kept: KeptFindings = serde_json::from_slice(&fs::read(directory.join(FILE)).ok()?).ok()?;
    let programs = programs::named(kept.programs)?;
    let may_execute = rustix::fs::statvfs(directory)
        .is_ok_and(|mount| !mount.f_flag.contains(StatVfsMountFlags::NOEXEC));
    // Whoever tidies /tmp takes files, not directories, away.
    let is_whole =
        Host::ALL.iter().all(|host| is_content(&directory.join(host.library()), host.content()))
            && ["bash_env", "programs"].iter().all(|name| directory.join(name).exists());
    (kept.seen == seen && may_execute && is_whole)
        .then_some(FoundPrograms { programs, hosts: kept.hosts })
}

/// Whether a file is this, byte for byte: what is damaged ends each shell that loads it.
fn is_content(path: &Path, content: &[u8]) -> bool {
    let mut there = vec![0; content.len() + 1];
    let opened = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    opened
        .and_then(|mut file| file.read(&mut there))
        .is_ok_and(|length| there[..length] == *content)
}

/// Whether a limit may have had a program fail when it was tried.
fn is_limited() -> bool {
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
    let kept = KeptFindings { seen: seen.to_owned(), programs, hosts: found.hosts.clone() };
    match serde_json::to_vec(&kept) {
        Ok(text) => directory::keep(&directory.join(FILE), &text),
        Err(_) => Ok(()),
    }
}
