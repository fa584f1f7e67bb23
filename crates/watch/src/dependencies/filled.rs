//! What the kernel has filled in in the memory of a process that stands still.

use std::mem::MaybeUninit;

use super::follow::disturbed;
use super::{LeftBecause, StatAttributes};
use crate::memory;

/// What stat(2) or statx(2) has filled in at an address.
pub(super) fn attributes(pid: i32, at: u64, is_statx: bool) -> Result<StatAttributes, LeftBecause> {
    let raw = bytes(pid, at, attributes_size(is_statx))?;
    Ok(attributes_of(&raw, is_statx))
}

/// Room for what either fills in.
pub(super) const ATTRIBUTES_MOST: usize = size_of::<libc::statx>();
const _: () = assert!(size_of::<libc::stat>() <= ATTRIBUTES_MOST);

/// How much that is.
pub(super) fn attributes_size(is_statx: bool) -> usize {
    if is_statx { size_of::<libc::statx>() } else { size_of::<libc::stat>() }
}

/// What it says.
pub(super) fn attributes_of(raw: &[u8], is_statx: bool) -> StatAttributes {
    match is_statx {
        true => StatAttributes::of_raw_statx(&value(raw)),
        false => StatAttributes::of_raw(&value(raw)),
    }
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

fn value<T: KernelFilled>(bytes: &[u8]) -> T {
    let mut value = MaybeUninit::<T>::zeroed();
    let length = bytes.len().min(size_of::<T>());
    // SAFETY: not more is copied than both have; it is plain numbers, for which zero is valid, too.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), value.as_mut_ptr().cast(), length);
        value.assume_init()
    }
}
