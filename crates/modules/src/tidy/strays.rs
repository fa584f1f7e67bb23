//! Strays: files that are no modulefiles, which each `avail` opens and reads for nothing. They
//! move out, unless something may read them where they are.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::everyone;
use super::reads::ModulefileReaders;
use super::shelf::{self, Shelf};
use super::{Kept, MovedStray, TidyOptions, TidySubject};
use crate::tree::{Cookie, TreeEntry, TreeEntryKind};

/// Endings of files that other files read.
const READ_BY_OTHERS: [&str; 11] =
    ["tcl", "lua", "sh", "csh", "bash", "zsh", "fish", "py", "pl", "rb", "inc"];

/// The strays of one modulepath.
#[derive(Default)]
pub(super) struct Strays<'a> {
    pub(super) moved: Vec<(&'a Path, MovedStray)>,
    pub(super) kept: Vec<Kept>,
}

/// What can be moved out of a modulepath.
pub(super) fn of<'a>(
    shelf: &Shelf<'a>,
    readers: &ModulefileReaders,
    options: &TidyOptions,
) -> Strays<'a> {
    let is_stray = |entry: &&&TreeEntry| matches!(entry.kind, TreeEntryKind::File(Cookie::Missing));
    let found: Vec<&TreeEntry> = shelf.entries.values().filter(is_stray).copied().collect();
    let mut strays = Strays::default();
    let directory = directory(shelf.root, options);
    for entry in found {
        match moved(shelf, entry, readers, &directory, options) {
            Ok(moved) => strays.moved.push((&entry.name, moved)),
            Err(reason) => {
                let path = shelf.root.join(&entry.name);
                strays.kept.push(Kept { path, what: TidySubject::Stray, reason });
            }
        }
    }
    strays
}

/// Where the strays of a modulepath go.
fn directory(root: &Path, options: &TidyOptions) -> PathBuf {
    let name = root.file_name().unwrap_or_default();
    match &options.strays {
        Some(directory) => directory.join(name),
        None => {
            let mut name = name.to_owned();
            name.push(".strays");
            root.with_file_name(name)
        }
    }
}

fn moved(
    shelf: &Shelf<'_>,
    entry: &TreeEntry,
    readers: &ModulefileReaders,
    directory: &Path,
    options: &TidyOptions,
) -> Result<MovedStray, String> {
    if options.keep_strays {
        return Err("as asked for".into());
    }
    let from = shelf.root.join(&entry.name);
    stays(shelf, entry, readers)?;
    let (content, links) = shelf::content(&from)?;
    if links != 1 {
        return Err("it has other names (hard links)".into());
    }
    let to = directory.join(&entry.name);
    if to.symlink_metadata().is_ok() {
        return Err(format!("{} is there already", to.display()));
    }
    let mode = from.metadata().map_err(|error| error.to_string())?.permissions().mode();
    Ok(MovedStray { from, to, mode: mode & 0o777, content })
}

/// Why a stray may be of use where it is.
fn stays(shelf: &Shelf<'_>, entry: &TreeEntry, readers: &ModulefileReaders) -> Result<(), String> {
    let tail = entry.file_name();
    let tail = tail.to_str().ok_or("its name is no text")?;
    let ending = Path::new(tail).extension().and_then(|ending| ending.to_str()).unwrap_or("");
    let mode = entry.stamp.map_or(0, |stamp| stamp.mode);
    let why = if entry.is_link {
        "it is a symbolic link"
    } else if entry.is_dotted() {
        "its name begins with a dot: some tool has put it there"
    } else if ending == "lua" {
        "it may be a modulefile of Lmod"
    } else if READ_BY_OTHERS.contains(&ending) || mode & 0o111 != 0 {
        "modulefiles may read or run it"
    } else if let Some(why) = readers.need(shelf.root, &entry.name) {
        return Err(why);
    } else if !everyone::may_read(shelf.root, &entry.name) {
        "not everyone may read it, and its copy would have another owner"
    } else {
        return Ok(());
    };
    Err(why.into())
}
