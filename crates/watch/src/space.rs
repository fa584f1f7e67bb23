//! A process's address space: which file the calling instruction lies in, and whether the
//! program has begun.

use recording::{PathId, Phase};

use crate::faults::MappedFile;
use crate::mpi_init::Breakpoints;
use crate::present::PresentPages;
use crate::spans::Spans;

/// A mapped range of instructions.
#[derive(Clone, Copy, Debug)]
struct MappedCode {
    /// The file; none for memory that the program filled itself.
    file: Option<PathId>,
    /// Whether it is the dynamic loader's.
    loader: bool,
}

/// The executable mappings of an address space, as far as they matter here.
#[derive(Clone, Debug)]
pub(crate) struct AddressSpace {
    code: Spans<MappedCode>,
    /// Where files are mapped, once page faults are watched.
    pub files: Option<Spans<Option<MappedFile>>>,
    /// Whether the kernel has refused to tell of page faults.
    pub faults_refused: bool,
    pub present: PresentPages,
    /// How many bytes of instructions were mapped, each as often as it was.
    pub code_bytes: u64,
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
        let (code, breakpoints) = (Spans::default(), Breakpoints::default());
        #[rustfmt::skip]
        let space = AddressSpace {
            code, phase, loader_is_libc, breakpoints,
            files: None, faults_refused: false, present: PresentPages::default(), code_bytes: 0,
        };
        space
    }

    /// Adds a mapping, in the place of what it covers.
    pub fn map(&mut self, start: u64, length: u64, file: Option<PathId>, loader: bool) {
        self.code.put(start, length, MappedCode { file, loader });
        self.code_bytes = self.code_bytes.saturating_add(length);
    }

    /// Which file's instructions are at an address.
    pub fn code_of(&self, address: u64) -> Option<PathId> {
        self.code.at(address).and_then(|code| code.file)
    }

    /// Where an instruction lies. The first one outside the loader begins the program.
    pub fn site(&mut self, ip: u64) -> CallSite {
        let Some(code) = self.code.at(ip) else {
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
