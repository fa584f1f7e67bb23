//! Bound copies of files, beside a calm file, and who may read them: who could read all that they
//! were made of, or only this user.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use access::everyone_may;
use anyhow::{Context, anyhow};
use cure::{CalmFile, ReliedFile, ShownCopy};
use loader::bind::Binding;
use remedy::{Digest, FileState, Step};

/// Where copies belong.
pub(super) struct CopiesPlace {
    /// Their directory.
    pub directory: PathBuf,
    /// The copies that are there, of the calm file before.
    pub old: BTreeSet<PathBuf>,
    /// Whether others than this user may read them.
    pub is_for_everyone: bool,
}

/// The steps that make bound copies, of no file where there is no binding. The calm file then says
/// what is shown, and which files else the copies name.
pub(super) fn steps(
    place: CopiesPlace,
    binding: Option<&Binding>,
    calm: &mut CalmFile,
) -> anyhow::Result<Vec<Step>> {
    let CopiesPlace { directory, mut old, is_for_everyone } = place;
    let mut steps = Vec::new();
    if binding.is_some() && !directory.is_dir() {
        let mode = if is_for_everyone { 0o755 } else { 0o700 };
        steps.push(Step::Directory { path: directory.clone(), mode });
    }
    let mut names = BTreeSet::new();
    for change in binding.iter().flat_map(|binding| &binding.changes) {
        let (content, mode, was) = bound(change)?;
        let mode = if is_for_everyone { mode & 0o755 | 0o644 } else { mode & 0o700 | 0o600 };
        let is_free = |name: &OsStr| {
            let path = directory.join(name);
            !names.contains(name) && (old.contains(&path) || !path.exists())
        };
        let name = free_name(change.path.file_name().unwrap_or_default(), is_free);
        let path = directory.join(&name);
        names.insert(name);
        let digest = Digest::of(&content);
        for file in [&change.path].into_iter().chain(&change.also) {
            calm.shown.push(ShownCopy {
                file: file.clone(),
                was,
                copy: path.clone(),
                copy_bytes: content.len() as u64,
                copy_digest: digest,
            });
        }
        steps.push(match old.remove(&path) {
            true => Step::Replace { path, mode, content },
            false => Step::Create { path, mode, content },
        });
    }
    steps.extend(old.into_iter().map(|path| Step::Remove { path }));
    calm.relies_on.extend(named(binding, &calm.shown)?);
    Ok(steps)
}

/// The paths that the copies name, and in whose place none is shown. What such a path leads to may be
/// shown all the same.
fn named(binding: Option<&Binding>, shown: &[ShownCopy]) -> anyhow::Result<Vec<ReliedFile>> {
    let known: BTreeMap<&Path, FileState> =
        shown.iter().map(|shown| (&*shown.file, shown.was)).collect();
    let state = |path: PathBuf| {
        let name = || term::plain(&path.to_string_lossy());
        let real = path.canonicalize().with_context(name)?;
        let was = match known.get(&*real) {
            Some(was) => *was,
            None => FileState::of(&real).with_context(name)?,
        };
        Ok(ReliedFile { path, was })
    };
    binding.map(cure::named_and_not_shown).unwrap_or_default().into_iter().map(state).collect()
}

/// Why only this user can use the copies, in words; none where everybody can.
pub(super) fn only_you(binding: &Binding, directory: &Path) -> Option<String> {
    if binding.changes.is_empty() {
        return None;
    }
    let mut open = BTreeSet::new();
    let mut files = binding.changes.iter().map(|change| &change.path);
    if let Some(closed) = files.find(|file| !everyone_may_read(file, &mut open)) {
        let closed = term::plain(&closed.to_string_lossy());
        return Some(format!("not everyone may read {closed}, of which it has a copy"));
    }
    // One that is there stays as it is.
    let there = directory.metadata().ok()?;
    let is_closed = !everyone_may(directory, there.mode(), ENTER);
    is_closed.then(|| format!("{} is closed to others", term::plain(&directory.to_string_lossy())))
}

/// To read a file, or to list a directory.
const READ: u8 = 4;
/// To enter a directory.
const ENTER: u8 = 1;

/// Whether everyone may read a file, and come to it. `open` are the directories that are known to
/// let everyone through.
fn everyone_may_read(file: &Path, open: &mut BTreeSet<PathBuf>) -> bool {
    let may = |path: &Path, right| {
        path.metadata().is_ok_and(|found| everyone_may(path, found.mode(), right))
    };
    let Ok(real) = file.canonicalize() else { return false };
    may(&real, READ)
        && real.ancestors().skip(1).all(|directory| {
            let is_open = open.contains(directory) || may(directory, ENTER);
            if is_open {
                open.insert(directory.to_owned());
            }
            is_open
        })
}

/// The name, or the name with the first number before it that makes it free.
fn free_name(name: &OsStr, is_free: impl Fn(&OsStr) -> bool) -> OsString {
    let numbered = (1..).map(|number: u64| {
        let mut numbered = OsString::from(format!("{number}-"));
        numbered.push(name);
        numbered
    });
    let mut all = std::iter::once(name.to_owned()).chain(numbered);
    all.find(|name| is_free(name)).unwrap_or_default()
}

/// The content and mode of a bound copy, and what was copied.
fn bound(change: &loader::bind::BindChange) -> anyhow::Result<(Vec<u8>, u32, FileState)> {
    let path = &change.path;
    let name = || term::plain(&path.to_string_lossy());
    let is_still = || -> anyhow::Result<()> {
        let seen = remedy::Seen { digest: None, ..change.seen };
        match remedy::Seen::of(path)? == seen {
            true => Ok(()),
            false => Err(anyhow!("{}: changed while becalm was at work", name())),
        }
    };
    is_still()?;
    let mode = path.metadata().with_context(name)?.permissions().mode();
    let content = fs::read(path).with_context(name)?;
    let was = FileState::of(path).with_context(name)?;
    is_still()?;
    let content = loader::edit::apply(&content, &change.patches)
        .map_err(|error| anyhow!("{}: {error}", name()))?;
    Ok((content, mode, was))
}
