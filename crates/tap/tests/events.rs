//! What is reported is what was called: each call, once, as it was made, and nothing else.

#![allow(clippy::unwrap_used)] // A test program: what fails, fails the test.

mod support;

use std::ffi::CString;
use std::io::Read;
use std::time::{Duration, Instant};

use libc::{
    SYS_close, SYS_dup, SYS_execve, SYS_fcntl, SYS_getpid, SYS_lseek, SYS_read, SYS_renameat,
    SYS_statfs,
};
use support::{call, child, tap};
use tap::{CallString, RING_BYTES, Tap, TapEvent, WatchedCall};

const EBADF: i64 = -(libc::EBADF as i64);
/// What a call says that a signal has broken off.
const ERESTARTSYS: i64 = -512;

#[test]
fn each_call_is_reported_once_in_order_with_arguments_and_result() {
    let Some(mut tap) = tap(&[SYS_close, SYS_read, SYS_lseek, SYS_fcntl]) else { return };
    let before = Instant::now();
    let child = child(|| {
        for round in 0..1000 {
            call(SYS_fcntl, &[0, libc::F_GETFD.into(), 0x111, 0x222, 0x333, 0x444]);
            call(SYS_getpid, &[]);
            call(SYS_lseek, &[-1, round, 2]);
            call(SYS_read, &[-1, 0x5555, round]);
            call(SYS_close, &[1000 + round]);
        }
    });
    let pid = child.pid;
    let mut events = child.events(&mut tap);

    // Before it was let go, the child may have been followed in time for a close and a read.
    let first = events.iter().position(|event| event.number == SYS_fcntl as u16).unwrap_or(0);
    assert!(first <= 2, "{:?}", &events[..first]);
    events.drain(..first);
    assert_eq!(events.len(), 4000);
    let mut time = 0;
    for (round, four) in events.chunks(4).enumerate() {
        let round = round as u64;
        let [fcntl, lseek, read, close] = four else { panic!("{four:?}") };
        assert_eq!(fcntl.number, SYS_fcntl as u16);
        assert_eq!(fcntl.args, [0, libc::F_GETFD as u64, 0x111, 0x222, 0x333, 0x444]);
        assert!(fcntl.value >= 0);
        assert_eq!((lseek.number, lseek.value), (SYS_lseek as u16, EBADF));
        assert_eq!(lseek.args[..3], [u64::MAX, round, 2]);
        assert_eq!((read.number, read.value), (SYS_read as u16, EBADF));
        assert_eq!(read.args[1..3], [0x5555, round]);
        assert_eq!((close.number, close.value), (SYS_close as u16, EBADF));
        assert_eq!(close.args[0], 1000 + round);
        for event in four {
            assert_eq!((event.tid, event.tgid), (pid, pid));
            assert!(event.start >= time, "a call began before the one before it was over");
            time = event.start + event.took;
            assert_ne!(event.ip, 0);
        }
    }
    let took = time - events[0].start;
    assert!(u128::from(took) < before.elapsed().as_nanos(), "another clock: {took} ns");
    assert_eq!(tap.lost(), 0);
}

#[test]
fn strings_are_reported_with_their_calls_and_said_to_be_unreadable_where_they_are() {
    let calls = [
        WatchedCall { strings: [Some(1), Some(3)], ..WatchedCall::plain(SYS_renameat as u16) },
        WatchedCall { strings: [Some(0), None], ..WatchedCall::plain(SYS_statfs as u16) },
    ];
    if tap(&[SYS_close]).is_none() {
        return; // It is not allowed here.
    }
    let mut tap = Tap::open_for(&calls, RING_BYTES).unwrap();
    let (from, longest) = (c"/nonexistent/from", CString::new([b'x'; 4095]).unwrap());
    let longer = CString::new([b'y'; 4200]).unwrap();
    let child = child(|| {
        let (cwd, path) = (libc::AT_FDCWD.into(), from.as_ptr() as i64);
        call(SYS_renameat, &[cwd, path, cwd, c"to".as_ptr() as i64]);
        call(SYS_renameat, &[cwd, path, cwd, 16]);
        call(SYS_statfs, &[c"".as_ptr() as i64, 0]);
        call(SYS_statfs, &[longest.as_ptr() as i64, 0]);
        call(SYS_statfs, &[longer.as_ptr() as i64, 0]);
    });
    tap.follow(child.pid).unwrap();
    child.go();
    child.wait();
    let mut seen = Vec::new();
    tap.drain_with_strings(|event, strings| {
        let text = |string| match string {
            CallString::Bytes(text) => String::from_utf8(text.to_vec()).unwrap(),
            other => format!("{other:?}"),
        };
        seen.push((event.number, strings.map(text)));
    });
    let both = |one: &str, other: &str| [one.to_owned(), other.to_owned()];
    let expected = [
        (SYS_renameat, both("/nonexistent/from", "to")),
        (SYS_renameat, both("/nonexistent/from", "Unreadable")),
        (SYS_statfs, both("", "None")),
        (SYS_statfs, both(longest.to_str().unwrap(), "None")),
        (SYS_statfs, both("Unreadable", "None")),
    ];
    assert_eq!(seen, expected.map(|(number, strings)| (number as u16, strings)));
}

#[test]
fn every_thread_is_reported_with_its_own_calls_in_its_own_order() {
    const THREADS: i64 = 8;
    const CALLS: i64 = 2000;
    let Some(mut tap) = tap(&[SYS_lseek]) else { return };
    let child = child(|| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                std::thread::spawn(move || {
                    for round in 0..CALLS {
                        call(SYS_lseek, &[-1, thread, round]);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("a thread"));
    });
    let pid = child.pid;
    let events = child.events(&mut tap);
    assert_eq!(events.len() as i64, THREADS * CALLS);
    assert!(events.iter().all(|event| event.tgid == pid));
    for thread in 0..THREADS {
        let own: Vec<_> = events.iter().filter(|event| event.args[1] == thread as u64).collect();
        assert!(own.iter().all(|event| event.tid == own[0].tid && event.tid != pid));
        let rounds: Vec<u64> = own.iter().map(|event| event.args[2]).collect();
        assert_eq!(rounds, (0..CALLS as u64).collect::<Vec<_>>());
    }
}

#[test]
fn nothing_is_reported_of_other_processes_of_forked_children_or_of_forgotten_ones() {
    let Some(mut tap) = tap(&[SYS_lseek]) else { return };
    let stranger = child(|| {
        for _ in 0..10_000 {
            call(SYS_lseek, &[-1, 1]);
        }
    });
    let forgotten = child(|| {
        call(SYS_lseek, &[-1, 2]);
    });
    let parent = child(|| {
        for _ in 0..100 {
            // SAFETY: the child makes one call and ends.
            unsafe {
                let pid = libc::fork();
                if pid == 0 {
                    call(SYS_lseek, &[-1, 3]);
                    libc::_exit(0);
                }
                libc::waitpid(pid, std::ptr::null_mut(), 0);
            }
            call(SYS_lseek, &[-1, 4]);
        }
    });
    tap.follow(forgotten.pid).expect("follow");
    tap.forget(forgotten.pid);
    stranger.go();
    forgotten.go();
    let pid = parent.pid;
    let events = parent.events(&mut tap);
    assert_eq!(stranger.wait(), 0);
    assert_eq!(forgotten.wait(), 0);
    assert_eq!(events.len(), 100);
    assert!(events.iter().all(|event| event.tgid == pid && event.args[1] == 4));
}

#[cfg(target_arch = "x86_64")] // Elsewhere a 64-bit program reaches no other table.
#[test]
fn calls_of_the_32_bit_table_are_not_taken_for_native_ones_of_the_same_number() {
    use libc::SYS_writev;
    // In the 32-bit table: close is 6 (lstat), getpid is 20 (writev), dup is 41 (socket).
    let Some(mut tap) = tap(&[libc::SYS_lstat, SYS_writev, libc::SYS_socket]) else { return };
    let child = child(|| {
        for _ in 0..1000 {
            call(SYS_writev, &[-1, 7]);
            for number in [6, 20, 41] {
                let _result: i32;
                // SAFETY: none of the three touches memory; r8 to r11 may be lost.
                unsafe {
                    std::arch::asm!("int 0x80", inlateout("eax") number => _result,
                        out("r8") _, out("r9") _, out("r10") _, out("r11") _);
                }
            }
            // The x32 table: bit 30. Where there is none, the call fails.
            call(SYS_writev | 1 << 30, &[-1, 8]);
        }
    });
    let events = child.events(&mut tap);
    assert_eq!(events.len(), 1000);
    assert!(events.iter().all(|event| event.number == SYS_writev as u16 && event.args[1] == 7));
}

#[test]
fn execve_by_a_thread_is_reported_as_its_own_and_the_leader_s_wait_as_broken_off() {
    let Some(mut tap) = tap(&[SYS_execve, SYS_read, SYS_close]) else { return };
    let (never, told) = silent_pipe();
    let child = child(move || {
        let thread = std::thread::spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(50));
            let argv = [c"true".as_ptr(), std::ptr::null()];
            // SAFETY: strings and lists that end with null.
            unsafe { libc::execve(c"/bin/true".as_ptr(), argv.as_ptr(), argv[1..].as_ptr()) };
        });
        wait_for_ever(never);
        thread.join().expect("a thread");
    });
    let pid = child.pid;
    let events = child.events(&mut tap);
    // SAFETY: ours.
    unsafe { (libc::close(never), libc::close(told)) };

    let at = events.iter().position(|event| event.number == SYS_execve as u16).expect("execve");
    let execve = &events[at];
    assert_eq!((execve.value, execve.tgid), (0, pid));
    assert_ne!(execve.tid, pid, "the thread's id then");
    assert!(execve.args[0] != 0, "arguments as at the entry");
    let waited = |e: &&TapEvent| e.number == SYS_read as u16 && e.args[0] == never as u64;
    assert!(events.iter().filter(waited).all(|e| e.tid == pid && e.value == ERESTARTSYS));
    let after = &events[at + 1..];
    assert!(after.iter().any(|event| event.number == SYS_close as u16), "the new program's");
    assert!(after.iter().all(|event| event.tid == pid));
}

#[test]
fn threads_that_are_killed_in_a_call_leave_nothing_behind() {
    // More than the tap can hold at one time. All stay zombies to the end, so that none has the
    // memory of one before it.
    const CHILDREN: usize = 9000;
    let Some(mut tap) = tap(&[SYS_read, SYS_dup]) else { return };
    let (never, told) = silent_pipe();
    let mut zombies = Vec::new();
    let mut reported = 0;
    while zombies.len() < CHILDREN {
        let child = child(|| {
            call(SYS_dup, &[-1]);
            wait_for_ever(never);
        });
        tap.follow(child.pid).expect("follow");
        child.go();
        let deadline = Instant::now() + Duration::from_secs(100);
        while reported == zombies.len() {
            assert!(Instant::now() < deadline, "nothing of child {reported}; {} lost", tap.lost());
            std::thread::yield_now();
            tap.drain(|event| {
                let waited = event.number == SYS_read as u16 && event.args[0] == never as u64;
                assert!(!waited || event.value == ERESTARTSYS, "it never returned: {event:?}");
                reported += usize::from(event.number == SYS_dup as u16);
            });
        }
        child.kill();
        tap.forget(child.pid);
        zombies.push(child);
    }
    assert_eq!(tap.lost(), 0);
    assert!(zombies.into_iter().all(|zombie| zombie.wait() == libc::SIGKILL));
    // SAFETY: ours.
    unsafe { (libc::close(never), libc::close(told)) };
}

#[test]
fn counts_are_strace_s_on_real_programs() {
    use std::process::{Command, Stdio};
    const CALLS: [(&str, i64); 12] = [
        ("close", SYS_close),
        ("read", SYS_read),
        ("mmap", libc::SYS_mmap),
        ("munmap", libc::SYS_munmap),
        ("mprotect", libc::SYS_mprotect),
        ("fcntl", SYS_fcntl),
        ("lseek", SYS_lseek),
        ("ioctl", libc::SYS_ioctl),
        ("getdents64", libc::SYS_getdents64),
        ("fstat", libc::SYS_fstat),
        ("pread64", libc::SYS_pread64),
        ("write", libc::SYS_write),
    ];
    let Some(mut tap) = tap(&CALLS
        .map(|(_, number)| number)
        .iter()
        .copied()
        .chain([SYS_execve])
        .collect::<Vec<_>>())
    else {
        return;
    };
    let list = CALLS.map(|(name, _)| name).join(",");
    for program in ["ls -l /usr/share", "find /usr/share -maxdepth 1", "perl -e1", "env"] {
        let Ok(strace) = Command::new("strace")
            .args(["-qq", "-e", "signal=none", "-e", &format!("trace={list}"), "-o", "/dev/stderr"])
            .args(program.split(' '))
            .stdout(Stdio::null())
            .output()
        else {
            return eprintln!("NOT TESTED: no strace");
        };
        let log = String::from_utf8_lossy(&strace.stderr);

        // The shell waits until it is followed, and becomes the program.
        let script = format!("read go; exec {program}");
        let mut shell = Command::new("sh")
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("sh");
        tap.follow(shell.id() as i32).expect("follow");
        std::io::Write::write_all(&mut shell.stdin.take().expect("a pipe"), b"\n").expect("told");
        let mut said = String::new();
        shell.stderr.take().expect("a pipe").read_to_string(&mut said).expect("its errors");
        assert!(shell.wait().expect("its end").success(), "{program}: {said}");
        tap.forget(shell.id() as i32);

        let mut counts = CALLS.map(|_| 0);
        let mut running = false;
        tap.drain(|event| {
            running |= event.number == SYS_execve as u16 && event.value == 0;
            let known = CALLS.iter().position(|(_, number)| *number == i64::from(event.number));
            if let (true, Some(at)) = (running, known) {
                counts[at] += 1;
            }
        });
        let expected = CALLS.map(|(name, _)| {
            log.lines().filter(|line| line.starts_with(&format!("{name}("))).count()
        });
        assert!(expected.iter().sum::<usize>() > 20, "{program}: {log}");
        assert_eq!(counts, expected, "{program}: {list}");
    }
}

/// A pipe that nobody writes to.
fn silent_pipe() -> (i32, i32) {
    let mut ends = [0; 2];
    // SAFETY: room for two descriptors.
    unsafe { assert_eq!(libc::pipe(ends.as_mut_ptr()), 0) };
    (ends[0], ends[1])
}

/// Reads from such a pipe.
fn wait_for_ever(pipe: i32) {
    let mut byte = 0u8;
    // SAFETY: room for the byte, which never comes.
    unsafe { libc::read(pipe, (&raw mut byte).cast(), 1) };
}
