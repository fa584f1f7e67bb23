//! From what was traced, and paths, to a bundle.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use recording::query::python::is_installed_below;
use serde::Serialize;

use super::directory::Directory;
use super::file::{Content, write};
use super::index::{self, Entry, Flags};
use super::interpreter::{Code, Interpreter, Place};
use super::sources::{Sources, directories};
use super::traced::Traced;
use super::{BundleError, zip};

/// How many directories are looked at when a Python starts, unless more than these are entries of
/// `sys.path`.
const CHECKED: usize = 20;

/// What to pack.
pub struct Wanted<'a> {
    /// For which interpreter.
    pub interpreter: Interpreter,
    /// What a start imports: it comes first.
    pub traced: &'a Traced,
    /// Directories of which all is packed.
    pub paths: &'a [PathBuf],
}

/// What was packed.
#[derive(Clone, Debug, Serialize)]
pub struct Packed {
    /// For which interpreter.
    pub python: Interpreter,
    /// The file's length.
    pub bundle_bytes: u64,
    /// The length of the code in it.
    pub code_bytes: u64,
    /// How many modules have their code in it.
    pub modules: u64,
    /// How many of them come first, in the order of a trace.
    pub traced: u64,
    /// How many of them are looked at before they are used: they are not installed.
    pub looked_at: u64,
    /// Extension modules of the trace: loaded from their own place, which is not searched for.
    pub extensions: u64,
    /// The directories that are not searched any more.
    pub directories: u64,
    /// Those of them that are looked at when a Python starts.
    pub checked: Vec<PathBuf>,
    /// What is imported as without the bundle.
    pub not_taken: Vec<NotTaken>,
}

/// What is imported as without the bundle.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct NotTaken {
    /// Why.
    pub why: Why,
    /// A file, a directory or an interpreter.
    #[serde(serialize_with = "recording::serialize_shown")]
    pub path: PathBuf,
}

/// Why something is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// It ran beside the interpreter that the bundle is for.
    OtherPython,
    /// A zipped package: Python reads it itself.
    Zip,
    /// It is not there any more, or cannot be read.
    Unreadable,
    /// Its path, or a name in it, is no UTF-8 or holds a control character.
    Name,
    /// The interpreter has no code for it: it is not of its language, or too deep.
    NoCode,
}

/// What was left out, so far.
pub(super) struct Left(BTreeSet<NotTaken>);

impl Left {
    fn of(traced: &Traced) -> Left {
        let mut left = Left(BTreeSet::new());
        traced.others.iter().for_each(|path| left.add(Why::OtherPython, path));
        traced.archives.iter().for_each(|path| left.add(Why::Zip, path));
        left
    }

    pub(super) fn add(&mut self, why: Why, path: &Path) {
        self.0.insert(NotTaken { why, path: path.to_owned() });
    }
}

/// Packs, and writes the bundle to `target`: beside it first, so that it is there whole or not
/// at all.
///
/// # Errors
/// [`BundleError`].
pub fn pack(wanted: &Wanted, target: &Path) -> Result<Packed, BundleError> {
    let mut left = Left::of(wanted.traced);
    let directories = directories(wanted, &mut left)?;
    let sources = Sources::of(wanted, &directories, &mut left);
    if sources.all.is_empty() {
        return Err(BundleError::Nothing);
    }
    let code = wanted.interpreter.code_of(&sources.all)?;
    let (entries, order) = place(&sources, &code, &mut left);
    let traced = sources.all[..sources.traced].iter();
    let traced = traced.filter(|path| entries.contains_key(*path)).count() as u64;
    let directories = flagged(directories);
    let index = index::text(&wanted.interpreter, &directories, &entries);
    let archive = zip::archive(&[
        ("sitecustomize.pyc", &code.finder),
        ("sitecustomize.py", super::interpreter::FINDER.as_bytes()),
    ]);
    let code_bytes = order.iter().map(|place| place.length).sum();
    let content = Content { index, code: code.file, order, code_bytes, archive };
    let bundle_bytes = write(&content, target)?;
    let installed = |path: &Path| is_installed_below(path.as_os_str().as_encoded_bytes());
    Ok(Packed {
        python: wanted.interpreter.clone(),
        bundle_bytes,
        code_bytes,
        modules: entries.len() as u64,
        traced,
        looked_at: entries.keys().filter(|path| !installed(path)).count() as u64,
        extensions: wanted.traced.extensions,
        directories: directories.len() as u64,
        checked: checked(&directories),
        not_taken: left.0.into_iter().collect(),
    })
}

/// Where each source's code will be, and what of the interpreter's answer it is.
fn place(sources: &Sources, code: &Code, left: &mut Left) -> (HashMap<PathBuf, Entry>, Vec<Place>) {
    let (mut entries, mut order, mut offset) = (HashMap::new(), Vec::new(), 0);
    for ((path, seen), code) in sources.all.iter().zip(&sources.seen).zip(&code.of_sources) {
        match code {
            Some(place) => {
                let (mtime, size) = (seen.mtime, seen.size);
                entries.insert(path.clone(), Entry { offset, length: place.length, mtime, size });
                offset += place.length;
                order.push(*place);
            }
            None => left.add(Why::NoCode, path),
        }
    }
    (entries, order)
}

/// Says of each directory how far it is believed. Installed ones change by an installer, which
/// changes the entries of `sys.path` themselves: all of those are looked at when a Python starts,
/// however many prefixes there are, then the others, those first that changed last. All else may be
/// edited at any time.
fn flagged(directories: Vec<Directory>) -> Vec<(Directory, Flags)> {
    let inner: std::collections::HashSet<String> = directories
        .iter()
        .flat_map(|directory| {
            directory.modules.keys().map(|tail| format!("{}/{tail}", directory.path))
        })
        .collect();
    let is_look: Vec<_> = directories
        .iter()
        .map(|directory| !is_installed_below(directory.path.as_bytes()))
        .collect();
    let mut by_risk: Vec<_> = (0..directories.len()).filter(|at| !is_look[*at]).collect();
    by_risk.sort_by_key(|at| {
        let directory = &directories[*at];
        (inner.contains(&directory.path), std::cmp::Reverse(directory.mtime))
    });
    let entries = by_risk.iter().filter(|at| !inner.contains(&directories[**at].path)).count();
    by_risk.truncate(entries.max(CHECKED));
    let flags = |at| Flags { check: by_risk.contains(&at), look: is_look[at] };
    let flags: Vec<_> = (0..directories.len()).map(flags).collect();
    directories.into_iter().zip(flags).collect()
}

fn checked(directories: &[(Directory, Flags)]) -> Vec<PathBuf> {
    let checked = directories.iter().filter(|(_, flags)| flags.check);
    checked.map(|(directory, _)| PathBuf::from(&directory.path)).collect()
}
