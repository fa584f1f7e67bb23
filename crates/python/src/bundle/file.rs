//! The bundle's file, written.

use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

use recording::keep_access;

use super::BundleError;
use super::index::{HEADER, MAGIC, header};
use super::interpreter::Place;

/// What is in a bundle.
pub(super) struct Content {
    pub index: String,
    /// The file that the code is in now.
    pub code: File,
    /// Where in that file, in the order in which it is to be.
    pub order: Vec<Place>,
    pub code_bytes: u64,
    pub archive: Vec<u8>,
}

/// Writes a bundle beside `target`, then gives it that name. Returns its length in bytes.
pub(super) fn write(content: &Content, target: &Path) -> Result<u64, BundleError> {
    let failed = |error| BundleError::file(target, error);
    if !may_replace(target).map_err(failed)? {
        return Err(BundleError::Taken(target.to_owned()));
    }
    // Through a symbolic link: the link stays, what it points to is replaced.
    let target = fs::canonicalize(target).unwrap_or_else(|_| target.to_owned());
    replace(content, &target).map_err(failed)
}

/// Nothing but a bundle is written over: `-o` is easily mistyped.
fn may_replace(target: &Path) -> io::Result<bool> {
    let mut start = Vec::new();
    match fs::metadata(target) {
        Ok(there) if !there.is_file() => return Ok(false),
        Ok(_) => File::open(target)?.take(MAGIC.len() as u64).read_to_end(&mut start)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(error),
    };
    Ok(start.is_empty() || start == MAGIC.as_bytes())
}

fn replace(content: &Content, target: &Path) -> io::Result<u64> {
    let directory = target.parent().filter(|directory| !directory.as_os_str().is_empty());
    let directory = directory.map_or_else(|| PathBuf::from("."), Path::to_owned);
    // It is code: nobody else may write to it, whatever the umask says.
    let file = tempfile::Builder::new()
        .prefix(".becalm-")
        .permissions(Permissions::from_mode(0o644))
        .tempfile_in(directory)?;
    let mut out = BufWriter::with_capacity(1 << 20, file.as_file());
    out.write_all(header(&content.index, content.code_bytes).as_bytes())?;
    out.write_all(content.index.as_bytes())?;
    let mut buffer = Vec::new();
    for place in &content.order {
        buffer.resize(place.length as usize, 0);
        content.code.read_exact_at(&mut buffer, place.offset)?;
        out.write_all(&buffer)?;
    }
    out.write_all(&content.archive)?;
    out.flush()?;
    drop(out);
    keep_access(file.as_file(), target)?;
    file.as_file().sync_all()?;
    file.persist(target)?;
    let parts = HEADER + content.index.len() + content.archive.len();
    Ok(parts as u64 + content.code_bytes)
}
