//! Whether a file is being written: who has it open writes on to the old file when another has its name.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use rustix::io::Errno;

/// What is said of such a file.
pub(crate) const WRITTEN: &str = "is being written: some process has it open for writing";

/// Where a lease is refused for other reasons, too: NFS (nfs4_add_lease()) and SMB (cifs_setlease()), by the
/// numbers of statfs(2).
const OTHERWISE_REFUSED: [u32; 3] = [0x6969, 0xff53_4d42, 0xfe53_4d42];

/// A child has what its parent was writing until it executes something.
const PATIENCE: Duration = Duration::from_millis(500);

/// Which signal tells of a lease: asm-generic/fcntl.h. The C library's crate does not have it.
const F_SETSIG: i32 = 10;

/// Whether some process of this machine has a file open for writing, or mapped so, for longer than a moment. Where
/// that cannot be asked it is not said: of others' files without CAP_LEASE, on filesystems without leases.
pub(crate) fn is_written(file: &File) -> bool {
    let began = Instant::now();
    while has_writer(file) {
        if began.elapsed() >= PATIENCE {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

/// Whether somebody can write to it now: nobody gets a lease to read it then (fcntl(2), F_SETLEASE).
fn has_writer(file: &File) -> bool {
    // Who opens it for writing while there is a lease waits until it is given back. It is told by a signal, and
    // the usual one ends a process.
    if fcntl(file, F_SETSIG, libc::SIGURG).is_err() {
        return false;
    }
    match fcntl(file, libc::F_SETLEASE, libc::F_RDLCK) {
        // At the latest when it is closed.
        Ok(()) => fcntl(file, libc::F_SETLEASE, libc::F_UNLCK).is_ok_and(|()| false),
        Err(why) => why == Errno::AGAIN && is_only_refused_to_writers(file),
    }
}

fn is_only_refused_to_writers(file: &File) -> bool {
    // The numbers have 32 bits, whatever the type of the field.
    rustix::fs::fstatfs(file).is_ok_and(|about| !OTHERWISE_REFUSED.contains(&(about.f_type as u32)))
}

fn fcntl(file: &File, command: i32, argument: i32) -> Result<(), Errno> {
    // SAFETY: these commands take a number, and the file is open.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, argument) } {
        -1 => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)),
        _ => Ok(()),
    }
}
