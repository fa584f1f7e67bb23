//! What the rehearsal's two processes tell each other: frames over a socket, some with a
//! descriptor.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use sandbox::rights;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// One end.
pub(crate) struct Channel(UnixStream);

/// An account of four million operations is far below this.
const LONGEST: u64 = 4 << 30;

impl Channel {
    /// Both ends.
    pub fn pair() -> io::Result<(Channel, Channel)> {
        UnixStream::pair().map(|(one, other)| (Channel(one), Channel(other)))
    }

    /// Sends a message.
    pub fn send(&self, message: &impl Serialize) -> io::Result<()> {
        let bytes = postcard::to_allocvec(message).map_err(io::Error::other)?;
        let mut socket = &self.0;
        socket.write_all(&(bytes.len() as u64).to_le_bytes())?;
        socket.write_all(&bytes)
    }

    /// The next message; none once the other side is gone.
    pub fn receive<T: DeserializeOwned>(&self) -> io::Result<Option<T>> {
        let mut length = [0; 8];
        let mut socket = &self.0;
        match socket.read_exact(&mut length) {
            Err(error) if is_gone(&error) => return Ok(None),
            done => done?,
        }
        let length = u64::from_le_bytes(length);
        if length > LONGEST {
            return Err(io::Error::other("a message that is no message"));
        }
        let mut bytes = Vec::new();
        if socket.take(length).read_to_end(&mut bytes)? as u64 != length {
            return Ok(None);
        }
        postcard::from_bytes(&bytes).map(Some).map_err(io::Error::other)
    }

    /// Says that nothing more comes from here, and waits until the other side is gone.
    pub fn hang_up(self) {
        let _ = self.0.shutdown(std::net::Shutdown::Write);
        let _ = io::copy(&mut &self.0, &mut io::sink());
    }

    /// Sends a descriptor. The sender keeps its own.
    pub fn send_descriptor(&self, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        rights::send(&self.0, &[0], &[descriptor]).map(drop)
    }

    /// The descriptor that the other side sends next; it closes on exec.
    pub fn receive_descriptor(&self) -> io::Result<OwnedFd> {
        let (_, descriptors) = rights::receive(&self.0, &mut [0])?;
        descriptors.into_iter().next().ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The other side has ended.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_and_descriptors_arrive_in_order_and_an_end_is_seen() {
        let (here, there) = Channel::pair().unwrap();
        let file = tempfile::tempfile().unwrap();
        (&file).write_all(b"the same file").unwrap();
        here.send(&("first", 1u32)).unwrap();
        here.send_descriptor(file.as_fd()).unwrap();
        here.send(&("second", 2u32)).unwrap();
        drop(here);
        assert_eq!(there.receive::<(String, u32)>().unwrap(), Some(("first".into(), 1)));
        let copy = std::fs::File::from(there.receive_descriptor().unwrap());
        assert_eq!(copy.metadata().unwrap().len(), 13);
        assert_eq!(there.receive::<(String, u32)>().unwrap(), Some(("second".into(), 2)));
        assert_eq!(there.receive::<(String, u32)>().unwrap(), None);
        assert!(there.receive_descriptor().is_err());
    }
}
