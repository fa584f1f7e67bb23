//! Which calls can be repeated, and what they ask. A call that is not known here cannot.

use std::ffi::CString;
use std::path::PathBuf;

use super::process::{DescriptorEnd, InnerPipes, ProcessRole};
use super::temporary::TemporaryFiles;
use super::{LeftBecause, StatAttributes, WrittenTo, calls};
use crate::decode::CallEntry;
use crate::{arch, memory};

/// What a call asks for, known at its entry.
#[derive(Debug)]
pub(super) enum PendingQuestion {
    /// Nothing that outlives the process or comes from outside of it.
    Nothing,
    /// A note of the command's own.
    Note(Vec<u8>),
    /// To open a file for reading.
    Open(CString),
    /// To open a file for reading, by the path of another one, which is where its own was.
    OpenInPlace { path: CString, told: StatAttributes, at: u64, own: Vec<u8> },
    /// The attributes of a path, filled in at an address, as statx(2) has them or stat(2).
    Attributes { path: CString, follow: bool, at: u64, is_statx: bool },
    /// Permissions.
    Access { path: CString, mode: u32, effective: bool },
    /// Where a link leads to.
    Link { path: CString, at: u64, room: u64 },
    /// The working directory.
    WorkingDirectory,
    /// To go to a directory.
    GoTo(CString),
    /// To start a child.
    Child,
    /// To wait for a child.
    Wait,
    /// To make a pipe, whose two descriptors are filled in at an address.
    Pipe(u64),
    /// To open the null device.
    OpenNull,
    /// To make a file of the command's own.
    MakeTemporary(CString),
    /// To remove one.
    RemoveTemporary(CString),
    /// To become another program, in a child.
    Execute(CString),
    /// Something of a terminal.
    Terminal { fd: i32, request: u64, at: u64 },
    /// What kind of file a standard descriptor is.
    Descriptor(i32),
    /// Whether a socket's path is there, which it is not.
    AbsentSocket(CString),
    /// To write: parts of memory, as iovec(3type) has them.
    Write { to: WrittenTo, parts: Vec<(u64, u64)> },
}

use PendingQuestion as Question;

/// A child of which a note has said what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotedChild {
    /// None.
    None,
    /// A note has said what the next one depends on.
    Announced,
    /// A note has said that the next one is a pager.
    Pager,
    /// It was started.
    Started,
}

/// A stopped process, at the entry of a call.
pub(super) struct EnteredCall<'a> {
    pub tid: i32,
    /// The command itself, where this is a child of it.
    pub command: Option<i32>,
    pub role: ProcessRole,
    pub temporary: &'a mut TemporaryFiles,
    /// Pipes between the two.
    pub pipes: &'a InnerPipes,
    pub entry: &'a CallEntry,
    /// The paths by which the command reads its preludes.
    pub preludes: &'a [PathBuf],
    /// Whether a note has said what the next child depends on, or one such is running.
    pub child: NotedChild,
    /// Set where a path depends on the working directory.
    pub uses_directory: &'a mut bool,
    /// Whether the process may ask what its user is called.
    pub asks_for_user: bool,
    /// Whether what it writes to a pipe is for a pager.
    pub pages: bool,
}

impl EnteredCall<'_> {
    /// What the call asks for.
    ///
    /// # Errors
    /// Why it cannot be repeated.
    pub fn question(&mut self) -> Result<Question, LeftBecause> {
        let name = self.entry.call.known_name().unwrap_or("an unknown call");
        if self.entry.call.abi() != arch::NATIVE {
            return Err(unrepeatable("it makes calls of another architecture"));
        }
        let [first, second, third, fourth, ..] = self.entry.args;
        let fd = first as i32;
        if self.role == ProcessRole::Shell && self.is_shells_own(name, first, second)? {
            return Ok(Question::Nothing);
        }
        let is_tool = self.role == ProcessRole::Tool;
        match name {
            name if calls::is_harmless(name) => Ok(Question::Nothing),
            "prlimit64" if first == 0 && third == 0 => Ok(Question::Nothing),
            "close" if self.command.is_some() => Ok(Question::Nothing),
            // By another number it would be read unseen.
            "dup" | "dup2" | "dup3" if self.command.is_some() => {
                match name != "dup" && second <= 2 || self.end(fd)? != DescriptorEnd::Standard(0) {
                    true => Ok(Question::Nothing),
                    false => Err(unrepeatable("it keeps its standard input")),
                }
            }
            // As lua opens anew what is compiled (freopen(3)): a file that was opened, by a number like its own.
            "dup" if fd > 2 => Ok(Question::Nothing),
            "dup2" | "dup3" if fd > 2 && second as i32 > 2 => Ok(Question::Nothing),
            "close" if fd > 2 => Ok(Question::Nothing),
            "read" | "pread64" | "readv" | "preadv" | "getdents" | "getdents64" => {
                match self.end(fd)? {
                    DescriptorEnd::Standard(_) => Err(unrepeatable("it reads its standard input")),
                    _ => Ok(Question::Nothing),
                }
            }
            "lseek" => match self.end(fd)? {
                DescriptorEnd::Standard(fd) if (second, third) == (0, libc::SEEK_CUR as u64) => {
                    Ok(Question::Descriptor(fd))
                }
                DescriptorEnd::Standard(_) => Err(unrepeatable("it calls lseek")),
                _ => Ok(Question::Nothing),
            },
            "mmap" => self.mapping(third, fourth, self.entry.args[4] as i32),
            "fcntl" => self.control(fd, second as i32),
            "ioctl" => self.device(fd, second & 0xffff_ffff, third),
            // The C library's allocator makes itself a key so.
            "getrandom" if second <= 8 && third & u64::from(libc::GRND_NONBLOCK) != 0 => {
                Ok(Question::Nothing)
            }
            "getrandom" => Err(unrepeatable("it asks for random numbers")),
            "socket" if first == libc::AF_UNIX as u64 => Ok(Question::Nothing),
            "socket" => Err(unrepeatable("it makes a connection")),
            "connect" => self.connection(second, third),
            // With a daemon of name services, which is asked for the user's own name.
            "sendto" | "sendmsg" | "recvfrom" | "recvmsg" | "poll" | "ppoll" | "write"
            | "getsockopt" | "setsockopt" | "getpeername"
                if self.asks_for_user
                    && is_tool
                    && (fd > 2 || matches!(name, "poll" | "ppoll")) =>
            {
                Ok(Question::Nothing)
            }
            "getsockname" if fd <= 2 && self.command.is_none() => Ok(Question::Descriptor(fd)),
            // Tcl makes a channel of its own pipes and files, none of which is a socket.
            "getsockname" if is_tool && fd > 2 => Ok(Question::Nothing),
            "fstat" => self.open_file(fd),
            "write" => self.write(fd, vec![(second, third)]),
            "writev" => self.write(fd, self.parts(second, third)?),
            "getcwd" => {
                *self.uses_directory = true;
                Ok(Question::WorkingDirectory)
            }
            "open" => self.open(libc::AT_FDCWD, first, second),
            "openat" => self.open(fd, second, third),
            "stat" | "lstat" => self.attributes(libc::AT_FDCWD, first, name == "stat", second),
            "newfstatat" => self.attributes_at(fd, second, fourth, third, false),
            "statx" => self.attributes_at(fd, second, third, self.entry.args[4], true),
            "access" => self.access(libc::AT_FDCWD, first, second, 0),
            "faccessat" => self.access(fd, second, third, 0),
            "faccessat2" => self.access(fd, second, third, fourth),
            "readlink" => self.link(libc::AT_FDCWD, first, second, third),
            "readlinkat" => self.link(fd, second, third, fourth),
            "chdir" => self.path(libc::AT_FDCWD, first, Question::GoTo),
            "pipe" | "pipe2" if is_tool => Ok(Question::Pipe(first)),
            "fork" | "vfork" | "clone" | "clone3" => self.birth(name, first),
            "wait4" | "waitid" if self.child == NotedChild::Started => Ok(Question::Wait),
            "wait4" if is_tool && third == 0 => Ok(Question::Wait),
            "unlinkat" if third == 0 => self.path(fd, second, Question::RemoveTemporary),
            "unlink" => self.path(libc::AT_FDCWD, first, Question::RemoveTemporary),
            "execve" if self.command.is_some() => {
                self.path(libc::AT_FDCWD, first, Question::Execute)
            }
            "execve" | "execveat" => Err(unrepeatable("it becomes another program")),
            name => Err(unrepeatable(&format!("it calls {name}"))),
        }
    }

    /// A process, not a thread; of the tool, whose prelude says what it is.
    fn birth(&self, name: &str, flags: u64) -> Result<Question, LeftBecause> {
        let refused = Err(unrepeatable("it starts another process or thread"));
        if self.role != ProcessRole::Tool {
            return refused;
        }
        let flags = match name {
            "clone" => flags,
            "clone3" => {
                let mut bytes = [0; 8];
                memory::read(self.tid, flags, &mut bytes)
                    .map_err(|_| unrepeatable("what it starts cannot be read"))?;
                u64::from_ne_bytes(bytes)
            }
            _ => 0,
        };
        let (shares, waits) = (libc::CLONE_VM as u64, libc::CLONE_VFORK as u64);
        match flags & libc::CLONE_THREAD as u64 != 0 || flags & (shares | waits) == shares {
            true => refused,
            false => Ok(Question::Child),
        }
    }

    /// Whether a shell that is about to become a program asks for its own sake: what number it has,
    /// how its directory is called, whether it could control a terminal.
    fn is_shells_own(&self, name: &str, first: u64, second: u64) -> Result<bool, LeftBecause> {
        Ok(match name {
            "getpid" | "getppid" | "getpgrp" | "getcwd" | "stat" | "newfstatat" | "statx"
            | "access" | "faccessat" | "faccessat2" => true,
            "ioctl" => matches!(second & 0xffff_ffff, libc::TCGETS | libc::TIOCGPGRP),
            // It keeps what it redirects.
            "fcntl" => matches!(second as i32, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC),
            "open" => self.text(first)? == b"/dev/tty",
            "openat" => self.text(second)? == b"/dev/tty",
            _ => false,
        })
    }
}

pub(super) fn unrepeatable(why: &str) -> LeftBecause {
    LeftBecause::Unrepeatable(why.to_owned())
}
