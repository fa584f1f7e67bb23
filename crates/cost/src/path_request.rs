//! One system call, as the kernel's walk along a path sees it.

use recording::{Event, Kind as CallKind, Outcome};

/// One system call, as the kernel's walk sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathRequest<'a> {
    /// What it wants of what the path leads to.
    pub kind: RequestKind,
    /// The absolute path, as far as it was walked: up to the component that is missing, or the
    /// one that is no directory.
    pub path: &'a [u8],
    /// Whether the walk ended with ENOENT.
    pub enoent: bool,
    /// The second path of a rename or a link.
    pub other_path: Option<&'a [u8]>,
}

/// What a call wants of what its path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// Its attributes, or that it is there: stat, access, chdir, an open that failed, `O_PATH`.
    Attributes,
    /// To open it: open, exec.
    Open,
    /// To open it as a directory. The listing is what takes an RPC.
    Directory,
    /// More of its entries (getdents).
    Entries {
        /// Whether there were no more.
        end: bool,
    },
    /// The text of a symbolic link.
    Link,
    /// Extended attributes.
    Xattr,
    /// Attributes of the filesystem itself.
    Statfs,
    /// To change the tree. What was known of the path is forgotten.
    Change,
}

/// A longer path is none: the kernel takes 4096 bytes (PATH_MAX), after a working directory.
const LONGEST: usize = 8192;

impl<'a> PathRequest<'a> {
    /// What a recorded call wants; none if it is no metadata operation, or names no absolute
    /// path. Where it failed with ENOENT, the last component is taken to be the one that is not
    /// there.
    pub fn of(
        event: &Event,
        path: &'a [u8],
        other_path: Option<&'a [u8]>,
    ) -> Option<PathRequest<'a>> {
        let is_walked = |path: &[u8]| path.first() == Some(&b'/') && path.len() <= LONGEST;
        if !is_walked(path) || !other_path.is_none_or(is_walked) {
            return None;
        }
        let failed = match event.outcome {
            Outcome::Returned(_) => None,
            Outcome::Failed(number) => Some(i32::from(number)),
        };
        let kind = request_kind(event, failed.is_some())?;
        let enoent = failed == Some(libc::ENOENT);
        // What is no directory was found; below it nothing was looked up.
        let path = if failed == Some(libc::ENOTDIR) { parent(path) } else { path };
        Some(PathRequest { kind, path, enoent, other_path })
    }
}

fn request_kind(event: &Event, failed: bool) -> Option<RequestKind> {
    const O_PATH: u64 = libc::O_PATH as u64;
    const O_CREAT: u64 = libc::O_CREAT as u64;
    let has = |flag| event.flags & flag != 0;
    Some(match event.kind() {
        CallKind::Open if failed || has(O_PATH) => RequestKind::Attributes,
        CallKind::Open if has(O_CREAT) => RequestKind::Change,
        CallKind::Open if event.is_listing() => RequestKind::Directory,
        CallKind::Exec if failed => RequestKind::Attributes,
        CallKind::Open | CallKind::Exec => RequestKind::Open,
        // Which attribute a getxattr reads is not recorded. Those that programs read of every file
        // (`security.*`, access control lists) come with the file's own.
        CallKind::Stat if event.call.label().contains("listxattr") => RequestKind::Xattr,
        CallKind::Stat | CallKind::Access | CallKind::Chdir => RequestKind::Attributes,
        CallKind::Readlink if failed => RequestKind::Attributes,
        CallKind::Readlink => RequestKind::Link,
        CallKind::List => RequestKind::Entries { end: event.outcome == Outcome::Returned(0) },
        CallKind::Statfs => RequestKind::Statfs,
        CallKind::Change if failed => RequestKind::Attributes,
        CallKind::Change => RequestKind::Change,
        _ => return None,
    })
}

/// The path without its last component.
fn parent(path: &[u8]) -> &[u8] {
    let path = path.strip_suffix(b"/").unwrap_or(path);
    let end = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    path.get(..end.max(1)).unwrap_or(path)
}
