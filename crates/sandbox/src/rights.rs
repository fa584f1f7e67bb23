//! Descriptors sent to another process over a socket (SCM_RIGHTS, unix(7)).

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

/// So many descriptors go with one message at most.
pub const MOST: usize = 64;

/// Sends bytes, and descriptors with the first of them; the sender keeps its own. Says how many
/// bytes were sent: a signal may have cut them, and the rest is for [`std::io::Write`].
///
/// # Errors
/// Those of sendmsg(2); [`io::ErrorKind::InvalidInput`] for more than [`MOST`] descriptors.
pub fn send(socket: impl AsFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let message = SendAncillaryMessage::ScmRights(descriptors);
    if descriptors.len() > MOST || !(descriptors.is_empty() || control.push(message)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let sent =
        rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(sent)
}

/// Receives bytes, at most as many as there is room for, and the descriptors that came with them;
/// they close on exec. No bytes: the other side is gone.
///
/// # Errors
/// Those of recvmsg(2).
pub fn receive(socket: impl AsFd, bytes: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = rustix::io::retry_on_intr(|| {
        let into = &mut [IoSliceMut::new(bytes)];
        rustix::net::recvmsg(&socket, into, &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            descriptors.extend(received);
        }
    }
    Ok((got.bytes, descriptors))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn descriptors_come_with_the_bytes_they_were_sent_with_and_close_on_exec() {
        let (here, there) = UnixStream::pair().unwrap();
        let null = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(send(&here, b"two", &[null.as_fd(), here.as_fd()]).unwrap(), 3);
        assert_eq!(send(&here, b"none", &[]).unwrap(), 4);
        let mut bytes = [0; 3];
        let (got, descriptors) = receive(&there, &mut bytes).unwrap();
        assert_eq!((got, &bytes, descriptors.len()), (3, b"two", 2));
        let same = |one: &dyn AsFd, other: &dyn AsFd| {
            let inode = |of: &dyn AsFd| rustix::fs::fstat(of.as_fd()).unwrap().st_ino;
            inode(one) == inode(other)
        };
        assert!(same(&descriptors[0], &null) && same(&descriptors[1], &here));
        let flags = rustix::io::fcntl_getfd(&descriptors[0]).unwrap();
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
        let (got, none) = receive(&there, &mut [0; 8]).unwrap();
        assert_eq!((got, none.len()), (4, 0));
        drop((here, descriptors));
        assert_eq!(receive(&there, &mut [0; 8]).unwrap().0, 0);
    }

    #[test]
    fn more_descriptors_than_a_message_has_room_for_are_refused_and_none_is_sent() {
        let (here, there) = UnixStream::pair().unwrap();
        let many = vec![here.as_fd(); MOST + 1];
        assert_eq!(send(&here, b"x", &many).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(send(&here, b"y", &many[1..]).unwrap(), 1);
        let mut byte = [0];
        assert_eq!(receive(&there, &mut byte).unwrap().1.len(), MOST);
        assert_eq!(&byte, b"y");
    }
}
