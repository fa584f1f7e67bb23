//! What the kernel has filled in in the memory of a process that stands still.

use std::mem::MaybeUninit;

use super::follow::disturbed;
use super::{LeftBecause, StatAttributes};
use crate::memory;

/// What stat(2) or statx(2) has filled in at an address.
pub(super) fn attributes(pid: i32, at: u64, is_statx: bool) -> Result<StatAttributes, LeftBecause> {
    if is_statx {
        let raw: libc::statx = value(pid, at)?;
        return Ok(StatAttributes::of_raw_statx(&raw));
    }
    let raw: libc::stat = value(pid, at)?;
    Ok(StatAttributes::of_raw(&raw))
}

/// So many bytes.
pub(super) fn bytes(pid: i32, at: u64, length: usize) -> Result<Vec<u8>, LeftBecause> {
    let mut bytes = vec![0; length];
    match memory::read(pid, at, &mut bytes) {
        Ok(got) if got == length => Ok(bytes),
        _ => Err(disturbed("its memory could not be read")),
    }
}

/// A structure of plain numbers that the kernel fills.
trait KernelFilled {}
impl KernelFilled for libc::stat {}
impl KernelFilled for libc::statx {}

fn value<T: KernelFilled>(pid: i32, at: u64) -> Result<T, LeftBecause> {
    let bytes = bytes(pid, at, size_of::<T>())?;
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: there are as many bytes as the structure has; it is plain numbers.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), value.as_mut_ptr().cast(), bytes.len());
        Ok(value.assume_init())
    }
}
