//! What a watcher says of a tree.

use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvFlags, SocketFlags, SocketType, connect, recv, socket_with, sockopt,
};

use super::{MAGIC, MOST, PathIdentity, WatchedState, address, mount_namespace};
use crate::index::PathState;

/// What a user that is not in this user namespace is shown as (user_namespaces(7)).
const UNMAPPED: u32 = 65_534;

/// So long an answer is waited for; one comes in some hundredths of a millisecond.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// The file of the index of which a watcher that can be trusted says, after it has taken in every change
/// until now, that it is what a modulepath is.
///
/// Trusted are root, the user, and the directory's owner, whose files everybody's Modules evaluates.
pub fn watched_index(root: &Path) -> Option<PathState> {
    let top = rustix::fs::stat(root).ok()?;
    watched_index_of((top.st_dev, top.st_ino), top.st_uid)
}

/// The same, of a directory of which it is known which one it is, and whose.
pub(crate) fn watched_index_of(directory: PathIdentity, owner: u32) -> Option<PathState> {
    let state = asked(directory, owner).ok().flatten()?;
    // Asked for last: where nobody watches, it need not be known.
    (mount_namespace().ok()? == state.mounts).then_some(state.index)
}

fn asked(directory: PathIdentity, owner: u32) -> rustix::io::Result<Option<WatchedState>> {
    // Where a watcher does not keep up with those who ask, it is not waited for.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    connect(&socket, &address(directory)?)?;
    let watcher = sockopt::socket_peercred(&socket)?.uid.as_raw();
    let own = rustix::process::geteuid().as_raw();
    if watcher == UNMAPPED || ![0, own, owner].contains(&watcher) {
        return Ok(None);
    }
    if poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&PATIENCE))? == 0 {
        return Ok(None);
    }
    let mut answer = [0; MOST];
    let (length, _) = recv(&socket, &mut answer[..], RecvFlags::DONTWAIT)?;
    let state = answer[..length].strip_prefix(MAGIC);
    Ok(state.and_then(|state| postcard::from_bytes(state).ok()))
}
