//! The content of a new file, and where it comes from.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use recording::ByteUnits;

use crate::change::Version;
use crate::held::HeldDirectory;
use crate::work::changed;
use crate::{Digest, Error, Seen, rewrite};

/// Where the content of a new file comes from.
pub(crate) enum NewContent<'a> {
    Nowhere,
    Memory(&'a [u8]),
    /// A copy of this one's.
    File(PathBuf),
    /// This file itself, which lies beside: it has no other name afterwards.
    Written(PathBuf),
    /// The same, but its name stays until the change is on the disk.
    Aside(PathBuf),
}

/// Gives a file that is there the temporary's name, if it is still what was seen.
pub(crate) fn whole_file(
    content: &NewContent,
    seen: &Seen,
    directory: &HeldDirectory,
    temporary: &Path,
) -> Result<File, Error> {
    let (NewContent::Written(there) | NewContent::Aside(there)) = content else {
        return Err(Error::refused(temporary, "there is nothing to be put there"));
    };
    match content {
        NewContent::Written(_) => directory.move_to(there, false, directory, temporary)?,
        _ => directory.link(there, directory, temporary)?,
    }
    let file = directory.read(temporary)?;
    let found = file.metadata().map_err(|error| Error::at("fstat", temporary, error))?;
    if found.is_file() && seen.is_still(&found) { Ok(file) } else { Err(changed(there)) }
}

/// Writes it to an empty file: what was written.
pub(crate) fn write(
    content: &NewContent,
    target: &File,
    temporary: &Path,
) -> Result<Version, Error> {
    let failed = |operation| move |error| Error::at(operation, temporary, error);
    let version = match content {
        NewContent::Nowhere | NewContent::Written(_) | NewContent::Aside(_) => {
            rewrite::version_of(target).map_err(failed("read"))?
        }
        NewContent::Memory(bytes) => {
            target.write_all_at(bytes, 0).map_err(failed("write"))?;
            Version { size: ByteUnits(bytes.len() as u64), digest: Some(Digest::of(bytes)) }
        }
        NewContent::File(kept) => {
            let source = File::open(kept).map_err(|error| Error::at("open", kept, error))?;
            rewrite::copy(&source, target).map_err(|failure| failure.at(kept, temporary))?
        }
    };
    Ok(version)
}
