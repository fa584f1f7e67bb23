//! `becalm elf bind --manifest`: what was changed, for those who keep checksums of what is installed.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use remedy::ManifestEntry;
use serde::Deserialize;

use crate::exit::Failure;

/// What Spack keeps of each file of a prefix, in the prefix: lib/spack/spack/verify.py of Spack.
const KEPT: &str = ".spack/install_manifest.json";

/// A prefix of a hundred thousand files has a manifest of some 40 MB.
const MOST: u64 = 256 << 20;

/// A prefix of Spack's: what it keeps of each path, by the path that Spack calls it.
struct SpackPrefix {
    root: String,
    files: HashMap<String, SpackFile>,
}

#[derive(Deserialize)]
struct SpackFile {
    size: Option<u64>,
}

/// Writes what was applied under an id.
///
/// # Errors
/// If the journal cannot be read, or the file not be written.
pub fn write(file: &Path, state: &Path, id: &str) -> Result<(), Failure> {
    let manifest = remedy::manifest(state, id)?;
    let said = spack_says(&manifest.entries);
    let write = |out: &mut dyn Write| -> io::Result<()> {
        manifest.write(out)?;
        said.iter().try_for_each(|line| writeln!(out, "# spack verify: {line}"))
    };
    Ok(crate::save::whole(file, Path::new(""), |out| write(out))?)
}

/// What `spack verify` will report of the changed files, as Spack compares them. Spack's checksum is of
/// the content, so that it differs for each.
fn spack_says(entries: &[ManifestEntry]) -> Vec<String> {
    let mut prefixes = HashMap::new();
    let says = |entry: &ManifestEntry| {
        let prefix = entry.path.ancestors().skip(1).find(|above| above.join(KEPT).is_file())?;
        let kept = prefixes.entry(prefix.to_owned()).or_insert_with(|| SpackPrefix::read(prefix));
        let path = term::plain(&entry.path.to_string_lossy());
        let Some(kept) = kept else { return Some(format!("its manifest cannot be read: {path}")) };
        let said = match kept.file(prefix, &entry.path) {
            _ if entry.is_new => "added",
            None => "added, without becalm as well",
            Some(SpackFile { size: Some(size) }) if !is_of_size(&entry.path, *size) => "size, hash",
            Some(_) => "hash",
        };
        Some(format!("{said}: {path}"))
    };
    entries.iter().filter_map(says).collect()
}

fn is_of_size(path: &Path, size: u64) -> bool {
    path.metadata().is_ok_and(|found| found.len() == size)
}

impl SpackPrefix {
    /// None where it is not what Spack writes.
    fn read(prefix: &Path) -> Option<SpackPrefix> {
        let mut text = Vec::new();
        File::open(prefix.join(KEPT)).ok()?.take(MOST).read_to_end(&mut text).ok()?;
        let files: HashMap<String, SpackFile> = serde_json::from_slice(&text).ok()?;
        // The prefix itself is in it: its path is the shortest, and may lead through links.
        let root = files.keys().min_by_key(|path| path.len())?.clone();
        Some(SpackPrefix { root, files })
    }

    fn file(&self, prefix: &Path, path: &Path) -> Option<&SpackFile> {
        let below = path.strip_prefix(prefix).ok()?;
        self.files.get(Path::new(&self.root).join(below).to_str()?)
    }
}
