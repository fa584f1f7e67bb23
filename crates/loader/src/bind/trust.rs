//! Whether a directory `.becalm` that is there already may be relied on: whoever can write to it
//! decides what bound programs load.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::UnboundFile;
use super::collect::OWN_DIRECTORY;

/// What in a root's own directory is another user's to change, if anything is.
pub(super) fn distrusted(root: &Path) -> Option<UnboundFile> {
    let own = root.join(OWN_DIRECTORY);
    let below = ["farm", "closure"].map(|name| own.join(name));
    let entries = |directory: &PathBuf| {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let told = |path: &Path| {
        let reason = why_not(path)?;
        let reason = format!("{reason}: it is not relied on, and files keep their lists");
        Some(UnboundFile { path: path.to_owned(), reason })
    };
    // From the outside to the inside: what is in a link is not looked at.
    told(&own)
        .or_else(|| below.iter().find_map(|directory| told(directory)))
        .or_else(|| below.iter().flat_map(entries).find_map(|entry| told(&entry)))
}

fn why_not(path: &Path) -> Option<String> {
    let seen = fs::symlink_metadata(path).ok()?;
    let caller = rustix::process::geteuid().as_raw();
    if seen.is_symlink() {
        Some("it is a symbolic link".to_owned())
    } else if seen.uid() != 0 && seen.uid() != caller {
        Some(format!("it belongs to user {}", seen.uid()))
    } else {
        (seen.mode() & 0o022 != 0).then(|| "others than its owner may write to it".to_owned())
    }
}
