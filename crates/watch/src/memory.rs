//! Reading a stopped process's memory, without trusting a byte of it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The longest path that a system call takes (limits.h), with its end.
const PATH_MAX: usize = 4096;

/// Most paths are shorter than this, so that one read gets them.
const FIRST: usize = 256;

/// Reads up to `into.len()` bytes; fewer where mapped memory ends.
pub(crate) fn read(tid: i32, address: u64, into: &mut [u8]) -> io::Result<usize> {
    if into.is_empty() {
        return Ok(0);
    }
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: into.len() };
    // SAFETY: `local` describes `into`; `remote` is another process's, which the kernel checks.
    let got = unsafe { libc::process_vm_readv(tid, &local, 1, &remote, 1, 0) };
    usize::try_from(got).or_else(|_| match io::Error::last_os_error() {
        error if is_denied(&error) => at_file(tid, |file| file.read_at(into, address)),
        error => Err(error),
    })
}

/// Whether all of a process's memory is refused: by a container's filter or a kernel that was built
/// without the call, or because the process may not be looked into.
pub(crate) fn is_denied(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOSYS | libc::EACCES))
}

/// The other way to a stopped process's memory, which its tracer always has (proc_pid_mem(5)).
fn at_file(tid: i32, act: impl FnOnce(&File) -> io::Result<usize>) -> io::Result<usize> {
    let file = File::options().read(true).write(true).open(format!("/proc/{tid}/mem"))?;
    act(&file).map_err(|error| match error.raw_os_error() {
        // Of memory that is not mapped.
        Some(libc::EIO) => io::Error::from_raw_os_error(libc::EFAULT),
        _ => error,
    })
}

/// Reads a string that ends with a zero byte, appending it to `into` without that byte. A
/// string without an end within `PATH_MAX`, or in unmapped memory, is an error, as for the
/// system call itself (ENAMETOOLONG, EFAULT).
pub(crate) fn read_string(tid: i32, address: u64, into: &mut Vec<u8>) -> io::Result<()> {
    let start = into.len();
    let mut chunk = FIRST;
    while into.len() - start < PATH_MAX {
        let before = into.len();
        into.resize(before + chunk, 0);
        let got = read(tid, address.wrapping_add((before - start) as u64), &mut into[before..]);
        let got = match got {
            Ok(got) => got,
            Err(error) => {
                into.truncate(start);
                return Err(error);
            }
        };
        into.truncate(before + got);
        if let Some(end) = into[before..].iter().position(|byte| *byte == 0) {
            into.truncate(before + end);
            return Ok(());
        }
        chunk = 1024;
    }
    into.truncate(start);
    Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG))
}

/// Reads a number of 8 bytes.
pub(crate) fn read_u64(tid: i32, address: u64) -> io::Result<u64> {
    let mut bytes = [0; 8];
    match read(tid, address, &mut bytes)? {
        8 => Ok(u64::from_ne_bytes(bytes)),
        _ => Err(io::Error::from_raw_os_error(libc::EFAULT)),
    }
}

/// Writes a number of 8 bytes.
pub(crate) fn write_u64(tid: i32, address: u64, value: u64) -> io::Result<()> {
    write(tid, address, &value.to_ne_bytes())
}

/// Writes all of these bytes.
pub(crate) fn write(tid: i32, address: u64, bytes: &[u8]) -> io::Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    // The kernel only reads from `local`.
    let local = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: bytes.len() };
    // SAFETY: `local` describes `bytes`; `remote` is another process's, which the kernel checks.
    let put = unsafe { libc::process_vm_writev(tid, &local, 1, &remote, 1, 0) };
    let put = usize::try_from(put).or_else(|_| match io::Error::last_os_error() {
        error if is_denied(&error) => at_file(tid, |file| file.write_at(bytes, address)),
        error => Err(error),
    })?;
    match put == bytes.len() {
        true => Ok(()),
        false => Err(io::Error::from_raw_os_error(libc::EFAULT)),
    }
}
