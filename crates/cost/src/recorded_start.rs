//! What one rank does at its start: computes, looks paths up, reads, in order.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use recording::query::data::{self, DataAccess};
use recording::{
    Event, Exec, Kind as CallKind, Mount, Nanos, Outcome, PathId, ProcessId, Recording,
};
use rustc_hash::FxHashMap;

use crate::missing_component::PathEvidence;
use crate::shared_directories::{SharedChoice, SharedPaths};
use crate::unwatched::UnwatchedBytes;
use crate::{ComputeSource, PathRequest, RequestKind, SharedDirectories, compute};

/// What one rank does at its start.
#[derive(Clone)]
pub struct RecordedStart<'a> {
    /// Where that was recorded.
    pub recording: &'a Recording,
    /// What the command is: `python3`.
    pub program: String,
    /// In order.
    pub(crate) steps: Vec<StartStep<'a>>,
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

/// A call on the shared filesystem, what is computed before it and read after it.
#[derive(Clone)]
pub(crate) struct StartStep<'a> {
    /// The call, in [`Recording::events`].
    pub(crate) event: usize,
    pub(crate) think: Nanos,
    /// Whether it is one of many that are sent at once: one of `becalm run`'s looks.
    pub(crate) is_at_once: bool,
    pub(crate) request: PathRequest<'a>,
    /// Bytes of files that one node has to fetch.
    pub(crate) bytes: u64,
    /// Files of which they are the first.
    pub(crate) read: Vec<&'a [u8]>,
    /// How many of [`RecordedStart::touches`] there are until the next call.
    pub(crate) touched_to: usize,
}

/// Whether a call is made by one of the threads in which `becalm run` looks at what may have
/// changed: by none but those of a process's threads that are not its first.
fn is_at_once(recording: &Recording, event: &Event) -> bool {
    recording.process(event.process).pid != event.thread
        && recording.program(event.process, event.start).is_some_and(Exec::is_becalm_run)
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
        let mut order: Vec<usize> = (0..recording.events.len()).collect();
        order.sort_by_key(|event| recording.events[*event].start);
        let requests = requests(recording, &order);
        let mut start = RecordedStart {
            recording,
            program: program(recording),
            steps: Vec::new(),
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
        start.fill(&requests, &order);
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

    /// `requests` are with the places of their calls in `order`.
    fn fill(&mut self, requests: &[(usize, PathRequest<'a>)], order: &[usize]) {
        let recording = self.recording;
        let gaps = compute::gaps(recording, order);
        let mut data = fetched(recording, order, &self.shared_paths);
        self.touches = touched(recording, order, &self.shared_paths, &mut data);
        let evidence = PathEvidence::of(requests.iter().map(|(_, request)| *request));
        // What an open itself stands for is read after it.
        let (mut think, mut done, mut read) = (0.0, 0, 0);
        let mut counted = None;
        for (place, request) in requests {
            let event = &recording.events[order[*place]];
            let contains = |path| self.shared_paths.contain(recording, event, path);
            let is_shared = contains(request.path) || request.other_path.is_some_and(contains);
            if !is_shared {
                continue;
            }
            think += gaps[done..=*place].iter().sum::<f64>();
            self.read(&data[read..*place]);
            (done, read) = (*place + 1, *place);
            // What the kernel opens at an exec takes RPCs, and is no call.
            self.metadata_ops += u64::from(counted.replace(*place) != Some(*place));
            let request = evidence.cut(*request);
            let event = order[*place];
            let think_time = Nanos(think as u64);
            let is_at_once = is_at_once(recording, &recording.events[event]);
            let read = Vec::new();
            self.steps.push(StartStep {
                event,
                think: think_time,
                is_at_once,
                request,
                bytes: 0,
                read,
                touched_to: 0,
            });
            think = 0.0;
        }
        self.read(&data[read..]);
        self.rest = Nanos((think + gaps[done..].iter().sum::<f64>()) as u64);
    }

    /// Reads so much after the last step so far.
    fn read(&mut self, fetched: &[FetchedData<'a>]) {
        if let Some(step) = self.steps.last_mut() {
            step.bytes += fetched.iter().map(|data| data.bytes).sum::<u64>();
            step.read.extend(fetched.iter().filter_map(|data| data.begun));
            step.touched_to = fetched.last().map_or(step.touched_to, |data| data.touched_to);
        }
    }

    /// Spreads this compute time as the recorded one is spread; evenly, if there is none.
    fn set_compute_time(&mut self, total: Nanos) {
        let recorded = self.compute_time().0 as f64;
        let even = total.0 / (self.steps.len() as u64 + 1);
        let scaled = |think: Nanos| match recorded {
            0.0 => Nanos(even),
            recorded => Nanos((think.0 as f64 * total.0 as f64 / recorded) as u64),
        };
        self.steps.iter_mut().for_each(|step| step.think = scaled(step.think));
        self.rest = scaled(self.rest);
        self.compute = ComputeSource::Given;
    }

    /// The same without these calls: what is computed before them, and read after them, stays.
    pub(crate) fn without(&self, events: &HashSet<usize>) -> RecordedStart<'a> {
        let mut left = RecordedStart { steps: Vec::new(), ..self.clone() };
        let mut think = Nanos(0);
        let (mut bytes, mut read) = (0, Vec::new());
        for step in &self.steps {
            think += step.think;
            if !events.contains(&step.event) {
                let think = std::mem::take(&mut think);
                left.steps.push(StartStep { think, bytes: 0, read: Vec::new(), ..*step });
            }
            bytes += step.bytes;
            read.extend_from_slice(&step.read);
            if let Some(last) = left.steps.last_mut() {
                last.touched_to = step.touched_to;
                last.bytes += std::mem::take(&mut bytes);
                last.read.append(&mut read);
            }
        }
        left.rest += think;
        left
    }

    /// The same where all that is touched of mapped files is read before, one part after the other.
    pub(crate) fn reading_ahead(&self) -> RecordedStart<'a> {
        RecordedStart { reads_ahead: true, ..self.clone() }
    }

    /// How long a rank computes.
    pub fn compute_time(&self) -> Nanos {
        self.steps.iter().map(|step| step.think).sum::<Nanos>() + self.rest
    }

    /// How many bytes a node fetches.
    pub fn bytes(&self) -> u64 {
        self.steps.iter().map(|step| step.bytes).sum()
    }
}

/// What each metadata operation wants, with the place of its event in `order`.
fn requests<'a>(recording: &'a Recording, order: &[usize]) -> Vec<(usize, PathRequest<'a>)> {
    let path = |id: Option<PathId>| id.map(|id| recording.path(id));
    let mut requests = Vec::new();
    let events = order.iter().map(|event| &recording.events[*event]).enumerate();
    for (place, event) in events.filter(|(_, event)| event.is_metadata()) {
        let Some(first) = path(event.path) else { continue };
        let Some(request) = PathRequest::of(event, first, path(event.other_path)) else { continue };
        requests.push((place, request));
        if event.kind() == CallKind::Exec && !event.outcome.failed() {
            let opened = opened_by_kernel(recording, event);
            requests.extend(opened.map(|request| (place, request)));
        }
    }
    requests
}

/// What the kernel itself opens at an exec (execve(2)): a script's interpreter, and the loader.
fn opened_by_kernel<'a>(
    recording: &'a Recording,
    event: &Event,
) -> impl Iterator<Item = PathRequest<'a>> {
    let execs = &recording.process(event.process).execs;
    let exec = execs.iter().find(|exec| exec.at >= event.start);
    let image = exec.filter(|exec| exec.image != exec.path).map(|exec| exec.image);
    let loader = exec.and_then(|exec| exec.loader);
    image.into_iter().chain(loader).map(|path| PathRequest {
        kind: RequestKind::Open,
        path: recording.path(path),
        enoent: false,
        other_path: None,
    })
}

/// No call reads more (read(2)).
const MOST_READ: u64 = 0x7fff_f000;

/// What one read fetches to a node.
#[derive(Clone, Copy, Default)]
struct FetchedData<'a> {
    bytes: u64,
    /// The file, if nothing of it was fetched before.
    begun: Option<&'a [u8]>,
    /// How many of the touches that count were made until the next call.
    touched_to: usize,
}

/// How many bytes each read fetches to a node: what a process reads of a file beyond what any
/// has read of it. (A file's pages stay on the node.)
fn fetched<'a>(
    recording: &'a Recording,
    order: &[usize],
    shared: &SharedPaths,
) -> Vec<FetchedData<'a>> {
    let mut known: FxHashMap<(usize, PathId), FileOrigin> = FxHashMap::default();
    let mut origin = |event: &Event, id: PathId| {
        let found = || FileOrigin::of(recording, shared, event, recording.path(id));
        *known.entry((recording.mount_table(event), id)).or_insert_with(found)
    };
    let mut read: FxHashMap<(PathId, ProcessId), u64> = FxHashMap::default();
    let mut there: FxHashMap<PathId, u64> = FxHashMap::default();
    let mut unwatched = UnwatchedBytes::of(recording);
    let mut read_by = |event: &Event| match (&mut unwatched, event.kind(), event.outcome) {
        (Some(unwatched), ..) => unwatched.of_open(event),
        (None, CallKind::Read, Outcome::Returned(bytes @ 1..)) => Some((event.path?, bytes as u64)),
        _ => None,
    };
    let fetched = |event: &usize| {
        let event = &recording.events[*event];
        match read_by(event) {
            Some((path, bytes)) => {
                let origin = origin(event, path);
                if origin == FileOrigin::Node {
                    return FetchedData::default();
                }
                let own = read.entry((path, event.process)).or_default();
                *own += bytes.min(MOST_READ);
                let there = there.entry(path).or_default();
                let is_first = *there == 0 && origin == FileOrigin::Server;
                let begun = is_first.then(|| recording.path(path));
                let bytes = own.saturating_sub(*there);
                *there += bytes;
                FetchedData { bytes, begun, touched_to: 0 }
            }
            _ => FetchedData::default(),
        }
    };
    order.iter().map(fetched).collect()
}

/// The touches of what the server itself has. Those of an image are bytes that its file is read
/// for, as reads of it are.
fn touched(
    recording: &Recording,
    order: &[usize],
    shared: &SharedPaths,
    data: &mut [FetchedData],
) -> Vec<DataAccess> {
    let mut touches = Vec::new();
    let mut left = data::touches(recording).into_iter().peekable();
    // What a process sees mounted is asked of its last call.
    let mut last: FxHashMap<ProcessId, &Event> = FxHashMap::default();
    for (place, event) in order.iter().map(|event| &recording.events[*event]).enumerate() {
        last.insert(event.process, event);
        let until = order.get(place + 1).map(|next| recording.events[*next].start);
        while let Some(touch) = left.next_if(|touch| until.is_none_or(|until| touch.at < until)) {
            let by = last.get(&touch.process).copied().unwrap_or(event);
            match FileOrigin::of(recording, shared, by, recording.path(touch.path)) {
                FileOrigin::Server => touches.push(touch),
                FileOrigin::Image => data[place].bytes += touch.range.bytes,
                FileOrigin::Node => {}
            }
        }
        data[place].touched_to = touches.len();
    }
    touches
}

/// Where what is read comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FileOrigin {
    /// The shared filesystem.
    Server,
    /// An image, and so its file on the shared filesystem, once: whoever serves it maps that.
    Image,
    /// The node itself.
    Node,
}

impl FileOrigin {
    fn of(recording: &Recording, shared: &SharedPaths, event: &Event, path: &[u8]) -> FileOrigin {
        let is_image = || recording.mount_of(event, path).is_some_and(Mount::is_image);
        match shared.contain(recording, event, path) {
            true => FileOrigin::Server,
            false if is_image() => FileOrigin::Image,
            false => FileOrigin::Node,
        }
    }
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
            None => ProjectionError::Nothing,
        }
    }
}
