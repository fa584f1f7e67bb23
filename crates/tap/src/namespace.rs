//! Process ids: a program sees those of the initial pid namespace, we those of our own.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

/// `PROC_PID_INIT_INO` (linux/proc_ns.h): the inode number of the initial pid namespace.
const INITIAL: u64 = 0xeffffffc;

/// The pid namespace whose ids we see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Namespace {
    /// The initial one, whose ids every process has.
    Initial,
    /// Another one. Ids in it are told only of processes that are in it themselves, not of
    /// those in namespaces below it.
    Inner {
        /// The kernel's number of the namespaces' filesystem.
        device: u64,
        /// The namespace's inode number.
        inode: u64,
    },
}

impl Namespace {
    /// This process's.
    pub(crate) fn ours() -> io::Result<Namespace> {
        Namespace::of("self")
    }

    /// Whether the process with this id, as we see it, is in this namespace, or in one of which
    /// the programs know the ids as well.
    pub(crate) fn sees(&self, tgid: i32) -> io::Result<bool> {
        match self {
            Namespace::Initial => Ok(true),
            Namespace::Inner { .. } => Ok(Namespace::of(&tgid.to_string())? == *self),
        }
    }

    fn of(process: &str) -> io::Result<Namespace> {
        let namespace = fs::metadata(format!("/proc/{process}/ns/pid"))?;
        if namespace.ino() == INITIAL {
            return Ok(Namespace::Initial);
        }
        // stat(2) packs a device's number in another way than the kernel does (linux/kdev_t.h).
        let (major, minor) =
            (rustix::fs::major(namespace.dev()), rustix::fs::minor(namespace.dev()));
        let device = u64::from(major) << 20 | u64::from(minor);
        Ok(Namespace::Inner { device, inode: namespace.ino() })
    }
}
