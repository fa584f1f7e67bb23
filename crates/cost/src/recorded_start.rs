//! What one rank does at its start: computes, looks paths up, reads, in order.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use recording::query::data::DataAccess;
use recording::{Event, Kind as CallKind, Nanos, PathId, Recording};
use rustc_hash::FxHashMap;

use crate::compute::ComputeGaps;
use crate::fetched_bytes::{FetchedBytes, FirstTouches};
use crate::missing_component::PathEvidence;
use crate::shared_directories::{SharedChoice, SharedPaths};
use crate::start_steps::{NamedBy, StartSteps, StepData, opened_by_kernel};
use crate::{ComputeSource, PathRequest, SharedDirectories};

/// What one rank does at its start.
#[derive(Clone)]
pub struct RecordedStart<'a> {
    /// Where that was recorded.
    pub recording: &'a Recording,
    /// What the command is: `python3`.
    pub program: String,
    /// In order.
    pub(crate) steps: StartSteps<'a>,
    /// Computing after the last step.
    pub(crate) rest: Nanos,
    /// What of mapped files on the shared filesystem is touched first.
    pub touches: Vec<DataAccess>,
    /// Whether that is read one after the other before it is touched, and not by its page faults.
    pub(crate) reads_ahead: bool,
    /// Which paths count at any time.
    pub shared: SharedDirectories,
    /// Which paths count at each call.
    pub(crate) shared_paths: SharedPaths,
    /// How they were chosen.
    pub chosen: SharedChoice,
    /// How the compute time is known.
    pub compute: ComputeSource,
    /// Metadata operations of the recording that the shared filesystem serves.
    pub metadata_ops: u64,
    /// Those that something else serves: together, what [`Recording::metadata_operations`] counts.
    pub elsewhere: u64,
    /// Where images were mounted: the node serves what lies there.
    pub images: Vec<String>,
}

/// A recording that says nothing of many ranks.
#[derive(Debug, thiserror::Error)]
pub enum ProjectionError {
    /// Which server would have served what, it does not tell.
    #[error(
        "the command changed its mounts on the way ({how}): an image, say, serves what lies there \
         instead of the server, and the recording does not tell; record the command inside, as in: \
         becalm run --image FILE -- becalm record -o REC -- CMD", how = .0
    )]
    MountsChanged(String),
    /// It has no metadata operations at all.
    #[error("the recording has no metadata operations: there is nothing to project")]
    Nothing,
    /// It has none up to where it was cut.
    #[error("the recording was cut before its first metadata operation: {0}")]
    Cut(&'static str),
    /// None of them counts.
    #[error(
        "none of the {elsewhere} metadata operations was on {}; most were below {most}: name \
         that, for example: --below {most}", .looked_at
    )]
    Elsewhere {
        /// How many there are.
        elsewhere: u64,
        /// What was taken to be shared.
        looked_at: String,
        /// Where most of them are, as a shell takes it.
        most: String,
    },
}

impl<'a> RecordedStart<'a> {
    /// What the recorded command does of what is below these directories (none: those that
    /// [`SharedChoice`] says), computing this long in all if that is known.
    pub fn of(
        recording: &'a Recording,
        below: &[PathBuf],
        compute: Option<Nanos>,
    ) -> RecordedStart<'a> {
        let shared_paths = SharedPaths::of(recording, below);
        let chosen = shared_paths.chosen;
        let mut order: Vec<u32> = (0..recording.events.len() as u32).collect();
        order.sort_by_key(|event| recording.events[*event as usize].start);
        let mut start = RecordedStart {
            recording,
            program: program(recording),
            steps: StartSteps::with_room(recording.events.len()),
            rest: Nanos(0),
            touches: Vec::new(),
            reads_ahead: false,
            compute: ComputeSource::Recorded,
            metadata_ops: 0,
            elsewhere: 0,
            images: images(recording),
            shared: shared_paths.ever.clone(),
            shared_paths,
            chosen,
        };
        start.fill(&order);
        start.elsewhere = recording.metadata_operations() - start.metadata_ops;
        if let Some(total) = compute {
            start.set_compute_time(total);
        }
        start
    }

    /// Fails if the recording does not tell what many ranks would wait for.
    ///
    /// # Errors
    /// [`ProjectionError`].
    pub fn check(&self) -> Result<(), ProjectionError> {
        if let Some(how) = self.recording.mounts_changed() {
            return Err(ProjectionError::MountsChanged(how));
        }
        match self.steps.is_empty() {
            true => Err(ProjectionError::elsewhere(self.recording, &self.shared.roots)),
            false => Ok(()),
        }
    }

    /// Goes through the calls in the order of their starts.
    fn fill(&mut self, order: &[u32]) {
        let recording = self.recording;
        let events = || order.iter().map(|event| &recording.events[*event as usize]);
        let evidence = PathEvidence::of(
            events().flat_map(|event| requests(recording, event)).map(|(_, it)| it),
        );
        let mut gaps = ComputeGaps::of(recording, events());
        let shared = self.shared_paths.clone();
        let mut data = FetchedBytes::of(recording, &shared);
        let mut touches = FirstTouches::of(recording, &shared);
        let (mut think, mut fetched) = (0.0, StepData::default());
        for (place, number) in order.iter().enumerate() {
            let event = &recording.events[*number as usize];
            think += gaps.before(event);
            let contains = |path| shared.contain(recording, event, path);
            let mut is_counted = false;
            for (named, request) in requests(recording, event) {
                if !contains(request.path) && !request.other_path.is_some_and(contains) {
                    continue;
                }
                self.steps.fetch(std::mem::take(&mut fetched));
                // What the kernel opens at an exec takes RPCs, and is no call.
                self.metadata_ops += u64::from(!std::mem::replace(&mut is_counted, true));
                let think = Nanos(std::mem::take(&mut think) as u64);
                self.steps.push(*number as usize, think, (named, &evidence.cut(request)));
            }
            // What it fetches itself, and what is touched before the next, is waited for after it.
            let read = data.of_call(event);
            fetched.append(read);
            let next = order.get(place + 1).map(|next| recording.events[*next as usize].start);
            let touched = touches.until(next, event);
            fetched.bytes += touched;
            fetched.image_bytes += touched;
            fetched.touched_to = touches.list.len();
        }
        self.steps.fetch(fetched);
        self.rest = Nanos(think as u64);
        self.touches = touches.list;
    }

    /// Spreads this compute time as the recorded one is spread; evenly, if there is none.
    fn set_compute_time(&mut self, total: Nanos) {
        let recorded = self.compute_time().0 as f64;
        let even = total.0 / (self.steps.len() as u64 + 1);
        let scaled = |think: Nanos| match recorded {
            0.0 => Nanos(even),
            recorded => Nanos((think.0 as f64 * total.0 as f64 / recorded) as u64),
        };
        self.steps.change_thinking(scaled);
        self.rest = scaled(self.rest);
        self.compute = ComputeSource::Given;
    }

    /// The same without these calls: what is computed before them, and read after them, stays.
    pub(crate) fn without(&self, is_gone: impl Fn(usize) -> bool) -> RecordedStart<'a> {
        let (steps, think) = self.steps.without(is_gone);
        RecordedStart { rest: self.rest + think, ..self.with(steps) }
    }

    /// The same with other steps.
    fn with(&self, steps: StartSteps<'a>) -> RecordedStart<'a> {
        RecordedStart {
            steps,
            program: self.program.clone(),
            touches: self.touches.clone(),
            shared: self.shared.clone(),
            shared_paths: self.shared_paths.clone(),
            images: self.images.clone(),
            ..*self
        }
    }

    /// The same where all that is touched of mapped files is read before, one part after the other.
    pub(crate) fn reading_ahead(&self) -> RecordedStart<'a> {
        RecordedStart { reads_ahead: true, ..self.clone() }
    }

    /// The same where what is read of images is on the node already.
    pub(crate) fn spread(&self) -> RecordedStart<'a> {
        self.with(self.steps.without_image_bytes())
    }

    /// For how many bytes of files in images these are read.
    pub fn image_bytes(&self) -> u64 {
        self.steps.image_bytes()
    }

    /// How long a rank computes.
    pub fn compute_time(&self) -> Nanos {
        self.steps.thinking().sum::<Nanos>() + self.rest
    }

    /// How many bytes a node fetches.
    pub fn bytes(&self) -> u64 {
        self.steps.bytes()
    }
}

/// What a metadata operation wants: none of another call.
fn requests<'a>(
    recording: &'a Recording,
    event: &Event,
) -> impl Iterator<Item = (NamedBy, PathRequest<'a>)> + use<'a> {
    let path = |id: Option<PathId>| id.map(|id| recording.path(id));
    let first = path(event.path).filter(|_| event.is_metadata());
    let own = first.and_then(|first| PathRequest::of(event, first, path(event.other_path)));
    let is_exec = event.kind() == CallKind::Exec && !event.outcome.failed();
    let opened = (own.is_some() && is_exec).then(|| opened_by_kernel(recording, event));
    own.map(|own| (NamedBy::Call, own)).into_iter().chain(opened.into_iter().flatten())
}

/// Where images were mounted.
fn images(recording: &Recording) -> Vec<String> {
    let mounts = recording.mount_tables().flatten().filter(|mount| mount.is_image());
    let points: BTreeSet<_> = mounts.map(|mount| mount.point.clone()).collect();
    points.into_iter().collect()
}

/// The first process's program.
fn program(recording: &Recording) -> String {
    let first = recording.command_program();
    let given = recording.header.argv.first().map(|word| word.as_bytes());
    let path = first.map(|exec| recording.path(exec.path)).or(given).unwrap_or(b"the command");
    recording::shown(path.rsplit(|byte| *byte == b'/').next().unwrap_or(path))
}

impl ProjectionError {
    /// Why nothing of a recording is in these directories.
    pub fn elsewhere(recording: &Recording, looked_at: &[PathBuf]) -> ProjectionError {
        let mut below: FxHashMap<&[u8], u64> = FxHashMap::default();
        for event in recording.events.iter().filter(|event| event.is_metadata()) {
            let path = event.path.map_or(&b""[..], |path| recording.path(path));
            if path.starts_with(b"/") && !recording.is_answered_on_node(event, path) {
                let end = path.iter().skip(1).position(|byte| *byte == b'/');
                *below.entry(&path[..end.map_or(path.len(), |end| end + 1)]).or_default() += 1;
            }
        }
        let most = below.into_iter().max_by_key(|(directory, calls)| (*calls, *directory));
        let looked_at: Vec<_> = looked_at.iter().map(|root| root.display().to_string()).collect();
        match most {
            Some((most, _)) => ProjectionError::Elsewhere {
                elsewhere: recording.metadata_operations(),
                looked_at: looked_at.join(", "),
                most: term::quoted(OsStr::from_bytes(most)),
            },
            None => recording.cut.map_or(ProjectionError::Nothing, ProjectionError::Cut),
        }
    }
}
