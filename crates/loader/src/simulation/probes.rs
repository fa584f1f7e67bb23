//! The probes of one simulation, kept or only counted, within a limit: files that name ten
//! thousand libraries and ten thousand directories would ask for more than memory holds.

use std::path::Path;

use remedy::Counts;

use super::{ProbeCall, ProbeResult, SearchProbe};

/// All paths together, and some room for each. A program with 900 libraries and long lists takes
/// a tenth of it.
const ROOM: usize = 256 << 20;
/// What a probe takes beside its path.
const EACH: usize = 128;

/// Whether probes are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    /// All of them, with their paths.
    All,
    /// How many there were.
    Counts,
}

/// A list that stops growing.
#[derive(Clone)]
pub(super) struct Probes {
    keep: Keep,
    /// With [`Keep::Counts`], the last one, without its path.
    list: Vec<SearchProbe>,
    made: usize,
    taken: usize,
    counts: Counts,
    /// What [`Simulation::when_whole`](super::Simulation::when_whole) counts.
    all: Counts,
    /// Whether the start has failed: what is asked from then on only `ldd` asks.
    has_failed: bool,
}

impl Probes {
    pub(super) fn new(keep: Keep) -> Probes {
        let (counts, all) = Default::default();
        Probes { keep, list: Vec::new(), made: 0, taken: 0, counts, all, has_failed: false }
    }

    /// Takes in a probe for `path`; that of the probe itself is filled in.
    pub(super) fn push(&mut self, path: &Path, mut probe: SearchProbe) {
        if self.are_too_many() {
            return;
        }
        self.taken += EACH + path.as_os_str().len();
        count(&mut self.all, &probe);
        if self.has_failed {
            return;
        }
        self.made += 1;
        count(&mut self.counts, &probe);
        match self.keep {
            Keep::All => probe.path = path.to_owned(),
            Keep::Counts => self.list.clear(),
        }
        self.list.push(probe);
    }

    /// The start fails here.
    pub(super) fn fail(&mut self) {
        self.has_failed = true;
    }

    pub(super) fn are_too_many(&self) -> bool {
        self.taken > ROOM
    }

    pub(super) fn len(&self) -> usize {
        self.made
    }

    pub(super) fn last(&self) -> Option<&SearchProbe> {
        self.list.last()
    }

    /// The last probe; none if only `ldd` makes it.
    pub(super) fn last_mut(&mut self) -> Option<&mut SearchProbe> {
        if self.has_failed { None } else { self.list.last_mut() }
    }

    /// Those that were kept.
    pub(super) fn list(&self) -> &[SearchProbe] {
        &self.list
    }

    /// All that were kept, how many there were, and how many `ldd` makes; nothing if they were
    /// too many.
    pub(super) fn into_list(mut self) -> Option<(Vec<SearchProbe>, Counts, Counts)> {
        if self.keep == Keep::Counts {
            self.list.clear();
        }
        (!self.are_too_many()).then_some((self.list, self.counts, self.all))
    }
}

fn count(counts: &mut Counts, probe: &SearchProbe) {
    let failed = u64::from(matches!(probe.answer, ProbeResult::Refused(_)));
    let (all, fails) = match probe.call {
        ProbeCall::Open => (&mut counts.opens, &mut counts.failed_opens),
        ProbeCall::Stat => (&mut counts.stats, &mut counts.failed_stats),
        ProbeCall::Access | ProbeCall::Readlink => return,
    };
    *all += 1;
    *fails += failed;
}
