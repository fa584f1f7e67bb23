//! The holder: the one process of a node and a job that serves an image to all ranks, tells later
//! ranks where the first ones are, and keeps the locks.
//!
//! It stays outside the ranks' mounts, so that it never keeps them alive: when the last rank, and
//! the last of what the ranks have started, has ended, the kernel takes the mounts away and says
//! so, and the holder leaves.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use launch::signals;
use rustix::event::{PollFd, PollFlags};
use rustix::fs::MemfdFlags;
use rustix::process::{Pid, PidfdFlags};
use sandbox::join::{NamespaceId, ProcessNamespaces};
use serde::{Deserialize, Serialize};

use super::asked::SharedMountRequest;
use super::compare::ComparedSources;
use super::door::{self, DoorMessage};
use super::guard::Guard;
use super::launched::{HOLDS, RankOfLaunch};
use super::layer::ImageLayer;
use super::overlay::OpenedOverlay;
use super::standby::{MountedSession, ServedSession};
use super::untraced::{self, LookedUpNodes};
use super::wanted::Freshness;

/// The first rank to the holder: the devices to serve, in the order of the images.
pub(super) const DEVICES: u8 = b'd';
/// Said with the devices: every file is shown as the user's own.
pub(super) const ALL_MINE: &str = "all mine";
/// The first rank to the holder: all is mounted.
pub(super) const READY: u8 = b'r';
/// Done: the holder to ranks, and to its guard when it leaves.
pub(super) const DONE: u8 = b'k';
/// The holder to its guard: what is known once all is mounted.
pub(super) const MOUNTED: u8 = b'm';
/// A later rank to the holder: it has entered; and how closely it has compared, if it has.
pub(super) const ENTERED: u8 = b'i';
/// The holder to anybody: what is wrong. To its guard: the ranks are to be ended.
pub(super) const WRONG: u8 = b'!';
/// The holder to a later rank: the namespaces to enter.
pub(super) const ENTER: u8 = b'e';
/// The holder to a later rank: the overlay at this index is in use.
pub(super) const IN_USE: u8 = b'u';

/// A rank that was let in has entered by then, mostly.
const A_MOMENT: Duration = Duration::from_millis(1);
/// How often a kernel without pidfd_open(2) is asked whether a process lives.
const LOOK: Duration = Duration::from_millis(500);
/// A rank that is slow to enter, or stopped in between, is not waited for longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a later rank is told with the namespaces, in JSON: it need not open the image.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct HeldImage {
    /// The image's file; empty where there is none.
    #[serde(with = "image_format::path_json")]
    pub image: PathBuf,
    /// The other images.
    pub beside: Vec<BesideMounts>,
    /// The paths that the image is mounted over; `/` where it is a whole root.
    #[serde(with = "image_format::path_json::list")]
    pub over: Vec<PathBuf>,
    /// Of a whole root, what is bound into it ([`Asked::around`](super::asked::Asked)).
    pub around: Option<String>,
    /// The kernel mounts it.
    pub by_kernel: bool,
    /// The file of its hot part on this node.
    #[serde(default)]
    pub hot: Option<String>,
    /// The directories that are shown from their source, sorted.
    #[serde(with = "image_format::path_json::list")]
    pub live: Vec<PathBuf>,
    /// How closely its sources were compared with it,
    pub checked: Freshness,
    /// when: seconds since the node was started,
    pub checked_at: u64,
    /// with which LD_LIBRARY_PATH ([`SharedMountRequest`](super::asked::SharedMountRequest)),
    #[serde(default)]
    pub library_path: String,
    /// and by which rank, if by one of many.
    pub checked_by: Option<RankOfLaunch>,
    /// What was looked up of each image by now, in their order; none: it may be anything.
    #[serde(default)]
    pub looked_up: Vec<Option<LookedUpNodes>>,
    /// How many files of each image's sources were compared: for the first rank to say.
    #[serde(skip)]
    pub compared: Vec<ComparedSources>,
}

/// One of several images.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BesideMounts {
    /// Its file, without symbolic links in its path.
    #[serde(with = "image_format::path_json")]
    pub image: PathBuf,
    /// The paths that it is mounted over.
    #[serde(with = "image_format::path_json::list")]
    pub over: Vec<PathBuf>,
    /// The file in this node's memory that what its trace read is read from.
    pub hot_part: Option<String>,
}

impl HeldImage {
    /// Whether a rank that comes now has to compare for itself.
    pub fn is_too_old_for(&self, freshness: Freshness) -> bool {
        let mut others = RankOfLaunch::own().into_iter().zip(&self.checked_by);
        let is_by_another = others.any(|(own, other)| own.may_trust(other));
        let is_long_ago = !is_by_another || since_start() > self.checked_at + HOLDS.as_secs();
        freshness > self.checked || (is_long_ago && freshness > Freshness::No)
    }

    /// Whether a rank has a LD_LIBRARY_PATH that was not looked through.
    pub fn is_for_another_library_path(&self, asked: &SharedMountRequest<'_>) -> bool {
        asked.wanted.freshness > Freshness::No
            && !asked.library_path.is_empty()
            && asked.library_path != self.library_path
    }
}

/// Seconds since the node was started.
pub(super) fn since_start() -> u64 {
    rustix::time::clock_gettime(rustix::time::ClockId::Boottime).tv_sec as u64
}

/// What the holder needs.
pub(super) struct Holder<'a> {
    /// To the first rank.
    pub line: UnixStream,
    /// Where later ones knock; none: nobody can join.
    pub door: Option<UnixListener>,
    /// The images, the lowest first.
    pub images: &'a [ImageLayer],
    /// What is locked as long as this lives.
    pub overlays: &'a [OpenedOverlay],
    /// The first rank.
    pub first: i32,
    /// The source of a mount that only these mounts have.
    pub mark: &'a str,
    /// What later ranks are told; it is for the holder to say what mounts the image.
    pub held: &'a HeldImage,
}

impl Holder<'_> {
    /// Forks it. The caller's own ends of what it was given close with its exec.
    pub fn start(self) -> io::Result<()> {
        let images = self.images.iter().flat_map(ImageLayer::descriptors);
        let overlays = self.overlays.iter().map(|overlay| overlay.file.as_fd());
        let kept = [self.line.as_fd()].into_iter().chain(self.door.as_ref().map(AsFd::as_fd));
        let kept: Vec<BorrowedFd<'_>> = kept.chain(images).chain(overlays).collect();
        // The descriptors are borrowed of what the body owns: the child has both.
        launch::orphan("becalm-holder", &kept, || self.hold())
    }

    fn hold(&self) -> io::Result<()> {
        // Who asks all processes to end, as a job's epilogue does, asks those that see the image,
        // too: it is served until they have.
        signals::block(&signals::all());
        for (index, overlay) in self.overlays.iter().enumerate() {
            if let Err(why) = overlay.lock() {
                return door::send(&self.line, IN_USE, &format!("{index} {why}"), &[]);
            }
        }
        door::send(&self.line, DONE, "", &[])?;
        let Some(DoorMessage { tag: DEVICES, text, descriptors }) = door::receive(&self.line)?
        else {
            return Ok(());
        };
        let turn = rustix::fs::memfd_create(c"becalm-turn", MemfdFlags::CLOEXEC)?;
        let session = ServedSession {
            door: self.door.as_ref(),
            images: self.images.to_vec(),
            overlays: self.overlays,
            mark: self.mark,
            held: self.held,
            devices: descriptors,
            all_mine: text == ALL_MINE,
            turn: &turn,
            short_lives: 0,
            since: Instant::now(),
        };
        session.take_turn();
        let needed = session.is_served() || !self.overlays.is_empty();
        // Before there are threads.
        let guard = match needed.then(|| Guard::start(&session, None)).transpose() {
            Ok(guard) => guard,
            Err(error) => return door::send(&self.line, WRONG, &error.to_string(), &[]),
        };
        match (self.serve(&session, guard.as_ref()), guard) {
            (Ok(()), guard) => guard.map_or(Ok(()), |guard| guard.dismiss()),
            (Err(_), Some(guard)) => guard.end_ranks(),
            (Err(error), None) => Err(error),
        }
    }

    /// Serves until nobody sees the image any more; an error is one while somebody may.
    fn serve(&self, session: &ServedSession<'_>, guard: Option<&Guard>) -> io::Result<()> {
        let (threads, offer) = match session.start() {
            Ok(served) => served,
            Err(error) => return door::send(&self.line, WRONG, &error.to_string(), &[]),
        };
        door::send(&self.line, DONE, "", &[])?;
        fetch_fronts(self.images[..session.by_kernel()].to_vec());
        let Some(DoorMessage { tag: READY, descriptors, .. }) = door::receive(&self.line)? else {
            return Ok(());
        };
        // Not by the rank's number: it may be its command by now, or have ended.
        let Some(mounts) = descriptors.into_iter().next() else { return Ok(()) };
        let mounts = NamespaceId::of_descriptor(mounts)?.numbers();
        let mounted = MountedSession { mounts, offer };
        // Before the first rank becomes its command: then the guard can serve on.
        if let Some(guard) = guard {
            guard.tell(&mounted)?;
        }
        // It may have ended; others may see the image all the same.
        let _ = door::send(&self.line, DONE, "", &[]);
        session.serve(&mounted, threads, vec![self.first])
    }
}

/// The kernel's squashfs asks for a block after the other, and nobody sees which: so what the
/// trace opened is fetched before it does. What is served here is fetched when it is asked for.
fn fetch_fronts(images: Vec<ImageLayer>) {
    // Without it all is read as well, in more pieces.
    let _ = thread::Builder::new().spawn(move || images.iter().for_each(ImageLayer::fetch_front));
}

/// The processes that see the image.
pub(super) struct Members {
    pub mounts: NamespaceId,
    pub mark: String,
    /// Ranks, the latest last; some may have ended.
    pub known: Mutex<Vec<i32>>,
    pub held: Mutex<HeldImage>,
    /// The images, the lowest first.
    pub images: Vec<ImageLayer>,
    /// How many have knocked,
    pub knocked: AtomicUsize,
    /// and to how many of these all was said.
    pub answered: AtomicUsize,
}

impl Members {
    /// One that lives.
    fn any(&self) -> Option<i32> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|pid| self.mounts.has(*pid, &self.mark));
        if known.is_empty() {
            // The ranks have ended; something that they started may go on.
            known.extend(self.mounts.any_process(&self.mark));
        }
        known.last().copied()
    }

    /// Tells ranks that knock where to enter.
    pub fn let_in(self: &Arc<Members>, door: &UnixListener) {
        for stream in door.incoming().flatten() {
            let own = rustix::process::geteuid().as_raw();
            let Ok((pid, user)) = door::peer(&stream) else { continue };
            if user != own {
                continue;
            }
            // One that waits here must not keep others waiting.
            let members = self.clone();
            self.knocked.fetch_add(1, Ordering::SeqCst);
            let welcome = move || {
                let _ = members.welcome(&stream, pid);
                members.answered.fetch_add(1, Ordering::SeqCst);
            };
            if thread::Builder::new().spawn(welcome).is_err() {
                self.answered.fetch_add(1, Ordering::SeqCst);
            }
        }
    }

    fn welcome(&self, stream: &UnixStream, pid: i32) -> io::Result<()> {
        let Some(member) = self.any() else { return Ok(()) };
        let surroundings = ProcessNamespaces::of(member)?;
        // The process may have ended since, and its number be another's.
        if !self.mounts.has(member, &self.mark) {
            return Ok(());
        }
        let descriptors: Vec<_> = surroundings.descriptors().collect();
        let held = || self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let looked_up = untraced::looked_up(&self.images);
        let told = serde_json::to_string(&HeldImage { looked_up, ..held().clone() })?;
        door::send(stream, ENTER, &told, &descriptors)?;
        self.known.lock().unwrap_or_else(PoisonError::into_inner).push(pid);
        // Until it has entered, these keep the mounts alive, and with them this holder.
        stream.set_read_timeout(Some(PATIENCE))?;
        match door::receive(stream)? {
            // From here on the guard finds it, if this holder is killed.
            Some(DoorMessage { text, .. }) => {
                if let Ok(compared) = serde_json::from_str(&text) {
                    let mut held = held();
                    (held.checked, held.checked_by) = compared;
                    held.checked_at = since_start();
                }
                door::send(stream, DONE, "", &[])
            }
            None => Ok(()),
        }
    }

    /// Returns once nobody sees the image any more, where the kernel does not tell.
    pub fn wait_for_the_last(&self) {
        loop {
            let answered = self.answered.load(Ordering::SeqCst);
            match self.any() {
                Some(pid) => wait_for(pid),
                // Nobody was on the way meanwhile. Who knocks from here on finds nobody to enter
                // with, either, and is the first itself.
                None if self.knocked.load(Ordering::SeqCst) == answered => return,
                None => thread::sleep(A_MOMENT),
            }
        }
    }
}

/// Waits for the end of somebody else's process, or at least a while.
pub(super) fn wait_for(pid: i32) {
    let descriptor =
        Pid::from_raw(pid).map(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()));
    match descriptor {
        Some(Ok(descriptor)) => {
            let _ = rustix::event::poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], None);
        }
        Some(Err(rustix::io::Errno::SRCH)) | None => {}
        Some(Err(_)) => thread::sleep(LOOK),
    }
}
