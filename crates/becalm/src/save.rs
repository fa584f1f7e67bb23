//! Files that a verb writes where it was asked to.

use std::fs::File;
use std::io::Read;
use std::path::Path;

pub use ::save::whole;
use anyhow::{Context, anyhow, bail};
use serde::Serialize;

/// Before the work is done: `target` can be made, or is one of its kind, which has one of these
/// beginnings. Nothing else is written over: a name is easily mistyped. A device or a pipe is taken
/// as it is.
///
/// # Errors
/// In one line, with what was to be written.
pub fn check(target: &Path, what: &str, kind: &str, beginnings: &[&[u8]]) -> anyhow::Result<()> {
    let name = || format!("cannot write the {what} to {}", term::plain(&target.to_string_lossy()));
    let Ok(there) = target.metadata() else {
        let directory = target.parent().filter(|directory| *directory != Path::new(""));
        let tried = tempfile::tempfile_in(directory.unwrap_or(Path::new(".")));
        return tried.map(drop).with_context(name);
    };
    if there.is_dir() {
        return Err(anyhow!("it is a directory; give a file's name")).with_context(name);
    }
    if there.is_file() && there.len() > 0 {
        let mut start = Vec::new();
        let file = File::open(target).with_context(name)?;
        file.take(64).read_to_end(&mut start).with_context(name)?;
        if !beginnings.iter().any(|beginning| start.starts_with(beginning)) {
            bail!("{}: it exists and is no {kind}; choose another name or remove it", name());
        }
    }
    Ok(())
}

/// Writes an answer as JSON where a file was named for it, as [`whole`].
///
/// # Errors
/// As [`whole`].
pub fn json(target: Option<&Path>, source: &Path, answer: &impl Serialize) -> anyhow::Result<()> {
    let Some(target) = target else { return Ok(()) };
    let json = term::json(answer)?;
    Ok(whole(target, source, |out| out.write_all(json.as_bytes()))?)
}
