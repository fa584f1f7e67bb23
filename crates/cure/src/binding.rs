//! Files bound, or copies of them, simulated; and which recorded calls that takes away.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use cost::CallSet;
use explain::SourcePath;
use loader::Disk;
use loader::bind::{self, BindError, BindOptions, Binding, Effect, KeepRpath, SparedLookups};
use recording::{Phase, ProcessId, Recording};

use crate::environments::seen_starts;
use crate::plan::CureOptions;
use crate::prediction::CureEffect;

/// Whose binding is simulated.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum BoundAs {
    /// This user's, of the files as they are.
    Yours,
    /// This user's, of copies that are shown in their place.
    Copies,
    /// That of who may write to all of them.
    Owners,
}

/// Simulates the binding of these files.
pub(crate) fn simulated(
    recording: &Recording,
    files: &[PathBuf],
    options: &CureOptions,
    bound_as: BoundAs,
) -> Result<Binding, BindError> {
    if files.is_empty() {
        return Ok(Binding::default());
    }
    let mut how = BindOptions {
        list_spared: true,
        for_copies: bound_as != BoundAs::Yours,
        // Of all programs that there are, one start tells of those that it ran.
        others_load: true,
        environments: seen_starts(recording).environments,
        ..options.bind.clone()
    };
    if bound_as == BoundAs::Copies {
        // Nothing can be added beside files that are not this user's.
        how.keep_rpath = KeepRpath::All;
    }
    if bound_as != BoundAs::Yours {
        // Nobody installs, strips or packs copies: that one is longer costs nothing. The owner is told.
        how.grow = true;
    }
    bind::plan(&Disk::new(), files, &how, options.progress)
}

/// The recorded calls that are no longer made.
pub(crate) fn effect(recording: &Recording, binding: &Binding) -> CureEffect {
    let mut taken = spared(recording, &binding.programs).unwrap_or_default();
    taken.extend(spared_while_running(recording, binding).iter());
    CureEffect { taken, ..CureEffect::default() }
}

/// The recorded calls that the loaders of these programs no longer make at program start; none
/// where that cannot be said of one of them.
fn spared(recording: &Recording, programs: &[Effect]) -> Option<CallSet> {
    let each = programs.iter().map(|effect| Some((&effect.path, effect.spared.as_ref()?)));
    let spared: HashMap<&PathBuf, &SparedLookups> = each.collect::<Option<_>>()?;
    let mut left: HashMap<(ProcessId, usize), LeftLookups> = HashMap::new();
    let mut taken_away = CallSet::default();
    for (number, event) in recording.events.iter().enumerate() {
        let is_search = event.in_loader && event.is_metadata();
        let (true, Some(path)) = (is_search, event.path) else { continue };
        let execs = &recording.process(event.process).execs;
        let Some(exec) = execs.iter().rposition(|exec| exec.at <= event.start) else { continue };
        let left = left.entry((event.process, exec)).or_insert_with(|| {
            let image = Path::new(OsStr::from_bytes(recording.path(execs[exec].image)));
            let spared = image.canonicalize().ok().and_then(|image| spared.get(&image).copied());
            spared.map(LeftLookups::of).unwrap_or_default()
        });
        if left.takes_away(recording.path(path)) {
            taken_away.insert(number);
        }
    }
    Some(taken_away)
}

/// What the loader of one exec is spared, and has not yet looked up.
#[derive(Default)]
struct LeftLookups<'s> {
    times: HashMap<&'s [u8], usize>,
    /// Lookups that are made all the same, elsewhere.
    instead: usize,
}

impl<'s> LeftLookups<'s> {
    fn of(spared: &'s SparedLookups) -> LeftLookups<'s> {
        let mut times: HashMap<&[u8], usize> = HashMap::new();
        for path in &spared.paths {
            *times.entry(path.as_os_str().as_bytes()).or_default() += 1;
        }
        LeftLookups { times, instead: spared.instead }
    }

    /// Whether a lookup of this path goes. As many as are made elsewhere are taken to stay: one costs
    /// what the other does.
    fn takes_away(&mut self, path: &[u8]) -> bool {
        let Some(times) = self.times.get_mut(path).filter(|times| **times > 0) else {
            return false;
        };
        *times -= 1;
        let stays = self.instead > 0;
        self.instead = self.instead.saturating_sub(1);
        !stays
    }
}

/// The failed lookups, in running programs, of libraries that the bound files then name by full
/// path. A name that is left to the search in any file may be one that is searched: it stays.
fn spared_while_running(recording: &Recording, binding: &Binding) -> CallSet {
    let bound = binding.changes.iter().flat_map(|change| &change.needed);
    let mut bound: HashSet<&[u8]> = bound.map(|(name, _)| name.as_bytes()).collect();
    for left in &binding.names_left {
        bound.remove(left.name.as_bytes());
    }
    let events = recording.events.iter().enumerate();
    let searches = events.filter(|(_, event)| {
        event.in_loader && event.phase == Phase::Running && event.is_missing()
    });
    let is_bound = |path| bound.contains(base_name(recording.path(path)));
    searches
        .filter(|(_, event)| event.path.is_some_and(is_bound))
        .map(|(number, _)| number)
        .collect()
}

/// The paths by which bound copies name files in whose place none is shown, sorted.
pub fn named_and_not_shown(binding: &Binding) -> Vec<PathBuf> {
    let files =
        binding.changes.iter().flat_map(|change| [&change.path].into_iter().chain(&change.also));
    let shown: HashSet<&Path> = files.map(PathBuf::as_path).collect();
    let needed = binding.changes.iter().flat_map(|change| &change.needed);
    let named = needed.map(|(_, name)| Path::new(name));
    let named: BTreeSet<&Path> =
        named.filter(|path| path.is_absolute() && !shown.contains(path)).collect();
    named.into_iter().map(Path::to_owned).collect()
}

pub(crate) fn base_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

/// The programs and libraries that the command was seen to load.
pub(crate) fn loaded(recording: &Recording, wanted: impl Fn(&Path) -> bool) -> Vec<SourcePath> {
    let files = recording.images.keys().map(|id| SourcePath::of(recording, *id));
    let mut files: Vec<_> = files.filter(|file| wanted(file.path())).collect();
    files.sort_by(|a, b| a.name.cmp(&b.name));
    files
}

/// Whether a file is one of the distribution's: its package manager would put it back.
pub fn belongs_to_the_system(path: &Path) -> bool {
    let systems = ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/usr"];
    let local = ["/usr/local"];
    systems.iter().any(|directory| path.starts_with(directory))
        && !local.iter().any(|directory| path.starts_with(directory))
}
