//! The probes of one simulation, within a limit: files that name ten thousand libraries and ten
//! thousand folders would ask for more than memory holds.

use super::Probe;

/// All paths together, and some room for each. A program with 900 libraries and long lists takes
/// a tenth of it.
const ROOM: usize = 256 << 20;
/// What a probe takes beside its path.
const EACH: usize = 128;

/// A list that stops growing.
#[derive(Default)]
pub(super) struct Probes {
    list: Vec<Probe>,
    taken: usize,
}

impl Probes {
    pub(super) fn push(&mut self, probe: Probe) {
        if !self.are_too_many() {
            self.taken += EACH + probe.path.as_os_str().len();
            self.list.push(probe);
        }
    }

    pub(super) fn are_too_many(&self) -> bool {
        self.taken > ROOM
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn last(&self) -> Option<&Probe> {
        self.list.last()
    }

    pub(super) fn last_mut(&mut self) -> Option<&mut Probe> {
        self.list.last_mut()
    }

    /// All of them; nothing if they were too many.
    pub(super) fn into_list(self) -> Option<Vec<Probe>> {
        (!self.are_too_many()).then_some(self.list)
    }
}
