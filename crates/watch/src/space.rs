//! A process's address space: which file the calling instruction lies in, and whether the
//! program has begun.

use recording::{PathId, Phase};

use crate::mpi_init::Breakpoints;

/// A mapped range of instructions.
#[derive(Clone, Copy, Debug)]
struct MappedCode {
    start: u64,
    end: u64,
    /// The file; none for memory that the program filled itself.
    file: Option<PathId>,
    /// Whether it is the dynamic loader's.
    loader: bool,
}

/// The executable mappings of an address space, as far as they matter here.
#[derive(Clone, Debug)]
pub(crate) struct AddressSpace {
    code: Vec<MappedCode>,
    pub phase: Phase,
    /// musl's loader is its C library: its instructions do not tell the loader from the
    /// program, so they count as the loader's only until the program begins.
    loader_is_libc: bool,
    pub breakpoints: Breakpoints,
}

impl Default for AddressSpace {
    fn default() -> AddressSpace {
        AddressSpace { phase: Phase::Running, ..AddressSpace::new(false, false) }
    }
}

/// Where an instruction lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallSite {
    pub file: Option<PathId>,
    pub in_loader: bool,
}

impl AddressSpace {
    /// The address space of a program that has just been executed.
    pub fn new(has_loader: bool, loader_is_libc: bool) -> AddressSpace {
        let phase = if has_loader { Phase::Loading } else { Phase::Running };
        let breakpoints = Breakpoints::default();
        AddressSpace { code: Vec::new(), phase, loader_is_libc, breakpoints }
    }

    /// Adds a mapping, in the place of what it covers.
    pub fn map(&mut self, start: u64, length: u64, file: Option<PathId>, loader: bool) {
        let end = start.saturating_add(length);
        if start == end {
            return;
        }
        let first = self.code.partition_point(|code| code.end <= start);
        let last = self.code.partition_point(|code| code.start < end);
        let mut put = Vec::with_capacity(3);
        if let Some(before) = self.code.get(first).filter(|code| code.start < start) {
            put.push(MappedCode { end: start, ..*before });
        }
        put.push(MappedCode { start, end, file, loader });
        if last > first
            && let Some(after) = self.code.get(last - 1).filter(|code| code.end > end)
        {
            put.push(MappedCode { start: end, ..*after });
        }
        self.code.splice(first..last.max(first), put);
    }

    /// Where an instruction lies. The first one outside the loader begins the program.
    pub fn site(&mut self, ip: u64) -> CallSite {
        let at = self.code.partition_point(|code| code.end <= ip);
        let Some(code) = self.code.get(at).filter(|code| code.start <= ip) else {
            return CallSite { file: None, in_loader: false };
        };
        if !code.loader {
            self.phase = Phase::Running;
        }
        let in_loader = code.loader && (!self.loader_is_libc || self.phase == Phase::Loading);
        CallSite { file: code.file, in_loader }
    }

    /// Whether the phase has to be guessed from the calls themselves.
    pub fn guesses_phase(&self) -> bool {
        self.loader_is_libc && self.phase == Phase::Loading
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file_at(space: &mut AddressSpace, ip: u64) -> Option<u32> {
        space.site(ip).file.map(|file| file.0)
    }

    #[test]
    fn a_new_mapping_replaces_what_it_covers_and_leaves_the_rest() {
        let mut space = AddressSpace::default();
        space.map(100, 100, Some(PathId(1)), false);
        space.map(300, 100, Some(PathId(2)), false);
        space.map(150, 200, Some(PathId(3)), false);
        let files = [99, 100, 149, 150, 250, 349, 350, 399, 400].map(|ip| file_at(&mut space, ip));
        let one = Some(1);
        let expected = [None, one, one, Some(3), Some(3), Some(3), Some(2), Some(2), None];
        assert_eq!(files, expected);
        space.map(160, 10, None, false);
        assert_eq!([159, 165, 170].map(|ip| file_at(&mut space, ip)), [Some(3), None, Some(3)]);
    }

    #[test]
    fn the_first_instruction_outside_the_loader_begins_the_program() {
        let mut space = AddressSpace::new(true, false);
        space.map(0, 10, Some(PathId(1)), true);
        space.map(10, 10, Some(PathId(2)), false);
        assert!(space.site(5).in_loader);
        assert_eq!(space.phase, Phase::Loading);
        assert!(!space.site(15).in_loader);
        assert_eq!(space.phase, Phase::Running);
        assert!(space.site(5).in_loader, "the loader again: dlopen");
    }
}
