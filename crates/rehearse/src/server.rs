//! The process that serves the rehearsed directories.
//!
//! It is forked before the front moves into mounts of its own, so it goes on seeing the real
//! files. It ends when the last of its mounts is gone, which is when the last process that could
//! use it has ended: it outlives a front that is killed, and nothing outlives it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;

use launch::signals;
use rustix::fs::Mode;
use serde::{Deserialize, Serialize};

use crate::channel::Channel;
use crate::directory::RehearsalRoot;
use crate::{Account, Ledger, MachineQueues, ServeError, ServedTree, serve};
use cost::FilesystemProfile;

/// What the front asks for. Each is answered.
#[derive(Serialize, Deserialize)]
enum ServerOrder {
    /// Serve a directory through a device, which follows.
    Serve { directory: usize, checked_by_kernel: bool },
    /// From now on it is the command's run.
    Begin,
    /// What reached the server since.
    Account,
}

/// What came of something; the error as text.
type OrderResult = Result<(), String>;

/// The server, as the front knows it.
pub(crate) struct ServerProcess {
    channel: Channel,
}

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Fork, a socket or the like failed.
    #[error("cannot start a process that serves files: {0}")]
    Start(io::Error),
    /// It says that it cannot.
    #[error("{0}")]
    Refused(String),
    /// It has ended.
    #[error(
        "the process that serves the rehearsed files was killed; what ran in the rehearsal got \
         'Transport endpoint is not connected' from then on"
    )]
    Died,
    /// It says what makes no sense.
    #[error("the process that serves the rehearsed files: {0}")]
    Talk(io::Error),
}

impl ServerProcess {
    /// Forks it. It has these directories open.
    ///
    /// The process must have one thread.
    pub fn start(
        profile: &FilesystemProfile,
        directories: &[RehearsalRoot],
        writable: bool,
    ) -> Result<ServerProcess, ServerError> {
        let (here, there) = Channel::pair().map_err(ServerError::Start)?;
        let roots = directories.iter().map(|directory| directory.root.as_fd());
        let kept: Vec<_> = roots.chain([there.as_fd()]).collect();
        // A panic must not unwind into what the front would have done next.
        let body = std::panic::AssertUnwindSafe(|| live(&there, profile, directories, writable));
        let body = || std::panic::catch_unwind(body).map_err(|_| io::Error::other("panicked"));
        launch::orphan("becalm-server", &kept, body).map_err(ServerError::Start)?;
        drop(there);
        let server = ServerProcess { channel: here };
        server.answer::<OrderResult>()?.map_err(ServerError::Refused)?;
        Ok(server)
    }

    /// Has it serve a directory, by its place in the list, through this device; returns when the
    /// mount can be used.
    pub fn serve(
        &self,
        directory: usize,
        device: BorrowedFd<'_>,
        checked_by_kernel: bool,
    ) -> Result<(), ServerError> {
        self.order(&ServerOrder::Serve { directory, checked_by_kernel })?;
        self.channel.send_descriptor(device).map_err(talk)?;
        self.answer::<OrderResult>()?.map_err(ServerError::Refused)
    }

    /// Forgets what has reached it so far.
    pub fn begin(&self) -> Result<(), ServerError> {
        self.order(&ServerOrder::Begin)?;
        self.answer::<OrderResult>()?.map_err(ServerError::Refused)
    }

    /// What has reached it since it began, or since this was last asked.
    pub fn account(&self) -> Result<Account, ServerError> {
        self.order(&ServerOrder::Account)?;
        self.answer()
    }

    /// Waits for its end. Its mounts must be gone.
    pub fn end(self) {
        self.channel.hang_up();
    }

    fn order(&self, order: &ServerOrder) -> Result<(), ServerError> {
        self.channel.send(order).map_err(talk)
    }

    fn answer<T: serde::de::DeserializeOwned>(&self) -> Result<T, ServerError> {
        self.channel.receive().map_err(talk)?.ok_or(ServerError::Died)
    }
}

fn talk(error: io::Error) -> ServerError {
    match error.kind() {
        io::ErrorKind::BrokenPipe
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::UnexpectedEof => ServerError::Died,
        _ => ServerError::Talk(error),
    }
}

/// The server's life.
fn live(
    channel: &Channel,
    profile: &FilesystemProfile,
    directories: &[RehearsalRoot],
    writable: bool,
) {
    hear_no_signal();
    // Opened here, not before the fork: the last process that has them open removes them.
    let queues = MachineQueues::shared(profile).map_err(|error| error.to_string());
    let said = channel.send(&queues.as_ref().map(|_| ()).map_err(String::clone));
    let (Ok(queues), Ok(())) = (queues, said) else { return };
    let mut service = Service {
        channel,
        profile,
        writable,
        directories,
        queues: Arc::new(queues),
        ledger: Arc::new(Ledger::new()),
        threads: Vec::new(),
    };
    // An error is the front's end; those whom it has left behind are served on.
    let _ = service.obey();
    for thread in service.threads {
        let _ = thread.join();
    }
}

/// Whoever asks all processes to end, as a job's epilogue does, asks those that use the mounts,
/// too: they are served until they have.
fn hear_no_signal() {
    signals::block(&signals::all());
    // A file's mode is the one that its creator asked for.
    rustix::process::umask(Mode::empty());
}

struct Service<'a> {
    channel: &'a Channel,
    profile: &'a FilesystemProfile,
    writable: bool,
    directories: &'a [RehearsalRoot],
    queues: Arc<MachineQueues>,
    ledger: Arc<Ledger>,
    threads: Vec<JoinHandle<()>>,
}

impl Service<'_> {
    /// Does what the front wants, until it is gone.
    fn obey(&mut self) -> io::Result<()> {
        while let Some(order) = self.channel.receive()? {
            match order {
                ServerOrder::Serve { directory, checked_by_kernel } => {
                    let done = self.serve(directory, checked_by_kernel);
                    self.channel.send(&done)?;
                }
                ServerOrder::Begin => {
                    drop(self.ledger.take());
                    self.channel.send(&OrderResult::Ok(()))?;
                }
                ServerOrder::Account => self.channel.send(&self.ledger.take())?,
            }
        }
        Ok(())
    }

    fn serve(&mut self, directory: usize, checked_by_kernel: bool) -> OrderResult {
        let device = self.channel.receive_descriptor().map_err(|error| error.to_string())?;
        let directory = self.directories.get(directory).ok_or("no such directory")?;
        let root = directory.root.try_clone().map_err(|error| error.to_string())?;
        let (path, writable) = (directory.path.clone(), self.writable);
        let tree = ServedTree { path, root, writable, checked_by_kernel };
        let (profile, queues) = (self.profile.clone(), Arc::clone(&self.queues));
        let ledger = Arc::clone(&self.ledger);
        let (tell, told) = sync_channel::<Result<(), ServeError>>(2);
        let thread = std::thread::Builder::new().name("becalm-tree".into()).spawn(move || {
            let ready = tell.clone();
            let served = serve(device, tree, &profile, queues, ledger, move || {
                let _ = ready.send(Ok(()));
            });
            let _ = tell.try_send(served);
        });
        self.threads.push(thread.map_err(|error| error.to_string())?);
        match told.recv() {
            Ok(done) => done.map_err(|error| error.to_string()),
            Err(_) => Err("the filesystem was gone before it was there".to_owned()),
        }
    }
}
