//! Mounts of one's own: what a command sees at a path, without anybody else seeing it.
//!
//! A mount namespace is a process's and its children's alone, and goes with the last of them,
//! however that one ends: no mount can be left behind (mount_namespaces(7)). Root enters one
//! directly; anybody else together with a user namespace, in which they keep their own user and
//! group and nothing more (user_namespaces(7)).

use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change};
use rustix::process::{getegid, geteuid};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::groups::GroupMapper;

/// How a process came to mounts of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamespaceKind {
    /// A mount namespace only: it had CAP_SYS_ADMIN, and has it still.
    Privileged,
    /// A user namespace as well. All other users and groups are shown as `nobody` and `nogroup`
    /// in it, and programs with a set-user-id bit run as the user.
    UserNamespace,
}

/// Why there are no mounts of one's own.
#[derive(Debug, thiserror::Error)]
pub enum NamespaceError {
    /// The kernel or a security module forbids it.
    #[error("a mount namespace is refused ({error}): {}", .reason)]
    Refused {
        /// unshare's error.
        error: io::Error,
        /// What forbids it, and what to do.
        reason: String,
    },
    /// A file of /proc.
    #[error("{}: {error}", .path.display())]
    Proc {
        /// The file.
        path: PathBuf,
        /// Why it cannot be written.
        error: io::Error,
    },
    /// mount(2).
    #[error("{}: cannot mount {what} there: {error}", .at.display())]
    Mount {
        /// What.
        what: &'static str,
        /// Where.
        at: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// setns(2).
    #[error("the mounts of another process cannot be entered: {error}")]
    Enter {
        /// Why not.
        error: io::Error,
    },
    /// /dev/fuse.
    #[error("/dev/fuse: {error}: {}", fuse_advice(.error))]
    NoFuse {
        /// Why it cannot be opened.
        error: io::Error,
    },
}

fn fuse_advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "the kernel has no FUSE here, or this container hides it",
        io::ErrorKind::PermissionDenied => {
            "only some may use FUSE here; an administrator changes that by chmod 666 /dev/fuse"
        }
        _ => "load the module fuse, or ask an administrator to (modprobe fuse)",
    }
}

/// Gives the calling process mounts of its own, the same as before. What is mounted outside
/// later still shows up inside; nothing goes the other way.
///
/// The process must have one thread. Where a user namespace is needed, the process has all
/// capabilities in it until it executes a program, and no file's owner but its own user.
///
/// # Errors
/// [`NamespaceError`]: then nothing has changed.
pub fn own_mounts() -> Result<NamespaceKind, NamespaceError> {
    let means = match unshare(UnshareFlags::NEWNS) {
        Ok(()) => NamespaceKind::Privileged,
        Err(_) => {
            own_users()?;
            NamespaceKind::UserNamespace
        }
    };
    follow_outside()?;
    Ok(means)
}

/// The same for who needs no user namespace for it.
///
/// # Errors
/// [`NamespaceError`]: then nothing has changed.
pub fn own_mounts_alone() -> Result<(), NamespaceError> {
    unshare(UnshareFlags::NEWNS).map_err(|error| NamespaceError::Refused {
        reason: "it takes CAP_SYS_ADMIN, where a user namespace will not do".to_owned(),
        error,
    })?;
    follow_outside()
}

fn follow_outside() -> Result<(), NamespaceError> {
    let from_outside = MountPropagationFlags::REC | MountPropagationFlags::DOWNSTREAM;
    mount_change("/", from_outside).map_err(|error| NamespaceError::Mount {
        what: "what was there",
        at: "/".into(),
        error: error.into(),
    })
}

/// Waits until the threads that the calling process has joined are gone for the kernel, too, which
/// makes namespaces for a process of one thread only: a join ends a moment before its thread does.
pub fn until_alone() {
    let is_alone = || fs::read_dir("/proc/self/task").map_or(true, |tasks| tasks.count() < 2);
    // Threads that are not about to end are for the kernel to complain of.
    for _ in 0..1000 {
        if is_alone() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_micros(100));
    }
}

/// A user namespace that holds the caller's user and group, those other groups that the site grants,
/// and a mount namespace in it.
fn own_users() -> Result<(), NamespaceError> {
    let (user, group) = (geteuid(), getegid());
    let mapper = GroupMapper::wait_outside();
    if let Err(error) = unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS) {
        mapper.into_iter().for_each(GroupMapper::dismiss);
        return Err(NamespaceError::Refused { reason: refusal(), error });
    }
    let groups_are_mapped = mapper.is_some_and(GroupMapper::map);
    // An ordinary user must give up setgroups(2) before mapping a group (user_namespaces(7)).
    let own_group = [("setgroups", "deny".to_owned()), ("gid_map", format!("{group} {group} 1"))];
    let own_group = own_group.into_iter().filter(|_| !groups_are_mapped);
    for (name, text) in [("uid_map", format!("{user} {user} 1"))].into_iter().chain(own_group) {
        let path = Path::new("/proc/self").join(name);
        fs::write(&path, text).map_err(|error| NamespaceError::Proc { path, error })?;
    }
    Ok(())
}

fn refusal() -> String {
    let setting = |name: &str| {
        let text = fs::read_to_string(Path::new("/proc/sys").join(name));
        text.map(|text| text.trim().to_owned()).unwrap_or_default()
    };
    if setting("user/max_user_namespaces") == "0" {
        return "user.max_user_namespaces is 0; an administrator can raise it".to_owned();
    }
    if setting("kernel/unprivileged_userns_clone") == "0" {
        return "kernel.unprivileged_userns_clone is 0; an administrator can set it to 1"
            .to_owned();
    }
    if setting("kernel/apparmor_restrict_unprivileged_userns") == "1" {
        return "AppArmor allows user namespaces to chosen programs only \
                (kernel.apparmor_restrict_unprivileged_userns)"
            .to_owned();
    }
    "a container's seccomp filter or a security module forbids user namespaces".to_owned()
}

fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: users and mounts only: this process's descriptors stay its threads' common ones.
    Ok(unsafe { unshare_unsafe(flags) }?)
}

/// A new connection to the kernel's FUSE. It can be mounted only by a process of the user
/// namespace that opened it (fs/fuse/inode.c, `fuse_fill_super`); any process can serve it.
///
/// # Errors
/// [`NamespaceError::NoFuse`].
pub fn fuse_device() -> Result<OwnedFd, NamespaceError> {
    let file = File::options().read(true).write(true).open("/dev/fuse");
    file.map(OwnedFd::from).map_err(|error| NamespaceError::NoFuse { error })
}

/// How a FUSE filesystem is mounted.
#[derive(Clone, Debug)]
pub struct FuseMount<'a> {
    /// The first word in `mount`'s output.
    pub source: &'a str,
    /// The filesystem's type is `fuse.` and this.
    pub subtype: &'a str,
    /// Whether the kernel checks permissions by owner and mode; if not, the server does, and
    /// the kernel asks it.
    pub check_permissions: bool,
    /// mount(2)'s flags, such as `MS_RDONLY`.
    pub flags: libc::c_ulong,
}

/// Mounts a FUSE filesystem over a directory, for the caller's mount namespace. Whoever serves the
/// device must answer the kernel's first message before anybody uses the mount.
///
/// # Errors
/// [`NamespaceError::Mount`].
pub fn mount_fuse(
    device: BorrowedFd<'_>,
    at: &Path,
    options: &FuseMount<'_>,
) -> Result<(), NamespaceError> {
    let (user, group) = (geteuid(), getegid());
    let mut data = format!(
        "fd={},rootmode=40000,user_id={user},group_id={group},allow_other",
        device.as_raw_fd()
    );
    if options.check_permissions {
        data.push_str(",default_permissions");
    }
    let kind = format!("fuse.{}", options.subtype);
    let flags = MountFlags::from_bits_retain(options.flags as u32);
    let failed =
        |error| NamespaceError::Mount { what: "a FUSE filesystem", at: at.to_owned(), error };
    let data = CString::new(data).map_err(|error| failed(error.into()))?;
    mount(options.source, at, kind, flags, data.as_c_str()).map_err(|error| failed(error.into()))
}

/// Takes a mount away, at once and whoever still uses it; for the caller's mount namespace. What
/// is no mount is left alone.
pub fn unmount(at: &Path) {
    let _ = rustix::mount::unmount(at, UnmountFlags::DETACH);
}
