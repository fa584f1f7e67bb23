//! What each call, and each touch of a mapped file, fetches to a node.

use std::iter::Peekable;
use std::vec::IntoIter;

use recording::query::data::{self, DataAccess};
use recording::{
    Event, Exec, Kind as CallKind, Mount, Nanos, Outcome, PathId, ProcessId, Recording,
};
use rustc_hash::FxHashMap;

use crate::shared_directories::SharedPaths;
use crate::start_steps::StepData;
use crate::unwatched::UnwatchedBytes;

/// No call reads more (read(2)).
const MOST_READ: u64 = 0x7fff_f000;

/// How many bytes each read fetches to a node: what a process reads of a file beyond what any
/// has read of it. (A file's pages stay on the node.)
pub(crate) struct FetchedBytes<'s, 'a> {
    recording: &'a Recording,
    shared: &'s SharedPaths,
    /// By what was mounted, and the file.
    origins: FxHashMap<(usize, PathId), FileOrigin>,
    read: FxHashMap<(PathId, ProcessId), u64>,
    there: FxHashMap<PathId, u64>,
    unwatched: Option<UnwatchedBytes>,
}

impl<'s, 'a> FetchedBytes<'s, 'a> {
    /// A node that has nothing.
    pub(crate) fn of(recording: &'a Recording, shared: &'s SharedPaths) -> FetchedBytes<'s, 'a> {
        FetchedBytes {
            recording,
            shared,
            origins: FxHashMap::default(),
            read: FxHashMap::default(),
            there: FxHashMap::default(),
            unwatched: UnwatchedBytes::of(recording),
        }
    }

    /// What the next call fetches.
    pub(crate) fn of_call(&mut self, event: &Event) -> StepData<'a> {
        let read = match (&mut self.unwatched, event.kind(), event.outcome) {
            (Some(unwatched), ..) => unwatched.of_open(event),
            (None, CallKind::Read, Outcome::Returned(bytes @ 1..)) => {
                event.path.map(|path| (path, bytes as u64))
            }
            _ => None,
        };
        let Some((path, bytes)) = read else { return StepData::default() };
        let found =
            || FileOrigin::of(self.recording, self.shared, event, self.recording.path(path));
        let origin = (self.recording.mount_table(event), path);
        let origin = *self.origins.entry(origin).or_insert_with(found);
        if origin == FileOrigin::Node {
            return StepData::default();
        }
        let own = self.read.entry((path, event.process)).or_default();
        *own += bytes.min(MOST_READ);
        let there = self.there.entry(path).or_default();
        let is_first = *there == 0 && origin == FileOrigin::Server;
        let bytes = own.saturating_sub(*there);
        *there += bytes;
        let image_bytes = if origin == FileOrigin::Image { bytes } else { 0 };
        let read = is_first.then(|| self.recording.path(path)).into_iter().collect();
        StepData { bytes, image_bytes, read, touched_to: 0 }
    }
}

/// The touches of what the server itself has. Those of an image are bytes that its file is read
/// for, as reads of it are.
pub(crate) struct FirstTouches<'s, 'a> {
    recording: &'a Recording,
    shared: &'s SharedPaths,
    left: Peekable<IntoIter<DataAccess>>,
    /// What a process sees mounted is asked of its last call.
    last: FxHashMap<ProcessId, &'a Event>,
    /// Those that were made so far.
    pub(crate) list: Vec<DataAccess>,
}

impl<'s, 'a> FirstTouches<'s, 'a> {
    /// Before the first call.
    pub(crate) fn of(recording: &'a Recording, shared: &'s SharedPaths) -> FirstTouches<'s, 'a> {
        // becalm's own program is on the node, or is asked for once by all that it launches.
        let is_own = |touch: &DataAccess| {
            recording.program(touch.process, touch.at).is_some_and(Exec::is_becalm_run)
        };
        let all: Vec<_> = data::touches(recording).into_iter().filter(|it| !is_own(it)).collect();
        let left = all.into_iter().peekable();
        FirstTouches { recording, shared, left, last: FxHashMap::default(), list: Vec::new() }
    }

    /// Takes in those that are made before the next call begins, if there is one, and after this one.
    /// How many bytes of images that reads.
    pub(crate) fn until(&mut self, next: Option<Nanos>, event: &'a Event) -> u64 {
        self.last.insert(event.process, event);
        let mut bytes = 0;
        while let Some(touch) = self.left.next_if(|touch| next.is_none_or(|next| touch.at < next)) {
            let by = self.last.get(&touch.process).copied().unwrap_or(event);
            let path = self.recording.path(touch.path);
            match FileOrigin::of(self.recording, self.shared, by, path) {
                FileOrigin::Server => self.list.push(touch),
                FileOrigin::Image => bytes += touch.range.bytes,
                FileOrigin::Node => {}
            }
        }
        bytes
    }
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
