//! Writes a file whole or not at all.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde::Serialize;
use tempfile::NamedTempFile;

/// Writes `target`: what `write` gives goes into a new file beside it, which takes its name once
/// all is on the disk. A device or a pipe is written to as it is.
///
/// # Errors
/// Where `target` is a directory or the same file as `source`, and those of writing. The old
/// `target` is then as it was.
pub fn whole(
    target: &Path,
    source: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    let name = || term::plain(&target.to_string_lossy());
    match fs::metadata(target) {
        Ok(there) if there.is_dir() => bail!("{}: is a directory; give a file's name", name()),
        Ok(there) if is_same(&there, source) => {
            bail!("{}: is the recording itself; choose another name", name())
        }
        Ok(there) if !there.is_file() => {
            let out = File::options().write(true).open(target).with_context(name)?;
            write_all(out, write).with_context(name)?;
        }
        _ => replace(target, write).with_context(name)?,
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
    whole(target, source, |out| out.write_all(json.as_bytes()))
}

/// Writes a file of a name that is free; whether it still was when all had been written.
///
/// # Errors
/// Those of writing. There is no file of that name then.
pub fn fresh(
    target: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<bool> {
    let name = || term::plain(&target.to_string_lossy());
    let file = beside(target, write).with_context(name)?;
    match file.persist_noclobber(target) {
        Ok(_) => Ok(true),
        Err(taken) if taken.error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error.error).with_context(name),
    }
}

fn replace(target: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    // Through a symbolic link: the link stays, what it points to is replaced.
    let target = fs::canonicalize(target).unwrap_or_else(|_| target.to_owned());
    beside(&target, write)?.persist(&target)?;
    Ok(())
}

/// All of it, on the disk, in a file that has no name yet.
fn beside(
    target: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<NamedTempFile> {
    let file = tempfile::Builder::new()
        .prefix(".becalm-")
        .permissions(fs::Permissions::from_mode(0o666))
        .tempfile_in(directory_of(target))?;
    write_all(file.as_file(), write)?;
    recording::keep_access(file.as_file(), target)?;
    file.as_file().sync_all()?;
    Ok(file)
}

fn write_all(
    out: impl Write,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(256 << 10, out);
    write(&mut out)?;
    out.flush()
}

fn directory_of(file: &Path) -> PathBuf {
    match file.parent() {
        Some(directory) if directory != Path::new("") => directory.to_owned(),
        _ => PathBuf::from("."),
    }
}

fn is_same(there: &fs::Metadata, source: &Path) -> bool {
    fs::metadata(source)
        .is_ok_and(|source| (source.dev(), source.ino()) == (there.dev(), there.ino()))
}
