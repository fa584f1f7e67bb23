//! What an application left, and what was there before, as `sha256sum --check` reads it.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::change::{FileChange, Item, ItemKind, Version};
use crate::journal::Story;
use crate::{Digest, Error, state};

/// What became of one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestEntry {
    /// The path.
    pub path: PathBuf,
    /// The content that was there; none where there was no regular file.
    pub before: Option<Digest>,
    /// The content that is there; none where there is no regular file: a link, a directory, nothing.
    pub after: Option<Digest>,
    /// Whether something is at the path that was not.
    pub is_new: bool,
}

/// What an application left, sorted by path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Its id.
    pub id: String,
    /// The title of its plan.
    pub title: String,
    /// Each path.
    pub entries: Vec<ManifestEntry>,
}

/// What was applied under an id, from its journal: no file is read.
///
/// # Errors
/// If there is no such id, it is not applied now, or its journal cannot be read.
pub fn manifest(state: &Path, id: &str) -> Result<Manifest, Error> {
    let directory = state::journal_directory(state, id)?;
    let story = Story::read_applied(&directory)?;
    let mut entries: Vec<_> = story.changes.iter().flat_map(entries).collect();
    entries.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(Manifest { id: story.id, title: story.title, entries })
}

fn entries(change: &FileChange) -> Vec<ManifestEntry> {
    let (before, after) = match change {
        FileChange::Patch(patch) => (patch.before.digest, patch.after.digest),
        FileChange::Add(item) => (None, digest(item)),
        FileChange::Remove(item) => (digest(item), None),
        FileChange::Replace(replaced) => (digest(&replaced.before), digest(&replaced.after)),
    };
    let is_new = matches!(change, FileChange::Add(_));
    let entry = |path: &PathBuf| ManifestEntry { path: path.clone(), before, after, is_new };
    change.paths().iter().map(entry).collect()
}

fn digest(item: &Item) -> Option<Digest> {
    match &item.thing {
        ItemKind::File { version: Version { digest, .. }, renewed, .. } => {
            renewed.last().map_or(*digest, |last| last.digest)
        }
        ItemKind::Link { .. } | ItemKind::Directory { .. } => None,
    }
}

impl Manifest {
    /// Writes the lines that `sha256sum --check` takes, and as comments what was there before.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        line(out, &format!("# becalm {}: ", self.id), self.title.as_bytes())?;
        for ManifestEntry { path, before, after, is_new } in &self.entries {
            let path = path.as_os_str().as_encoded_bytes();
            // sha256sum(1): how a line begins whose name has characters behind backslashes.
            let escape = if path.iter().any(|byte| b"\\\n".contains(byte)) { "\\" } else { "" };
            if let Some(before) = before {
                line(out, &format!("# before: {escape}{before}  "), path)?;
            }
            match after {
                Some(after) => line(out, &format!("{escape}{after}  "), path)?,
                None if *is_new => line(out, "# new: ", path)?,
                None => line(out, "# gone: ", path)?,
            }
        }
        Ok(())
    }
}

/// A line that stays one, whatever is in the name.
fn line(out: &mut dyn Write, beginning: &str, name: &[u8]) -> io::Result<()> {
    out.write_all(beginning.as_bytes())?;
    for byte in name {
        match byte {
            b'\\' => out.write_all(b"\\\\")?,
            b'\n' => out.write_all(b"\\n")?,
            byte => out.write_all(&[*byte])?,
        }
    }
    out.write_all(b"\n")
}
