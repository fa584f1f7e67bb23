//! A FUSE session begun, and one gone on with after its server has been killed.
//!
//! A session begins with the kernel's INIT, which is said once. Whoever goes on with it has not
//! heard it: so what the kernel offered is kept, and said to fuser again over a socket, which the
//! device then takes the place of. What the killed server had read and not answered the kernel
//! hands out again when it is asked to (`FUSE_NOTIFY_RESEND`, Linux 6.9).

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::thread;

use fuser::{Config, Session, SessionACL};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use serde::{Deserialize, Serialize};

use super::layer::ImageLayer;
use super::serve::ImageServer;

/// More threads only wait for one another.
const MOST_THREADS: usize = 8;
/// Of `enum fuse_opcode` and `enum fuse_notify_code` (linux/fuse.h).
const INIT: u32 = 26;
const RESEND: i32 = 7;
/// The upper half of the flags is said, too.
const INIT_EXT: u64 = 1 << 30;

/// What the kernel said in its INIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KernelOffer {
    /// The protocol's version, major and minor.
    pub version: (u32, u32),
    /// Its flags.
    pub capabilities: u64,
}

/// A session that is served by threads of its own; they end when it is mounted nowhere any more.
pub(super) type ServedThread = thread::JoinHandle<io::Result<()>>;

/// Serves an image to whoever mounted the device, until it is mounted nowhere any more. With
/// `all_mine`, all files are shown as this user's.
///
/// # Errors
/// If the kernel and this program do not understand each other.
pub(super) fn start(
    layer: &ImageLayer,
    device: OwnedFd,
    all_mine: bool,
) -> io::Result<(ServedThread, Option<KernelOffer>)> {
    let server = ImageServer::of(layer, all_mine);
    let offered = server.offered();
    let session = Session::from_fd(server, device, SessionACL::All, config())?;
    Ok((run(session)?, offered.get().copied()))
}

/// Goes on serving an image whose server has been killed.
///
/// # Errors
/// Those of threads and descriptors.
pub(super) fn go_on(
    layer: &ImageLayer,
    device: BorrowedFd<'_>,
    all_mine: bool,
    offer: &KernelOffer,
) -> io::Result<ServedThread> {
    let (kernel, ours) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    rustix::io::write(&kernel, &init_message(offer))?;
    let session =
        Session::from_fd(ImageServer::of(layer, all_mine), ours, SessionACL::All, config())?;
    let place = session.as_fd().as_raw_fd();
    // SAFETY: the session owns this descriptor, and from here on it is another file: nothing has
    // used it but the handshake, which is over.
    if unsafe { libc::dup3(device.as_raw_fd(), place, libc::O_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    run(session)
}

/// Has the kernel hand out again what was read of a device and not answered.
///
/// # Errors
/// EINVAL before Linux 6.9: who waits for such an answer waits for ever.
pub(super) fn resend(device: BorrowedFd<'_>) -> io::Result<()> {
    let mut message = Vec::new();
    message.extend(16_u32.to_ne_bytes());
    message.extend(RESEND.to_ne_bytes());
    // Of no request: it is a notification.
    message.extend(0_u64.to_ne_bytes());
    File::from(device.try_clone_to_owned()?).write_all(&message)
}

fn config() -> Config {
    let mut config = Config::default();
    let threads = thread::available_parallelism().map_or(2, usize::from);
    config.n_threads = Some(threads.clamp(2, MOST_THREADS));
    config
}

fn run(session: Session<ImageServer>) -> io::Result<ServedThread> {
    thread::Builder::new().spawn(move || session.run())
}

/// `struct fuse_in_header` and `struct fuse_init_in`, as the kernel sent them.
fn init_message(offer: &KernelOffer) -> Vec<u8> {
    const LENGTH: u32 = 40 + 64;
    let flags = offer.capabilities | INIT_EXT;
    let head = [LENGTH, INIT, 1, 0, 0, 0, 0, 0, 0, 0];
    let (major, minor) = offer.version;
    let body = [major, minor, u32::MAX, flags as u32, (flags >> 32) as u32];
    let words = head.into_iter().chain(body).chain([0; 11]);
    words.flat_map(u32::to_ne_bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_is_as_long_as_it_says_and_a_kernel_that_hears_no_resend_says_so() {
        let offer = KernelOffer { version: (7, 45), capabilities: 1 << 39 | 1 };
        let message = init_message(&offer);
        assert_eq!(message.len(), 104);
        assert_eq!(message[..4], 104_u32.to_ne_bytes());
        // A device that is mounted nowhere.
        if let Ok(device) = File::options().read(true).write(true).open("/dev/fuse") {
            assert!(resend(device.as_fd()).is_err());
        }
    }
}
