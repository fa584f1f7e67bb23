//! A process that sees directories as if they were on a slow shared filesystem.
//!
//! Two processes: the *front*, which entered, and all that it starts from then on see the
//! directories through FUSE mounts of their own; the *server* ([`crate::server`]) sees the real
//! ones. The mounts are seen by nobody else, and are gone with the last process that sees them.

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use sandbox::namespace::{self, FuseMount, NamespaceError, NamespaceKind};

use crate::Account;
use crate::directory::{DirectoryError, RehearsalRoot};
use crate::server::{ServerError, ServerProcess};
use cost::FilesystemProfile;

/// The type of the mounts, after `fuse.`.
pub(crate) const SUBTYPE: &str = "becalm";

/// What is to be rehearsed.
#[derive(Clone, Debug)]
pub struct RehearsalRequest {
    /// What the directories are to be like.
    pub profile: FilesystemProfile,
    /// The directories; what lies below another of them is in it already.
    pub paths: Vec<PathBuf>,
    /// Whether they can be changed. The real files change then.
    pub writable: bool,
}

/// The calling process sees the directories through mounts of its own.
#[must_use = "a rehearsal that nobody finishes tells nothing"]
pub struct Rehearsal {
    means: NamespaceKind,
    directories: Vec<RehearsedDirectory>,
    profile: FilesystemProfile,
    server: ServerProcess,
}

/// A directory that is rehearsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RehearsedDirectory {
    /// Its real path, at which it is seen.
    pub path: PathBuf,
    /// The path that was given, where that is a symbolic link to it.
    pub given: Option<PathBuf>,
}

/// Why there is no rehearsal, or none any more.
#[derive(Debug, thiserror::Error)]
pub enum RehearsalError {
    /// A directory cannot be rehearsed.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// No mounts of one's own, or no FUSE.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// The server.
    #[error(transparent)]
    ServerProcess(#[from] ServerError),
    /// The working directory.
    #[error("{}: cannot go back to the working directory: {error}", .path.display())]
    WorkingDirectory {
        /// The directory.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl RehearsalError {
    /// Whether this machine does not let this user mount FUSE at all, while delays in a tracer
    /// may still be possible.
    pub fn is_for_want_of_fuse(&self) -> bool {
        matches!(
            self,
            RehearsalError::Namespace(
                NamespaceError::Refused { .. }
                    | NamespaceError::NoFuse { .. }
                    | NamespaceError::Proc { .. }
                    | NamespaceError::Mount { .. }
            )
        )
    }
}

impl Rehearsal {
    /// Moves the calling process, which must have one thread, into mounts of its own, in which
    /// the directories are rehearsed, and forks a server for them.
    ///
    /// Files that the process has open, such as its standard input, stay the real ones. A working
    /// directory below a rehearsed directory becomes the rehearsed one.
    ///
    /// # Errors
    /// [`RehearsalError`]. The directories are then seen as before.
    pub fn enter(wanted: &RehearsalRequest) -> Result<Rehearsal, RehearsalError> {
        let directories = RehearsalRoot::all(&wanted.paths)?;
        // Before anything is changed.
        drop(namespace::fuse_device()?);
        let place = |directory: &RehearsalRoot| RehearsedDirectory {
            path: directory.path.clone(),
            given: directory.given.clone(),
        };
        let places: Vec<RehearsedDirectory> = directories.iter().map(place).collect();
        let flags: Vec<_> = directories.iter().map(|directory| directory.flags).collect();
        let server = ServerProcess::start(&wanted.profile, &directories, wanted.writable)?;
        drop(directories);
        let mut way_in = WayIn { wanted, server, mounted: Vec::new() };
        match way_in.enter(&places, &flags) {
            Ok(means) => {
                let (server, profile) = (way_in.server, wanted.profile.clone());
                Ok(Rehearsal { means, directories: places, profile, server })
            }
            Err(error) => {
                way_in.back_out();
                Err(error)
            }
        }
    }

    /// How the process came to its mounts.
    pub fn means(&self) -> NamespaceKind {
        self.means
    }

    /// The directories that are rehearsed: outermost ones only, by their real paths.
    pub fn places(&self) -> &[RehearsedDirectory] {
        &self.directories
    }

    /// What has reached the server since the process entered, or since this was last asked.
    ///
    /// # Errors
    /// [`RehearsalError::ServerProcess`], if it was killed.
    pub fn account(&self) -> Result<Account, RehearsalError> {
        let account = self.server.account();
        if let Err(ServerError::Died) = account {
            // A queue that it shared with others could not be left in order. Whoever has it
            // last removes it.
            drop(crate::MachineQueues::shared(&self.profile));
        }
        Ok(account?)
    }

    /// What has reached the server. The directories stay rehearsed, for this process and for what
    /// still runs.
    ///
    /// # Errors
    /// As [`Rehearsal::account`].
    pub fn finish(self) -> Result<Account, RehearsalError> {
        self.account()
    }
}

/// Half a rehearsal.
struct WayIn<'a> {
    wanted: &'a RehearsalRequest,
    server: ServerProcess,
    mounted: Vec<PathBuf>,
}

impl WayIn<'_> {
    fn enter(
        &mut self,
        places: &[RehearsedDirectory],
        flags: &[libc::c_ulong],
    ) -> Result<NamespaceKind, RehearsalError> {
        let working_directory = std::env::current_dir().ok();
        let means = namespace::own_mounts()?;
        let source = format!("{SUBTYPE}:{}", self.wanted.profile.name);
        let checked_by_kernel = means == NamespaceKind::Privileged;
        for (number, (place, flags)) in places.iter().zip(flags).enumerate() {
            let device = namespace::fuse_device()?;
            let read_only = if self.wanted.writable { 0 } else { libc::MS_RDONLY };
            let mount = FuseMount {
                source: &source,
                subtype: SUBTYPE,
                check_permissions: checked_by_kernel,
                flags: flags | read_only,
            };
            namespace::mount_fuse(device.as_fd(), &place.path, &mount)?;
            self.mounted.push(place.path.clone());
            self.server.serve(number, device.as_fd(), checked_by_kernel)?;
            // The kernel takes the directory for root's until it has asked, and lets nobody create
            // anything in a directory whose owner is not of the user namespace (fs/namei.c,
            // `inode_permission`).
            let _ = std::fs::metadata(&place.path);
        }
        if let Some(directory) =
            working_directory.filter(|directory| is_below_any(directory, places))
        {
            std::env::set_current_dir(&directory)
                .map_err(|error| RehearsalError::WorkingDirectory { path: directory, error })?;
        }
        self.server.begin()?;
        Ok(means)
    }

    /// The directories are seen as before, and the server is gone.
    fn back_out(self) {
        for path in self.mounted.iter().rev() {
            namespace::unmount(path);
        }
        self.server.end();
    }
}

fn is_below_any(directory: &Path, places: &[RehearsedDirectory]) -> bool {
    places.iter().any(|place| directory.starts_with(&place.path))
}
