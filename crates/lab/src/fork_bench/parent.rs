//! A process of a size that starts programs, and tells how long that took.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::ptr;

use rustix::process::{Pid, WaitOptions, waitpid};

use super::{Parent, StartMethod};

/// Measures from a parent of such a size.
///
/// # Errors
/// It got no memory, or could not start the program.
pub(super) fn measure(
    program: &str,
    megabytes: u64,
    huge_pages: bool,
    rounds: u32,
) -> io::Result<Parent> {
    let program = CString::new(program).map_err(io::Error::other)?;
    let (mut from, to) = io::pipe()?;
    // SAFETY: the process has one thread (`bench` says so); the child ends with `_exit`.
    let child = match unsafe { libc::fork() } {
        0 => {
            drop(from);
            let told = live(
                File::from(std::os::fd::OwnedFd::from(to)),
                &program,
                megabytes,
                huge_pages,
                rounds,
            );
            let status = told.err().map_or(0, |error| error.raw_os_error().unwrap_or(libc::EIO));
            // SAFETY: ends the process, and runs nothing of the parent's.
            unsafe { libc::_exit(status) }
        }
        -1 => return Err(io::Error::last_os_error()),
        child => child,
    };
    drop(to);
    let mut bytes = Vec::new();
    let read = from.read_to_end(&mut bytes);
    let waited = waitpid(Pid::from_raw(child), WaitOptions::empty())?;
    read?;
    match waited.and_then(|(_, status)| status.exit_status()) {
        Some(0) => Ok(told(&bytes, megabytes, huge_pages)),
        Some(error) => Err(io::Error::from_raw_os_error(error)),
        None => Err(io::Error::other("it was killed")),
    }
}

/// What a parent has told.
fn told(bytes: &[u8], megabytes: u64, huge_pages: bool) -> Parent {
    let mut numbers = bytes
        .chunks_exact(8)
        .map(|number| u64::from_ne_bytes(number.try_into().unwrap_or_default()));
    let huge_bytes = numbers.next().unwrap_or(0);
    let times: Vec<u64> = numbers.collect();
    let of = |way: usize| times.iter().skip(way).step_by(StartMethod::ALL.len()).copied().collect();
    let (fork_ns, vfork_ns, posix_spawn_ns) = (of(0), of(1), of(2));
    Parent { megabytes, huge_pages, huge_bytes, fork_ns, vfork_ns, posix_spawn_ns }
}

/// The parent's life: it grows, starts programs in each way by turns, and tells.
fn live(
    mut to: File,
    program: &CStr,
    megabytes: u64,
    huge_pages: bool,
    rounds: u32,
) -> io::Result<()> {
    grow(megabytes << 20, huge_pages)?;
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup")?;
    let huge = rollup.lines().find_map(|line| line.strip_prefix("AnonHugePages:"));
    let huge = huge.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    to.write_all(&(huge.unwrap_or(0) * 1024).to_ne_bytes())?;
    for way in StartMethod::ALL {
        // The first one reads the program's file.
        way.start(program)?;
    }
    for round in 0..rounds as usize {
        let mut times = [0_u64; StartMethod::ALL.len()];
        for turn in 0..StartMethod::ALL.len() {
            let way = (round + turn) % StartMethod::ALL.len();
            let time = StartMethod::ALL[way].start(program)?.as_nanos();
            times[way] = u64::try_from(time).unwrap_or(u64::MAX);
        }
        for time in times {
            to.write_all(&time.to_ne_bytes())?;
        }
    }
    Ok(())
}

/// Maps memory and writes to every page of it. It stays until the process ends.
fn grow(bytes: u64, huge_pages: bool) -> io::Result<()> {
    const HUGE: usize = 2 << 20;
    const PAGE: usize = 4096;
    let bytes = usize::try_from(bytes).map_err(io::Error::other)?;
    if bytes == 0 {
        return Ok(());
    }
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // With room to begin where a huge page can.
    // SAFETY: a new mapping; what is returned is checked.
    let mapped = unsafe { libc::mmap(ptr::null_mut(), bytes + HUGE, access, kind, -1, 0) };
    if mapped == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let advice = if huge_pages { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE };
    let skip = mapped.align_offset(HUGE);
    // SAFETY: `skip` is less than HUGE, so that all that follows is within the mapping. Advice may
    // be refused, by a kernel without huge pages: then there are none.
    unsafe {
        let start = mapped.cast::<u8>().add(skip);
        libc::madvise(start.cast(), bytes, advice);
        for offset in (0..bytes).step_by(PAGE) {
            start.add(offset).write_volatile(1);
        }
    }
    Ok(())
}
