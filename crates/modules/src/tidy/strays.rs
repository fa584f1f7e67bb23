//! Strays: files that are no modulefiles, which each `avail` opens and reads for nothing. They
//! move out, unless something may read them where they are.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::everyone;
use super::shelf::{self, Shelf};
use super::{Kept, Moved, Options, What};
use crate::tree::{Cookie, Entry, Kind};

/// Endings of files that other files read.
const READ_BY_OTHERS: [&str; 11] =
    ["tcl", "lua", "sh", "csh", "bash", "zsh", "fish", "py", "pl", "rb", "inc"];

/// The strays of one modulepath.
#[derive(Default)]
pub(super) struct Strays<'a> {
    pub(super) moved: Vec<(&'a Path, Moved)>,
    pub(super) kept: Vec<Kept>,
}

/// What can be moved out of a modulepath.
pub(super) fn of<'a>(shelf: &Shelf<'a>, options: &Options) -> Strays<'a> {
    let is_stray = |entry: &&&Entry| matches!(entry.kind, Kind::File(Cookie::Missing));
    let found: Vec<&Entry> = shelf.entries.values().filter(is_stray).copied().collect();
    let mut strays = Strays::default();
    if found.is_empty() {
        return strays;
    }
    let texts = texts(shelf);
    let folder = folder(shelf.root, options);
    for entry in found {
        match moved(shelf, entry, &texts, &folder, options) {
            Ok(moved) => strays.moved.push((&entry.name, moved)),
            Err(reason) => {
                let path = shelf.root.join(&entry.name);
                strays.kept.push(Kept { path, what: What::Stray, reason });
            }
        }
    }
    strays
}

/// Where the strays of a modulepath go.
fn folder(root: &Path, options: &Options) -> PathBuf {
    let name = root.file_name().unwrap_or_default();
    match &options.strays {
        Some(folder) => folder.join(name),
        None => {
            let mut name = name.to_owned();
            name.push(".strays");
            root.with_file_name(name)
        }
    }
}

fn moved(
    shelf: &Shelf<'_>,
    entry: &Entry,
    texts: &Result<String, String>,
    folder: &Path,
    options: &Options,
) -> Result<Moved, String> {
    if options.keep_strays {
        return Err("as asked for".into());
    }
    let texts = texts.as_ref().map_err(String::clone)?;
    let from = shelf.root.join(&entry.name);
    stays(shelf, entry, texts)?;
    let (content, links) = shelf::content(&from)?;
    if links != 1 {
        return Err("it has other names (hard links)".into());
    }
    let to = folder.join(&entry.name);
    if to.symlink_metadata().is_ok() {
        return Err(format!("{} is there already", to.display()));
    }
    let mode = from.metadata().map_err(|error| error.to_string())?.permissions().mode();
    Ok(Moved { from, to, mode: mode & 0o777, content })
}

/// Why a stray may be of use where it is.
fn stays(shelf: &Shelf<'_>, entry: &Entry, texts: &str) -> Result<(), String> {
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
    } else if texts.contains(tail) {
        "a modulefile or rc file has its name"
    } else if texts.contains("glob") && !is_document(tail) {
        "a modulefile reads what it finds in a folder (glob)"
    } else if !everyone::may_read(shelf.root, &entry.name) {
        "not everyone may read it, and its copy would have another owner"
    } else {
        return Ok(());
    };
    Err(why.into())
}

fn is_document(tail: &str) -> bool {
    let name = tail.to_ascii_uppercase();
    ["README", "LICENSE", "COPYING", "CHANGES", "CHANGELOG", "NOTES", "TODO"]
        .iter()
        .any(|document| name.starts_with(document))
}

/// The text of all modulefiles and rc files: what names a stray.
fn texts(shelf: &Shelf<'_>) -> Result<String, String> {
    let mut all = String::new();
    for (name, entry) in &shelf.entries {
        let is_read = match &entry.kind {
            Kind::File(cookie) => *cookie != Cookie::Missing,
            Kind::Rc(..) => true,
            _ => false,
        };
        if !is_read {
            continue;
        }
        let path = shelf.root.join(name);
        let (content, _) = shelf::content(&path)
            .map_err(|why| format!("{} may have its name: {why}", path.display()))?;
        if all.len() + content.len() > 256 << 20 {
            return Err("the modulefiles are too large to be searched for its name".into());
        }
        all.push_str(&String::from_utf8_lossy(&content));
        all.push('\n');
    }
    Ok(all)
}
