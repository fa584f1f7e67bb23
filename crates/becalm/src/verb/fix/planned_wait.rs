//! What a start is predicted to wait, as it is and with a plan.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use cost::{PredictedWait, RecordedStart};
use explain::{ExplainOptions, Findings, WaitModel};
use loader::bind::{Binding, Effect};
use recording::{Phase, ProcessId, Recording};

/// What a start waits.
#[derive(Clone, Debug)]
pub struct PlannedWait {
    /// How it is predicted.
    pub model: WaitModel,
    /// As it is: what `becalm check` says of it, if anything.
    pub now: Option<PredictedWait>,
    /// Without the calls that the plan takes away; none where the recording and the simulated loader
    /// do not tell which these are.
    pub after: Option<PredictedWait>,
}

impl PlannedWait {
    /// With these files bound, and an image of this directory.
    pub fn of(
        recording: &Recording,
        findings: &Findings,
        options: &ExplainOptions,
        binding: &Binding,
        image: Option<&Path>,
    ) -> PlannedWait {
        let mut taken_away = spared(recording, &binding.programs).unwrap_or_default();
        if let Some(directory) = image {
            taken_away.extend(cure::events_below(recording, directory));
        }
        let is_told = findings.predicted_wait.is_some();
        let after = (is_told && !taken_away.is_empty()).then(|| {
            let start = RecordedStart::of(recording, &options.below, None);
            options.model.predict_without(&start, &taken_away)
        });
        PlannedWait { model: findings.model.clone(), now: findings.predicted_wait, after }
    }
}

/// The recorded calls that the loaders of these programs no longer make; none where that cannot be
/// said of one of them.
fn spared(recording: &Recording, programs: &[Effect]) -> Option<HashSet<usize>> {
    let each = programs.iter().map(|effect| Some((&effect.path, effect.spared.as_ref()?)));
    let spared: HashMap<&PathBuf, &Vec<PathBuf>> = each.collect::<Option<_>>()?;
    // Of each exec, what its loader is spared and has not yet looked up.
    let mut left: HashMap<(ProcessId, usize), HashMap<&[u8], usize>> = HashMap::new();
    let mut taken_away = HashSet::new();
    for (number, event) in recording.events.iter().enumerate() {
        let is_search = event.in_loader && event.phase == Phase::Loading && event.is_metadata();
        let (true, Some(path)) = (is_search, event.path) else { continue };
        let execs = &recording.process(event.process).execs;
        let Some(exec) = execs.iter().rposition(|exec| exec.at <= event.start) else { continue };
        let left = left.entry((event.process, exec)).or_insert_with(|| {
            let image = Path::new(OsStr::from_bytes(recording.path(execs[exec].image)));
            let paths = image.canonicalize().ok().and_then(|image| spared.get(&image).copied());
            let mut times: HashMap<&[u8], usize> = HashMap::new();
            for path in paths.into_iter().flatten() {
                *times.entry(path.as_os_str().as_bytes()).or_default() += 1;
            }
            times
        });
        if let Some(times) = left.get_mut(recording.path(path)).filter(|times| **times > 0) {
            *times -= 1;
            taken_away.insert(number);
        }
    }
    Some(taken_away)
}
