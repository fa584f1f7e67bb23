//! A rehearsal without FUSE: the recorder keeps a thread stopped after each call that a node would
//! have had to ask its server for.
//!
//! What is asked is what the model of a node says ([`cost::ClientCache`]), from the calls that the
//! recorder sees; how long it takes comes from the profile and from the same queue that all
//! rehearsals of this user on this machine share. Otherwise than through the filesystem:
//!
//! - Which component of a path is not there is asked of the directory itself, right after the call.
//! - Symbolic links on a path's way are not followed by the model: a directory that is reached by
//!   two ways is asked for twice.
//! - Data is not delayed, whatever the profile says of it: neither reads nor the pages of a mapped
//!   file.
//! - What exec opens by itself is not asked for: a script's interpreter, the loader.
//! - What the recorder does not see is not delayed: io_uring, and programs that run with other
//!   rights (set-user-id) where the user is not root.
//! - Every call on files stops twice for the recorder, also elsewhere. What a stop takes is part of
//!   the delay asked for, where there is one, and comes on top where there is none.
//! - Nothing keeps the command from changing the files.

use std::cell::RefCell;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;

use launch::Command;
use recording::Nanos;
use rustc_hash::FxHashMap;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use watch::{Deadlines, DelayPolicy, Finished, ReturnedCall};

use crate::directory::{DirectoryError, RehearsalRoot};
use crate::session::{RehearsalRequest, RehearsedDirectory};
use crate::{Account, Ledger, MachineQueues, QueueError, Served};
use cost::{
    ClientCache, FilesystemProfile, PathRequest, Rpc, RpcKind, ServerCache, SharedDirectories,
};

/// What is different from a rehearsal through FUSE, for the user.
pub const DIFFERENCE: &str = "calls are delayed by a tracer, which slows the whole command down a \
     little and follows no symbolic links; data is not delayed, and nothing keeps the command from \
     writing to the directories";

/// A command that is being rehearsed by delays.
pub struct TracedRehearsal {
    session: watch::Session,
    places: Vec<RehearsedDirectory>,
    account: File,
}

/// Why a command was not rehearsed by delays, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum TracedError {
    /// A directory cannot be rehearsed.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The queue of the server.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// The recorder, or the command's start.
    #[error(transparent)]
    Recorder(#[from] watch::RecorderError),
    /// What reached the server is not known.
    #[error("what reached the rehearsed server: {0}")]
    Account(std::io::Error),
}

impl TracedError {
    /// The exit status of becalm for it.
    pub fn exit_status(&self) -> u8 {
        match self {
            TracedError::Recorder(error) => error.exit_status(),
            _ => 125,
        }
    }
}

/// Starts the command, delays its calls below the directories and records it to `file`, which is
/// emptied once the command has started; /dev/null where no recording is wanted.
///
/// This forks, as [`watch::record`], and must be called while the process has one thread. The
/// directories can be changed by the command, whatever [`RehearsalRequest::writable`] says.
///
/// # Errors
/// [`TracedError`]: then the command did not run.
pub fn record(
    command: &Command,
    file: File,
    options: &watch::RecorderOptions,
    wanted: &RehearsalRequest,
) -> Result<TracedRehearsal, TracedError> {
    let directories = RehearsalRoot::all(&wanted.paths)?;
    // Whether it can be shared is asked here; the recorder then opens it for itself, as it may
    // live on in the background.
    drop(MachineQueues::shared(&wanted.profile)?);
    let account = nameless_file().map_err(TracedError::Account)?;
    let to = account.try_clone().map_err(TracedError::Account)?;
    let delays = Box::new(Delays::new(&wanted.profile, &directories, to));
    let session = watch::record_delayed(command, file, options, delays)?;
    let place = |directory: RehearsalRoot| RehearsedDirectory {
        path: directory.path,
        given: directory.given,
    };
    Ok(TracedRehearsal { session, places: directories.into_iter().map(place).collect(), account })
}

impl TracedRehearsal {
    /// The directories that are rehearsed: outermost ones only, by their real paths.
    pub fn places(&self) -> &[RehearsedDirectory] {
        &self.places
    }

    /// Waits for the command's end, and says what has reached the server by then. What the
    /// command left running is delayed further, in the background.
    ///
    /// # Errors
    /// [`TracedError::Recorder`], if the recorder was killed; [`TracedError::Account`].
    pub fn wait(mut self) -> Result<(Finished, Account), TracedError> {
        let finished = self.session.wait()?;
        let mut bytes = Vec::new();
        let read = self
            .account
            .seek(SeekFrom::Start(0))
            .and_then(|_| self.account.read_to_end(&mut bytes));
        read.map_err(TracedError::Account)?;
        let told: Result<Account, String> = postcard::from_bytes(&bytes)
            .map_err(|error| TracedError::Account(std::io::Error::other(error)))?;
        let account = told.map_err(|why| TracedError::Account(std::io::Error::other(why)))?;
        Ok((finished, account))
    }
}

/// A file in memory (memfd_create(2)), for what one process tells another after a fork.
fn nameless_file() -> std::io::Result<File> {
    Ok(memfd_create(c"becalm account", MemfdFlags::CLOEXEC)?.into())
}

/// The delays: live in the recorder's process once that has been forked.
struct Delays {
    profile: FilesystemProfile,
    node: ClientCache,
    /// Directories that were given by a symbolic link, and their real paths.
    links: Vec<(Vec<u8>, Vec<u8>)>,
    shared: SharedDirectories,
    server: Option<Result<Rc<TracedServer>, String>>,
    ledger: Rc<Ledger>,
    /// Names that somebody has asked for, and perhaps has no answer for yet. Who wants the same
    /// name waits for the same answer, as in the kernel (`d_alloc_parallel` in fs/dcache.c).
    coming: FxHashMap<Box<[u8]>, Rc<PendingRpc>>,
    latest: Nanos,
    to: Option<File>,
}

/// The metadata server.
struct TracedServer {
    queues: MachineQueues,
    round_trip: Nanos,
    service: Nanos,
    memory: RefCell<ServerCache>,
    ledger: Rc<Ledger>,
}

/// What the server is asked once, by whoever of those that want it comes first.
struct PendingRpc {
    kind: RpcKind,
    path: Box<[u8]>,
    enoent: bool,
    thread: u32,
    answered: std::cell::Cell<Option<Nanos>>,
}

impl TracedServer {
    /// When the answer comes to one who wants it from this moment on.
    fn answer(&self, operation: &PendingRpc, at: Nanos) -> Nanos {
        if let Some(answered) = operation.answered.get() {
            return answered.max(at);
        }
        let begins = self.queues.metadata.admit(at, self.service);
        let PendingRpc { kind, path, enoent, .. } = operation;
        let rpc = Rpc { kind: *kind, path, enoent: *enoent, cached: false };
        let disk = self.memory.borrow_mut().read_for_rpc(&rpc);
        let answered = begins + self.service + self.round_trip + disk;
        operation.answered.set(Some(answered));
        let since = |start: Nanos, end: Nanos| Nanos(end.0.saturating_sub(start.0));
        let served = Served {
            kind: operation.kind,
            path: 0,
            thread: operation.thread,
            at: since(self.ledger.started(), at),
            queued: since(at, begins),
            waited: since(at, answered),
            enoent: operation.enoent,
            bytes: 0,
        };
        self.ledger.enter(&operation.path, served);
        answered
    }
}

/// So many names are remembered as coming before those are dropped that have come.
const MANY: usize = 1024;

impl Delays {
    fn new(profile: &FilesystemProfile, directories: &[RehearsalRoot], to: File) -> Delays {
        let roots = directories.iter().map(|directory| directory.path.clone()).collect();
        let shared = SharedDirectories { roots, except: Vec::new() };
        let link = |directory: &RehearsalRoot| {
            let given = std::path::absolute(directory.given.as_ref()?).ok()?;
            Some((bytes(&given), bytes(&directory.path)))
        };
        Delays {
            profile: profile.clone(),
            node: ClientCache::new(profile, shared.clone()),
            links: directories.iter().filter_map(link).collect(),
            shared,
            server: None,
            ledger: Rc::new(Ledger::new()),
            coming: FxHashMap::default(),
            latest: Nanos(0),
            to: Some(to),
        }
    }

    /// A path that leads through the link by which a directory was given, without it.
    fn real(&self, path: &[u8]) -> Option<Vec<u8>> {
        self.links.iter().find_map(|(given, real)| {
            let rest = below(path, given)?;
            Some([real, rest].concat())
        })
    }

    fn server(&mut self) -> Option<Rc<TracedServer>> {
        let Delays { profile, ledger, .. } = self;
        let open = || {
            let queues = MachineQueues::shared(profile).map_err(|error| error.to_string())?;
            let (round_trip, service) = (profile.mds.round_trip, profile.mds.service);
            let (round_trip, service) = (round_trip.nanos(), service.nanos());
            let memory = RefCell::new(ServerCache::new(profile));
            let ledger = Rc::clone(ledger);
            Ok(Rc::new(TracedServer { queues, round_trip, service, memory, ledger }))
        };
        self.server.get_or_insert_with(open).as_ref().ok().cloned()
    }

    /// What a call has to wait for: the names on its way that others have asked for, and what it
    /// asks for itself.
    fn wants(&mut self, request: &PathRequest, thread: u32, at: Nanos) -> Vec<Rc<PendingRpc>> {
        let mut wants = self.coming_on_the_way(request.path, at);
        let Delays { node, coming, .. } = self;
        node.each_rpc(at, request, |rpc| {
            let operation = Rc::new(PendingRpc {
                kind: rpc.kind,
                path: rpc.path.into(),
                enoent: rpc.enoent,
                thread,
                answered: std::cell::Cell::new(None),
            });
            if rpc.cached && rpc.kind == RpcKind::Lookup {
                coming.insert(rpc.path.into(), Rc::clone(&operation));
            }
            wants.push(operation);
        });
        wants
    }

    fn coming_on_the_way(&mut self, path: &[u8], at: Nanos) -> Vec<Rc<PendingRpc>> {
        let has_come = |operation: &PendingRpc| operation.answered.get().is_some_and(|t| t <= at);
        if self.coming.len() > MANY {
            self.coming
                .retain(|_, operation| !has_come(operation) && Rc::strong_count(operation) > 1);
        }
        let is_end = |end: &usize| path.get(*end).is_none_or(|byte| *byte == b'/');
        let ways = (1..=path.len()).filter(is_end).filter_map(|end| self.coming.get(&path[..end]));
        ways.filter(|operation| !has_come(operation)).cloned().collect()
    }
}

impl DelayPolicy for Delays {
    fn delay(&mut self, call: &ReturnedCall<'_>) -> Option<Deadlines> {
        let path = call.path?;
        let (real, other) = (self.real(path), call.other_path.and_then(|other| self.real(other)));
        let path = real.as_deref().unwrap_or(path);
        let other = other.as_deref().or(call.other_path);
        if !self.shared.contains(path) && !other.is_some_and(|other| self.shared.contains(other)) {
            return None;
        }
        let request = PathRequest::of(call.event, path, other)?;
        let path = if request.enoent { up_to_missing(request.path) } else { request.path };
        let request = PathRequest { path, ..request };
        // Calls are told of when they return, not in the order in which they were made.
        self.latest = self.latest.max(call.made);
        let server = self.server()?;
        let wants = self.wants(&request, call.event.thread, self.latest);
        let mut at = call.made;
        Some(Box::new(wants.into_iter().map(move |operation| {
            at = server.answer(&operation, at);
            at
        })))
    }

    fn command_ended(&mut self) {
        let Some(mut to) = self.to.take() else { return };
        let told: Result<Account, String> = match &self.server {
            Some(Err(why)) => Err(why.clone()),
            _ => Ok(self.ledger.take()),
        };
        // A front that finds nothing to read says so.
        if let Ok(bytes) = postcard::to_allocvec(&told) {
            let _ = to.write_all(&bytes);
        }
    }
}

/// A path that is not there, up to the component that is not: below it a node looks nothing up.
fn up_to_missing(path: &[u8]) -> &[u8] {
    let slashes = path.iter().enumerate().rev().filter(|(_, byte)| **byte == b'/');
    let mut missing = path;
    for (end, _) in slashes.take_while(|(end, _)| *end > 0) {
        match rustix::fs::lstat(&path[..end]) {
            Err(Errno::NOENT | Errno::NOTDIR) => missing = &path[..end],
            _ => break,
        }
    }
    missing
}

fn bytes(path: &std::path::Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

/// What of a path comes below a directory, with its slash; none if it is not the directory or below
/// it.
fn below<'a>(path: &'a [u8], directory: &[u8]) -> Option<&'a [u8]> {
    path.strip_prefix(directory).filter(|rest| rest.is_empty() || rest.starts_with(b"/"))
}
