//! Files that are made, as steps for `remedy`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use remedy::Step;

/// They are for everyone who may enter their directory.
const FILE: u32 = 0o644;
const DIRECTORY: u32 = 0o755;

/// How a file of becalm's begins, so that it is known again: a comment in shells, Tcl and units.
pub(super) const MARK: &str = "# Written by `becalm modules calm`; `becalm undo` takes it back.\n";

/// A file that is to be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedFile {
    /// Where.
    pub path: PathBuf,
    /// What is in it.
    pub content: String,
}

/// What is at the path of a planned file now.
pub(super) enum ExistingFile {
    /// The same file.
    Same,
    /// Nothing, or one that was written by an earlier becalm.
    Ours,
    /// Somebody's own, or what cannot be read.
    Another,
}

impl PlannedFile {
    pub(super) fn now(&self) -> ExistingFile {
        match std::fs::read(&self.path) {
            Ok(content) if content == self.content.as_bytes() => ExistingFile::Same,
            Ok(content) if content.starts_with(MARK.as_bytes()) => ExistingFile::Ours,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => ExistingFile::Ours,
            _ => ExistingFile::Another,
        }
    }
}

/// The steps that make some files, and the directories that they need.
pub fn steps(files: &[PlannedFile]) -> Vec<Step> {
    let above = files.iter().filter_map(|file| file.path.parent()).flat_map(Path::ancestors);
    let missing = |directory: &&Path| !directory.as_os_str().is_empty() && !directory.exists();
    let missing: BTreeSet<&Path> = above.filter(missing).collect();
    let directories = missing.into_iter().map(Path::to_owned);
    let mut steps: Vec<Step> =
        directories.map(|path| Step::Directory { path, mode: DIRECTORY }).collect();
    steps.extend(files.iter().map(|file| {
        let (path, content) = (file.path.clone(), file.content.clone().into_bytes());
        match path.symlink_metadata() {
            Ok(_) => Step::Replace { path, mode: FILE, content },
            Err(_) => Step::Create { path, mode: FILE, content },
        }
    }));
    steps
}
