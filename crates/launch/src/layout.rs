//! Where a command's memory lies: without randomisation, or moved as a whole by a chosen number of
//! pages.
//!
//! Without randomisation the kernel puts the topmost mapping a gap below the stack, and the gap is
//! the soft limit of the stack at the exec (`mmap_base` in arch/x86/mm/mmap.c and mm/util.c): at
//! least 128 MiB, at most five sixths of the address space, in pages. So a limit that is raised for
//! the time of one exec moves the loader, all libraries, and all that is mapped later. glibc takes
//! the size of a thread's stack from that limit, and children inherit it: a tracer puts it back
//! while the command is stopped at its exec, before its first instruction.
//!
//! The stack's top is fixed; how far below it a program begins depends on its environment and
//! arguments, and `pad` makes up for that. The program itself and its heap do not move.

use std::fmt;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::str::FromStr;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::lookup::{self, CannotStart, Command};

mod pad;
mod restore;
pub mod seed;
mod start;

#[cfg(target_arch = "x86_64")]
pub(crate) use restore::until_trap;
pub use start::{AtExec, start};
#[cfg(target_arch = "x86_64")]
pub(crate) use start::{entry, start_clear};

/// The layout of a command's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryLayout {
    /// That of the kernel without randomisation, as `setarch -R` gives it.
    Off,
    /// The same, moved.
    Moved(LayoutOffset),
}

/// How far mappings and the stack are moved. As text, `0x1a2b3`, or `0x1a2b3+0x40` with the stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LayoutOffset {
    /// Mappings lie this many pages below the first layout, which has a gap of 128 MiB and the
    /// stack's guard.
    pub pages: u64,
    /// The stack begins this many bytes lower: below 4096, a multiple of 16.
    pub stack: u16,
}

/// The gap below the stack, in bytes, that puts mappings below whatever a randomised layout takes: the
/// kernel randomises at most 32 bits of pages, 16 TiB (vm.mmap_rnd_bits of x86-64).
#[cfg(target_arch = "x86_64")]
const CLEAR_GAP: u64 = 24 << 40;

/// As many layouts as the kernel itself chooses from (vm.mmap_rnd_bits of x86-64: 28), 1 TiB of
/// addresses.
pub const MOST_LAYOUTS: u64 = 1 << 28;

/// The smallest gap that the kernel takes (SIZE_128M of mm/util.c).
const LEAST_GAP: u64 = 128 << 20;
/// Of the addresses that a process has, the part that the gap is at most. The kernel takes five sixths (mmap_base of
/// mm/util.c), but programs begin at two thirds (ELF_ET_DYN_BASE), and nothing is to come between them and their heap:
/// where addresses have 39 bits that is near.
const MOST_GAP_PART: u64 = 4;

/// Why a layout cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    /// personality(2) failed, as under Docker's default seccomp filter.
    #[error("randomisation cannot be switched off: personality: {0}")]
    Personality(io::Error),
    /// Nothing may put the limit back.
    #[error("the command cannot be traced up to its first instruction: {0}")]
    Untraceable(io::Error),
    /// The hard limit of the stack is too small.
    #[error("the hard limit of the stack (`ulimit -H -s`), {} KiB, allows {layouts} layouts", .hard >> 10)]
    Limit {
        /// The hard limit, in bytes.
        hard: u64,
        /// How many layouts it allows.
        layouts: u64,
    },
    /// A process has too few addresses, where the kernel gives them 39 bits.
    #[error("a process has {} GiB of addresses here, which allow {} layouts", address_space() >> 30, layouts())]
    Addresses,
    /// `vm.legacy_va_layout` is set.
    #[error("vm.legacy_va_layout is set: the kernel moves no mappings")]
    Legacy,
    /// The command.
    #[error(transparent)]
    Command(#[from] CannotStart),
    /// A limit cannot be set.
    #[error("the limit of the stack: {0}")]
    System(io::Error),
}

/// Why a layout does not reach all of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Untouched {
    /// The kernel switches randomisation on again for a program that changes its user, group or
    /// capabilities (PER_CLEAR_ON_SETID).
    Setuid,
    /// Its addresses have 32 bits: a gap as wide as a layout's would leave it little room.
    Narrow,
    /// It is linked statically at a fixed address, and has no libraries to move.
    Static,
}

impl fmt::Display for LayoutOffset {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:#x}", self.pages)?;
        if self.stack != 0 {
            write!(out, "+{:#x}", self.stack)?;
        }
        Ok(())
    }
}

impl FromStr for LayoutOffset {
    type Err = String;

    fn from_str(text: &str) -> Result<LayoutOffset, String> {
        let number = |text: &str| {
            let digits = text.strip_prefix("0x").ok_or("write it as 0x1a2b3")?;
            u64::from_str_radix(digits, 16).map_err(|error| format!("{text}: {error}"))
        };
        let (pages, stack) = text.split_once('+').unwrap_or((text, "0x0"));
        let (pages, stack) = (number(pages)?, number(stack)?);
        if pages >= MOST_LAYOUTS {
            return Err(format!("layouts end with {:#x}", MOST_LAYOUTS - 1));
        }
        match u16::try_from(stack) {
            Ok(stack) if stack < 4096 && stack % 16 == 0 => Ok(LayoutOffset { pages, stack }),
            _ => Err("the stack moves by a multiple of 0x10 below 0x1000".to_owned()),
        }
    }
}

impl LayoutOffset {
    /// One of the first `layouts`, by a number drawn at random.
    pub fn drawn(random: u64, layouts: u64) -> LayoutOffset {
        // The low bits for the stack, others for the mappings.
        let stack = (random & 0xff) as u16 * 16;
        LayoutOffset { pages: (random >> 8) % layouts.max(1), stack }
    }

    /// The soft limit of the stack that makes it, in bytes.
    fn limit(self) -> u64 {
        LEAST_GAP + self.pages * page_size()
    }
}

/// How many layouts the hard limit of the stack allows; a power of two, so that ranks under
/// slightly different limits still draw the same.
pub fn layouts() -> u64 {
    layouts_within(getrlimit(Resource::Stack).maximum, address_space(), page_size())
}

/// How many layouts there are where the hard limit of the stack is out of the way: what the addresses of a process
/// allow, as of all processes of this kernel's.
pub fn unlimited_layouts() -> u64 {
    layouts_within(None, address_space(), page_size())
}

/// The same, of a hard limit, as many addresses, and pages of this size, each in bytes.
fn layouts_within(hard: Option<u64>, addresses: u64, page: u64) -> u64 {
    let most = addresses / MOST_GAP_PART;
    match hard.unwrap_or(most).min(most).checked_sub(LEAST_GAP) {
        None => 0,
        Some(room) => 1 << (room / page + 1).min(MOST_LAYOUTS).ilog2(),
    }
}

/// The kernel's: 4 KiB on x86-64, on Arm that, 16 or 64 KiB.
fn page_size() -> u64 {
    rustix::param::page_size() as u64
}

/// How many bytes of addresses a process has: the stack, on which the kernel puts random bytes, ends
/// them (47 bits on x86-64; 39, 42, 47 or 48 on Arm).
fn address_space() -> u64 {
    // SAFETY: it reads what the kernel has told this process.
    let random = unsafe { libc::getauxval(libc::AT_RANDOM) };
    random.max(1).next_power_of_two()
}

/// Makes what this process executes next lie as the layout says, adding to `variables` what that
/// takes: call it right before [`crate::replace`]. `path` is the program's file.
///
/// The process must have one thread.
///
/// # Errors
/// [`LayoutError`]; nothing but the personality is changed then.
pub fn enter(
    layout: MemoryLayout,
    command: &Command,
    variables: &mut Vec<(std::ffi::OsString, std::ffi::OsString)>,
) -> Result<(), LayoutError> {
    let raised = raised(layout)?;
    personality(layout).map_err(|error| LayoutError::Personality(from_errno(error)))?;
    if let (Some(raised), MemoryLayout::Moved(moved)) = (raised, layout) {
        let was = getrlimit(Resource::Stack);
        let added = pad::variables(command, &command.file()?, variables, moved.stack);
        restore::by_an_orphan(was).map_err(LayoutError::Untraceable)?;
        setrlimit(Resource::Stack, raised).map_err(|error| LayoutError::System(error.into()))?;
        variables.extend(added);
    }
    Ok(())
}

/// What of a program the layout cannot reach.
pub fn untouched(program: &Path) -> Option<Untouched> {
    let program = &*lookup::executed(program);
    let mode = std::fs::metadata(program).ok()?.permissions().mode();
    let gains_nothing = rustix::thread::no_new_privs().unwrap_or(false);
    // Set-group-ID without the group's execute bit means mandatory locking (fs/exec.c).
    let changes = mode & 0o4000 != 0 || mode & 0o2010 == 0o2010 || has_capabilities(program);
    if changes && !gains_nothing {
        return Some(Untouched::Setuid);
    }
    if lookup::is_32_bit(program) {
        return Some(Untouched::Narrow);
    }
    lookup::is_static_at_fixed_address(program).then_some(Untouched::Static)
}

/// Whether a program brings capabilities that its user has not.
fn has_capabilities(program: &Path) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    let mut value = [0u8; 64];
    !is_root && rustix::fs::getxattr(program, "security.capability", &mut value).is_ok()
}

/// The limits that make the layout, if it takes any.
fn raised(layout: MemoryLayout) -> Result<Option<Rlimit>, LayoutError> {
    match layout {
        MemoryLayout::Off => Ok(None),
        MemoryLayout::Moved(moved) if moved.limit() > address_space() / MOST_GAP_PART => {
            Err(LayoutError::Addresses)
        }
        MemoryLayout::Moved(moved) => raised_to(moved.limit()).map(Some),
    }
}

/// The limits that put mappings that far below the stack.
fn raised_to(gap: u64) -> Result<Rlimit, LayoutError> {
    let maximum = getrlimit(Resource::Stack).maximum;
    if let Some(hard) = maximum.filter(|hard| gap > *hard) {
        return Err(LayoutError::Limit { hard, layouts: layouts() });
    }
    let legacy = std::fs::read("/proc/sys/vm/legacy_va_layout");
    if legacy.is_ok_and(|value| value.starts_with(b"1")) {
        return Err(LayoutError::Legacy);
    }
    Ok(Rlimit { current: Some(gap), maximum })
}

/// Whether what this process executes lies without randomisation already, as under `setarch -R`.
pub fn is_off() -> bool {
    set_personality(0xffff_ffff).is_ok_and(|persona| persona & libc::ADDR_NO_RANDOMIZE != 0)
}

/// Has what this process executes laid out at random again.
pub fn randomise() {
    if let Ok(persona) = set_personality(0xffff_ffff) {
        let _ = set_personality((persona & !libc::ADDR_NO_RANDOMIZE) as libc::c_ulong);
    }
}

/// Switches randomisation off for what this process executes. Only makes system calls.
fn personality(layout: MemoryLayout) -> Result<(), i32> {
    const QUERY: libc::c_ulong = 0xffff_ffff;
    let mut wanted = set_personality(QUERY)? | libc::ADDR_NO_RANDOMIZE;
    if layout != MemoryLayout::Off {
        wanted &= !libc::ADDR_COMPAT_LAYOUT;
    }
    set_personality(wanted as libc::c_ulong)?;
    // What was set is read back: a sandbox may claim to have done it.
    if set_personality(QUERY) == Ok(wanted) { Ok(()) } else { Err(libc::ENOSYS) }
}

/// personality(2): the one of before, or the error's number.
fn set_personality(persona: libc::c_ulong) -> Result<i32, i32> {
    // SAFETY: passes a number.
    match unsafe { libc::personality(persona) } {
        before if before >= 0 => Ok(before),
        _ => Err(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)),
    }
}

fn from_errno(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_is_read_as_it_is_written_and_nothing_else_is_one() {
        for text in ["0x0", "0x1a2b3", "0xfffffff", "0x5+0x10", "0x0+0xff0"] {
            assert_eq!(text.parse::<LayoutOffset>().unwrap().to_string(), text);
        }
        for text in ["", "12", "0x", "0x10000000", "0x1+0x8", "0x1+0x1000", "0x-1", "0x1+"] {
            text.parse::<LayoutOffset>().unwrap_err();
        }
    }

    #[test]
    fn there_are_as_many_layouts_as_addresses_allow_and_no_more_than_ranks_draw_from() {
        for (bits, page, layouts) in [
            (47, 4 << 10, MOST_LAYOUTS),
            (48, 4 << 10, MOST_LAYOUTS),
            (48, 64 << 10, MOST_LAYOUTS),
            (47, 16 << 10, MOST_LAYOUTS),
            (42, 64 << 10, 1 << 23),
            (39, 4 << 10, 1 << 24),
        ] {
            assert_eq!(layouts_within(None, 1 << bits, page), layouts, "{bits} bits, {page}");
        }
        assert_eq!(layouts_within(Some(LEAST_GAP + (3 << 12)), 1 << 39, 4 << 10), 4);
        assert_eq!(layouts_within(Some(LEAST_GAP - 1), 1 << 48, 4 << 10), 0);
    }

    #[test]
    fn drawn_layouts_are_within_what_the_limit_allows() {
        for random in [0, 1, u64::MAX, 0x0123_4567_89ab_cdef] {
            let moved = LayoutOffset::drawn(random, 4);
            assert!(moved.pages < 4);
            assert_eq!(moved.to_string().parse(), Ok(moved));
        }
    }
}
