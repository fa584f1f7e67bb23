//! A recording's calls, by what they are for.
//!
//! What only a path says is inferred: Modules does not tell why it opens a file. Which modulefiles
//! were evaluated is told by what the command wrote, and by what is loaded.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use recording::query::clean;
use recording::{Event, Kind, Name, PathId, Phase, ProcessId, Recording};

use super::{CallPurpose, PurposeCalls, SubcommandWork};
use crate::cache;
use crate::site::{EXTENSION, ModulesSite};

/// Where a command ran.
pub(super) struct CommandSurroundings<'a> {
    /// The site's Modules.
    pub(super) site: &'a ModulesSite,
    /// Its modulepaths.
    pub(super) modulepaths: &'a [PathBuf],
    /// What the command does.
    pub(super) work: SubcommandWork,
    /// What it wrote.
    pub(super) said: String,
    /// `$_LMFILES_` before it ran.
    pub(super) loaded: String,
}

/// The calls of each purpose that has any.
pub(super) fn purposes(
    recording: &Recording,
    ground: &CommandSurroundings<'_>,
) -> Vec<PurposeCalls> {
    let sorter = CallSorter::of(recording, ground);
    let mut sums: BTreeMap<CallPurpose, (PurposeCalls, HashSet<PathId>)> = BTreeMap::new();
    let mut has_begun = false;
    for event in recording.events.iter().filter(|event| event.call.class().recorded()) {
        let path = event.path.map(|path| clean(recording.path(path)));
        let path = path.as_deref().map(|path| Path::new(OsStr::from_bytes(path)));
        has_begun |= path == Some(&*ground.site.command);
        let purpose = sorter.purpose(event, path, has_begun);
        let (sum, paths) =
            sums.entry(purpose).or_insert_with(|| (none_of(purpose), HashSet::new()));
        sum.calls += 1;
        sum.metadata_ops += u64::from(event.is_metadata());
        if let (Some(id), Some(path)) = (event.path, path)
            && paths.insert(id)
        {
            sum.paths += 1;
            sum.example.get_or_insert_with(|| Name::of(path));
        }
    }
    sums.into_values().map(|(sum, _)| sum).collect()
}

fn none_of(purpose: CallPurpose) -> PurposeCalls {
    PurposeCalls { purpose, calls: 0, metadata_ops: 0, paths: 0, example: None }
}

struct CallSorter<'a> {
    ground: &'a CommandSurroundings<'a>,
    /// The process of Modules itself.
    own: ProcessId,
    /// Paths that were listed: directories.
    listed: HashSet<PathId>,
    /// The site's scripts, and where they are.
    configuration: Vec<&'a Path>,
    /// What the command wrote and what was loaded, without the quoting of a shell.
    named: String,
}

impl<'a> CallSorter<'a> {
    fn of(recording: &Recording, ground: &'a CommandSurroundings<'a>) -> CallSorter<'a> {
        let listing = recording.events.iter().filter(|event| event.is_listing());
        let scripts = ground.site.scripts.iter().filter_map(|script| script.path.parent());
        let named = format!("{}\n{}", ground.said, ground.loaded);
        CallSorter {
            ground,
            own: recording.events.first().map_or(ProcessId(0), |event| event.process),
            listed: listing.filter_map(|event| event.path).collect(),
            configuration: scripts.collect(),
            named: named.replace(['\\', '\'', '"'], ""),
        }
    }

    fn purpose(&self, event: &Event, path: Option<&Path>, has_begun: bool) -> CallPurpose {
        if event.process != self.own {
            return CallPurpose::Programs;
        }
        if matches!(event.kind(), Kind::Fork | Kind::Wait) {
            return if has_begun { CallPurpose::Programs } else { CallPurpose::Interpreter };
        }
        let Some(path) = path else {
            return match has_begun {
                false => CallPurpose::Interpreter,
                true if event.kind() == Kind::Write => CallPurpose::Answer,
                true => CallPurpose::Others,
            };
        };
        if self.ground.modulepaths.iter().any(|root| path.starts_with(root)) {
            return self.on_tree(event, path);
        }
        if self.is_modules_own(path) {
            return CallPurpose::ModulesCode;
        }
        if !has_begun || event.phase == Phase::Loading || is_of_tcl(path) {
            return CallPurpose::Interpreter;
        }
        self.elsewhere(event, path)
    }

    fn is_modules_own(&self, path: &Path) -> bool {
        path == self.ground.site.command || path.ends_with(EXTENSION)
    }

    /// Below a modulepath.
    fn on_tree(&self, event: &Event, path: &Path) -> CallPurpose {
        let name = path.file_name().unwrap_or_default();
        if name == cache::NAME {
            return CallPurpose::Caches;
        }
        if name == ".modulerc" || name == ".version" {
            return CallPurpose::RcFiles;
        }
        if event.path.is_some_and(|path| self.listed.contains(&path)) {
            return CallPurpose::Directories;
        }
        match self.ground.work {
            SubcommandWork::Lists => CallPurpose::Cookies,
            SubcommandWork::EvaluatesAll => CallPurpose::Modulefiles,
            SubcommandWork::EvaluatesNamed if self.is_named(path) => CallPurpose::Modulefiles,
            SubcommandWork::EvaluatesNamed => CallPurpose::Siblings,
        }
    }

    /// Whether what was written, or loaded before, names this file and not one that only begins
    /// like it.
    fn is_named(&self, path: &Path) -> bool {
        let Some(path) = path.to_str() else { return false };
        self.named.match_indices(path).any(|(at, _)| {
            let next = self.named[at + path.len()..].chars().next();
            next.is_none_or(|next| matches!(next, ':' | ';' | '\n' | ' ' | '{' | '}' | ','))
        })
    }

    fn elsewhere(&self, event: &Event, path: &Path) -> CallPurpose {
        let name = path.file_name().unwrap_or_default();
        if self.configuration.iter().any(|directory| path.starts_with(directory))
            || name == ".modulerc"
        {
            return CallPurpose::Configuration;
        }
        if path.components().any(|part| part.as_os_str() == ".module") {
            return CallPurpose::Collections;
        }
        let is_identity = path.starts_with("/etc") && IDENTITY.iter().any(|one| name == *one)
            || name.as_bytes().starts_with(b"libnss_");
        if is_identity {
            return CallPurpose::Identity;
        }
        match event.kind() {
            Kind::Exec => CallPurpose::Programs,
            Kind::Write => CallPurpose::Answer,
            _ => CallPurpose::Others,
        }
    }
}

/// What the C library reads to know users, groups and hosts.
const IDENTITY: [&str; 6] =
    ["nsswitch.conf", "passwd", "group", "hosts", "resolv.conf", "host.conf"];

/// Tcl's own scripts and encodings: they are in directories that are called after it.
fn is_of_tcl(path: &Path) -> bool {
    let is_tcls = |part: &OsStr| part.as_bytes().starts_with(b"tcl");
    let directories = path.parent().into_iter().flat_map(Path::components);
    directories.map(|part| part.as_os_str()).any(is_tcls)
        || path.extension().is_some_and(|end| end == "enc")
}
