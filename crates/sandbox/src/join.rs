//! The namespaces of a process that lives already, and entering them.
//!
//! Ranks of one node that each made a user namespace of their own could not read each other's
//! memory (process_vm_readv(2), which MPI uses for large messages); those that enter one can. And
//! they share what is mounted in it, with its caches.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use proc::{mount_entries, process_ids};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::namespace::NamespaceError;

/// Which namespace, as long as it lives: the device and inode of its file (namespaces(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NamespaceId {
    device: u64,
    inode: u64,
}

impl NamespaceId {
    /// That of a process's mounts.
    ///
    /// # Errors
    /// If the process has ended or is somebody else's.
    pub fn of_mounts(pid: i32) -> io::Result<NamespaceId> {
        NamespaceId::of_file(&fs::metadata(file(pid, "mnt"))?)
    }

    /// That of mounts that were opened.
    ///
    /// # Errors
    /// Those of fstat.
    pub fn of_descriptor(descriptor: OwnedFd) -> io::Result<NamespaceId> {
        NamespaceId::of_file(&File::from(descriptor).metadata()?)
    }

    /// Those of the calling process that decide what it sees: users, mounts, process ids.
    ///
    /// # Errors
    /// If /proc is not there.
    pub fn all_own() -> io::Result<[NamespaceId; 3]> {
        let of = |kind| NamespaceId::of_file(&fs::metadata(format!("/proc/self/ns/{kind}"))?);
        Ok([of("user")?, of("mnt")?, of("pid")?])
    }

    /// Its device and inode, to tell another process.
    pub fn numbers(self) -> (u64, u64) {
        (self.device, self.inode)
    }

    /// From [`numbers`](NamespaceId::numbers).
    pub fn from_numbers((device, inode): (u64, u64)) -> NamespaceId {
        NamespaceId { device, inode }
    }

    fn of_file(file: &fs::Metadata) -> io::Result<NamespaceId> {
        Ok(NamespaceId { device: file.dev(), inode: file.ino() })
    }

    /// Whether a process has these mounts now, and among them one of this source. The kernel
    /// gives the number of a namespace that is gone to the next one at once, so the number alone
    /// says little.
    pub fn has(self, pid: i32, source: &str) -> bool {
        NamespaceId::of_mounts(pid).is_ok_and(|id| id == self) && sees_mount(pid, source)
    }

    /// A living process that [`has`](NamespaceId::has) these mounts. It costs a look at every
    /// process of the machine.
    pub fn any_process(self, source: &str) -> Option<i32> {
        process_ids().find(|pid| self.has(*pid, source))
    }
}

/// Whether a process has a mount of this source among its mounts, whichever namespace they are in.
pub fn sees_mount(pid: i32, source: &str) -> bool {
    let mounts = fs::read(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
    mount_entries(&mounts).any(|entry| entry.source == source)
}

fn file(pid: i32, kind: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/ns/{kind}"))
}

/// What a process sees: its mounts, and its user namespace where that is another than ours.
/// Holding this keeps the namespaces alive, and what is mounted there.
#[derive(Debug)]
pub struct ProcessNamespaces {
    users: Option<OwnedFd>,
    mounts: OwnedFd,
}

impl ProcessNamespaces {
    /// Those of a living process of the same user.
    ///
    /// # Errors
    /// If it has ended.
    pub fn of(pid: i32) -> io::Result<ProcessNamespaces> {
        let users = File::open(file(pid, "user"))?;
        let own = fs::metadata("/proc/self/ns/user")?;
        let other = NamespaceId::of_file(&users.metadata()?)? != NamespaceId::of_file(&own)?;
        Ok(ProcessNamespaces {
            users: other.then(|| users.into()),
            mounts: File::open(file(pid, "mnt"))?.into(),
        })
    }

    /// From descriptors that another process sent: the mounts, then the users if there are any.
    pub fn received(mounts: OwnedFd, users: Option<OwnedFd>) -> ProcessNamespaces {
        ProcessNamespaces { users, mounts }
    }

    /// To send to another process, in the order of [`ProcessNamespaces::received`].
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        [Some(self.mounts.as_fd()), self.users.as_ref().map(AsFd::as_fd)].into_iter().flatten()
    }

    /// Has the calling process, which must have one thread, see the same. Its working directory is
    /// the root afterwards.
    ///
    /// # Errors
    /// [`NamespaceError::Enter`]. It may have entered one of the two then, and should end.
    pub fn enter(&self) -> Result<(), NamespaceError> {
        let users = self.users.iter().map(|users| (users, LinkNameSpaceType::User));
        // The users first: they give the right to enter mounts that are theirs.
        for (namespace, kind) in users.chain([(&self.mounts, LinkNameSpaceType::Mount)]) {
            move_into_link_name_space(namespace.as_fd(), Some(kind))
                .map_err(|error| NamespaceError::Enter { error: error.into() })?;
        }
        Ok(())
    }
}
