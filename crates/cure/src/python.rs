//! Python modules searched over `sys.path`: an image of the directories they are searched in.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use explain::{Finding, PythonSource, Storm, StormSource};
use recording::query::clean;
use recording::{Attributor, Cause, Event, PathId, Recording, Role};
use term::number::{count, counted};
use term::{quoted, shell_line};

use crate::cure::{CloserLook, Cure, RefusedCure, StormCures};
use crate::image_cure::{PackableDirectories, WantedImage};
use crate::image_looks::{ImageLooks, LAUNCH};
use crate::launched_image::launched_image;
use crate::machine::FileWriter;
use crate::plan::PlanInput;
use crate::prediction::{CureEffect, operations};

/// A directory with less than one in so many of the operations is not worth its place in an image.
const ONE_IN: u64 = 50;
/// Where Python keeps bytecode.
pub(crate) const BYTECODE: &[u8] = b"__pycache__";

pub(crate) fn cures(input: &PlanInput, finding: &Finding) -> StormCures {
    let mut all = StormCures::default();
    let look = |text: String, command| CloserLook { storm: Storm::Python, text, command };
    match launched_image(input.recording) {
        Some(image) => {
            let text = format!(
                "Nothing to build: becalm ran the command in the image {}, so what lies in it is \
                 served on this node; to the shared filesystem's server it is one file",
                recording::shown(image.as_bytes())
            );
            all.looks.push(look(text, None));
        }
        None => match mount_image(input, finding) {
            Ok(cure) => all.cures.push(cure),
            Err(why) => all.not_chosen.push(RefusedCure {
                storm: Storm::Python,
                text: "An image of the directories that are searched".to_owned(),
                why,
            }),
        },
    }
    all.looks.extend(bytecode(input, finding));
    let text = "See which import does what, and why".to_owned();
    all.looks.push(look(text, Some(format!("becalm python scan -- {}", input.line))));
    all
}

/// Where bytecode was compiled: it has to be stored, or each start does the same. An image has what
/// is stored.
fn bytecode(input: &PlanInput, finding: &Finding) -> Option<CloserLook> {
    let written = finding.sources.iter().find_map(|source| match source {
        StormSource::Python(PythonSource::Bytecode { written }) => Some(*written),
        _ => None,
    })?;
    let searched = SearchedDirectories::of(input.recording).worth_an_image();
    let directories: Vec<_> = searched.map(|(directory, _)| directory).collect();
    let is_ours = |directory: &PathBuf| (input.machine.file_writer)(directory) == FileWriter::You;
    let mut execs = input.recording.processes.iter().flat_map(|process| &process.execs);
    let python = execs.find(|exec| Role::of(input.recording, exec) == Role::Python)?;
    let python = to_path(input.recording.path(python.path));
    let compile = format!("{} -m compileall -q {}", quoted(python), shell_line(&directories));
    let all_ours = !directories.is_empty() && directories.iter().all(is_ours);
    let who = if all_ours { "" } else { ", by who owns the directories" };
    Some(CloserLook {
        storm: Storm::Python,
        text: format!(
            "{} bytecode files were compiled: store them once{who}, before an image is built",
            count(written)
        ),
        command: all_ours.then_some(compile),
    })
}

/// The image, or why there is none.
fn mount_image(input: &PlanInput, finding: &Finding) -> Result<Cure, String> {
    let searched = SearchedDirectories::of(input.recording);
    let (all, mostly_of_system) = (searched.operations(), searched.is_mostly_of_system);
    let worth: BTreeMap<PathBuf, u64> = searched.worth_an_image().collect();
    let packed = PackableDirectories::of(input, worth.keys().cloned());
    let directories = &packed.directories;
    let named: u64 = directories.iter().filter_map(|directory| worth.get(directory)).sum();
    let (served, _) = served(input.recording, directories);
    let all = all.max(finding.metadata_ops);
    if named > all / 2 && served <= all / 2 {
        return Err(
            "what is searched there are links to elsewhere, and an image has a link as it is"
                .to_owned(),
        );
    }
    // Where something is left out of it, the rest may be worth it all the same.
    let is_of_all = directories.len() == worth.len();
    let is_empty = directories.is_empty();
    if is_empty || is_of_all && served * 2 <= all {
        return Err(packed.why_none(|| match is_empty {
            true if !mostly_of_system => {
                "they are in no environment, and in no directory that PYTHONPATH names".to_owned()
            }
            true => "the modules are the operating system's own, which each node has".to_owned(),
            false => format!(
                "it would serve {} of {}: the others are on the operating system's own modules",
                count(served),
                operations(finding.metadata_ops)
            ),
        }));
    }
    let of = match directories.len() as u64 {
        1 => format!("the environment{}", packed.without()),
        more => counted(more, "directory", "directories") + &packed.without(),
    };
    let (file, looked_at) = ("env.sqsh", packed.looked_at);
    let image = WantedImage { storm: Storm::Python, of: &of, file, directories, looked_at };
    image.cure(input).map_err(|why| packed.refused.unwrap_or(why))
}

/// How many directories `becalm run` looks at for an image of this one; or why there is to be none.
pub(crate) fn looks(input: &PlanInput, directory: &PathBuf) -> Result<u64, String> {
    if writes_below(input.recording, directory) {
        return Err("the command writes below it, and an image cannot be written to".to_owned());
    }
    if let Some(why) = (input.machine.why_no_image)(directory) {
        return Err(why);
    }
    let (served, _) = served(input.recording, std::slice::from_ref(directory));
    match (input.machine.directories_below)(directory, served) {
        looks if looks < served => Ok(looks),
        _ => Err(format!(
            "becalm run looks at each directory in it for changes, and there are more than the \
             {} of this start there",
            operations(served)
        )),
    }
}

/// Where Python searched, by what an image can be made of: a prefix, or a directory of PYTHONPATH;
/// nothing of the operating system's own.
struct SearchedDirectories {
    by_directory: BTreeMap<PathBuf, u64>,
    /// Operations of imports, wherever.
    all: u64,
    /// Whether most of these were in the operating system's own directories.
    is_mostly_of_system: bool,
}

impl SearchedDirectories {
    fn of(recording: &Recording) -> SearchedDirectories {
        let mut attributor = Attributor::new(recording);
        let events = recording.events.iter().filter(|event| event.is_metadata());
        let imports: Vec<PathId> = events
            .filter(|event| attributor.attribute(event).cause == Cause::PythonImport)
            .filter_map(|event| event.path)
            .collect();
        let sys_path = attributor.into_sys_path();
        let mut searched = SearchedDirectories {
            by_directory: BTreeMap::new(),
            all: imports.len() as u64,
            is_mostly_of_system: true,
        };
        let mut elsewhere = 0;
        for path in imports {
            let path = clean(recording.path(path));
            elsewhere += u64::from(!is_of_system(&path));
            let Some(entry) = sys_path.entry_of(&path) else { continue };
            let is_named = sys_path.is_from_pythonpath(entry) && !is_of_system(entry);
            let root = if is_named { Some(entry) } else { prefix_of(entry) };
            if let Some(root) = root {
                *searched.by_directory.entry(to_path(root).to_owned()).or_default() += 1;
            }
        }
        // The script's own directory is searched, too.
        searched.is_mostly_of_system = elsewhere * 4 < searched.all;
        searched.join_nested();
        searched
    }

    /// A directory below another one is in its image.
    fn join_nested(&mut self) {
        let mut joined: BTreeMap<PathBuf, u64> = BTreeMap::new();
        for (directory, metadata_ops) in std::mem::take(&mut self.by_directory) {
            // In the order of their components the one above comes first.
            let above = joined.keys().find(|known| directory.starts_with(known)).cloned();
            *joined.entry(above.unwrap_or(directory)).or_default() += metadata_ops;
        }
        self.by_directory = joined;
    }

    fn operations(&self) -> u64 {
        self.all
    }

    /// The directories with enough operations, in the order of their paths.
    fn worth_an_image(self) -> impl Iterator<Item = (PathBuf, u64)> {
        let all = self.all;
        self.by_directory.into_iter().filter(move |(_, ops)| ops * ONE_IN >= all)
    }
}

/// The prefix that a directory of `sys.path` belongs to; none for the system's own.
fn prefix_of(directory: &[u8]) -> Option<&[u8]> {
    let (above, name) = split(directory);
    let is_site = matches!(name, b"site-packages" | b"dist-packages" | b"lib-dynload")
        || (name.starts_with(b"python") && name.ends_with(b".zip"));
    let library = match is_site && name.ends_with(b".zip") {
        // lib/python311.zip lies beside the library.
        true => above,
        false if is_site => split(above).0,
        false => split(directory).0,
    };
    let is_lib = matches!(split(library).1, b"lib" | b"lib64");
    let prefix = split(library).0;
    (is_lib && !is_of_system(directory) && prefix.len() > 1).then_some(prefix)
}

pub(crate) fn is_of_system(directory: &[u8]) -> bool {
    ["/usr", "/lib", "/lib64", "/etc"].iter().any(|system| to_path(directory).starts_with(system))
}

fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (&[], path),
    }
}

pub(crate) fn to_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// What an image of directories has. It has a symbolic link as it is: what a link out of it leads to
/// the server is asked for as before, which a view of links is all about.
struct InsideDirectories<'d> {
    directories: &'d [PathBuf],
    /// Of directories below, whether they lead to where the image is.
    known: HashMap<PathBuf, bool>,
}

impl InsideDirectories<'_> {
    fn has(&mut self, path: &Path) -> bool {
        if !self.is_named(path) {
            return false;
        }
        let Some(parent) = path.parent().filter(|parent| self.is_named(parent)) else {
            return true;
        };
        if !self.leads_inside(parent) {
            return false;
        }
        match path.symlink_metadata().is_ok_and(|found| found.is_symlink()) {
            true => path.canonicalize().map_or(true, |real| self.is_real(&real)),
            false => true,
        }
    }

    fn leads_inside(&mut self, directory: &Path) -> bool {
        if let Some(known) = self.known.get(directory) {
            return *known;
        }
        // One that is not there leads nowhere else.
        let leads = directory.canonicalize().map_or(true, |real| self.is_real(&real));
        self.known.insert(directory.to_owned(), leads);
        leads
    }

    fn is_named(&self, path: &Path) -> bool {
        self.directories.iter().any(|directory| path.starts_with(directory))
    }

    fn is_real(&self, real: &Path) -> bool {
        let directories = self.directories.iter();
        directories
            .filter_map(|directory| directory.canonicalize().ok())
            .any(|directory| real.starts_with(directory))
    }
}

/// The metadata operations below directories, as numbers in [`Recording::events`].
pub(crate) fn events_below<'r>(
    recording: &'r Recording,
    directories: &'r [PathBuf],
) -> impl Iterator<Item = (usize, &'r Event, PathId)> {
    let mut inside = InsideDirectories { directories, known: HashMap::new() };
    let mut is_below = |path| inside.has(to_path(&clean(recording.path(path))));
    // Of each path once.
    let below: HashSet<PathId> =
        (0..recording.path_count() as u32).map(PathId).filter(|path| is_below(*path)).collect();
    let events = recording.events.iter().enumerate().filter(|(_, event)| event.is_metadata());
    events.filter_map(move |(number, event)| {
        let path = event.path.filter(|path| below.contains(path))?;
        Some((number, event, path))
    })
}

/// What lies below goes: no server serves it. Each of so many directories of it is looked at, whether it
/// has changed since, and of its files what the start uses.
pub(crate) fn effect(
    recording: &Recording,
    directories: &[PathBuf],
    directories_below: u64,
) -> CureEffect {
    let below: Vec<_> = events_below(recording, directories).collect();
    let looks = ImageLooks::of(recording, &below);
    let effect = CureEffect::of(below.iter().map(|(number, ..)| *number));
    CureEffect {
        looked_at: directories_below + looks.before.len() as u64,
        looked_up: looks.meanwhile.len() as u64 + LAUNCH,
        mounted: directories.to_vec(),
        ..effect
    }
}

/// How many metadata operations an image of these directories serves, and how many of those fail.
pub(crate) fn served(recording: &Recording, directories: &[PathBuf]) -> (u64, u64) {
    events_below(recording, directories).fold((0, 0), |(all, failed), (_, event, _)| {
        (all + 1, failed + u64::from(event.is_missing()))
    })
}

/// Whether the command makes, renames or removes something below, bytecode aside.
fn writes_below(recording: &Recording, directory: &Path) -> bool {
    let directories = [directory.to_owned()];
    let mut changes = events_below(recording, &directories)
        .filter(|(_, event, _)| event.is_change() && !event.outcome.failed());
    changes.any(|(_, _, path)| !is_bytecode(recording.path(path)))
}

/// Whether it is a directory of bytecode, or in one.
pub(crate) fn is_bytecode(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').any(|name| name == BYTECODE)
}
