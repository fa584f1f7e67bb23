//! What of a layout can be moved alone, and where it lies then.

use std::collections::BTreeMap;
use std::path::Path;

use launch::layout::LayoutOffset;
use launch::{ArrangedStart, Arrangement, LoaderMapping};

use super::ExplainOptions;
use super::trial::LayoutTrial;

/// Addresses keep what is below this.
const KEPT: u64 = 1 << 32;
/// What is mapped after the start has so much room below where it begins.
const ROOM_OF_LATER: u64 = 4 << 40;
/// A mapping of a loader's has a room of this size.
const ROOM: u64 = 2 * KEPT;

/// A part of a layout that can be moved without the others.
#[derive(Clone, Debug)]
pub(super) struct LayoutRegion {
    /// What it is.
    pub name: String,
    /// Where it begins, in the reference and in the layout; none for what has no place of its own.
    pub at: Option<[u64; 2]>,
    kind: RegionKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum RegionKind {
    /// These of the loader's mappings.
    Mappings(Vec<usize>),
    /// What is mapped after the start.
    Later,
    /// What the kernel maps at the exec: the loader, the vdso.
    Exec,
    Stack,
}

/// Two layouts of a command.
pub(super) struct RegionMap {
    pub regions: Vec<LayoutRegion>,
    mappings: [Vec<LoaderMapping>; 2],
    floors: [u64; 2],
    /// The lowest address of what an exec maps, of either.
    exec_floor: u64,
}

impl RegionMap {
    /// Of the reference and of the layout; none if they have not the same mappings.
    pub fn of(
        reference: &ArrangedStart,
        slow: &ArrangedStart,
        options: &ExplainOptions,
    ) -> Option<RegionMap> {
        let mappings = [reference.mappings.clone(), slow.mappings.clone()];
        let pairs = || mappings[0].iter().zip(&mappings[1]);
        let is_same = mappings[0].len() == mappings[1].len()
            && pairs().all(|(one, other)| one.file == other.file && one.length == other.length);
        let fits = pairs().all(|(mapping, _)| mapping.length < KEPT);
        if !is_same || !fits {
            return None;
        }
        let floors = [reference.floor, slow.floor];
        let exec = [reference.exec_floor, slow.exec_floor];
        let mut regions = of_mappings(&mappings);
        if options.slow.pages != options.reference.pages {
            let later = "mapped after the start".to_owned();
            regions.push(LayoutRegion { name: later, at: Some(floors), kind: RegionKind::Later });
            let loader = "loader and vdso".to_owned();
            regions.push(LayoutRegion { name: loader, at: Some(exec), kind: RegionKind::Exec });
        } else {
            regions.clear();
        }
        if options.slow.stack != options.reference.stack {
            let name = "stack".to_owned();
            regions.push(LayoutRegion { name, at: None, kind: RegionKind::Stack });
        }
        Some(RegionMap { regions, mappings, floors, exec_floor: exec[0].min(exec[1]) })
    }

    /// How a command lies in a trial.
    pub fn arranged(
        &self,
        options: &ExplainOptions,
        trial: LayoutTrial,
    ) -> (LayoutOffset, Arrangement) {
        let is_slow = |region: usize| match trial {
            LayoutTrial::AsIs { is_slow } | LayoutTrial::Spread { is_slow } => is_slow,
            LayoutTrial::Alone(one) => region == one,
            LayoutTrial::AllBut(one) => region != one,
        };
        // What is in both layouts alike is as in the one that most is of.
        let otherwise = is_slow(usize::MAX);
        let of = |wanted: &dyn Fn(&RegionKind) -> bool| {
            let region = self.regions.iter().position(|region| wanted(&region.kind));
            region.map_or(otherwise, is_slow)
        };
        let [exec, stack] = [RegionKind::Exec, RegionKind::Stack].map(|kind| of(&|it| *it == kind));
        let pick = |is_slow| if is_slow { options.slow } else { options.reference };
        let layout = LayoutOffset { pages: pick(exec).pages, stack: pick(stack).stack };
        if matches!(trial, LayoutTrial::AsIs { .. }) {
            return (layout, Arrangement::default());
        }
        let floor = self.floors[usize::from(of(&|kind| *kind == RegionKind::Later))];
        let top = self.exec_floor / KEPT * KEPT;
        let places = (0..self.mappings[0].len()).map(|mapping| {
            let is_slow = of(&|kind| match kind {
                RegionKind::Mappings(some) => some.contains(&mapping),
                _ => false,
            });
            let room = top - ROOM_OF_LATER - ROOM * (mapping as u64 + 1);
            room + self.mappings[usize::from(is_slow)][mapping].at % KEPT
        });
        let arrangement =
            Arrangement { places: places.collect(), floor: Some(top - ROOM + floor % KEPT) };
        (layout, arrangement)
    }
}

/// A region for each file, and one for all memory.
fn of_mappings(mappings: &[Vec<LoaderMapping>; 2]) -> Vec<LayoutRegion> {
    let mut by_file: BTreeMap<Option<&Path>, Vec<usize>> = BTreeMap::new();
    for (at, mapping) in mappings[0].iter().enumerate() {
        let is_cache = mapping.file.as_deref() == Some(Path::new("/etc/ld.so.cache"));
        // The cache of names is gone before the program begins.
        if !is_cache {
            by_file.entry(mapping.file.as_deref()).or_default().push(at);
        }
    }
    let mut regions: Vec<_> = by_file
        .into_iter()
        .map(|(file, some)| {
            let name = file.and_then(Path::file_name).map_or_else(
                || "thread's and loader's data".to_owned(),
                |name| name.to_string_lossy().into_owned(),
            );
            let at = Some([0, 1].map(|side: usize| mappings[side][some[0]].at));
            LayoutRegion { name, at, kind: RegionKind::Mappings(some) }
        })
        .collect();
    // In the order in which they were loaded, memory last.
    regions.sort_by_key(|region| match &region.kind {
        RegionKind::Mappings(some) => (mappings[0][some[0]].file.is_none(), some[0]),
        _ => (true, usize::MAX),
    });
    regions
}
