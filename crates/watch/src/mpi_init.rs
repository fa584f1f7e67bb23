//! MPI_Init's return, caught by breakpoints that are there for one call and then removed.
//!
//! The first is at the function's first instruction. There the return address is read, and the
//! second is set at it. What the file has instead is put back before the thread goes on, so that
//! no instruction ever has to be stepped over. Whoever shares or inherits an address space shares
//! or inherits its breakpoints, so they are kept with it.

use std::fs::File;

use object::Endianness;
use object::elf;
use object::read::elf::{ElfFile, FileHeader, ProgramHeader};
use object::read::{Object, ObjectSymbol, ReadCache, ReadRef};
use recording::Nanos;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::arch;
use crate::memory;
use crate::ptrace::{self, StoppedThread, TraceError};

/// What MPI programs begin with. A profiler's own MPI_Init calls PMPI_Init, and so does Fortran's.
const NAMES: [&[u8]; 4] = [b"PMPI_Init", b"PMPI_Init_thread", b"MPI_Init", b"MPI_Init_thread"];

/// Where a function begins: in memory but for its image's bias, and in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct FunctionPlace {
    address: u64,
    offset: u64,
}

/// The breakpoints of an address space.
#[derive(Clone, Debug, Default)]
pub(crate) struct Breakpoints {
    set: Vec<Breakpoint>,
    /// Where there were some: a thread may have run into one that is gone by now.
    former: Vec<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Breakpoint {
    at: u64,
    instead_of: [u8; arch::TRAP.len()],
    is_return: bool,
}

/// What a thread has run into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trapped {
    /// MPI_Init begins.
    Entry,
    /// It has returned.
    Return,
    /// A breakpoint that was removed meanwhile.
    Former,
}

/// Which processes have MPI_Init, and how far they are.
#[derive(Default)]
pub(crate) struct MpiInits {
    functions: FxHashMap<Vec<u8>, Vec<FunctionPlace>>,
    awaited: FxHashSet<i32>,
    inside: FxHashSet<i32>,
    returned: FxHashSet<i32>,
    first_called: Option<Nanos>,
}

impl MpiInits {
    /// Whether it has returned from all processes that have it, and there was one.
    pub fn have_all_returned(&self) -> bool {
        !self.returned.is_empty() && self.awaited.is_empty() && self.inside.is_empty()
    }

    /// When it was first called.
    pub fn first_called(&self) -> Option<Nanos> {
        self.first_called
    }

    /// Whether a process is in it.
    pub fn is_inside(&self) -> bool {
        !self.inside.is_empty()
    }

    /// Whether a process has it and has not called it.
    pub fn is_awaited(&self) -> bool {
        !self.awaited.is_empty()
    }

    /// A process has ended, or has become another program.
    pub fn gone(&mut self, process: i32) {
        self.awaited.remove(&process);
        self.inside.remove(&process);
    }

    /// A process is at its program's first instruction: MPI may be in the program itself.
    pub fn executed(&mut self, process: i32, path: &[u8], bias: u64) -> Vec<u64> {
        self.gone(process);
        let places = self.functions_of(process, "exe", path);
        let addresses = places.iter().map(|it| bias.wrapping_add(it.address)).collect();
        self.awaits(process, addresses)
    }

    /// A process has mapped instructions of a library, from an offset in it to an address.
    pub fn mapped(&mut self, process: i32, path: &[u8], map: MappedRange) -> Vec<u64> {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        if !name.starts_with(b"libmpi") {
            return Vec::new();
        }
        let link = format!("root{}", String::from_utf8_lossy(path));
        let places = self.functions_of(process, &link, path);
        let addresses = places.iter().filter_map(|it| map.address_of(it.offset)).collect();
        self.awaits(process, addresses)
    }

    /// A process has it.
    #[cfg(test)]
    pub fn has_it(&mut self, process: i32) {
        self.awaits(process, vec![1]);
    }

    fn awaits(&mut self, process: i32, mut addresses: Vec<u64>) -> Vec<u64> {
        addresses.sort_unstable();
        addresses.dedup();
        if !addresses.is_empty() && !self.returned.contains(&process) {
            self.awaited.insert(process);
        }
        addresses
    }

    /// A thread of a process has run into a breakpoint.
    pub fn trapped(&mut self, process: i32, trapped: Trapped, now: Nanos) {
        match trapped {
            Trapped::Entry => {
                self.awaited.remove(&process);
                self.inside.insert(process);
                self.first_called.get_or_insert(now);
            }
            Trapped::Return => {
                self.inside.remove(&process);
                self.returned.insert(process);
            }
            Trapped::Former => {}
        }
    }

    fn functions_of(&mut self, process: i32, link: &str, path: &[u8]) -> &[FunctionPlace] {
        self.functions.entry(path.to_vec()).or_insert_with(|| {
            let file = File::open(format!("/proc/{process}/{link}"));
            file.ok().and_then(functions).unwrap_or_default()
        })
    }
}

/// Instructions of a file in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MappedRange {
    pub start: u64,
    pub length: u64,
    pub offset: u64,
}

impl MappedRange {
    fn address_of(&self, offset: u64) -> Option<u64> {
        let within = offset.checked_sub(self.offset)?;
        (within < self.length).then(|| self.start.wrapping_add(within))
    }
}

/// Where a program's or library's own MPI_Init begins. Files of 32 bits are not looked into.
fn functions(file: File) -> Option<Vec<FunctionPlace>> {
    let cache = ReadCache::new(file);
    places::<elf::FileHeader64<Endianness>, _>(&cache)
}

fn places<'data, H: FileHeader, R: ReadRef<'data>>(data: R) -> Option<Vec<FunctionPlace>> {
    let file = ElfFile::<H, R>::parse(data).ok()?;
    let mut places = Vec::new();
    for symbol in file.dynamic_symbols().chain(file.symbols()) {
        let is_one = symbol.name_bytes().is_ok_and(|name| NAMES.contains(&name));
        if is_one && symbol.is_definition() {
            let address = symbol.address();
            let segment = file.elf_program_headers().iter().find_map(|header| {
                let endian = file.endian();
                let (start, size) = (header.p_vaddr(endian).into(), header.p_filesz(endian).into());
                let within = address.checked_sub(start).filter(|within| *within < size)?;
                let is_code = header.p_flags(endian).0 & elf::PF_X.0 != 0;
                is_code.then(|| header.p_offset(endian).into() + within)
            });
            places.extend(segment.map(|offset| FunctionPlace { address, offset }));
        }
    }
    Some(places)
}

impl Breakpoints {
    /// Sets breakpoints at functions, in the memory of a stopped thread.
    pub fn set(&mut self, thread: &StoppedThread, functions: &[u64]) -> Result<(), TraceError> {
        functions.iter().try_for_each(|at| self.set_one(thread, *at, false))
    }

    fn set_one(
        &mut self,
        thread: &StoppedThread,
        at: u64,
        is_return: bool,
    ) -> Result<(), TraceError> {
        if self.set.iter().any(|it| it.at == at) {
            return Ok(());
        }
        let instead_of = poke(thread.tid(), at, arch::TRAP)?;
        self.set.push(Breakpoint { at, instead_of, is_return });
        self.former.retain(|former| *former != at);
        Ok(())
    }

    /// Removes all of them.
    pub fn remove(&mut self, thread: &StoppedThread) -> Result<(), TraceError> {
        for breakpoint in std::mem::take(&mut self.set) {
            self.former.push(breakpoint.at);
            poke(thread.tid(), breakpoint.at, breakpoint.instead_of)?;
        }
        Ok(())
    }

    /// Whether there are or were any.
    pub fn are_known(&self) -> bool {
        !self.set.is_empty() || !self.former.is_empty()
    }

    /// Takes in a thread's SIGTRAP: none where that is the program's own. The thread then goes on
    /// from the instruction that the breakpoint was set in place of.
    pub fn trapped(&mut self, thread: &StoppedThread) -> Result<Option<Trapped>, TraceError> {
        if !self.are_known() {
            return Ok(None);
        }
        let mut registers = thread.registers()?;
        let at = registers.trap();
        let trapped = match self.set.iter().find(|it| it.at == at) {
            Some(it) if it.is_return => Trapped::Return,
            Some(_) => Trapped::Entry,
            None if self.former.contains(&at) => Trapped::Former,
            None => return Ok(None),
        };
        registers.jump(at);
        thread.set_registers(&registers)?;
        if trapped != Trapped::Former {
            self.remove(thread)?;
        }
        if trapped == Trapped::Entry {
            let failed = |error| TraceError::of("reading MPI_Init's return address", error);
            let back = registers.return_address(thread.tid()).map_err(failed)?;
            self.set_one(thread, back, true)?;
        }
        Ok(Some(trapped))
    }
}

/// Puts instructions into a stopped thread's program, and returns what was there.
fn poke<const N: usize>(tid: i32, at: u64, code: [u8; N]) -> Result<[u8; N], TraceError> {
    let failed = |error| TraceError::of("reading a program's instructions", error);
    let mut word = memory::read_u64(tid, at).map_err(failed)?.to_ne_bytes();
    let mut before = [0; N];
    before.copy_from_slice(&word[..N]);
    word[..N].copy_from_slice(&code);
    let word = u64::from_ne_bytes(word) as usize;
    ptrace::request("PTRACE_POKETEXT", libc::PTRACE_POKETEXT, tid, at as usize, word)?;
    Ok(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_is_found_only_in_the_part_of_the_file_that_is_mapped() {
        let map = MappedRange { start: 0x7000, length: 0x1000, offset: 0x2000 };
        assert_eq!(map.address_of(0x2010), Some(0x7010));
        assert_eq!((map.address_of(0x1fff), map.address_of(0x3000)), (None, None));
    }

    #[test]
    fn a_program_without_mpi_has_no_such_function() {
        assert_eq!(functions(File::open("/bin/bash").unwrap()), Some(Vec::new()));
        assert_eq!(functions(File::open("/etc/passwd").unwrap()), None);
    }

    #[test]
    fn all_processes_that_have_mpi_must_have_returned_from_it() {
        let mut mpi = MpiInits::default();
        assert!(!mpi.have_all_returned());
        mpi.has_it(1);
        mpi.has_it(2);
        assert!(mpi.is_awaited());
        mpi.trapped(1, Trapped::Entry, Nanos(1));
        mpi.trapped(1, Trapped::Return, Nanos(1));
        assert!(!mpi.have_all_returned(), "2 has not called it");
        mpi.trapped(2, Trapped::Entry, Nanos(1));
        assert!(mpi.is_inside());
        mpi.gone(2);
        assert!(mpi.have_all_returned());
    }
}
