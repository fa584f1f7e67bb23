//! Why an image cannot be entered.

use std::io;
use std::path::{Path, PathBuf};

use sandbox::namespace::NamespaceError;

use super::layer::ImageLayer;
use super::plan::MountPlan;

/// Why an image cannot be entered.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// A file, and what was done with it.
    #[error("{}: cannot {what}: {error}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What was done with it.
        what: &'static str,
        /// Why it failed.
        error: io::Error,
    },
    /// It is no image that can be mounted, or not in this way.
    #[error("{}: {why}", .path.display())]
    Image {
        /// The file.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// It does not say over which path it belongs.
    #[error(
        "{}: does not say which directory it was made of: say where it belongs with --at DIRECTORY",
        .0.display()
    )]
    Nowhere(PathBuf),
    /// What it was made of has changed since.
    #[error(
 "{}: is older than what it was made of ({}): build it again, have --live show what has \
         changed, or run it as it is with --check no", .image.display(), .changed
    )]
    Stale {
        /// The image.
        image: PathBuf,
        /// What has changed.
        changed: String,
    },
    /// LD_LIBRARY_PATH leads to other libraries than it did where the image was built.
    #[error(
        "{}: LD_LIBRARY_PATH leads to {}, in whose place the image loads {}, which it was bound to when \
         it was built: build it again with this LD_LIBRARY_PATH or with --as-is, or run it as it is \
         with --check no", .image.display(), .library.display(), .file.display()
    )]
    Replaced {
        /// The image.
        image: PathBuf,
        /// What it leads to.
        library: PathBuf,
        /// What is bound.
        file: PathBuf,
    },
    /// What else had to hold does not.
    #[error("{0}")]
    Condition(String),
    /// An overlay that cannot be used, and why.
    #[error("--overlay {}: {why}", .path.display())]
    Overlay {
        /// What was given.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// A bind that cannot be made, and why.
    #[error("--bind {}: {why}", .path.display())]
    Bind {
        /// What was given.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// Neither the kernel nor FUSE can mount it here.
    #[error(
        "{error}. Without that {}{}",
        seen(.image), .instead
    )]
    NoMeans {
        /// What is refused, and by what.
        error: NamespaceError,
        /// The image; empty where it is about files shown in the place of others.
        image: PathBuf,
        /// What can be done instead, after a semicolon; nothing where nothing can.
        instead: String,
    },
    /// Something cannot be mounted, or not entered.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// The process that serves it to all ranks.
    #[error("the holder of the image, process {pid}, {why}")]
    Holder {
        /// Its process id; 0 if it is not known.
        pid: i32,
        /// What is wrong with it.
        why: String,
    },
    /// A system call that has no file.
    #[error("cannot {what}: {error}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        error: io::Error,
    },
}

/// What cannot be seen.
fn seen(image: &Path) -> String {
    match image.as_os_str().is_empty() {
        true => "no copy can be shown in its file's place".to_owned(),
        false => format!("{} cannot be seen over its own path", image.display()),
    }
}

/// For `map_err`: an error of this file, at this work.
pub(crate) fn file(
    path: impl Into<PathBuf>,
    what: &'static str,
) -> impl FnOnce(io::Error) -> MountError {
    let path = path.into();
    move |error| MountError::File { path, what, error }
}

/// For `map_err`: an error of a system call that has no file.
pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> MountError {
    move |error| MountError::System { what, error }
}

/// What is left to do where nothing can be mounted, and whether there is room for it.
pub(super) fn no_means(plan: &MountPlan<'_>, error: NamespaceError) -> MountError {
    let megabytes = |bytes: u64| format!("{} MB", bytes.div_ceil(1_000_000));
    let layer = plan.layers.first();
    let needed = layer.and_then(ImageLayer::manifest).map(|manifest| manifest.fingerprint.bytes);
    let free = rustix::fs::statvfs("/dev/shm").map(|stat| stat.f_bavail * stat.f_frsize);
    let room = match (needed, free) {
        (Some(needed), Ok(free)) if needed > free => {
            format!("not here: it needs {}, and {} are free", megabytes(needed), megabytes(free))
        }
        (Some(needed), Ok(free)) => {
            format!("it needs {} of the {} that are free", megabytes(needed), megabytes(free))
        }
        (_, Ok(free)) => format!("{} are free", megabytes(free)),
        (_, Err(_)) => "there is no /dev/shm here".to_owned(),
    };
    let takes_mount =
        plan.is_root() || !plan.wanted.overlays.is_empty() || !plan.wanted.binds.is_empty();
    let instead = match takes_mount {
        true => String::new(),
        false => format!("; --stage has it unpacked into memory of this node instead ({room})"),
    };
    MountError::NoMeans { error, image: plan.image.to_owned(), instead }
}
