//! Files that a verb writes where it was asked to.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

pub use ::save::whole;
use anyhow::{Context, anyhow, bail};
use serde::Serialize;

/// A kind of file that is written where a user names it. Nothing but one of its kind is written over: a
/// name is easily mistyped.
pub struct OutputKind {
    /// What is written, for `cannot write the …`.
    pub what: &'static str,
    /// What may be there: `it exists and is no …`.
    pub kind: &'static str,
    /// Whether a file that begins with these bytes is one.
    pub is_one: fn(&[u8]) -> bool,
}

/// What `--json=FILE` writes: an object.
pub const ANSWER: OutputKind = OutputKind {
    what: "answer",
    kind: "JSON file",
    is_one: |start| start.trim_ascii_start().starts_with(b"{"),
};

impl OutputKind {
    /// Before the work is done: `target` can be made, or is one of its kind, and is no other file of
    /// this command's. A device or a pipe is taken as it is.
    ///
    /// # Errors
    /// In one line, with what was to be written.
    pub fn check(&self, target: &Path) -> anyhow::Result<()> {
        let name = || self.cannot_write(target);
        if !target.exists() {
            let directory = target.parent().filter(|directory| *directory != Path::new(""));
            tempfile::tempfile_in(directory.unwrap_or(Path::new("."))).with_context(name)?;
        }
        self.may_replace(target)?;
        claim(target).with_context(name)
    }

    /// What is there, if anything, can be written over.
    ///
    /// # Errors
    /// As [`OutputKind::check`].
    pub fn may_replace(&self, target: &Path) -> anyhow::Result<()> {
        let name = || self.cannot_write(target);
        let Ok(there) = target.metadata() else { return Ok(()) };
        if there.is_dir() {
            return Err(anyhow!("it is a directory; give a file's name")).with_context(name);
        }
        if there.is_file() && there.len() > 0 {
            let mut start = Vec::new();
            let file = File::open(target).with_context(name)?;
            file.take(4096).read_to_end(&mut start).with_context(name)?;
            if !(self.is_one)(&start) {
                let kind = self.kind;
                bail!("{}: it exists and is no {kind}; choose another name or remove it", name());
            }
        }
        Ok(())
    }

    fn cannot_write(&self, target: &Path) -> String {
        let target = term::plain(&target.to_string_lossy());
        format!("cannot write the {} to {target}", self.what)
    }
}

/// Takes a name for one of the files that this command writes.
///
/// # Errors
/// Another of its files has that name: one of them would be lost.
pub fn claim(target: &Path) -> anyhow::Result<()> {
    static TAKEN: Mutex<Vec<ClaimedName>> = Mutex::new(Vec::new());
    if target.exists() && !target.is_file() {
        return Ok(());
    }
    let path = std::path::absolute(::save::followed(target))?;
    let directory = path.parent().and_then(|directory| directory.canonicalize().ok());
    let path = match (directory, path.file_name()) {
        (Some(directory), Some(name)) => directory.join(name),
        _ => path,
    };
    // Hard links are one file.
    let file = path.metadata().ok().map(|there| (there.dev(), there.ino()));
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    if taken.iter().any(|it| it.path == path || (file.is_some() && it.file == file)) {
        bail!("another of this command's files has that name; choose two");
    }
    taken.push(ClaimedName { path, file });
    Ok(())
}

/// A name that one of this command's files has.
struct ClaimedName {
    path: PathBuf,
    file: Option<(u64, u64)>,
}

/// Writes an answer as JSON where a file was named for it, as [`whole`].
///
/// # Errors
/// As [`whole`] and [`OutputKind::check`].
pub fn json(target: Option<&Path>, source: &Path, answer: &impl Serialize) -> anyhow::Result<()> {
    let Some(target) = target else { return Ok(()) };
    ANSWER.may_replace(target)?;
    let json = term::json(answer)?;
    Ok(whole(target, source, |out| out.write_all(json.as_bytes()))?)
}
