//! Directories of bytecode that appear beside sources after they were packed: whoever imports from
//! the source writes them there. As long as they decide nothing, the image is as its sources are.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::compare::{SourceCheck, has_same_names};
use super::fresh::BYTECODE;
use super::healed;
use super::layer::ImageLayer;

/// Magic and flags (PEP 552).
const HEADER: usize = 8;
/// Bytecode that Python takes without a look at its source.
const UNCHECKED: u32 = 1;

/// Whether all that has changed in a directory is that it has a `__pycache__` by now, which
/// decides nothing. Its files are compared for themselves.
pub(super) fn only_bytecode_is_new(layer: &ImageLayer, check: &SourceCheck) -> io::Result<bool> {
    let packed = layer.entries(check.node).into_iter().find(|entry| entry.name == BYTECODE);
    let was_there = packed.is_some_and(|packed| {
        let compiled = healed::bytecode(layer, check.node, &packed).unwrap_or_default();
        !layer.entries(packed.node).iter().all(|entry| compiled.contains(&entry.name))
    });
    let kept = check.path.join(OsStr::from_bytes(BYTECODE));
    Ok(!was_there && decides_nothing(&kept)? && has_same_names(layer, check)?)
}

/// Whether a directory of bytecode holds none that Python takes whatever its source is. All other is
/// compared with the source, which the image has as it is; without a source, none is looked at.
pub(super) fn decides_nothing(directory: &Path) -> io::Result<bool> {
    if !fs::symlink_metadata(directory)?.is_dir() {
        return Ok(false);
    }
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_name().as_bytes().ends_with(b".pyc") && is_unchecked(&entry.path())? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_unchecked(pyc: &Path) -> io::Result<bool> {
    // Neither a pipe nor a directory is imported.
    match fs::metadata(pyc) {
        Ok(there) if there.is_file() => {}
        _ => return Ok(false),
    }
    let mut header = [0; HEADER];
    match File::open(pyc)?.read_exact(&mut header) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
        Ok(()) => {
            let [.., a, b, c, d] = header;
            Ok(u32::from_le_bytes([a, b, c, d]) == UNCHECKED)
        }
    }
}
