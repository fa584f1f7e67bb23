use recording::{Nanos, PathId};

use super::*;
use crate::decode;
use crate::decode::tests::{entry, log, task};
use crate::files::FullPath;

/// A call that has returned, about this path.
fn returns(
    task: &mut Task,
    log: &mut RecordingLog,
    call: (&str, &[u64]),
    about: About,
    value: i64,
) {
    let (name, args) = call;
    let mut pending =
        decode::without_stop(task, log, &entry(name, args), Nanos(0), [tap::CallString::None; 2]);
    if let Some(path) = about {
        pending.path = Some(FullPath { id: PathId(1), bytes: path.as_bytes().into() });
    }
    let outcome = match value {
        error @ ..0 => Outcome::Failed(error.unsigned_abs() as u16),
        value => Outcome::Returned(value),
    };
    apply(task, log, &pending, outcome);
}

type About<'a> = Option<&'a str>;

fn open(task: &Task, fd: i32) -> Option<String> {
    let files = task.files.borrow();
    files.get(fd).map(|path| String::from_utf8(path.bytes.to_vec()).unwrap())
}

const CLOEXEC: u64 = libc::O_CLOEXEC as u64;

#[test]
fn descriptors_follow_open_dup_fcntl_close_and_exec() {
    let (task, log) = (&mut task(), &mut log());
    returns(task, log, ("openat", &[0, 0, CLOEXEC]), Some("/a"), 3);
    returns(task, log, ("openat", &[0, 0, 0]), Some("/b"), 4);
    returns(task, log, ("dup", &[3]), None, 5);
    returns(task, log, ("dup3", &[4, 6, CLOEXEC]), None, 6);
    returns(task, log, ("fcntl", &[4, libc::F_DUPFD_CLOEXEC as u64, 0]), None, 7);
    returns(task, log, ("fcntl", &[7, libc::F_SETFD as u64, 0]), None, 0);
    let names = |task: &Task| [3, 4, 5, 6, 7].map(|fd| open(task, fd));
    let [a, b] = ["/a", "/b"].map(|name| Some(name.to_owned()));
    assert_eq!(names(task), [a.clone(), b.clone(), a.clone(), b.clone(), b.clone()]);
    let after = task.files.borrow().after_exec();
    *task.files.borrow_mut() = after;
    assert_eq!(names(task), [None, b.clone(), a, None, b]);
    returns(task, log, ("close", &[4]), None, 0);
    returns(task, log, ("close_range", &[5, u64::from(u32::MAX), 0]), None, 0);
    assert_eq!(names(task), [None, None, None, None, None]);
}

#[test]
fn a_close_that_fails_has_closed_unless_there_was_nothing_to_close() {
    let (task, log) = (&mut task(), &mut log());
    for (error, left) in [(libc::EBADF, Some("/a".to_owned())), (libc::EIO, None)] {
        returns(task, log, ("openat", &[0, 0, 0]), Some("/a"), 3);
        returns(task, log, ("close", &[3]), None, -i64::from(error));
        assert_eq!(open(task, 3), left);
    }
}

#[test]
fn a_call_that_failed_opens_nothing() {
    let (task, log) = (&mut task(), &mut log());
    returns(task, log, ("openat", &[0, 0, 0]), Some("/a"), -2);
    assert_eq!(open(task, 3), None);
}

#[test]
fn unshared_descriptors_are_the_threads_own() {
    let (task, log) = (&mut task(), &mut log());
    let mut thread = task.child(1, (libc::CLONE_THREAD | libc::CLONE_FILES) as u64);
    returns(task, log, ("openat", &[0, 0, 0]), Some("/a"), 3);
    assert_eq!(open(&thread, 3), Some("/a".to_owned()));
    returns(&mut thread, log, ("unshare", &[libc::CLONE_FILES as u64]), None, 0);
    returns(&mut thread, log, ("close", &[3]), None, 0);
    assert_eq!((open(task, 3), open(&thread, 3)), (Some("/a".to_owned()), None));
}

#[test]
fn a_new_directory_is_asked_of_the_kernel() {
    let (task, log) = (&mut task(), &mut log());
    // This process stands for the one that made the call.
    let own = std::env::current_dir().unwrap().into_os_string().into_encoded_bytes();
    for (name, value, asked) in [("chdir", -2, false), ("chdir", 0, true), ("fchdir", 0, true)] {
        task.directories.borrow_mut().cwd = Some(b"/x".to_vec());
        returns(task, log, (name, &[0]), Some("/y"), value);
        let expected = if asked { &own[..] } else { b"/x" };
        assert_eq!(task.directories.borrow().cwd.as_deref(), Some(expected), "{name} {value}");
    }
}

#[test]
fn instructions_that_are_mapped_are_a_files_from_then_on() {
    let (task, log) = (&mut task(), &mut log());
    let executable = (libc::PROT_READ | libc::PROT_EXEC) as u64;
    returns(task, log, ("mmap", &[0, 0x1000, executable]), Some("/lib/x.so"), 0x10_0000);
    returns(task, log, ("mmap", &[0, 0x1000, libc::PROT_READ as u64]), Some("/y"), 0x20_0000);
    let file = |ip: u64| task.space.borrow_mut().site(ip).file;
    assert_eq!((file(0x10_0800), file(0x20_0800)), (Some(PathId(1)), None));
}

#[test]
fn what_hides_calls_is_said_once() {
    let (task, log) = (&mut task(), &mut log());
    let filter = [u64::from(libc::SECCOMP_SET_MODE_FILTER), 0];
    for _ in 0..2 {
        returns(task, log, ("io_uring_setup", &[8, 0]), None, 9);
        returns(task, log, ("seccomp", &filter), None, 0);
    }
    returns(task, log, ("ptrace", &[0]), None, -i64::from(libc::EPERM));
    let process = task.process;
    let expected = [
        Blind::IoUring { process },
        Blind::OwnFilter { process },
        Blind::TracerRefused { process },
    ];
    assert_eq!(log.blinds(), expected);
}
