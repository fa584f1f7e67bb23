//! What a process asked the system for, what it was told, and whether it would be told so again.

use std::ffi::{CString, OsStr};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{Access, AtFlags, CWD};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::StatAttributes;
use super::links::has_no_links;

/// An error's number stands for it.
type Told<T> = Result<T, i32>;

/// Something that a process asked for, with what it was told.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AnswerDependency {
    /// stat(2) of a path, or lstat(2).
    Attributes {
        /// The path, from the root.
        path: CString,
        /// Whether a link is followed.
        follow: bool,
        /// The attributes, or an error.
        told: Told<StatAttributes>,
    },
    /// The content of a file, or the names in a directory, which its attributes stand for.
    Content {
        /// The path.
        path: CString,
        /// The attributes when it was opened.
        told: StatAttributes,
    },
    /// access(2).
    Access {
        /// The path.
        path: CString,
        /// What was asked for: `R_OK`, …
        mode: u32,
        /// Whether for the effective user.
        effective: bool,
        /// 0, or the error.
        told: i32,
    },
    /// readlink(2).
    Link {
        /// The path.
        path: CString,
        /// Where it leads to.
        told: Told<Vec<u8>>,
    },
    /// No name of a path is a link, and it leads to something: readlink(2) of each said so.
    NoLinks {
        /// The path.
        path: CString,
    },
    /// The path without links of a directory that was gone to.
    RealPath {
        /// The path.
        path: CString,
        /// Its path without links.
        told: Vec<u8>,
    },
    /// The clock, which was compared with moments: the answer is the same between two of them, in
    /// seconds since 1970.
    Clock {
        /// When it was given.
        from: i64,
        /// The first moment that it does not hold at any more.
        until: i64,
    },
    /// getcwd(2), or a path that does not begin at the root.
    WorkingDirectory(Vec<u8>),
    /// A question to a terminal (ioctl_tty(2)) by a standard descriptor.
    Terminal {
        /// The descriptor.
        fd: i32,
        /// `TCGETS`, `TIOCGWINSZ`.
        request: u64,
        /// What was filled in.
        told: Told<Vec<u8>>,
    },
    /// What kind of file a standard descriptor is, as `S_IFMT` has it; 0 if it is closed.
    Descriptor {
        /// The descriptor.
        fd: i32,
        /// The kind.
        told: u32,
    },
}

impl AnswerDependency {
    /// Whether it is of a process's directory or descriptors, not of files.
    pub fn is_of_process(&self) -> bool {
        use AnswerDependency::{Descriptor, Terminal, WorkingDirectory};
        matches!(self, WorkingDirectory(_) | Terminal { .. } | Descriptor { .. })
    }

    /// The size of the terminal at a standard descriptor, as it is now.
    pub fn window_size(fd: i32) -> AnswerDependency {
        let request = libc::TIOCGWINSZ;
        AnswerDependency::Terminal { fd, request, told: terminal(fd, request, 8) }
    }

    /// Of a terminal's size: rows and columns, or an error's number; none of anything else.
    pub fn rows_and_columns(&self) -> Option<Result<(u16, u16), i32>> {
        let AnswerDependency::Terminal { request: libc::TIOCGWINSZ, told, .. } = self else {
            return None;
        };
        let number = |bytes: &[u8], at: usize| {
            bytes.get(at..at + 2).map_or(0, |two| u16::from_ne_bytes([two[0], two[1]]))
        };
        Some(told.as_ref().map(|bytes| (number(bytes, 0), number(bytes, 2))).map_err(|e| *e))
    }

    /// Whether the system says the same now. Of content: whether the attributes are the same.
    pub fn holds(&self) -> bool {
        match self {
            AnswerDependency::Attributes { path, follow, told } => {
                StatAttributes::of(path, *follow).map_err(Errno::raw_os_error) == *told
            }
            AnswerDependency::Content { path, told } => StatAttributes::of(path, true) == Ok(*told),
            AnswerDependency::Access { path, mode, effective, told } => {
                let flags = if *effective { AtFlags::EACCESS } else { AtFlags::empty() };
                let mode = Access::from_bits_retain(*mode);
                let now = rustix::fs::accessat(CWD, path.as_c_str(), mode, flags);
                now.map_or_else(Errno::raw_os_error, |()| 0) == *told
            }
            AnswerDependency::Link { path, told } => {
                let now = rustix::fs::readlink(path.as_c_str(), Vec::new());
                now.map(CString::into_bytes).map_err(Errno::raw_os_error) == *told
            }
            AnswerDependency::NoLinks { path } => has_no_links(path),
            AnswerDependency::RealPath { path, told } => {
                let path = std::path::Path::new(OsStr::from_bytes(path.to_bytes()));
                path.canonicalize().is_ok_and(|now| now.as_os_str().as_bytes() == *told)
            }
            AnswerDependency::Clock { from, until } => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                (*from..*until).contains(&(now.as_secs() as i64))
            }
            AnswerDependency::WorkingDirectory(told) => {
                rustix::process::getcwd(Vec::new()).is_ok_and(|now| now.as_bytes() == *told)
            }
            AnswerDependency::Terminal { fd, request, told } => {
                terminal(*fd, *request, told.as_ref().map_or(0, Vec::len)) == *told
            }
            AnswerDependency::Descriptor { fd, told } => descriptor_kind(*fd) == *told,
        }
    }
}

/// What kind of file a standard descriptor of this process is; 0 if it was closed when the process
/// began.
pub fn descriptor_kind(fd: i32) -> u32 {
    if launch::was_closed(fd) {
        return 0;
    }
    // SAFETY: standard descriptors are never closed here.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    rustix::fs::fstat(fd).map_or(0, |stat| stat.st_mode & libc::S_IFMT)
}

/// Room for what the two questions fill in: `struct termios` of the kernel, `struct winsize`.
pub(super) const TERMINAL_MOST: usize = 64;

fn terminal(fd: i32, request: u64, length: usize) -> Told<Vec<u8>> {
    let mut answer = [0u8; TERMINAL_MOST];
    // SAFETY: both questions that are ever kept fill less than the room.
    let done = unsafe { libc::ioctl(fd, request as _, answer.as_mut_ptr()) };
    if done < 0 {
        return Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO));
    }
    Ok(answer[..length.min(TERMINAL_MOST)].to_vec())
}
