//! A recording, looked at once: its metadata operations with their causes, and who owns them.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use recording::module_search::SysPath;
use recording::query::clean;
use recording::{
    Attribution, Attributor, Event, Exec, Kind, Name, PathId, ProcessId, Recording, Role,
};

use crate::findings::CauseCount;
use crate::source_path::SourcePath;
use crate::who;

/// One metadata operation.
#[derive(Clone, Copy)]
pub(crate) struct MetadataOp<'a> {
    /// The call.
    pub event: &'a Event,
    /// What kind of operation it is.
    pub kind: Kind,
    /// Why.
    pub why: Attribution,
    /// The program that made it.
    pub exec: Option<&'a Exec>,
    /// Its name.
    pub program: ProgramId,
    /// What kind of program that is.
    pub role: Role,
    /// The path without `..`; empty where the recorder could not read it.
    pub path: &'a [u8],
    /// Its number: the same for `/a/../b` and `/b`, unlike `event.path`.
    pub path_id: Option<PathId>,
}

impl<'a> MetadataOp<'a> {
    /// The process that made it.
    pub fn process(&self) -> ProcessId {
        self.event.process
    }

    /// Whether it is a failed lookup.
    pub fn is_enoent(&self) -> bool {
        self.event.is_missing()
    }

    /// Whether it succeeded.
    pub fn succeeded(&self) -> bool {
        !self.event.outcome.failed()
    }

    /// The path's directory and its last component; of `/` and of a bare name, an empty directory.
    pub fn split(&self) -> (&'a [u8], &'a [u8]) {
        split(self.path)
    }
}

/// A number of a [`MetadataOp`]: see [`OpSurvey::op`].
pub(crate) type OpId = u32;

/// A metadata operation without what its event, its program and the path tell: there may be a
/// million.
struct PackedOp {
    event: u32,
    /// In [`OpSurvey::programs`].
    program: u32,
    kind: Kind,
    why: Attribution,
}

/// A program that made operations.
#[derive(Clone, Copy)]
struct OpProgram<'a> {
    exec: Option<&'a Exec>,
    name: ProgramId,
    role: Role,
}

/// A program by its name: see [`OpSurvey::name`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ProgramId(usize);

/// The metadata operations of a recording. An operation has one owner: the first storm that
/// claims it.
pub(crate) struct OpSurvey<'a> {
    /// The recording.
    pub recording: &'a Recording,
    /// Its metadata operations, in the order in which they ended.
    ops: Vec<PackedOp>,
    programs: Vec<OpProgram<'a>>,
    /// The entries of `sys.path` that its Pythons searched.
    pub sys_path: SysPath,
    claimed: Vec<bool>,
    names: ProgramNames,
    paths: &'a CleanPaths,
}

impl<'a> OpSurvey<'a> {
    /// Looks at a recording whose paths are these.
    pub fn new(recording: &'a Recording, paths: &'a CleanPaths) -> OpSurvey<'a> {
        let mut attributor = Attributor::new(recording);
        let mut names = ProgramNames::default();
        let mut programs: Vec<OpProgram> = Vec::new();
        let mut numbers: HashMap<(Option<*const Exec>, Role), u32> = HashMap::new();
        let mut ops = Vec::with_capacity(recording.events.len());
        let events = recording.events.iter().enumerate();
        for (number, event) in events.filter(|(_, event)| event.is_metadata()) {
            let exec = attributor.program(event.process, event.start);
            let role = attributor.role(event.process, event.start);
            let next = programs.len() as u32;
            let program = *numbers.entry((exec.map(std::ptr::from_ref), role)).or_insert(next);
            if program == next {
                programs.push(OpProgram { exec, name: names.program(recording, exec), role });
            }
            let (event, kind, why) = (number as u32, event.kind(), attributor.attribute(event));
            ops.push(PackedOp { event, program, kind, why });
        }
        let claimed = vec![false; ops.len()];
        let sys_path = attributor.into_sys_path();
        OpSurvey { recording, ops, programs, sys_path, claimed, names, paths }
    }

    /// An operation.
    pub fn op(&self, id: OpId) -> MetadataOp<'a> {
        self.unpacked(&self.ops[id as usize])
    }

    /// All of them.
    pub fn ops(&self) -> impl Iterator<Item = MetadataOp<'a>> {
        self.ops_from(0)
    }

    /// All of them from that one on.
    pub fn ops_from(&self, id: OpId) -> impl Iterator<Item = MetadataOp<'a>> {
        let ops = self.ops.get(id as usize..).unwrap_or_default();
        ops.iter().map(|op| self.unpacked(op))
    }

    /// All of them with their numbers.
    pub fn numbered(&self) -> impl Iterator<Item = (OpId, MetadataOp<'a>)> {
        (0..).zip(self.ops())
    }

    /// The number of an operation in [`Recording::events`].
    pub fn event_of(&self, id: OpId) -> usize {
        self.ops[id as usize].event as usize
    }

    /// The numbers of operations in [`Recording::events`].
    pub fn events_of(&self, ops: &[OpId]) -> impl Iterator<Item = usize> {
        ops.iter().map(|id| self.event_of(*id))
    }

    fn unpacked(&self, op: &PackedOp) -> MetadataOp<'a> {
        let event = &self.recording.events[op.event as usize];
        let OpProgram { exec, name, role } = self.programs[op.program as usize];
        MetadataOp {
            event,
            kind: op.kind,
            why: op.why,
            exec,
            program: name,
            role,
            path: event.path.map_or(&[], |path| self.path(path)),
            path_id: event.path.map(|path| self.paths.id(path)),
        }
    }

    /// The bytes of a path, without `..`.
    pub fn path(&self, path: PathId) -> &'a [u8] {
        self.paths.get(self.recording, path)
    }

    /// The same as text to show.
    pub fn shown_path(&self, path: PathId) -> String {
        recording::shown(self.path(path))
    }

    /// A path as a source names it, as the recording has it.
    pub fn source_path(&self, path: PathId) -> SourcePath {
        SourcePath::of(self.recording, path)
    }

    /// The same without `..`.
    pub fn source_clean_path(&self, path: PathId) -> SourcePath {
        SourcePath { id: Some(path), name: self.name_of(self.path(path)) }
    }

    /// A path that may only stand in others: a directory above them, one that a variable names.
    pub fn source_directory(&self, path: &[u8]) -> SourcePath {
        let id = self.recording.paths().position(|known| known == path);
        SourcePath { id: id.map(|id| PathId(id as u32)), name: self.name_of(path) }
    }

    /// Bytes as a name.
    pub fn name_of(&self, bytes: &[u8]) -> Name {
        Name::of(OsStr::from_bytes(bytes))
    }

    /// What a person would call a program: `unpack.sh`.
    pub fn name(&self, program: ProgramId) -> &str {
        &self.names.names[program.0].0
    }

    /// The same with its interpreter: `unpack.sh (bash)`.
    pub fn full_name(&self, program: ProgramId) -> &str {
        &self.names.names[program.0].1
    }

    /// The operations that no storm has claimed yet.
    pub fn free(&self) -> impl Iterator<Item = (OpId, MetadataOp<'a>)> {
        let free = (0..).zip(&self.ops).filter(|(id, _)| !self.claimed[*id as usize]);
        free.map(|(id, op)| (id, self.unpacked(op)))
    }

    /// Gives operations to a storm.
    pub fn claim(&mut self, ops: &[OpId]) {
        for id in ops {
            self.claimed[*id as usize] = true;
        }
    }

    /// How many operations there are, claimed or not.
    pub fn total(&self) -> u64 {
        self.ops.len() as u64
    }

    /// How many of these operations are failed lookups.
    pub fn enoent(&self, ops: &[OpId]) -> u64 {
        ops.iter().filter(|id| self.op(**id).is_enoent()).count() as u64
    }

    /// How many distinct paths these operations named.
    pub fn distinct(&self, ops: &[OpId]) -> u64 {
        let paths: HashSet<_> = ops.iter().filter_map(|id| self.op(*id).path_id).collect();
        paths.len() as u64
    }

    /// These operations by cause, most first.
    pub fn causes(&self, ops: impl Iterator<Item = OpId>) -> Vec<CauseCount> {
        let mut counts = BTreeMap::new();
        for id in ops {
            let op = self.op(id);
            let cause = op.why.cause;
            let count =
                counts.entry(cause).or_insert(CauseCount { cause, metadata_ops: 0, enoent: 0 });
            count.metadata_ops += 1;
            count.enoent += u64::from(op.is_enoent());
        }
        let mut counts: Vec<_> = counts.into_values().collect();
        counts.sort_by_key(|count| std::cmp::Reverse(count.metadata_ops));
        counts
    }
}

/// The paths of a recording without `..`, `//` and the like (as text: a recording does not know
/// the symbolic links). `fts(3)` comes back from each directory by `..`.
pub(crate) struct CleanPaths {
    /// Those that had to be changed.
    cleaned: HashMap<PathId, Box<[u8]>>,
    /// Which these are.
    is_cleaned: Vec<bool>,
    /// Of each path, the first one that is the same.
    ids: Vec<PathId>,
}

impl CleanPaths {
    /// Cleans the paths of a recording.
    pub fn of(recording: &Recording) -> CleanPaths {
        let all = (0..recording.path_count()).map(|number| PathId(number as u32));
        let mut seen: HashMap<Cow<[u8]>, PathId> = HashMap::new();
        let mut paths =
            CleanPaths { cleaned: HashMap::new(), is_cleaned: Vec::new(), ids: Vec::new() };
        for id in all {
            let path = clean(recording.path(id));
            paths.is_cleaned.push(matches!(path, Cow::Owned(_)));
            if let Cow::Owned(cleaned) = &path {
                paths.cleaned.insert(id, cleaned.as_slice().into());
            }
            paths.ids.push(*seen.entry(path).or_insert(id));
        }
        paths
    }

    fn get<'a>(&'a self, recording: &'a Recording, id: PathId) -> &'a [u8] {
        // Nearly none is, and each operation asks.
        match self.is_cleaned.get(id.0 as usize) {
            Some(true) => self.cleaned.get(&id).map_or(b"", |path| path),
            _ => recording.path(id),
        }
    }

    fn id(&self, id: PathId) -> PathId {
        self.ids.get(id.0 as usize).copied().unwrap_or(id)
    }
}

/// The names of programs; each exec is named once.
#[derive(Default)]
struct ProgramNames {
    /// Short and full.
    names: Vec<(String, String)>,
    numbers: HashMap<(String, String), ProgramId>,
    execs: HashMap<Option<*const Exec>, ProgramId>,
}

impl ProgramNames {
    fn program(&mut self, recording: &Recording, exec: Option<&Exec>) -> ProgramId {
        let key = exec.map(std::ptr::from_ref);
        if let Some(program) = self.execs.get(&key) {
            return *program;
        }
        let names = match exec {
            Some(exec) => (who::name(recording, exec), who::full_name(recording, exec)),
            None => ("a process".to_owned(), "a process".to_owned()),
        };
        let program = *self.numbers.entry(names).or_insert_with_key(|names| {
            self.names.push(names.clone());
            ProgramId(self.names.len() - 1)
        });
        self.execs.insert(key, program);
        program
    }
}

/// A path's directory and its last component. `/a/b` is `/a` and `b`; `/a` is `/` and `a`.
pub(crate) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(0) => (&path[..1.min(path.len())], &path[1..]),
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (&[], path),
    }
}

/// The value of an environment variable at exec, if the recording has it.
pub(crate) fn variable<'a>(exec: &'a Exec, name: &str) -> Option<&'a str> {
    exec.env.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_takes_12_bytes() {
        assert_eq!(size_of::<PackedOp>(), 12);
    }
}
