//! What a holder serves, as its guard knows it: so that the guard can serve on when the holder is
//! killed.
//!
//! The image never changes and its inodes are numbers of the image, so a server knows nothing that
//! another one, with the same file and the same device, does not.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use rustix::thread::set_name;
use sandbox::join::NamespaceId;
use serde::{Deserialize, Serialize};

use super::guard::Guard;
use super::handshake::{self, KernelOffer, ServedThread};
use super::holder::{HeldImage, Members};
use super::layer::ImageLayer;
use super::overlay::OpenedOverlay;

/// A holder that was killed earlier than this,
const SHORT_LIFE: Duration = Duration::from_secs(1);
/// so many times in a row, is killed by what it serves: then the ranks are ended.
const MOST_SHORT_LIVES: u32 = 50;
/// So long somebody else may have the turn before they are left to it.
const PATIENCE: Duration = Duration::from_secs(1);

/// What is served, and to whom.
pub(super) struct ServedSession<'a> {
    /// Where later ranks knock; none: nobody can join.
    pub door: Option<&'a UnixListener>,
    /// The images, the lowest first; the last ones are served, one a device.
    pub images: Vec<ImageLayer>,
    /// What is locked as long as this lives.
    pub overlays: &'a [OpenedOverlay],
    /// The source of a mount that only these mounts have.
    pub mark: &'a str,
    /// What later ranks are told.
    pub held: &'a HeldImage,
    /// The devices.
    pub devices: Vec<OwnedFd>,
    /// Every file is shown as the user's own.
    pub all_mine: bool,
    /// A file that the one who serves has locked: a guard and another one's spare may both find the
    /// holder gone.
    pub turn: &'a OwnedFd,
    /// How many holders before this one were killed soon after they began.
    pub short_lives: u32,
    /// When this one began.
    pub since: Instant,
}

/// What is known once all is mounted.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct MountedSession {
    /// Device and inode of the ranks' mounts.
    pub mounts: (u64, u64),
    /// What the kernel said when the session began.
    pub offer: Option<KernelOffer>,
}

impl ServedSession<'_> {
    /// Whether it is for this process to serve, and not the kernel's affair.
    pub fn is_served(&self) -> bool {
        !self.devices.is_empty()
    }

    /// How many images the kernel mounts: where it would not mount one, all that lie over it are
    /// served, too.
    pub fn by_kernel(&self) -> usize {
        self.images.len().saturating_sub(self.devices.len())
    }

    /// What a guard needs to go on.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let images = self.images.iter().flat_map(ImageLayer::descriptors);
        let overlays = self.overlays.iter().map(|overlay| overlay.file.as_fd());
        // Where the kernel serves, nobody goes on: a door that is open would keep ranks waiting.
        let door = self.door.filter(|_| self.is_served()).map(AsFd::as_fd);
        let devices = self.devices.iter().map(AsFd::as_fd);
        devices.chain(images).chain(overlays).chain(door).chain([self.turn.as_fd()])
    }

    /// The images that are served, each with its device.
    fn served(&self) -> impl Iterator<Item = (&ImageLayer, &OwnedFd)> {
        self.images[self.by_kernel()..].iter().zip(&self.devices)
    }

    /// Begins to serve.
    pub fn start(&self) -> io::Result<(Vec<ServedThread>, Option<KernelOffer>)> {
        let (mut threads, mut offer) = (Vec::new(), None);
        for (image, device) in self.served() {
            let (thread, offered) = handshake::start(image, device.try_clone()?, self.all_mine)?;
            threads.push(thread);
            // One kernel makes one offer.
            offer = offered;
        }
        Ok((threads, offer))
    }

    /// Serves until nobody sees the image any more. An error is one while somebody may: then the
    /// ranks are to be ended.
    pub fn serve(
        &self,
        mounted: &MountedSession,
        threads: Vec<ServedThread>,
        known: Vec<i32>,
    ) -> io::Result<()> {
        let mounts = NamespaceId::from_numbers(mounted.mounts);
        let held = HeldImage { by_kernel: threads.is_empty(), ..self.held.clone() };
        let (known, held) = (Mutex::new(known), Mutex::new(held));
        let members = Arc::new(Members {
            mounts,
            mark: self.mark.to_owned(),
            known,
            held,
            images: self.images.clone(),
            knocked: AtomicUsize::new(0),
            answered: AtomicUsize::new(0),
        });
        if let Some(door) = self.door {
            let (door, members) = (door.try_clone()?, members.clone());
            thread::Builder::new().spawn(move || members.let_in(&door))?;
        }
        if threads.is_empty() {
            members.wait_for_the_last();
        }
        for thread in threads {
            thread.join().map_err(|_| io::Error::other("panicked"))??;
        }
        Ok(())
    }

    /// In the guard, whose holder has been killed: serves on in its place. The process must have
    /// one thread. Its spare leaves once there is another guard.
    ///
    /// # Errors
    /// If that cannot be done: the ranks are to be ended then.
    pub fn take_over(&self, mounted: &MountedSession, spare: &mut Option<Guard>) -> io::Result<()> {
        if !self.take_turn() {
            return Ok(());
        }
        let offer = mounted.offer.ok_or(io::ErrorKind::Unsupported)?;
        let is_short = self.since.elapsed() < SHORT_LIFE;
        let short_lives = if is_short { self.short_lives + 1 } else { 0 };
        if short_lives > MOST_SHORT_LIVES {
            return Err(io::Error::other("it is killed again and again"));
        }
        // Anew: what the killed holder's threads did with the image's cache is not to be seen here.
        let images = self.images.iter().map(ImageLayer::again).collect::<io::Result<_>>()?;
        let devices = self.devices.iter().map(OwnedFd::try_clone).collect::<io::Result<_>>()?;
        let next = ServedSession {
            door: self.door,
            images,
            overlays: self.overlays,
            mark: self.mark,
            held: self.held,
            devices,
            all_mine: self.all_mine,
            turn: self.turn,
            short_lives,
            since: Instant::now(),
        };
        // Before there are threads.
        let guard = Guard::start(&next, Some(mounted))?;
        if let Some(spare) = spare.take() {
            let _ = spare.dismiss();
        }
        // What the killed holder had found edited is to be found again. Resent before anything is
        // read again: the kernel would hand that out twice.
        let found = next.served().try_for_each(|(image, _)| image.look_at_all());
        let threads = found.and_then(|()| next.resend()).and_then(|()| next.go_on(&offer));
        let done = threads.and_then(|threads| {
            let _ = set_name(c"becalm-holder");
            next.serve(mounted, threads, Vec::new())
        });
        match done {
            Ok(()) => drop(guard.dismiss()),
            Err(_) => drop(guard.end_ranks()),
        }
        Ok(())
    }

    /// Whether this process is the one who serves, as long as it lives. Who was killed may have it a
    /// moment longer. (A lock of fcntl(2) is a process's own, which flock(2)'s is not.)
    pub fn take_turn(&self) -> bool {
        let since = Instant::now();
        while rustix::fs::fcntl_lock(self.turn, FlockOperation::NonBlockingLockExclusive).is_err() {
            if since.elapsed() > PATIENCE {
                return false;
            }
            thread::sleep(PATIENCE / 1000);
        }
        true
    }

    fn resend(&self) -> io::Result<()> {
        self.devices.iter().try_for_each(|device| handshake::resend(device.as_fd()))
    }

    fn go_on(&self, offer: &KernelOffer) -> io::Result<Vec<ServedThread>> {
        let served = self.served();
        let one = |(image, device): (&ImageLayer, &OwnedFd)| {
            handshake::go_on(image, device.as_fd(), self.all_mine, offer)
        };
        served.map(one).collect()
    }
}
