//! Which of the recorded paths are on the shared filesystem.

use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use recording::query::clean;
use recording::{Event, Mount, Recording};
use schemars::JsonSchema;
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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

/// Which of the paths of a recording are shared, by what was mounted where at each call.
#[derive(Clone)]
pub(crate) struct SharedPaths {
    /// Of each of the recording's mount tables.
    tables: Vec<SharedDirectories>,
    /// How they were chosen.
    pub chosen: SharedChoice,
    /// What is shared at any time.
    pub ever: SharedDirectories,
}

impl SharedPaths {
    /// The shared directories: those given; else the network filesystems that the run used; else all
    /// but what the node answers itself (memory, images).
    pub fn of(recording: &Recording, given: &[PathBuf]) -> SharedPaths {
        let except = || recording.mount_tables().map(|mounts| except(mounts, given));
        let with = |roots: Vec<Vec<PathBuf>>, chosen| {
            let tables = roots.into_iter().zip(except());
            let tables = tables.map(|(roots, except)| SharedDirectories { roots, except });
            SharedPaths::joined(tables.collect(), chosen)
        };
        let all = |roots: &[PathBuf]| except().map(|_| roots.to_vec()).collect();
        if !given.is_empty() {
            return with(all(given), SharedChoice::Given);
        }
        let network: Vec<_> = recording.mount_tables().map(network).collect();
        let found: Vec<_> = network.iter().cloned().map(SharedDirectories::below).collect();
        let mut operations = recording.events.iter().filter(|event| event.is_metadata());
        let is_used = operations.any(|event| {
            let path = event.path.map(|path| recording.path(path));
            path.is_some_and(|path| found[recording.mount_table(event)].contains(path))
        });
        match is_used {
            true => with(network, SharedChoice::Network),
            false => with(all(&["/".into()]), SharedChoice::Everything),
        }
    }

    fn joined(tables: Vec<SharedDirectories>, chosen: SharedChoice) -> SharedPaths {
        let mut roots: Vec<_> = tables.iter().flat_map(|table| table.roots.clone()).collect();
        let mut seen = HashSet::new();
        roots.retain(|root| seen.insert(root.clone()));
        let (first, others) = tables.split_first().map_or((None, &[][..]), |(a, b)| (Some(a), b));
        let mut except = first.map(|table| table.except.clone()).unwrap_or_default();
        except.retain(|one| others.iter().all(|table| table.except.contains(one)));
        SharedPaths { tables, chosen, ever: SharedDirectories { roots, except } }
    }

    /// Whether a path of a call is on the shared filesystem.
    pub fn contain(&self, recording: &Recording, event: &Event, path: &[u8]) -> bool {
        self.tables[recording.mount_table(event)].contains(path)
    }
}

/// What the node answers itself.
fn except(mounts: &[Mount], given: &[PathBuf]) -> Vec<PathBuf> {
    if mounts.is_empty() {
        return IN_MEMORY.map(PathBuf::from).to_vec();
    }
    // Who names a filesystem in memory wants it to stand for one that is not.
    let is_named = |point: &str| given.iter().any(|named| named.as_path() == Path::new(point));
    let on_node = |mount: &Mount| {
        let point = mount.point.as_bytes();
        recording::is_answered_on_node(recording::mount_of(mounts, point), point)
    };
    let except = mounts.iter().filter(|mount| on_node(mount));
    let except = except.filter(|mount| mount.is_image() || !is_named(&mount.point));
    except.map(|mount| PathBuf::from(&mount.point)).collect()
}

fn network(mounts: &[Mount]) -> Vec<PathBuf> {
    let network = mounts.iter().filter(|mount| is_network(&mount.fs) && !mount.is_image());
    network.map(|mount| PathBuf::from(&mount.point)).collect()
}

/// Whether filesystems of a type, as `/proc/self/mountinfo` calls it, are served by other machines.
pub fn is_network(fs: &str) -> bool {
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
        self.contains_clean(&clean(path))
    }

    /// The same of a path without `..` and its like, which is not looked for: who walks along a long
    /// path asks of each part of it.
    pub(crate) fn contains_clean(&self, path: &[u8]) -> bool {
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
