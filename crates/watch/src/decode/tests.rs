use recording::{Outcome, PathId, Writer};

use super::*;
use crate::shape::{CallShapes, Extent};
use crate::space::AddressSpace;

/// This process stands for the stopped one: its memory, its directory and its descriptors are
/// read in the same way.
pub(crate) fn task() -> Task {
    Task::new(std::process::id() as i32)
}

pub(crate) fn log() -> RecordingLog {
    let writer = Writer::new(Box::new(std::io::sink()), &recording::Header::default()).unwrap();
    RecordingLog::new(writer, std::time::Instant::now(), |_| None)
}

/// This machine's call of this name with these arguments.
pub(crate) fn entry(name: &str, args: &[u64]) -> CallEntry {
    let call = Call::all(crate::arch::NATIVE).find(|call| call.known_name() == Some(name)).unwrap();
    let shape = CallShapes::new(Extent::Default).of(call);
    let mut all = [0; 6];
    all[..args.len()].copy_from_slice(args);
    CallEntry { call, shape, args: all, ip: 0x1000 }
}

fn decoded(task: &Task, name: &str, args: &[u64]) -> PendingCall {
    at_entry(task, &mut log(), &entry(name, args))
}

fn path(pending: &PendingCall) -> Option<String> {
    pending.path.as_ref().map(|path| String::from_utf8(path.bytes.to_vec()).unwrap())
}

fn at(text: &std::ffi::CStr) -> u64 {
    text.as_ptr() as u64
}

const CWD: u64 = AT_FDCWD as u64;

const NONE: [CallString<'static>; 2] = [CallString::None; 2];

fn own_cwd() -> String {
    std::env::current_dir().unwrap().to_str().unwrap().to_owned()
}

#[test]
fn opens_flags_are_recorded_by_the_same_numbers_on_each_processor() {
    let task = task();
    let ends = |name, flags| {
        let call = decoded(&task, name, &[CWD, at(c"x"), flags]);
        call.event(&task, Outcome::Returned(3), Nanos(0)).flags
    };
    for (here, recorded) in [
        (libc::O_DIRECTORY, 0o200_000),
        (libc::O_NOFOLLOW, 0o400_000),
        (libc::O_DIRECT, 0o40_000),
        (libc::O_DSYNC | libc::O_CLOEXEC | libc::O_NOATIME, 0o3_010_000),
        (libc::O_TMPFILE | libc::O_RDWR, 0o20_200_002),
    ] {
        assert_eq!(ends("openat", here as u64), recorded, "{here:#o}");
        let how = [here as u64, 0, 0];
        assert_eq!(ends("openat2", how.as_ptr() as u64), recorded, "{here:#o}");
    }
    assert_eq!(ends("openat", crate::arch::LARGE_FILE), 0o100_000);
    let recursive = 0x8000; // AT_RECURSIVE
    assert_eq!(ends("open_tree", recursive), recursive);
}

#[test]
fn a_path_is_read_from_memory_and_made_full() {
    let task = task();
    let open = decoded(&task, "openat", &[CWD, at(c"lib//./x.so"), 0o2000000]);
    assert_eq!(path(&open), Some(format!("{}/lib/x.so", own_cwd())));
    assert_eq!((open.flags, open.fd), (0o2000000, None), "AT_FDCWD is no descriptor");
    let stat = decoded(&task, "newfstatat", &[CWD, at(c"/etc/../x")]);
    assert_eq!(path(&stat).as_deref(), Some("/etc/../x"), "what .. means is the filesystem's");
}

#[test]
fn a_relative_path_is_below_its_descriptor() {
    let task = task();
    let directory = FullPath { id: PathId(0), bytes: (*b"/known/by/its/open").into() };
    task.files.borrow_mut().opened(700, Some(directory), false);
    let open = decoded(&task, "openat", &[700, at(c"x"), 0]);
    assert_eq!((path(&open).as_deref(), open.fd), (Some("/known/by/its/open/x"), Some(700)));
    // One that it has not seen opened: the kernel is asked.
    let root = std::fs::File::open("/").unwrap();
    let fd = std::os::fd::AsRawFd::as_raw_fd(&root) as u64;
    assert_eq!(path(&decoded(&task, "openat", &[fd, at(c"x"), 0])).as_deref(), Some("/x"));
    // One that is not there.
    assert_eq!(path(&decoded(&task, "openat", &[701, at(c"x"), 0])), None);
}

#[test]
fn an_empty_path_is_the_descriptor_only_where_the_call_takes_it_so() {
    let task = task();
    let file = FullPath { id: PathId(0), bytes: (*b"/a/file").into() };
    task.files.borrow_mut().opened(700, Some(file), false);
    let empty = at(c"");
    let flags = libc::AT_EMPTY_PATH as u64;
    let by_descriptor = |name: &str, args: &[u64]| {
        let pending = decoded(&task, name, args);
        (pending.by_descriptor, path(&pending))
    };
    let itself = (true, Some("/a/file".to_owned()));
    assert_eq!(by_descriptor("newfstatat", &[700, empty, 0, flags]), itself);
    assert!(!by_descriptor("newfstatat", &[700, empty, 0, 0]).0);
    assert_eq!(by_descriptor("readlinkat", &[700, empty]), itself);
    assert_eq!(by_descriptor("utimensat", &[700, 0, 0, 0]), itself, "a null path");
    assert!(!by_descriptor("newfstatat", &[700, 0, 0, 0]).0);
}

#[test]
fn memory_that_is_not_mapped_gives_no_path_and_is_no_blind_spot() {
    let (task, mut log) = (task(), log());
    let pending = at_entry(&task, &mut log, &entry("openat", &[CWD, 8, 0]));
    assert_eq!((path(&pending), log.blinds()), (None, &[][..]));
}

#[test]
fn a_rename_has_two_paths() {
    let task = task();
    let rename = decoded(&task, "renameat2", &[CWD, at(c"/a"), CWD, at(c"/b"), 0]);
    let other = rename.other_path.as_ref().map(|path| path.bytes.to_vec());
    assert_eq!((path(&rename).as_deref(), other.as_deref()), (Some("/a"), Some(&b"/b"[..])));
}

#[test]
fn flags_in_structures_are_read_from_memory() {
    let task = task();
    let how = [0o2000000u64, 0, 0];
    let open = decoded(&task, "openat2", &[CWD, at(c"/x"), how.as_ptr() as u64, 24]);
    assert_eq!(open.flags, 0o2000000);
    let args = [libc::CLONE_VM as u64, 0];
    assert_eq!(decoded(&task, "clone3", &[args.as_ptr() as u64, 88]).clone_flags, args[0]);
    assert_eq!(decoded(&task, "clone", &[17]).clone_flags, 17);
}

/// There is no such call on Arm.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_vfork_is_a_clone_with_the_flags_of_one() {
    let vfork = (libc::CLONE_VFORK | libc::CLONE_VM) as u64;
    assert_eq!(decoded(&task(), "vfork", &[]).clone_flags, vfork);
}

#[test]
fn a_descriptor_call_asks_the_kernel_only_where_the_answer_matters() {
    let task = task();
    let root = std::fs::File::open("/").unwrap();
    let fd = std::os::fd::AsRawFd::as_raw_fd(&root) as u64;
    assert_eq!(path(&decoded(&task, "getdents64", &[fd])).as_deref(), Some("/"));
    assert_eq!(path(&decoded(&task, "read", &[fd])), None, "pipes would cost a question a read");
    let map = |protection: i32, flags: i32| {
        let args = [0, 4096, protection as u64, flags as u64, fd, 0];
        path(&decoded(&task, "mmap", &args))
    };
    assert_eq!(map(libc::PROT_READ | libc::PROT_EXEC, 0).as_deref(), Some("/"));
    assert_eq!(map(libc::PROT_READ, 0), None);
    assert_eq!(map(libc::PROT_EXEC, libc::MAP_ANONYMOUS), None);
    // After the call has returned, the answer would be of another moment.
    let late = without_stop(&task, &mut log(), &entry("getdents64", &[fd]), Nanos(1), NONE);
    assert_eq!(path(&late), None);
}

#[test]
fn a_call_is_of_the_file_that_its_instruction_lies_in_and_of_the_phase_so_far() {
    let task = task();
    *task.space.borrow_mut() = AddressSpace::new(true, false);
    task.space.borrow_mut().map(0x1000, 0x1000, Some(PathId(7)), true);
    task.space.borrow_mut().map(0x5000, 0x1000, Some(PathId(8)), false);
    let loading = decoded(&task, "faccessat", &[CWD, at(c"/etc/ld.so.preload")]);
    assert_eq!((loading.site.file, loading.phase), (Some(PathId(7)), Phase::Loading));
    let entry = CallEntry { ip: 0x5800, ..entry("faccessat", &[CWD, at(c"/x")]) };
    let running = at_entry(&task, &mut log(), &entry);
    assert_eq!((running.site.file, running.phase), (Some(PathId(8)), Phase::Running));
    assert!(loading.site.in_loader && !running.site.in_loader);
}

#[test]
fn what_musl_s_loader_does_not_do_begins_its_program() {
    let task = task();
    *task.space.borrow_mut() = AddressSpace::new(true, true);
    task.space.borrow_mut().map(0x1000, 0x1000, Some(PathId(7)), true);
    let library = decoded(&task, "openat", &[CWD, at(c"/lib/libz.so.1")]);
    assert_eq!((library.phase, library.site.in_loader), (Phase::Loading, true));
    let again = decoded(&task, "fcntl", &[3, libc::F_SETFD as u64, 1]);
    assert_eq!(again.phase, Phase::Loading, "close on exec, again");
    let file = decoded(&task, "openat", &[CWD, at(c"/etc/passwd")]);
    assert_eq!((file.phase, file.site.in_loader), (Phase::Running, false));
    let library = decoded(&task, "openat", &[CWD, at(c"/lib/libz.so.1")]);
    assert_eq!(library.phase, Phase::Running, "dlopen");
}
