//! Which of the recorded paths are on the shared filesystem.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use recording::Recording;
use serde::Serialize;

use crate::Shared;
use crate::shared::OF_THE_MACHINE;

/// How the shared directories were chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// By the user.
    Given,
    /// They are network filesystems on the machine that recorded.
    Network,
    /// A guess: all but what a compute node has for itself.
    Guess,
}

/// Filesystems that many machines share, as `/proc/self/mountinfo` calls them.
const NETWORK: [&str; 14] = [
    "9p", "afs", "beegfs", "ceph", "cifs", "gfs2", "gpfs", "lustre", "nfs", "nfs4", "ocfs2",
    "panfs", "pvfs2", "smb3",
];

/// The shared directories: those given; else the network filesystems that the run asked; else all
/// top directories that it asked, but those of the machine itself.
pub(super) fn shared(recording: &Recording, given: &[PathBuf]) -> (Shared, Place) {
    let mounts = &recording.header.mounts;
    let on_node = |point: &str| recording.header.is_answered_on_node(point.as_bytes());
    let except = mounts.iter().filter(|mount| on_node(&mount.point));
    let except: Vec<PathBuf> = except.map(|mount| PathBuf::from(&mount.point)).collect();
    let with = |roots, place| (Shared { roots, except: except.clone() }, place);
    if !given.is_empty() {
        return with(given.to_vec(), Place::Given);
    }
    let network = mounts.iter().filter(|mount| is_network(&mount.fs) && !mount.is_image());
    let network: Vec<_> = network.map(|mount| PathBuf::from(&mount.point)).collect();
    let shared = Shared::below(network);
    let asked = || recording.events.iter().filter(|event| event.is_metadata());
    let mut paths = asked().filter_map(|event| event.path).map(|path| recording.path(path));
    if paths.any(|path| shared.contains(path)) {
        return with(shared.roots, Place::Network);
    }
    let paths = asked().filter_map(|event| event.path).map(|path| recording.path(path));
    let tops: BTreeSet<&[u8]> = paths.filter_map(top).collect();
    let own = |name: &&&[u8]| !OF_THE_MACHINE.iter().any(|own| own.as_bytes() == **name);
    let roots = tops.iter().filter(own).map(|name| Path::new("/").join(OsStr::from_bytes(name)));
    with(roots.collect(), Place::Guess)
}

fn is_network(fs: &str) -> bool {
    // A network filesystem in user space: sshfs, cvmfs, gluster… and becalm's own rehearsal.
    NETWORK.contains(&fs) || fs.starts_with("fuse.")
}

/// The first component of an absolute path.
fn top(path: &[u8]) -> Option<&[u8]> {
    let mut parts = path.strip_prefix(b"/")?.split(|byte| *byte == b'/');
    parts.find(|part| !part.is_empty()).filter(|part| !matches!(*part, b"." | b".."))
}
