//! The three programs: what runs at a call's entry, at its return, and at a thread's end.
//!
//! | map | kind | holds |
//! |---|---|---|
//! | `shared` | one element, mapped by us | which numbers are watched; how many events were lost |
//! | `followed` | hash: process id | the processes that are watched |
//! | `calls` | hash: the kernel's address of a thread | the call that a thread is in |
//! | `scratch` | array for each processor | the record that is being written, with its strings |
//! | `ring` | ring | the calls that have returned |
//!
//! A thread's element of `calls` is made by its first watched call, used again by each one
//! after it (no lock is taken then), and removed by the thread's end, however it ends: so
//! nothing piles up, and no bound on age, such as an LRU hash has, can drop a call that waits
//! for long. The key is the thread's `task_struct`, not its id: an execve by a thread that is
//! not the leader takes the leader's id on, but stays the same task; so its call is found when
//! it returns, and the leader's last call, which never returns, is not taken for it.
//!
//! A call's strings are read at its return: by then the kernel itself has read them, and their
//! pages are there. A program cannot have a page brought in.

use std::mem::offset_of;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::arch::{COMPAT, KernelRegisters};
use crate::assembler::{
    Assembler, Helper, If, Instruction, Label, MemoryWidth, R0, R1, R2, R3, R4, R6, R7, R8, R9,
    Register, STACK,
};
use crate::namespace::Namespace;

/// One more than the highest number that can be watched. Every processor's own table ends below;
/// x86-64's numbers from 512 to 547, and those with bit 30, are of the x32 table.
pub(crate) const NUMBERS: usize = 512;

/// The reader is woken when this share of the ring waits: an eighth.
const WAKE_AT: usize = 8;
/// A thread is stopped, if it may be, when so much of the ring is left: a quarter.
const BRAKE_AT: usize = 4;

/// The bytes of the longest string that is read: more than a path has (`PATH_MAX`, limits.h), so
/// that one which is cut is told from one that is not.
pub(crate) const MOST_STRING: usize = 4104;

/// What a string's length is where it could not be read.
pub(crate) const UNREADABLE: u32 = u32::MAX;
/// And where the kernel says 0, as it does of an empty string before Linux 6.13
/// (`strncpy_from_user_nofault` of mm/maccess.c), without the zero byte at its end.
pub(crate) const EMPTY: u32 = u32::MAX - 1;

/// What is to be done at calls of a number: bits, and from [`STRINGS`] on for each string a byte,
/// where its argument is in [`KernelRegisters`].
pub(crate) const WATCHED: u32 = 1;
/// The thread is stopped after a call that succeeded on a path below `/pro…`.
pub(crate) const STOPS_IN_PROC: u32 = 2;
/// The first bit of what is said of strings.
pub(crate) const STRINGS: u32 = 8;
/// The byte of a string that there is not.
pub(crate) const NO_STRING: u8 = u8::MAX;
/// How `/proc/` begins, as a number.
const PROC: i32 = i32::from_le_bytes(*b"/pro");

/// What the programs and we share without system calls.
#[repr(C)]
pub(crate) struct TapControl {
    /// What is to be done at each number; 0 where it is not watched.
    pub(crate) watched: [AtomicU32; NUMBERS],
    /// Calls that were not reported for want of room.
    pub(crate) lost: AtomicU64,
    /// Not 0 from the reader's being woken to its next drain, so that it is woken once.
    pub(crate) woken: AtomicU64,
    /// Not 0 where threads may be stopped before they fill the ring.
    pub(crate) brake: AtomicU64,
}

/// A call that a thread is in.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct OngoingCall {
    pub(crate) registers: KernelRegisters,
    pub(crate) tid: u32,
    pub(crate) tgid: u32,
    /// CLOCK_MONOTONIC, in ns; 0 where the thread is in no watched call.
    pub(crate) start: u64,
}

/// A call that has returned: what the ring holds. Its strings come after it, one after the other.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct TapRecord {
    pub(crate) call: OngoingCall,
    pub(crate) value: i64,
    pub(crate) end: u64,
    /// How long each string is, with the zero byte at its end: 0 where there is none. Or
    /// [`UNREADABLE`], or [`EMPTY`].
    pub(crate) lengths: [u32; 2],
}

/// A thread's element of `calls`.
#[repr(C)]
pub(crate) struct CallElement {
    call: OngoingCall,
    /// What is to be done at it.
    rules: u64,
}

/// The element of `scratch`.
#[repr(C)]
pub(crate) struct Scratch {
    record: TapRecord,
    strings: [u8; 2 * MOST_STRING],
}

const CALL_BYTES: i16 = size_of::<OngoingCall>() as i16;
const ELEMENT_BYTES: i16 = size_of::<CallElement>() as i16;
const RULES: i16 = offset_of!(CallElement, rules) as i16;
const LENGTHS: i16 = offset_of!(TapRecord, lengths) as i16;
const RECORD_BYTES: i32 = size_of::<TapRecord>() as i32;
const START: i16 = offset_of!(OngoingCall, start) as i16;

/// The programs' maps.
pub(crate) struct Maps {
    pub(crate) shared: OwnedFd,
    pub(crate) followed: OwnedFd,
    pub(crate) calls: OwnedFd,
    pub(crate) scratch: OwnedFd,
    pub(crate) ring: OwnedFd,
    /// Bytes of the ring.
    pub(crate) ring_bytes: usize,
}

// Where the programs keep what in their stack.
const PID: i16 = -4;
const STATUS: i16 = -8;
const TASK: i16 = -16;
const IDS: i16 = -24;
const NEW_CALL: i16 = IDS - ELEMENT_BYTES;
const RULES_NOW: i16 = NEW_CALL - 8;
const END: i16 = RULES_NOW - 8;
const KEY: i16 = END - 8;

/// At a call's entry: raw tracepoint `sys_enter`, `(struct pt_regs *, long number)`.
///
/// `compat_at` is where the kernel's `task_struct` says that the call is of another table
/// ([`crate::arch::COMPAT_AT`]).
pub(crate) fn entry(maps: &Maps, ids: &Namespace, compat_at: i32) -> Vec<Instruction> {
    let (context, number, pids, call) = (R6, R7, R8, R9);
    let mut p = Assembler::default();
    let out = p.label();
    p.copy(context, R1);

    // The cheapest question first: is the number watched?
    p.load(MemoryWidth::Double, number, context, 8);
    p.jump_if(number, If::Above, NUMBERS as i32 - 1, out);
    p.set_map_value(R1, maps.shared.as_fd(), offset_of!(TapControl, watched));
    p.shift_left(number, 2);
    p.add_register(R1, number);
    p.load(MemoryWidth::Word, R1, R1, 0);
    p.jump_if(R1, If::Is, 0, out);
    p.store(MemoryWidth::Double, STACK, RULES_NOW, R1);

    // Is the process followed?
    current_ids(&mut p, ids, pids, out);
    p.copy(R1, pids);
    p.shift_right(R1, 32);
    p.store(MemoryWidth::Word, STACK, PID, R1);
    p.set_map(R1, maps.followed.as_fd());
    address(&mut p, R2, PID);
    p.call(Helper::MapLookup);
    p.jump_if(R0, If::Is, 0, out);

    // Is the number one of the native table?
    p.call(Helper::GetCurrentTask);
    p.store(MemoryWidth::Double, STACK, TASK, R0);
    address(&mut p, R1, STATUS);
    p.set(R2, 4);
    p.copy(R3, R0);
    p.add(R3, compat_at);
    p.call(Helper::ProbeReadKernel);
    p.jump_if(R0, If::IsNot, 0, out);
    p.load(MemoryWidth::Word, R1, STACK, STATUS);
    p.jump_if(R1, If::Has, COMPAT, out);

    find_or_add_call(&mut p, maps, call, out);
    let mut copied = 0;
    for (at, bytes) in KernelRegisters::PARTS {
        p.copy(R1, call);
        p.add(R1, copied);
        p.set(R2, *bytes);
        p.load(MemoryWidth::Double, R3, context, 0);
        p.add(R3, *at);
        p.call(Helper::ProbeReadKernel);
        copied += bytes;
    }
    p.store(MemoryWidth::Double, call, offset_of!(OngoingCall, tid) as i16, pids);
    p.load(MemoryWidth::Double, R1, STACK, RULES_NOW);
    p.store(MemoryWidth::Double, call, RULES, R1);
    p.call(Helper::KtimeGetNs);
    p.store(MemoryWidth::Double, call, START, R0);
    p.place(out);
    p.exit();
    p.finish()
}

/// At a call's return: raw tracepoint `sys_exit`, `(struct pt_regs *, long value)`.
pub(crate) fn exit(maps: &Maps) -> Vec<Instruction> {
    let (context, length, record, call) = (R6, R7, R8, R9);
    let mut p = Assembler::default();
    let (out, submit) = (p.label(), p.label());
    p.copy(context, R1);

    // Is the thread in a watched call?
    p.call(Helper::GetCurrentTask);
    p.store(MemoryWidth::Double, STACK, TASK, R0);
    look_up_call(&mut p, maps);
    p.jump_if(R0, If::Is, 0, out);
    p.copy(call, R0);
    p.load(MemoryWidth::Double, R1, call, START);
    p.jump_if(R1, If::Is, 0, out);

    p.call(Helper::KtimeGetNs);
    p.store(MemoryWidth::Double, STACK, END, R0);
    p.store_value(MemoryWidth::Word, STACK, KEY, 0);
    p.set_map(R1, maps.scratch.as_fd());
    address(&mut p, R2, KEY);
    p.call(Helper::MapLookup);
    p.jump_if(R0, If::Is, 0, out);
    p.copy(record, R0);
    for at in (0..CALL_BYTES).step_by(8) {
        p.load(MemoryWidth::Double, R1, call, at);
        p.store(MemoryWidth::Double, record, at, R1);
    }
    p.store_value(MemoryWidth::Double, call, START, 0);
    p.load(MemoryWidth::Double, R1, context, 8);
    p.store(MemoryWidth::Double, record, offset_of!(TapRecord, value) as i16, R1);
    p.load(MemoryWidth::Double, R1, STACK, END);
    p.store(MemoryWidth::Double, record, offset_of!(TapRecord, end) as i16, R1);
    p.store_value(MemoryWidth::Double, record, LENGTHS, 0);
    p.set(length, RECORD_BYTES);
    read_string(&mut p, 0);
    read_string(&mut p, 1);
    stop_in_proc(&mut p);
    wake_or_brake(&mut p, maps, submit);
    p.place(submit);
    p.set_map(R1, maps.ring.as_fd());
    p.copy(R2, record);
    p.copy(R3, length);
    p.call(Helper::RingOutput);
    p.jump_if(R0, If::Is, 0, out);
    count_lost(&mut p, maps);
    p.place(out);
    p.exit();
    p.finish()
}

/// Appends a string of the call in R9, the first or the second, to the record in R8, of which R7
/// is the length.
fn read_string(p: &mut Assembler, which: u8) {
    const LAST: i32 = (size_of::<KernelRegisters>() - 8) as i32;
    let (length, record, call) = (R7, R8, R9);
    let (next, unreadable, empty) = (p.label(), p.label(), p.label());
    let place = LENGTHS + 4 * i16::from(which);
    p.load(MemoryWidth::Word, R1, call, RULES);
    p.shift_right(R1, STRINGS as i32 + 8 * i32::from(which));
    p.and(R1, 0xff);
    p.jump_if(R1, If::Above, LAST.min(NO_STRING as i32 - 1), next);
    p.copy(R2, call);
    p.add_register(R2, R1);
    p.load(MemoryWidth::Double, R3, R2, 0);
    p.copy(R1, record);
    p.add_register(R1, length);
    p.set(R2, MOST_STRING as i32);
    p.call(Helper::ProbeReadUserString);
    p.jump_if(R0, If::Above, MOST_STRING as i32, unreadable);
    p.jump_if(R0, If::Is, 0, empty);
    p.store(MemoryWidth::Word, record, place, R0);
    p.add_register(length, R0);
    p.jump(next);
    p.place(unreadable);
    p.store_value(MemoryWidth::Word, record, place, UNREADABLE as i32);
    p.jump(next);
    p.place(empty);
    p.store_value(MemoryWidth::Word, record, place, EMPTY as i32);
    p.place(next);
}

/// Stops the thread on its way out of the call in R9, of which R8 is the record, if it is to stop
/// after it has succeeded on a path of /proc.
fn stop_in_proc(p: &mut Assembler) {
    let (record, call) = (R8, R9);
    let (may, no) = (p.label(), p.label());
    p.load(MemoryWidth::Word, R1, call, RULES);
    p.jump_if(R1, If::Has, STOPS_IN_PROC as i32, may);
    p.jump(no);
    p.place(may);
    p.load(MemoryWidth::Double, R1, record, offset_of!(TapRecord, value) as i16);
    p.shift_right(R1, 63);
    p.jump_if(R1, If::IsNot, 0, no);
    p.load(MemoryWidth::Word, R1, record, RECORD_BYTES as i16);
    p.jump_if(R1, If::IsNot, PROC, no);
    p.set(R1, libc::SIGSTOP);
    p.call(Helper::SendSignalThread);
    p.place(no);
}

/// At a thread's end: raw tracepoint `sched_process_exit`, in the thread itself.
pub(crate) fn end(maps: &Maps) -> Vec<Instruction> {
    let mut p = Assembler::default();
    p.call(Helper::GetCurrentTask);
    p.store(MemoryWidth::Double, STACK, TASK, R0);
    p.set_map(R1, maps.calls.as_fd());
    address(&mut p, R2, TASK);
    p.call(Helper::MapDelete);
    p.exit();
    p.finish()
}

/// The process's id in the high half of `to`, the thread's in the low half, as we see them.
fn current_ids(p: &mut Assembler, ids: &Namespace, to: Register, out: Label) {
    match *ids {
        Namespace::Initial => {
            p.call(Helper::GetCurrentPidTgid);
            p.copy(to, R0);
        }
        Namespace::Inner { device, inode } => {
            p.set_long(R1, device);
            p.set_long(R2, inode);
            address(p, R3, IDS);
            p.set(R4, 8);
            p.call(Helper::GetNsCurrentPidTgid);
            p.jump_if(R0, If::IsNot, 0, out);
            p.load(MemoryWidth::Double, to, STACK, IDS);
        }
    }
}

/// The thread's element of `calls`, a new one if need be; `out` if there is no room for it.
fn find_or_add_call(p: &mut Assembler, maps: &Maps, to: Register, out: Label) {
    let found = p.label();
    look_up_call(p, maps);
    p.jump_if(R0, If::IsNot, 0, found);
    for at in (0..ELEMENT_BYTES).step_by(8) {
        p.store_value(MemoryWidth::Double, STACK, NEW_CALL + at, 0);
    }
    p.set_map(R1, maps.calls.as_fd());
    address(p, R2, TASK);
    address(p, R3, NEW_CALL);
    p.set(R4, 0);
    p.call(Helper::MapUpdate);
    look_up_call(p, maps);
    p.jump_if(R0, If::IsNot, 0, found);
    count_lost(p, maps);
    p.jump(out);
    p.place(found);
    p.copy(to, R0);
}

fn look_up_call(p: &mut Assembler, maps: &Maps) {
    p.set_map(R1, maps.calls.as_fd());
    address(p, R2, TASK);
    p.call(Helper::MapLookup);
}

/// Leaves in R4 the flags to write a record with: to wake nobody (1), or to wake the reader (2)
/// when much waits that it has not been woken for. A thread that is about to fill the ring is
/// sent a signal, which it takes on its way out of the call.
fn wake_or_brake(p: &mut Assembler, maps: &Maps, submit: Label) {
    let waiting = R9;
    let no_brake = p.label();
    p.set_map(R1, maps.ring.as_fd());
    p.set(R2, 0); // BPF_RB_AVAIL_DATA
    p.call(Helper::RingQuery);
    p.copy(waiting, R0);
    p.set(R4, 1); // BPF_RB_NO_WAKEUP
    p.jump_if(waiting, If::Below, (maps.ring_bytes / WAKE_AT) as i32, submit);

    let brake_from = maps.ring_bytes - maps.ring_bytes / BRAKE_AT;
    p.jump_if(waiting, If::Below, brake_from as i32, no_brake);
    p.set_map_value(R1, maps.shared.as_fd(), offset_of!(TapControl, brake));
    p.load(MemoryWidth::Double, R1, R1, 0);
    p.jump_if(R1, If::Is, 0, no_brake);
    p.set(R1, libc::SIGSTOP);
    p.call(Helper::SendSignalThread);
    p.place(no_brake);

    p.set(R4, 1); // BPF_RB_NO_WAKEUP
    p.set_map_value(R1, maps.shared.as_fd(), offset_of!(TapControl, woken));
    p.load(MemoryWidth::Double, R3, R1, 0);
    p.jump_if(R3, If::IsNot, 0, submit);
    p.store_value(MemoryWidth::Double, R1, 0, 1);
    p.set(R4, 2); // BPF_RB_FORCE_WAKEUP
}

fn count_lost(p: &mut Assembler, maps: &Maps) {
    p.set_map_value(R1, maps.shared.as_fd(), offset_of!(TapControl, lost));
    p.set(R2, 1);
    p.add_atomically(R1, 0, R2);
}

/// The address of a place in the stack.
fn address(p: &mut Assembler, to: Register, place: i16) {
    p.copy(to, STACK);
    p.add(to, i32::from(place));
}
