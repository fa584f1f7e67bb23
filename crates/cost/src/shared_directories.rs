//! Which of the recorded paths are on the shared filesystem.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use recording::Recording;
use recording::query::clean;
use serde::{Deserialize, Serialize};

/// Which paths are on the shared filesystem.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedDirectories {
    /// Its mount points. A mount point itself is known to the node without an RPC.
    pub roots: Vec<PathBuf>,
    /// Directories below them that are something else: a mount of another kind.
    pub except: Vec<PathBuf>,
}

/// How the shared directories were chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SharedChoice {
    /// By the user.
    Given,
    /// They are network filesystems on the machine that recorded.
    Network,
    /// All of it, as no network filesystem was used where it was recorded: as if the machine had
    /// no disk of its own. It is the most that it can be.
    Everything,
}

/// Filesystems that many machines share, as `/proc/self/mountinfo` calls them.
const NETWORK: [&str; 14] = [
    "9p", "afs", "beegfs", "ceph", "cifs", "gfs2", "gpfs", "lustre", "nfs", "nfs4", "ocfs2",
    "panfs", "pvfs2", "smb3",
];

/// What the kernel serves from its own memory wherever a recording does not list the mounts.
const IN_MEMORY: [&str; 3] = ["/proc", "/sys", "/dev"];

/// The shared directories: those given; else the network filesystems that the run used; else all
/// but what the node answers itself (memory, images).
pub(super) fn shared(
    recording: &Recording,
    given: &[PathBuf],
) -> (SharedDirectories, SharedChoice) {
    let mounts = &recording.header.mounts;
    let on_node = |point: &str| recording.header.is_answered_on_node(point.as_bytes());
    // Who names a filesystem in memory wants it to stand for one that is not.
    let is_named = |point: &str| given.iter().any(|named| named.as_path() == Path::new(point));
    let except = mounts.iter().filter(|mount| on_node(&mount.point));
    let except = except.filter(|mount| mount.is_image() || !is_named(&mount.point));
    let mut except: Vec<PathBuf> = except.map(|mount| PathBuf::from(&mount.point)).collect();
    if mounts.is_empty() {
        except.extend(IN_MEMORY.map(PathBuf::from));
    }
    let with = |roots, choice| (SharedDirectories { roots, except: except.clone() }, choice);
    if !given.is_empty() {
        return with(given.to_vec(), SharedChoice::Given);
    }
    let network = mounts.iter().filter(|mount| is_network(&mount.fs) && !mount.is_image());
    let network: Vec<_> = network.map(|mount| PathBuf::from(&mount.point)).collect();
    let shared = SharedDirectories::below(network);
    let operations = recording.events.iter().filter(|event| event.is_metadata());
    let mut paths = operations.filter_map(|event| event.path).map(|path| recording.path(path));
    match paths.any(|path| shared.contains(path)) {
        true => with(shared.roots, SharedChoice::Network),
        false => with(vec!["/".into()], SharedChoice::Everything),
    }
}

fn is_network(fs: &str) -> bool {
    // A network filesystem in user space: sshfs, cvmfs, gluster… and becalm's own rehearsal.
    NETWORK.contains(&fs) || fs.starts_with("fuse.")
}

impl SharedDirectories {
    /// What is below these directories.
    pub fn below(roots: impl IntoIterator<Item = PathBuf>) -> SharedDirectories {
        SharedDirectories { roots: roots.into_iter().collect(), except: Vec::new() }
    }

    /// Whether a path is a root or below one: of roots and exceptions, the longest that it is
    /// below decides.
    pub fn contains(&self, path: &[u8]) -> bool {
        let path = &*clean(path);
        let longest = |directories: &[PathBuf]| {
            let directories = directories.iter().map(|directory| directory.as_os_str().as_bytes());
            directories.filter(|directory| is_below(path, directory)).map(<[u8]>::len).max()
        };
        longest(&self.roots) > longest(&self.except)
    }
}

/// Whether `path` is `directory` or below it, by whole components.
fn is_below(path: &[u8], directory: &[u8]) -> bool {
    let directory = directory.strip_suffix(b"/").unwrap_or(directory);
    path.strip_prefix(directory).is_some_and(|rest| matches!(rest.first(), None | Some(b'/')))
}
