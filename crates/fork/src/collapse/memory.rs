//! Reading and writing a stopped process's memory.

use std::io;

/// Reads up to `into.len()` bytes; fewer where mapped memory ends.
pub(super) fn read(pid: i32, address: u64, into: &mut [u8]) -> io::Result<usize> {
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: into.len() };
    // SAFETY: `local` describes `into`; `remote` is another process's, which the kernel checks.
    let got = unsafe { libc::process_vm_readv(pid, &local, 1, &remote, 1, 0) };
    usize::try_from(got).map_err(|_| io::Error::last_os_error())
}

/// A number of 8 bytes.
pub(super) fn read_u64(pid: i32, address: u64) -> io::Result<u64> {
    let mut bytes = [0; 8];
    match read(pid, address, &mut bytes)? {
        8 => Ok(u64::from_ne_bytes(bytes)),
        _ => Err(io::Error::from_raw_os_error(libc::EFAULT)),
    }
}

/// Writes all of `bytes`.
pub(super) fn write(pid: i32, address: u64, bytes: &[u8]) -> io::Result<()> {
    let local = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: bytes.len() };
    // SAFETY: `local` describes `bytes`, which is only read; `remote` is another process's, which
    // the kernel checks.
    let put = unsafe { libc::process_vm_writev(pid, &local, 1, &remote, 1, 0) };
    match usize::try_from(put) {
        Ok(put) if put == bytes.len() => Ok(()),
        Ok(_) => Err(io::Error::from_raw_os_error(libc::EFAULT)),
        Err(_) => Err(io::Error::last_os_error()),
    }
}
