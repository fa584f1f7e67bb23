//! A bundle that may be used.
//!
//! Its code is marshalled: reading it runs it, and no check could tell good from bad. So what is
//! checked is who could have written it: the user or root, and nobody else.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::index::{HEADER, read_header};

/// A longer index is no index.
const LONGEST: u64 = 1 << 28;

/// A bundle that may be used.
#[derive(Clone, Debug)]
pub struct Bundle {
    path: PathBuf,
}

/// How closely the sources are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// The times of installed entries of `sys.path` and of a few more directories at each start,
    /// and sources outside of installations.
    Quick,
    /// Each directory and each source before it is used.
    Full,
    /// Only sources outside of installations.
    No,
}

/// Why a bundle may not be used.
#[derive(Debug, thiserror::Error)]
pub enum DistrustError {
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// It is none.
    #[error("is no bundle of becalm's, or a damaged one")]
    NoBundle,
    /// PYTHONPATH cannot hold its path.
    #[error("PYTHONPATH cannot hold its colon; give it another path")]
    Colon,
    /// Somebody else wrote it.
    #[error(
        "belongs to user {0}: it is code, so only yours and root's is run; `cp` makes it yours"
    )]
    Owner(u32),
    /// Others may write to it.
    #[error("others may write to it: it is code; `chmod go-w` it")]
    Writable,
    /// Others may replace it.
    #[error("others may replace it, its directory is open to all: it is code; keep it elsewhere")]
    Replaceable,
}

impl Bundle {
    /// Opens a bundle and checks whose it is, and whether it is whole.
    ///
    /// # Errors
    /// [`DistrustError`].
    pub fn open(path: &Path) -> Result<Bundle, DistrustError> {
        let path = path.canonicalize()?;
        // A pipe is not waited for.
        let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
        let mut file = File::options().read(true).custom_flags(flags).open(&path)?;
        let status = file.metadata()?;
        if !status.is_file() {
            return Err(DistrustError::NoBundle);
        }
        trust(&status, &path)?;
        check(&mut file, status.len()).ok().flatten().ok_or(DistrustError::NoBundle)?;
        match path.as_os_str().as_bytes().contains(&b':') {
            true => Err(DistrustError::Colon),
            false => Ok(Bundle { path }),
        }
    }

    /// The variables that make a Python use it, for a command whose PYTHONPATH is this.
    pub fn variables(&self, given: Option<&OsStr>, check: Check) -> Vec<(OsString, OsString)> {
        let mut list = self.path.clone().into_os_string();
        if let Some(given) = given.filter(|given| !given.is_empty()) {
            list.push(":");
            list.push(given);
        }
        let check = match check {
            Check::Quick => "quick",
            Check::Full => "full",
            Check::No => "no",
        };
        vec![("PYTHONPATH".into(), list), ("BECALM_PYBUNDLE_CHECK".into(), check.into())]
    }
}

fn trust(status: &fs::Metadata, path: &Path) -> Result<(), DistrustError> {
    let own = rustix::process::geteuid().as_raw();
    if ![own, 0].contains(&status.uid()) {
        return Err(DistrustError::Owner(status.uid()));
    }
    if status.mode() & 0o022 != 0 {
        return Err(DistrustError::Writable);
    }
    let Some(directory) = path.parent() else { return Ok(()) };
    let mode = fs::metadata(directory)?.mode();
    match mode & 0o002 != 0 && mode & 0o1000 == 0 {
        true => Err(DistrustError::Replaceable),
        false => Ok(()),
    }
}

/// Whether the file is as long as it says and its index is whole.
fn check(file: &mut File, length: u64) -> io::Result<Option<()>> {
    let mut header = [0; HEADER];
    file.read_exact(&mut header)?;
    let Some((index, code, crc)) = read_header(&header) else { return Ok(None) };
    let whole = code.checked_add(index).and_then(|sum| sum.checked_add(HEADER as u64));
    if index > LONGEST || whole.is_none_or(|whole| whole >= length) {
        return Ok(None);
    }
    let mut text = Vec::new();
    file.take(index).read_to_end(&mut text)?;
    let is_whole = crc32fast::hash(&text) == crc && std::str::from_utf8(&text).is_ok();
    Ok(is_whole.then_some(()))
}
