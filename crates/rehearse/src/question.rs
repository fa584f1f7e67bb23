//! One system call, as a question to a filesystem.

use recording::{Event, Kind, Outcome};

/// One system call, as the kernel's walk sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question<'a> {
    /// What it wants of what the path leads to.
    pub wants: Wants,
    /// The absolute path, as far as it was walked: up to the component that is missing, or the
    /// one that is no directory.
    pub path: &'a [u8],
    /// Whether the walk ended with 'no such file'.
    pub missing: bool,
    /// The second path of a rename or a link.
    pub other_path: Option<&'a [u8]>,
}

/// What a call wants of what its path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// Its attributes, or that it is there: stat, access, chdir, an open that failed, `O_PATH`.
    Attributes,
    /// To open it: open, exec.
    Open,
    /// To open it as a directory. The listing is what is asked for.
    Directory,
    /// More of its entries (getdents).
    Entries {
        /// Whether the answer was 'no more'.
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

impl<'a> Question<'a> {
    /// The question that a recorded call asks; none if it is no metadata operation, or names no
    /// absolute path. Where the answer was 'no such file', the last component is taken to be
    /// the missing one.
    pub fn of(event: &Event, path: &'a [u8], other_path: Option<&'a [u8]>) -> Option<Question<'a>> {
        let is_walked = |path: &[u8]| path.first() == Some(&b'/') && path.len() <= LONGEST;
        if !is_walked(path) || !other_path.is_none_or(is_walked) {
            return None;
        }
        let failed = match event.outcome {
            Outcome::Returned(_) => None,
            Outcome::Failed(number) => Some(i32::from(number)),
        };
        let wants = wants(event, failed.is_some())?;
        let missing = failed == Some(libc::ENOENT);
        // What is no directory was found; below it nothing was asked for.
        let path = if failed == Some(libc::ENOTDIR) { parent(path) } else { path };
        Some(Question { wants, path, missing, other_path })
    }
}

fn wants(event: &Event, failed: bool) -> Option<Wants> {
    const O_PATH: u64 = libc::O_PATH as u64;
    const O_DIRECTORY: u64 = libc::O_DIRECTORY as u64;
    const O_CREAT: u64 = libc::O_CREAT as u64;
    let has = |flag| event.flags & flag != 0;
    Some(match event.kind() {
        Kind::Open if failed || has(O_PATH) => Wants::Attributes,
        Kind::Open if has(O_CREAT) => Wants::Change,
        Kind::Open if has(O_DIRECTORY) => Wants::Directory,
        Kind::Exec if failed => Wants::Attributes,
        Kind::Open | Kind::Exec => Wants::Open,
        // Which attribute a getxattr asks for is not recorded. Those that programs ask for at every
        // file (`security.*`, access control lists) come with the file's own.
        Kind::Stat if event.call.label().contains("listxattr") => Wants::Xattr,
        Kind::Stat | Kind::Access | Kind::Chdir => Wants::Attributes,
        Kind::Readlink if failed => Wants::Attributes,
        Kind::Readlink => Wants::Link,
        Kind::List => Wants::Entries { end: event.outcome == Outcome::Returned(0) },
        Kind::Statfs => Wants::Statfs,
        Kind::Change if failed => Wants::Attributes,
        Kind::Change => Wants::Change,
        _ => return None,
    })
}

/// The path without its last component.
fn parent(path: &[u8]) -> &[u8] {
    let path = path.strip_suffix(b"/").unwrap_or(path);
    let end = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    path.get(..end.max(1)).unwrap_or(path)
}
