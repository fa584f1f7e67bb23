//! Directories of bytecode that appear beside sources after they were packed: whoever imports from
//! the source writes them there. As long as they decide nothing, the image is as its sources are.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use image_format::squash::{NodeKind, SquashEntry, SquashNode};

use super::compare::{SourceCheck, SourceIdentity, has_same_content, has_same_names};
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
    let was_there = packed.is_some_and(|packed| !healed::is_made(layer, check.node, &packed));
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

/// Whether a directory of bytecode, which has changed since it was packed, decides the same as then:
/// each file in it that Python takes whatever its source is, is in the image with the same content,
/// and each of the image's is there.
pub(super) fn decides_the_same(layer: &ImageLayer, check: &SourceCheck) -> io::Result<bool> {
    let mut packed: HashMap<Vec<u8>, SquashNode> =
        layer.entries(check.node).into_iter().map(|entry| (entry.name, entry.node)).collect();
    for entry in fs::read_dir(&check.path)? {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        let node = packed.remove(name.as_bytes());
        if !name.as_bytes().ends_with(b".pyc") || !is_unchecked(&path)? {
            continue;
        }
        let Some(node) = node else { return Ok(false) };
        let attributes = layer.image.attributes(node).map_err(io::Error::other)?;
        let source = SourceIdentity::Other;
        let file = SourceCheck { path, node, packed: attributes, source };
        if file.packed.kind != NodeKind::File || !has_same_content(layer, &file)? {
            return Ok(false);
        }
    }
    Ok(!packed
        .iter()
        .any(|(name, node)| name.ends_with(b".pyc") && is_packed_unchecked(layer, *node)))
}

/// The bytecode of a packed directory that Python takes whatever its source is.
pub(super) fn unasked(layer: &ImageLayer, directory: SquashNode) -> Vec<SquashEntry> {
    let mut entries = layer.entries(directory);
    entries.retain(|it| it.name.ends_with(b".pyc") && is_packed_unchecked(layer, it.node));
    entries
}

/// Whether the image's own bytecode is such that Python takes it whatever its source is.
pub(super) fn is_packed_unchecked(layer: &ImageLayer, node: SquashNode) -> bool {
    if let Some(noted) = layer.manifest().and_then(|manifest| manifest.unchecked.as_ref()) {
        let inode = || layer.image.attributes(node).map(|it| it.inode);
        return !noted.is_empty() && inode().is_ok_and(|it| noted.binary_search(&it).is_ok());
    }
    // An image of an older becalm.
    let mut header = [0; HEADER];
    let read = layer.image.open(node).and_then(|file| layer.image.read_at(&file, 0, &mut header));
    read.is_ok_and(|length| length == HEADER) && is_unchecked_header(header)
}

fn is_unchecked_header(header: [u8; HEADER]) -> bool {
    let [.., a, b, c, d] = header;
    u32::from_le_bytes([a, b, c, d]) == UNCHECKED
}

pub(super) fn is_unchecked(pyc: &Path) -> io::Result<bool> {
    // Neither a pipe nor a directory is imported.
    match fs::metadata(pyc) {
        Ok(there) if there.is_file() => {}
        _ => return Ok(false),
    }
    let mut header = [0; HEADER];
    match File::open(pyc)?.read_exact(&mut header) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
        Ok(()) => Ok(is_unchecked_header(header)),
    }
}
