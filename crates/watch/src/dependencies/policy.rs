//! Which calls can be repeated, and what they ask. A call that is not known here cannot.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::process::{self, DescriptorEnd, InnerPipes, ProcessRole};
use super::temporary::TemporaryFiles;
use super::{LeftBecause, WrittenTo};
use crate::decode::CallEntry;
use crate::{TOLD, arch, memory};

/// What a call asks for, known at its entry.
#[derive(Debug)]
pub(super) enum PendingQuestion {
    /// Nothing that outlives the process or comes from outside of it.
    Nothing,
    /// A note of the command's own.
    Note(Vec<u8>),
    /// To open a file for reading.
    Open(CString),
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

/// A child that is not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotedChild {
    /// None.
    None,
    /// A note has said what the next one depends on.
    Announced,
    /// It was started.
    Started,
}

/// Open flags that change nothing, and that a file's attributes stand for.
const READING: u64 = (libc::O_CLOEXEC
    | libc::O_NONBLOCK
    | libc::O_DIRECTORY
    | libc::O_NOCTTY
    | libc::O_LARGEFILE
    | libc::O_NOATIME) as u64
    | 0o100_000;

/// Open flags that change nothing of a device.
const WRITING: u64 = (libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC | libc::O_APPEND) as u64;

/// The most parts of one write (IOV_MAX).
const PARTS_MOST: u64 = 1024;

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
            "brk" | "munmap" | "mprotect" | "mremap" | "madvise" | "futex" | "rt_sigaction"
            | "rt_sigprocmask" | "rt_sigreturn" | "sigaltstack" | "set_tid_address"
            | "set_robust_list" | "rseq" | "arch_prctl" | "getuid" | "geteuid" | "getgid"
            | "getegid" | "getgroups" | "getresuid" | "getresgid" | "uname" | "umask"
            | "clock_gettime" | "gettimeofday" | "time" | "clock_getres" | "sched_yield"
            | "sysinfo" | "getrlimit" | "fadvise64" | "restart_syscall" | "exit" | "exit_group" => {
                Ok(Question::Nothing)
            }
            "prlimit64" if first == 0 && third == 0 => Ok(Question::Nothing),
            "close" | "dup" | "dup2" | "dup3" if self.command.is_some() => Ok(Question::Nothing),
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

    /// A process, not a thread; of the command itself, as its children are known by it.
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

    /// Where a descriptor leads to.
    fn end(&self, fd: i32) -> Result<DescriptorEnd, LeftBecause> {
        match self.command {
            Some(command) => process::end_of_child(command, self.tid, fd, self.pipes),
            None if (0..=2).contains(&fd) => Ok(DescriptorEnd::Standard(fd)),
            None => Ok(DescriptorEnd::Opened),
        }
    }

    /// What an open file is: known already, but for the standard descriptors.
    fn open_file(&self, fd: i32) -> Result<Question, LeftBecause> {
        Ok(match self.end(fd)? {
            DescriptorEnd::Standard(fd) => Question::Descriptor(fd),
            _ => Question::Nothing,
        })
    }

    fn mapping(&self, access: u64, flags: u64, fd: i32) -> Result<Question, LeftBecause> {
        let shared = flags & 3 != libc::MAP_PRIVATE as u64;
        let anonymous = flags & libc::MAP_ANONYMOUS as u64 != 0;
        let writes = shared && access & libc::PROT_WRITE as u64 != 0;
        match !anonymous && (writes || self.end(fd)? != DescriptorEnd::Opened) {
            true => Err(unrepeatable("it writes to a file by a mapping")),
            false => Ok(Question::Nothing),
        }
    }

    fn control(&self, fd: i32, command: i32) -> Result<Question, LeftBecause> {
        match command {
            libc::F_GETFD | libc::F_SETFD => Ok(Question::Nothing),
            libc::F_GETFL if !matches!(self.end(fd)?, DescriptorEnd::Standard(_)) => {
                Ok(Question::Nothing)
            }
            libc::F_SETFL if fd > 2 && self.is_inner_pipe(fd) => Ok(Question::Nothing),
            _ => Err(unrepeatable("it changes how a file is open")),
        }
    }

    fn device(&self, fd: i32, request: u64, at: u64) -> Result<Question, LeftBecause> {
        match (request, self.end(fd)?) {
            (libc::TCGETS, DescriptorEnd::Opened | DescriptorEnd::Inside) => Ok(Question::Nothing),
            (libc::TCGETS | libc::TIOCGWINSZ, DescriptorEnd::Standard(fd)) => {
                Ok(Question::Terminal { fd, request, at })
            }
            _ => Err(unrepeatable("it changes or asks a device")),
        }
    }

    /// A socket that is not there is as a file that is not there.
    fn connection(&self, at: u64, length: u64) -> Result<Question, LeftBecause> {
        let unknown = || unrepeatable("it talks to another process");
        let mut address = vec![0; length.min(128) as usize];
        memory::read(self.tid, at, &mut address).map_err(|_| unknown())?;
        let (family, path) = address.split_at_checked(2).ok_or_else(unknown)?;
        let path = path.split(|byte| *byte == 0).next().unwrap_or_default();
        let is_path = family == (libc::AF_UNIX as u16).to_ne_bytes() && path.starts_with(b"/");
        let path = CString::new(path).map_err(|_| unknown())?;
        let absent = super::StatAttributes::of(&path, true) == Err(rustix::io::Errno::NOENT);
        match (is_path, absent) {
            (true, true) => Ok(Question::AbsentSocket(path)),
            (true, false) if self.asks_for_user => Ok(Question::Nothing),
            _ => Err(unknown()),
        }
    }

    fn write(&self, fd: i32, parts: Vec<(u64, u64)>) -> Result<Question, LeftBecause> {
        let to = match self.end(fd)? {
            DescriptorEnd::Standard(1) => WrittenTo::Stdout,
            DescriptorEnd::Standard(2) => WrittenTo::Stderr,
            DescriptorEnd::Inside => return Ok(Question::Nothing),
            DescriptorEnd::Opened if self.is_inner_pipe(fd) && self.pages => WrittenTo::Pager,
            DescriptorEnd::Opened if self.is_inner_pipe(fd) => return Ok(Question::Nothing),
            DescriptorEnd::Opened if self.temporary.is_open(self.tid, fd) => {
                return Ok(Question::Nothing);
            }
            _ => return Err(unrepeatable("it writes to a file")),
        };
        Ok(Question::Write { to, parts })
    }

    fn is_inner_pipe(&self, fd: i32) -> bool {
        let is_inner =
            |file: super::StatAttributes| self.pipes.contains(&(file.device, file.inode));
        !self.pipes.is_empty() && process::descriptor(self.tid, fd).is_some_and(is_inner)
    }

    fn parts(&self, at: u64, count: u64) -> Result<Vec<(u64, u64)>, LeftBecause> {
        let mut bytes = vec![0; 16 * count.min(PARTS_MOST) as usize];
        let got = memory::read(self.tid, at, &mut bytes);
        if got.ok() != Some(bytes.len()) {
            return Err(unrepeatable("what it writes cannot be read"));
        }
        let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
        Ok(bytes.chunks_exact(16).map(|part| (number(&part[..8]), number(&part[8..]))).collect())
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

    fn open(&mut self, at: i32, path: u64, flags: u64) -> Result<Question, LeftBecause> {
        if self.temporary.is_made_by(flags) {
            return self.path(at, path, Question::MakeTemporary);
        }
        if self.temporary.is_left()
            && CString::new(self.text(path)?).is_ok_and(|path| self.temporary.is_one(&path))
        {
            return Ok(Question::Nothing);
        }
        if flags & !READING & !WRITING == 0 && self.text(path)? == b"/dev/null" {
            return Ok(Question::OpenNull);
        }
        if flags & !READING != 0 {
            return Err(unrepeatable("it opens a file to write it, or in another special way"));
        }
        self.path(at, path, Question::Open)
    }

    fn attributes_at(
        &mut self,
        fd: i32,
        path: u64,
        flags: u64,
        at: u64,
        is_statx: bool,
    ) -> Result<Question, LeftBecause> {
        const KNOWN: i32 = libc::AT_SYMLINK_NOFOLLOW | libc::AT_NO_AUTOMOUNT | libc::AT_EMPTY_PATH;
        if flags & !(KNOWN as u64) & !(libc::AT_STATX_SYNC_TYPE as u64) != 0 {
            return Err(unrepeatable("it asks for attributes in a special way"));
        }
        let by_descriptor =
            flags & libc::AT_EMPTY_PATH as u64 != 0 && (path == 0 || self.text(path)?.is_empty());
        if by_descriptor {
            return self.open_file(fd);
        }
        let follow = flags & libc::AT_SYMLINK_NOFOLLOW as u64 == 0;
        self.path(fd, path, |path| Question::Attributes { path, follow, at, is_statx })
    }

    fn attributes(
        &mut self,
        fd: i32,
        path: u64,
        follow: bool,
        at: u64,
    ) -> Result<Question, LeftBecause> {
        self.path(fd, path, |path| Question::Attributes { path, follow, at, is_statx: false })
    }

    fn access(
        &mut self,
        fd: i32,
        path: u64,
        mode: u64,
        flags: u64,
    ) -> Result<Question, LeftBecause> {
        if flags & !(libc::AT_EACCESS as u64) != 0 {
            return Err(unrepeatable("it asks for permissions in a special way"));
        }
        let (mode, effective) = (mode as u32, flags != 0);
        self.path(fd, path, |path| Question::Access { path, mode, effective })
    }

    fn link(&mut self, fd: i32, path: u64, at: u64, room: u64) -> Result<Question, LeftBecause> {
        self.path(fd, path, |path| Question::Link { path, at, room })
    }

    /// A path that is asked for, from the root; a note, if it is one.
    fn path(
        &mut self,
        at: i32,
        address: u64,
        question: impl FnOnce(CString) -> Question,
    ) -> Result<Question, LeftBecause> {
        let raw = self.text(address)?;
        if let Some(note) = raw.strip_prefix(TOLD.as_bytes()) {
            return match self.role {
                ProcessRole::Tool => Ok(Question::Note(note.to_vec())),
                _ => Err(unrepeatable("what it starts leaves notes")),
            };
        }
        let is_prelude = self
            .preludes
            .iter()
            .any(|prelude| self.is_way_to(prelude.as_os_str().as_bytes(), &raw));
        if is_prelude || self.is_way_to(TOLD.as_bytes(), &raw) {
            return Ok(Question::Nothing);
        }
        if raw.starts_with(b"/proc/") {
            return Err(unrepeatable("it looks into /proc"));
        }
        let full = match raw.first() {
            Some(b'/') => raw,
            // As the kernel has it.
            None => return Err(unrepeatable("it asks for a path without a name")),
            Some(_) if at == libc::AT_FDCWD => {
                *self.uses_directory = true;
                let mut full = crate::files::proc_link(self.tid, "cwd")
                    .ok_or_else(|| unrepeatable("its working directory has no path"))?;
                full.push(b'/');
                full.extend(raw);
                full
            }
            Some(_) => return Err(unrepeatable("it asks for paths below an open directory")),
        };
        // A string that was read up to its zero byte has none.
        let path = CString::new(full).unwrap_or_default();
        let is_temporary = self.temporary.is_one(&path);
        match question(path) {
            Question::RemoveTemporary(_) if !is_temporary => Err(unrepeatable("it removes a file")),
            question @ (Question::MakeTemporary(_) | Question::RemoveTemporary(_)) => Ok(question),
            _ if is_temporary => Err(unrepeatable("it looks at a file that it has made")),
            question => Ok(question),
        }
    }

    /// Whether a path is becalm's own, or a directory above, which an interpreter may look at first.
    fn is_way_to(&self, own: &[u8], path: &[u8]) -> bool {
        own.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
    }

    fn text(&self, address: u64) -> Result<Vec<u8>, LeftBecause> {
        let mut raw = Vec::with_capacity(256);
        memory::read_string(self.tid, address, &mut raw)
            .map_err(|_| unrepeatable("a path that it asks for cannot be read"))?;
        Ok(raw)
    }
}

pub(super) fn unrepeatable(why: &str) -> LeftBecause {
    LeftBecause::Unrepeatable(why.to_owned())
}
