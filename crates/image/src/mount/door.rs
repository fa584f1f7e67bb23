//! Where the ranks of a node find the process that holds their image: a socket whose name all of
//! them work out alike.
//!
//! The name is an abstract one (unix(7)): it is no file, so it goes with the holder, however that
//! ends, and whoever binds it first is the first.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

use sandbox::rights;

/// How often, and how far apart, a door is looked for that is just being opened or closed.
const TRIES: usize = 3000;
const PAUSE: Duration = Duration::from_millis(1);

/// What is behind a name.
pub(super) enum SocketState {
    /// Nobody was there: this is our door now.
    Free(UnixListener),
    /// Somebody of the same user answers.
    Holder(UnixStream),
    /// Somebody else's.
    Foreign,
}

/// Knocks at a name. None: nobody is there.
pub(super) fn knock(name: &str) -> io::Result<Option<SocketState>> {
    match UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?) {
        Ok(stream) if peer(&stream)?.1 == rustix::process::geteuid().as_raw() => {
            Ok(Some(SocketState::Holder(stream)))
        }
        Ok(_) => Ok(Some(SocketState::Foreign)),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(None),
        Err(error) => Err(error),
    }
}

/// Knocks at a name, or takes it.
pub(super) fn knock_or_take(name: &str) -> io::Result<SocketState> {
    let address = SocketAddr::from_abstract_name(name)?;
    for _ in 0..TRIES {
        if let Some(found) = knock(name)? {
            return Ok(found);
        }
        match UnixListener::bind_addr(&address) {
            Ok(listener) => return Ok(SocketState::Free(listener)),
            // Taken since, or bound and not yet listening.
            Err(error) if error.kind() == ErrorKind::AddrInUse => std::thread::sleep(PAUSE),
            Err(error) => return Err(error),
        }
    }
    Err(ErrorKind::TimedOut.into())
}

/// Process id and user of the other side.
pub(super) fn peer(stream: &UnixStream) -> io::Result<(i32, u32)> {
    let credentials = rustix::net::sockopt::socket_peercred(stream)?;
    Ok((credentials.pid.as_raw_nonzero().get(), credentials.uid.as_raw()))
}

/// What is said over the socket: what it is, a text, and descriptors.
pub(super) struct DoorMessage {
    /// What it is.
    pub tag: u8,
    /// A text, for an error.
    pub text: String,
    /// Descriptors; they close on exec.
    pub descriptors: Vec<OwnedFd>,
}

/// No text is longer: the paths of a manifest have room.
const LONGEST: usize = 2 << 20;

/// Sends a message.
pub(super) fn send(
    stream: &UnixStream,
    tag: u8,
    text: &str,
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let text = &text.as_bytes()[..text.len().min(LONGEST)];
    let mut frame = vec![tag];
    frame.extend((text.len() as u32).to_le_bytes());
    frame.extend(text);
    let sent = rights::send(stream, &frame, descriptors)?;
    // A signal may have cut it; the descriptors went with the first byte.
    (&*stream).write_all(&frame[sent..])
}

/// The next message; none once the other side is gone.
pub(super) fn receive(stream: &UnixStream) -> io::Result<Option<DoorMessage>> {
    let mut head = [0; 5];
    let (got, descriptors) = match rights::receive(stream, &mut head) {
        Err(error) if is_gone(&error) => return Ok(None),
        received => received?,
    };
    let mut text = Vec::new();
    let rest = (|| {
        (&*stream).read_exact(&mut head[got..])?;
        let length = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
        text.resize(length.min(LONGEST), 0);
        (&*stream).read_exact(&mut text)
    })();
    match rest {
        Ok(()) => {
            let text = String::from_utf8_lossy(&text).into_owned();
            Ok(Some(DoorMessage { tag: head[0], text, descriptors }))
        }
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The other side has ended.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn who_takes_a_name_first_has_it_and_others_find_them() {
        let name = format!("becalm-test-{}", std::process::id());
        assert!(knock(&name).unwrap().is_none());
        let SocketState::Free(door) = knock_or_take(&name).unwrap() else { panic!("it is taken") };
        let SocketState::Holder(here) = knock_or_take(&name).unwrap() else { panic!("nobody") };
        let (there, _) = door.accept().unwrap();
        assert_eq!(peer(&there).unwrap().0, std::process::id() as i32);
        let file = std::fs::File::open("/proc/self/stat").unwrap();
        send(&here, b'x', "what it says", &[file.as_fd(), door.as_fd()]).unwrap();
        drop(here);
        let message = receive(&there).unwrap().unwrap();
        assert_eq!((message.tag, message.text.as_str()), (b'x', "what it says"));
        assert_eq!(message.descriptors.len(), 2);
        assert!(receive(&there).unwrap().is_none());
        drop((door, message));
        assert!(matches!(knock_or_take(&name).unwrap(), SocketState::Free(_)));
    }
}
