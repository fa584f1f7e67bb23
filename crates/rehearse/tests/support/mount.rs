//! A directory seen through the pass-through filesystem, by a child of its own.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cost::FilesystemProfile;
use rehearse::{Account, Ledger, MachineQueues, ServedTree, serve};
use sandbox::namespace::{FuseMount, NamespaceKind, fuse_device, mount_fuse, own_mounts};

/// How a directory is mounted.
#[derive(Clone)]
pub struct Mount {
    pub directory: PathBuf,
    pub profile: FilesystemProfile,
    pub writable: bool,
    /// As this user, in a user namespace; else as root.
    pub user: Option<u32>,
    /// The queue is shared with other mounts of the profile.
    pub shared: bool,
    /// How many files the server may have open.
    pub most_open: Option<u64>,
}

/// An ordinary user.
pub const NOBODY: u32 = 65534;

/// A profile made of its three lines: metadata, data, cache.
pub fn profile(metadata: &str, data: &str, cache: &str) -> FilesystemProfile {
    let text = format!("name = \"test\"\n[mds]\n{metadata}\n[data]\n{data}\n[cache]\n{cache}");
    FilesystemProfile::parse(&text, "test").unwrap()
}

/// No delays, and everything is kept.
pub fn local() -> FilesystemProfile {
    FilesystemProfile::find("local".as_ref()).unwrap()
}

impl Mount {
    pub fn new(directory: &Path, profile: FilesystemProfile) -> Mount {
        let directory = directory.to_owned();
        Mount { directory, profile, writable: false, user: None, shared: false, most_open: None }
    }

    pub fn writable(self) -> Mount {
        Mount { writable: true, ..self }
    }

    pub fn shared(self) -> Mount {
        Mount { shared: true, ..self }
    }

    pub fn user(self, user: Option<u32>) -> Mount {
        Mount { user, ..self }
    }

    /// Runs `inside` in a process that sees the directory through the mount, and gives what reached
    /// the server. What fails inside fails the test.
    pub fn see(&self, inside: impl FnOnce()) -> Account {
        let running = self.start(inside);
        running.end()
    }

    /// The same, without waiting for its end.
    pub fn start(&self, inside: impl FnOnce()) -> Running {
        let (mut here, there) = UnixStream::pair().unwrap();
        let (answer, question) = UnixStream::pair().unwrap();
        let server = fork(|| {
            drop((here.try_clone(), question.try_clone()));
            self.serve(&there, &answer);
        });
        let client = fork(|| {
            self.enter(&mut here);
            inside();
        });
        Running { server, client, account: question }
    }

    fn serve(&self, client: &UnixStream, out: &UnixStream) {
        become_user(self.user);
        if let Some(most) = self.most_open {
            let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
            // SAFETY: the kernel reads the structure.
            assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
        }
        let root = OwnedFd::from(File::open(&self.directory).unwrap());
        let tree = ServedTree {
            path: self.directory.clone(),
            root,
            writable: self.writable,
            checked_by_kernel: self.user.is_none(),
        };
        let device = receive(client);
        let queues = match self.shared {
            true => MachineQueues::shared(&self.profile).unwrap(),
            false => MachineQueues::alone(),
        };
        let ledger = Arc::new(Ledger::new());
        let ready = || (&*client).write_all(b"r").unwrap();
        serve(device, tree, &self.profile, Arc::new(queues), ledger.clone(), ready).unwrap();
        let account = postcard::to_allocvec(&ledger.take()).unwrap();
        (&*out).write_all(&account).unwrap();
    }

    fn enter(&self, server: &mut UnixStream) {
        become_user(self.user);
        let means = own_mounts().unwrap();
        assert_eq!(means == NamespaceKind::UserNamespace, self.user.is_some());
        let device = fuse_device().unwrap();
        let options = FuseMount {
            source: "test",
            subtype: "becalm",
            check_permissions: self.user.is_none(),
            flags: if self.writable { 0 } else { libc::MS_RDONLY },
        };
        mount_fuse(device.as_fd(), &self.directory, &options).unwrap();
        send(server, &device);
        drop(device);
        server.read_exact(&mut [0]).unwrap();
        // Until then the kernel takes the root for root's, whom a user namespace does not know.
        std::fs::metadata(&self.directory).unwrap();
        std::env::set_current_dir(&self.directory).unwrap();
    }
}

/// A process that sees a mount, and its server.
pub struct Running {
    pub server: i32,
    pub client: i32,
    account: UnixStream,
}

impl Running {
    pub fn end(mut self) -> Account {
        let status = wait(self.client);
        let mut bytes = Vec::new();
        self.account.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
        let read = self.account.read_to_end(&mut bytes);
        assert_eq!(status, 0, "the client failed: see above");
        read.unwrap();
        assert_eq!(wait(self.server), 0, "the server failed: see above");
        postcard::from_bytes(&bytes).unwrap()
    }
}

/// Runs something in a child, which ends with it.
pub fn fork(inside: impl FnOnce()) -> i32 {
    // SAFETY: the child runs test code and ends by _exit; the C library keeps its allocator
    // usable after a fork.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // The harness keeps what a test prints, but this process ends without it.
        std::panic::set_hook(Box::new(|panic| {
            writeln!(std::io::stderr(), "in a child: {panic}").ok();
        }));
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(inside));
        // SAFETY: ends this process.
        unsafe { libc::_exit(i32::from(done.is_err())) };
    }
    assert!(child > 0);
    child
}

/// The wait status of a child.
pub fn wait(child: i32) -> i32 {
    let mut status = 0;
    // SAFETY: the kernel fills a number.
    unsafe { libc::waitpid(child, &mut status, 0) };
    status
}

pub fn become_user(user: Option<u32>) {
    let Some(user) = user else { return };
    // SAFETY: sets the ids of this process.
    unsafe {
        assert_eq!(libc::setgroups(0, std::ptr::null()), 0);
        assert_eq!(libc::setgid(user), 0);
        assert_eq!(libc::setuid(user), 0);
        // As after an exec: /proc/self is the user's own again.
        libc::prctl(libc::PR_SET_DUMPABLE, 1);
    }
}

const ROOM: usize = 64;

fn send(to: &UnixStream, descriptor: &OwnedFd) {
    message(to, Some(descriptor.as_raw_fd()));
}

fn receive(from: &UnixStream) -> OwnedFd {
    // SAFETY: the kernel has just opened the descriptor for us.
    unsafe { OwnedFd::from_raw_fd(message(from, None)) }
}

/// Sends or receives one descriptor (unix(7)).
fn message(socket: &UnixStream, descriptor: Option<i32>) -> i32 {
    let mut byte = [0u8];
    let mut room = [0u64; ROOM / 8];
    // SAFETY: all pointers are to local variables that outlive the calls.
    unsafe {
        let mut part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
        let mut message: libc::msghdr = std::mem::zeroed();
        (message.msg_iov, message.msg_iovlen) = (&mut part, 1);
        message.msg_control = room.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(4) as usize;
        let header = libc::CMSG_FIRSTHDR(&message);
        if let Some(descriptor) = descriptor {
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(4) as usize;
            libc::CMSG_DATA(header).cast::<i32>().write_unaligned(descriptor);
            assert_eq!(libc::sendmsg(socket.as_raw_fd(), &message, 0), 1);
            return descriptor;
        }
        assert_eq!(libc::recvmsg(socket.as_raw_fd(), &mut message, libc::MSG_CMSG_CLOEXEC), 1);
        libc::CMSG_DATA(libc::CMSG_FIRSTHDR(&message)).cast::<i32>().read_unaligned()
    }
}
