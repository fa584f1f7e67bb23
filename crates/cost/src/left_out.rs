//! What a prediction leaves out though it might be shared, and which directory to name for it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use recording::query::clean;
use rustc_hash::FxHashMap;

use crate::RecordedStart;

/// Metadata operations that no wait is predicted for, as nothing said that their files are shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// How many: those on files that a server might have, not on interfaces of the kernel's.
    pub operations: u64,
    /// Of those, how many the kernel serves from memory (tmpfs).
    pub in_memory: u64,
    /// The deepest directory that most of them are in.
    pub directory: PathBuf,
}

/// Filesystems in memory that hold files as a disk does.
const FILES_IN_MEMORY: [&str; 2] = ["ramfs", "tmpfs"];

/// Of the operations on a filesystem, this part at least is in the directory that is named.
const MOST: f64 = 0.9;

impl RecordedStart<'_> {
    /// What is left out; none where that is nothing.
    pub fn left_out(&self) -> Option<LeftOut> {
        let recording = self.recording;
        // By mount point, the paths: what lies in memory is only named from within.
        let mut mounts: FxHashMap<&[u8], Vec<&[u8]>> = FxHashMap::default();
        let (mut operations, mut in_memory) = (0, 0);
        for event in recording.events.iter().filter(|event| event.is_metadata()) {
            let Some(path) = event.path.map(|path| recording.path(path)) else { continue };
            let mount = recording.mount_of(event, path);
            let is_memory = mount.is_some_and(|it| FILES_IN_MEMORY.contains(&&*it.fs));
            let is_file = is_memory || !recording::is_answered_on_node(mount, path);
            if !is_file
                || !path.starts_with(b"/")
                || self.shared_paths.contain(recording, event, path)
            {
                continue;
            }
            operations += 1;
            in_memory += u64::from(is_memory);
            let point = mount.map_or(&b"/"[..], |mount| mount.point.as_bytes());
            mounts.entry(point).or_default().push(path);
        }
        let most = mounts.into_iter().max_by_key(|(point, paths)| (paths.len(), *point));
        let (point, paths) = most?;
        let directory = PathBuf::from(OsStr::from_bytes(&deepest(point, &paths)));
        Some(LeftOut { operations, in_memory, directory })
    }
}

/// The deepest directory, from this one on, that holds most of the paths.
fn deepest(from: &[u8], paths: &[&[u8]]) -> Vec<u8> {
    let least = (paths.len() as f64 * MOST).ceil() as usize;
    let paths: Vec<_> = paths.iter().map(|path| clean(path)).collect();
    let mut directory = from.to_vec();
    loop {
        let above = directory.strip_suffix(b"/").unwrap_or(&directory).len();
        let mut children: FxHashMap<&[u8], usize> = FxHashMap::default();
        for path in paths.iter().filter(|path| path.starts_with(&directory)) {
            // A directory holds something: the last component is taken for a file.
            let end = path.iter().skip(above + 1).position(|byte| *byte == b'/');
            if let Some(end) = end {
                *children.entry(&path[..above + 1 + end]).or_default() += 1;
            }
        }
        match children.into_iter().find(|(_, inside)| *inside >= least) {
            Some((child, _)) => directory = child.to_vec(),
            None => return directory,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_directory_that_holds_nine_tenths_is_named() {
        let paths: Vec<String> = (0..20).map(|n| format!("/dev/shm/x/d{n}/lib.so")).collect();
        let mut paths: Vec<&[u8]> = paths.iter().map(String::as_bytes).collect();
        assert_eq!(deepest(b"/dev/shm", &paths), b"/dev/shm/x");
        paths.push(b"/dev/shm/y");
        assert_eq!(deepest(b"/dev/shm", &paths), b"/dev/shm/x");
        paths.extend([&b"/dev/shm/z/1"[..]; 5]);
        assert_eq!(deepest(b"/dev/shm", &paths), b"/dev/shm");
        assert_eq!(deepest(b"/", &[b"/one", b"/two"]), b"/");
    }
}
