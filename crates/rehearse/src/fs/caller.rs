//! Acting as the one who asks: what is created belongs to them, and what they may not do fails.

use std::cell::Cell;

use proc::ProcessStatus;
use rustix::fs::{Gid, Mode};
use rustix::io::Result;
use rustix::process::umask;
use rustix::thread::{UnshareFlags, set_thread_groups, unshare_unsafe};

/// The thread acts as a caller until this is dropped.
pub(super) struct Acting {
    as_other: bool,
}

/// Who asks, by the ids that the kernel checks files by.
#[derive(Clone, Copy, Debug)]
pub(super) struct FuseCaller {
    pub user: u32,
    pub group: u32,
    pub thread: u32,
    /// What the caller's umask takes from the mode of a new file.
    pub umask: u32,
}

thread_local! {
    /// The thread has a umask of its own, not the process's.
    static OWN_UMASK: Cell<bool> = const { Cell::new(false) };
}

impl FuseCaller {
    /// Lets the thread act as the caller. A server that is not root acts as its own user, who is
    /// the caller.
    pub fn act(self, as_other: bool) -> Result<Acting> {
        self.take_umask()?;
        let acting = Acting { as_other: as_other && (self.user, self.group) != (0, 0) };
        if acting.as_other {
            set_groups(&groups_of(self.thread))?;
            set_ids(self.user, self.group);
        }
        Ok(acting)
    }

    fn take_umask(self) -> Result<()> {
        if !OWN_UMASK.get() {
            // SAFETY: the thread gets a copy of umask and working directory; touches no memory.
            unsafe { unshare_unsafe(UnshareFlags::FS) }?;
            OWN_UMASK.set(true);
        }
        umask(Mode::from_raw_mode(self.umask & 0o777));
        Ok(())
    }
}

impl Drop for Acting {
    fn drop(&mut self) {
        if self.as_other {
            set_ids(0, 0);
            // Root passes every check without any groups.
            set_groups(&[]).ok();
        }
    }
}

/// The group list of a thread; empty if it cannot be seen.
fn groups_of(thread: u32) -> Vec<Gid> {
    let status = i32::try_from(thread).ok().and_then(ProcessStatus::of);
    let groups = status.as_ref().and_then(|status| status.field("Groups")).unwrap_or_default();
    groups.split_whitespace().filter_map(|group| group.parse().ok().map(Gid::from_raw)).collect()
}

/// Sets this thread's groups only: the C library's setgroups would set those of all threads.
fn set_groups(groups: &[Gid]) -> Result<()> {
    set_thread_groups(groups)
}

/// setfsgid(2) and setfsuid(2), of this thread. With a user other than 0, root's right to pass
/// the checks rests as well.
fn set_ids(user: u32, group: u32) {
    // SAFETY: these calls set numbers of this thread.
    unsafe {
        // Giving up the user would give up the right to change the group.
        if user == 0 {
            libc::setfsuid(user);
        }
        libc::setfsgid(group);
        libc::setfsuid(user);
    }
}
