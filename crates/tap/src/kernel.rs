//! bpf(2) and mmap(2), as this crate needs them.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

use crate::assembler::Instruction;

/// `enum bpf_cmd`.
#[derive(Clone, Copy)]
enum Command {
    MapCreate = 0,
    MapUpdate = 2,
    MapDelete = 3,
    ProgramLoad = 5,
    RawTracepointOpen = 17,
}

/// `enum bpf_map_type`, as its 4 bytes.
#[repr(u32)]
#[derive(Clone, Copy)]
pub(crate) enum MapType {
    Hash = 1,
    Array = 2,
    Ring = 27,
}

/// `BPF_F_MMAPABLE`: the elements of an array can be mapped.
pub(crate) const MAPPABLE: u32 = 1 << 10;

/// What `BPF_MAP_CREATE` reads.
#[repr(C)]
pub(crate) struct MapShape {
    pub(crate) kind: MapType,
    pub(crate) key_bytes: u32,
    pub(crate) value_bytes: u32,
    pub(crate) entries: u32,
    pub(crate) flags: u32,
}

/// What `BPF_MAP_UPDATE_ELEM` and `BPF_MAP_DELETE_ELEM` read.
#[repr(C)]
struct Element {
    map: u32,
    pad: u32,
    key: *const u32,
    value: *const u32,
    flags: u64,
}

/// What `BPF_PROG_LOAD` reads.
#[repr(C)]
struct Load {
    kind: u32,
    instructions: u32,
    code: *const Instruction,
    license: *const libc::c_char,
    log_level: u32,
    log_bytes: u32,
    log: *mut u8,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
}

/// What `BPF_RAW_TRACEPOINT_OPEN` reads.
#[repr(C)]
struct Attach {
    name: *const libc::c_char,
    program: u32,
    pad: u32,
}

/// `BPF_PROG_TYPE_RAW_TRACEPOINT`.
const RAW_TRACEPOINT: u32 = 17;

/// The helpers that read the kernel's memory are for programs that declare a license which the
/// GPL allows; this is the one of the kernel's list that says what becalm's is.
const LICENSE: &CStr = c"Dual MIT/GPL";

/// How much of the verifier's reasons is kept: the last lines say why.
const LOG_BYTES: usize = 1 << 18;

pub(crate) fn create_map(shape: &MapShape) -> io::Result<OwnedFd> {
    // SAFETY: `MapShape` is laid out as the command reads it and holds no pointers.
    unsafe { bpf_fd(Command::MapCreate, shape) }
}

/// Sets the value of `key` in a hash map of 4-byte keys and 4-byte values.
pub(crate) fn update(map: BorrowedFd, key: u32, value: u32) -> io::Result<()> {
    let map = map.as_raw_fd() as u32;
    let element = Element { map, pad: 0, key: &raw const key, value: &raw const value, flags: 0 };
    // SAFETY: key and value are of the sizes that the map was created with, and outlive the call.
    unsafe { bpf(Command::MapUpdate, &element) }.map(drop)
}

/// Removes `key` from a hash map of 4-byte keys.
pub(crate) fn delete(map: BorrowedFd, key: u32) -> io::Result<()> {
    let map = map.as_raw_fd() as u32;
    let value = std::ptr::null();
    let element = Element { map, pad: 0, key: &raw const key, value, flags: 0 };
    // SAFETY: the key is of the size that the map was created with, and outlives the call.
    unsafe { bpf(Command::MapDelete, &element) }.map(drop)
}

/// Loads a program for a raw tracepoint.
pub(crate) fn load(code: &[Instruction]) -> io::Result<OwnedFd> {
    load_with_log(code, &mut [])
}

/// Why the kernel refused a program: the end of what its verifier says.
pub(crate) fn reason(code: &[Instruction]) -> String {
    let mut log = vec![0; LOG_BYTES];
    let _ = load_with_log(code, &mut log);
    let text = String::from_utf8_lossy(&log);
    let lines: Vec<&str> = text.trim_end_matches(['\0', '\n']).lines().collect();
    lines[lines.len().saturating_sub(3)..].join("; ")
}

fn load_with_log(code: &[Instruction], log: &mut [u8]) -> io::Result<OwnedFd> {
    let load = Load {
        kind: RAW_TRACEPOINT,
        instructions: code.len() as u32,
        code: code.as_ptr(),
        license: LICENSE.as_ptr(),
        log_level: u32::from(!log.is_empty()),
        log_bytes: log.len() as u32,
        log: if log.is_empty() { std::ptr::null_mut() } else { log.as_mut_ptr() },
        kernel_version: 0,
        flags: 0,
        name: *b"becalm_tap\0\0\0\0\0\0",
    };
    // SAFETY: the pointers and lengths are those of slices and a string that outlive the call.
    unsafe { bpf_fd(Command::ProgramLoad, &load) }
}

/// Runs the program at each passing of the tracepoint, until the descriptor is closed.
pub(crate) fn attach(program: BorrowedFd, tracepoint: &CStr) -> io::Result<OwnedFd> {
    let program = program.as_raw_fd() as u32;
    let attach = Attach { name: tracepoint.as_ptr(), program, pad: 0 };
    // SAFETY: the name outlives the call.
    unsafe { bpf_fd(Command::RawTracepointOpen, &attach) }
}

/// # Safety
/// As for [`bpf`]; the command returns a descriptor.
unsafe fn bpf_fd<T>(command: Command, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: the caller's; and the descriptor is new, open, and nobody else's.
    unsafe { bpf(command, attributes).map(|fd| OwnedFd::from_raw_fd(fd)) }
}

/// # Safety
/// `attributes` is laid out as the command reads it, and all that it points to is valid.
unsafe fn bpf<T>(command: Command, attributes: &T) -> io::Result<i32> {
    let attributes = std::ptr::from_ref(attributes);
    // SAFETY: the caller's; the kernel reads no more than the size given.
    let done = unsafe { libc::syscall(libc::SYS_bpf, command as i32, attributes, size_of::<T>()) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(done as i32) }
}

/// Memory shared with the kernel, and not with children: a fork has less to copy.
pub(crate) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread; what is done with its bytes is up
// to those who take its address.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `bytes` of what `map` holds from `offset` on, to write to as well if `writable`.
    pub(crate) fn new(
        map: BorrowedFd,
        offset: usize,
        bytes: usize,
        writable: bool,
    ) -> io::Result<Mapping> {
        let access = if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        let null = std::ptr::null_mut();
        // SAFETY: a new mapping, at an address of the kernel's choice.
        let start = unsafe {
            libc::mmap(null, bytes, access, libc::MAP_SHARED, map.as_raw_fd(), offset as i64)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the new mapping; where the advice is not taken, forks are slower.
        unsafe { libc::madvise(start, bytes, libc::MADV_DONTFORK) };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Mapping { start, bytes })
    }

    /// The first byte; valid as long as the mapping lives.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing borrowed from it outlives it.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// The size of a page.
pub(crate) fn page_bytes() -> usize {
    // SAFETY: asks for a number.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}
