//! bpf(2): the structures that it reads, and one place that calls it.

use std::ffi::CStr;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::assembler::Instruction;

/// `enum bpf_map_type`, as its 4 bytes.
#[repr(u32)]
#[derive(Clone, Copy)]
pub(crate) enum MapType {
    Hash = 1,
    Array = 2,
    /// An array with elements of their own for each processor.
    ArrayOfEach = 6,
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
struct MapElement {
    map: u32,
    pad: u32,
    key: *const u32,
    value: *const u32,
    flags: u64,
}

/// What `BPF_PROG_LOAD` reads, up to Linux 4.15's.
#[repr(C)]
struct ProgramLoad {
    kind: ProgramKind,
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
struct TracepointOpen {
    name: *const libc::c_char,
    program: u32,
    pad: u32,
}

/// What a program is run for (`enum bpf_prog_type`).
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramKind {
    /// For a socket's packets: the one that needs the least privilege.
    SocketFilter = 1,
    /// At a place of the kernel.
    RawTracepoint = 17,
}

/// The helpers that read the kernel's memory are for programs that declare a license which the
/// GPL allows; this is the one of the kernel's list that says what becalm's is.
const LICENSE: &CStr = c"Dual MIT/GPL";

/// How much of the verifier's reasons is kept: the last lines say why.
const LOG_BYTES: usize = 1 << 18;

/// One command, with what it reads. All that the structures point to lives for `'a`.
enum BpfCommand<'a> {
    MapCreate(&'a MapShape),
    MapUpdate(MapElement, PhantomData<&'a u32>),
    MapDelete(MapElement, PhantomData<&'a u32>),
    ProgramLoad(ProgramLoad, PhantomData<(&'a [Instruction], &'a mut [u8])>),
    RawTracepointOpen(TracepointOpen, PhantomData<&'a CStr>),
}

pub(crate) fn create_map(shape: &MapShape) -> io::Result<OwnedFd> {
    new_descriptor(&BpfCommand::MapCreate(shape))
}

/// Sets the value of `key` in a hash map of 4-byte keys and 4-byte values.
pub(crate) fn update(map: BorrowedFd, key: u32, value: u32) -> io::Result<()> {
    let element = element(map, &key, &raw const value);
    bpf(&BpfCommand::MapUpdate(element, PhantomData)).map(drop)
}

/// Removes `key` from a hash map of 4-byte keys.
pub(crate) fn delete(map: BorrowedFd, key: u32) -> io::Result<()> {
    let element = element(map, &key, std::ptr::null());
    bpf(&BpfCommand::MapDelete(element, PhantomData)).map(drop)
}

fn element(map: BorrowedFd, key: &u32, value: *const u32) -> MapElement {
    MapElement { map: map.as_raw_fd() as u32, pad: 0, key, value, flags: 0 }
}

/// Loads a program.
pub(crate) fn load(kind: ProgramKind, code: &[Instruction]) -> io::Result<OwnedFd> {
    load_with_log(kind, code, &mut [])
}

/// Why the kernel refused a program: the end of what its verifier says.
pub(crate) fn reason(kind: ProgramKind, code: &[Instruction]) -> String {
    let mut log = vec![0; LOG_BYTES];
    // It was refused before, and is again.
    drop(load_with_log(kind, code, &mut log));
    let text = String::from_utf8_lossy(&log);
    let lines: Vec<&str> = text.trim_end_matches(['\0', '\n']).lines().collect();
    lines[lines.len().saturating_sub(3)..].join("; ")
}

fn load_with_log(kind: ProgramKind, code: &[Instruction], log: &mut [u8]) -> io::Result<OwnedFd> {
    let load = ProgramLoad {
        kind,
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
    new_descriptor(&BpfCommand::ProgramLoad(load, PhantomData))
}

/// Runs the program at each passing of the tracepoint, until the descriptor is closed.
pub(crate) fn attach(program: BorrowedFd, tracepoint: &CStr) -> io::Result<OwnedFd> {
    let program = program.as_raw_fd() as u32;
    let open = TracepointOpen { name: tracepoint.as_ptr(), program, pad: 0 };
    new_descriptor(&BpfCommand::RawTracepointOpen(open, PhantomData))
}

/// What a command answers that makes something.
fn new_descriptor(command: &BpfCommand<'_>) -> io::Result<OwnedFd> {
    let descriptor = bpf(command)?;
    // SAFETY: the descriptor is new, open, and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

fn bpf(command: &BpfCommand<'_>) -> io::Result<i32> {
    fn read_by_kernel<T>(attributes: &T) -> (*const u8, usize) {
        (std::ptr::from_ref(attributes).cast(), size_of::<T>())
    }
    let (number, (attributes, bytes)) = match command {
        BpfCommand::MapCreate(shape) => (0, read_by_kernel(*shape)),
        BpfCommand::MapUpdate(element, _) => (2, read_by_kernel(element)),
        BpfCommand::MapDelete(element, _) => (3, read_by_kernel(element)),
        BpfCommand::ProgramLoad(load, _) => (5, read_by_kernel(load)),
        BpfCommand::RawTracepointOpen(open, _) => (17, read_by_kernel(open)),
    };
    // SAFETY: each structure is laid out as its command reads it, the kernel reads no more than
    // the size given, and the functions above point it at what they have borrowed, with its length.
    let done = unsafe { libc::syscall(libc::SYS_bpf, number, attributes, bytes) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(done as i32) }
}
