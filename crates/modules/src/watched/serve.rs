//! A watcher: trees whose changes it takes in, and who asks for them.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendFlags, SocketFlags, SocketType, accept_with, bind, listen, send, socket_with,
};

use super::changes::{TreeChanges, TreeWatchError};
use super::{MAGIC, PathIdentity, WatchedState, address, mount_namespace};
use crate::index::{IndexStore, PathState};
use crate::tree::{WalkLimits, walk};

/// Whoever changes a tree changes more than one file: it is done when it is quiet for so long.
const QUIET: Duration = Duration::from_secs(1);
/// A tree that is never quiet is looked at all the same.
const PATIENCE: Duration = Duration::from_secs(30);
/// So often a tree is walked until all that is in its index is watched.
const WALKS: usize = 3;
/// As many may wait for an answer; who comes then looks for himself.
const BACKLOG: i32 = 128;

/// Trees that are watched: a thread takes in their changes and answers for them.
pub struct TreeWatcher {
    trees: Arc<Mutex<Vec<WatchedTree>>>,
    changed: Receiver<usize>,
    wake: OwnedFd,
    store: IndexStore,
}

/// One tree.
struct WatchedTree {
    root: PathBuf,
    socket: Option<(PathIdentity, Arc<OwnedFd>)>,
    /// There until the first change.
    changes: Option<Arc<TreeChanges>>,
    /// There while the tree is what its index says.
    state: Option<WatchedState>,
}

impl TreeWatcher {
    /// Answers for some modulepaths, of which none is known yet, and whose indexes are in a store.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn begin(roots: &[PathBuf], store: IndexStore) -> io::Result<TreeWatcher> {
        let unknown = |root: &PathBuf| {
            let root = root.clone();
            WatchedTree { root, socket: None, changes: None, state: None }
        };
        let trees = Arc::new(Mutex::new(roots.iter().map(unknown).collect()));
        let (asleep, wake) = io::pipe()?;
        let (tell, changed) = channel();
        let server = TreeServer { trees: Arc::clone(&trees), asleep: asleep.into(), tell };
        std::thread::Builder::new().name("watcher".into()).spawn(move || server.run())?;
        Ok(TreeWatcher { trees, changed, wake: wake.into(), store })
    }

    /// Watches a tree anew, has `renew` make its index true, and answers for it until the next change,
    /// if there is an index.
    ///
    /// # Errors
    /// [`TreeWatchError`]; then nothing is answered for it, and [`TreeWatcher::wait`] does not name it.
    pub fn watch(&self, tree: usize, renew: impl Fn()) -> Result<(), TreeWatchError> {
        for _ in 0..WALKS {
            if self.watch_once(tree, &renew)? {
                break;
            }
        }
        Ok(())
    }

    /// The same; whether all that the index has is watched, if there is one. It is not where a
    /// directory was made after the tree was walked, and before its own was watched.
    fn watch_once(&self, tree: usize, renew: impl Fn()) -> Result<bool, TreeWatchError> {
        let root = lock(&self.trees)[tree].root.clone();
        // Watched before it is looked at: nothing is missed in between.
        let walked = walk(&root, WalkLimits { cookies: false, ..WalkLimits::default() });
        let changes = TreeChanges::of(&walked)?;
        renew();
        let failed = |operation, path: PathBuf| {
            move |error: Errno| TreeWatchError::System { path, operation, error: error.into() }
        };
        let top = rustix::fs::stat(&root).map_err(failed("look at it", root.clone()))?;
        let identity = (top.st_dev, top.st_ino);
        let mounts = mount_namespace().map_err(failed("tell its namespace", root.clone()))?;
        let index = self.index_of(&root, &changes);
        let mut trees = lock(&self.trees);
        let watched = &mut trees[tree];
        if watched.socket.as_ref().is_none_or(|(of, _)| *of != identity) {
            watched.socket = None;
            watched.socket = Some((identity, Arc::new(listener(identity, &root)?)));
        }
        watched.changes = Some(Arc::new(changes));
        watched.state = index.flatten().map(|index| WatchedState { index, mounts });
        drop(trees);
        self.wake();
        Ok(index != Some(None))
    }

    /// The file of the index that says what is in a tree, if there is an index, and if all of what is
    /// in it is watched.
    fn index_of(&self, root: &Path, changes: &TreeChanges) -> Option<Option<PathState>> {
        let held = self.store.held(root).ok()?;
        let names = held.names(root).ok()?;
        Some(changes.cover(&names).then_some(held.seen))
    }

    /// Waits until some trees have changed and all is quiet again: which.
    pub fn wait(&self) -> Vec<usize> {
        let mut changed: Vec<usize> = self.changed.recv().into_iter().collect();
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            match self.changed.recv_timeout(QUIET) {
                Ok(tree) if changed.contains(&tree) => {}
                Ok(tree) => changed.push(tree),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        changed
    }

    /// The thread looks at what there is to wait for.
    fn wake(&self) {
        // Full, it wakes as well.
        let _ = rustix::io::write(&self.wake, b"w");
    }
}

/// The thread's part.
struct TreeServer {
    trees: Arc<Mutex<Vec<WatchedTree>>>,
    asleep: OwnedFd,
    tell: Sender<usize>,
}

impl TreeServer {
    /// Until whoever watches is gone.
    fn run(self) {
        while self.wait() {
            let mut trees = lock(&self.trees);
            for (number, tree) in trees.iter_mut().enumerate() {
                let was_watched = tree.changes.is_some();
                tree.answer();
                if was_watched && tree.changes.is_none() && self.tell.send(number).is_err() {
                    return;
                }
            }
        }
    }

    /// Waits until somebody asks, or something changes; whether there is more to do.
    fn wait(&self) -> bool {
        let (sockets, changes): (Vec<_>, Vec<_>) =
            lock(&self.trees).iter().map(|tree| (tree.socket(), tree.changes.clone())).unzip();
        let sockets = sockets.iter().flatten().map(|socket| socket.as_fd());
        let changes = changes.iter().flatten().map(|changes| changes.descriptor());
        let mut ready = vec![PollFd::new(&self.asleep, PollFlags::IN)];
        ready.extend(sockets.chain(changes).map(|it| PollFd::from_borrowed_fd(it, PollFlags::IN)));
        match poll(&mut ready, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return false,
        }
        let woken = ready[0].revents();
        if woken.contains(PollFlags::IN) {
            return rustix::io::read(&self.asleep, &mut [0; 64][..]).is_ok_and(|length| length > 0);
        }
        !woken.contains(PollFlags::HUP)
    }
}

impl WatchedTree {
    fn socket(&self) -> Option<Arc<OwnedFd>> {
        self.socket.as_ref().map(|(_, socket)| Arc::clone(socket))
    }

    /// Answers whoever asks, after all changes until then have been taken in.
    fn answer(&mut self) {
        self.take_changes();
        let Some(socket) = self.socket() else { return };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        while let Ok(asking) = accept_with(&socket, flags) {
            // What was changed before it was asked, is told by now.
            self.take_changes();
            // Without an answer, the end of the connection says to look for oneself.
            if let Some(state) = self.state
                && let Ok(answer) = postcard::to_extend(&state, MAGIC.to_vec())
            {
                let _ = send(&asking, &answer, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
            }
        }
    }

    fn take_changes(&mut self) {
        if self.changes.as_ref().is_some_and(|changes| changes.take()) {
            (self.changes, self.state) = (None, None);
        }
    }
}

fn listener(directory: PathIdentity, root: &Path) -> Result<OwnedFd, TreeWatchError> {
    let failed = |error: Errno| match error {
        Errno::ADDRINUSE => TreeWatchError::Taken { path: root.to_owned() },
        error => {
            let operation = "answer for it";
            TreeWatchError::System { path: root.to_owned(), operation, error: error.into() }
        }
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket =
        socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).map_err(failed)?;
    bind(&socket, &address(directory).map_err(failed)?).map_err(failed)?;
    listen(&socket, BACKLOG).map_err(failed)?;
    Ok(socket)
}

/// What a thread that panicked left is looked at anew by the next change.
fn lock(trees: &Mutex<Vec<WatchedTree>>) -> MutexGuard<'_, Vec<WatchedTree>> {
    trees.lock().unwrap_or_else(PoisonError::into_inner)
}
