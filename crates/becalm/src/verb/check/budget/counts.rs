//! What two starts of a command are compared by: counts alone, which are the same each time.
//!
//! What differs between two starts that do the same is left out, or has a name that stands for all:
//! times, what the kernel tells of itself ([`KERNELS`]), and the names of directories that the start
//! makes itself (`mkdtemp`). What the loader looks for by type of processor (`glibc-hwcaps`)
//! is counted with the directory that this lies in.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use recording::query::{CallFilter, GroupBy, clean, program_name, table};
use recording::{Attributor, Cause, Kind, LetGoReason, Name, Nanos, Outcome, Recording};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Rows of each kind that JSON has at most: those with the highest numbers.
const MOST_ROWS: usize = 1000;

/// The counts of a start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StartCounts {
    /// What ended the watching: the command's `end`, or why it was let go of.
    pub until: String,
    /// Distinct paths that metadata operations named.
    pub distinct: u64,
    /// The counts, by what they are of, the highest first.
    pub rows: Vec<CountRow>,
}

/// How many of something a start has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CountRow {
    /// What it is, and of what.
    #[serde(flatten)]
    pub of: Counted,
    /// Metadata operations; of a search list, its directories; of a program, its processes.
    pub number: u64,
    /// Of the operations, failed lookups.
    pub failed: u64,
}

/// What is counted together.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct Counted {
    /// What kind of thing.
    pub what: CountedKind,
    /// Of a cause, and of a directory that was looked in for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// The name of all but a cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Name>,
}

/// A kind of thing that is counted.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum CountedKind {
    /// Operations of a cause.
    Cause,
    /// Operations in a directory, for a cause.
    Directory,
    /// Operations for a library that the loader looked for.
    Library,
    /// Directories in a file's RPATH.
    Rpath,
    /// Directories in a file's RUNPATH.
    Runpath,
    /// Processes that ended as a program.
    Program,
}

impl StartCounts {
    /// All counts of a recording.
    pub fn of(recording: &Recording) -> StartCounts {
        let mut rows = Vec::new();
        let distinct = operations(recording, &mut rows);
        libraries(recording, &mut rows);
        search_lists(recording, &mut rows);
        programs(recording, &mut rows);
        rows.sort_by(|one, other| {
            let key = |row: &CountRow| (row.of.what, std::cmp::Reverse((row.number, row.failed)));
            key(one).cmp(&key(other)).then_with(|| one.of.cmp(&other.of))
        });
        StartCounts { until: until(recording).to_owned(), distinct, rows }
    }

    /// Those that JSON has.
    pub fn bounded(mut self) -> StartCounts {
        let mut seen: HashMap<CountedKind, usize> = HashMap::new();
        self.rows.retain(|row| {
            let seen = seen.entry(row.of.what).or_default();
            *seen += 1;
            *seen <= MOST_ROWS
        });
        self
    }

    /// The most that something which has no row of its own may have: rows beyond the bound are
    /// left out.
    pub fn most_of_unlisted(&self, what: CountedKind) -> u64 {
        let mut of_kind = self.rows.iter().filter(|row| row.of.what == what);
        of_kind.nth(MOST_ROWS - 1).map_or(0, |last| last.number)
    }

    /// What all causes have together.
    pub fn of_all(&self) -> (u64, u64) {
        let all = Cause::ALL.map(|cause| self.of_cause(cause));
        all.into_iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    /// What a cause has.
    pub fn of_cause(&self, cause: Cause) -> (u64, u64) {
        let of = |row: &&CountRow| row.of.what == CountedKind::Cause && row.of.cause == Some(cause);
        self.rows.iter().find(of).map_or((0, 0), |row| (row.number, row.failed))
    }
}

/// What ended the watching.
fn until(recording: &Recording) -> &'static str {
    let Some(let_go) = recording.let_go() else { return "end" };
    match let_go.why {
        LetGoReason::MpiInit => "mpi_init",
        LetGoReason::Quiet { .. } => "quiet",
        LetGoReason::Passed { .. } => "passed",
        LetGoReason::Exec { .. } => "exec",
        LetGoReason::Open { .. } => "open",
        LetGoReason::Asked => "asked",
    }
}

/// Where the kernel tells of itself, from memory: a program that runs for a while looks there from time
/// to time (a JVM at its control group), as often as time lets it.
const KERNELS: [&[u8]; 2] = [b"/proc", b"/sys"];

/// Whether a path lies there.
pub fn is_kernels(path: &[u8]) -> bool {
    KERNELS.iter().any(|top| {
        path.strip_prefix(*top).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
    })
}

/// Operations by cause, and by directory; how many distinct paths they named.
fn operations(recording: &Recording, rows: &mut Vec<CountRow>) -> u64 {
    let made = MadeDirectories::of(recording);
    let mut numbers: HashMap<Cow<[u8]>, u32> = HashMap::new();
    let mut names = Vec::new();
    // Of each path, the number of its directory; of a listing, that of itself.
    let mut number = |directory: Cow<'_, [u8]>| {
        let next = numbers.len() as u32;
        *numbers.entry(Cow::Owned(directory.into_owned())).or_insert_with_key(|directory| {
            names.push(directory.clone());
            next
        })
    };
    let paths: Vec<_> = recording.paths().map(|path| made.steady(path)).collect();
    let above: Vec<u32> = paths.iter().map(|path| number(parent(path).into())).collect();
    let itself: HashMap<u32, u32> = (recording.events.iter())
        .filter(|event| event.kind() == Kind::List)
        .filter_map(|event| event.path)
        .map(|path| (path.0, number(paths[path.0 as usize].clone())))
        .collect();
    let mut attributor = Attributor::new(recording);
    let mut counts: HashMap<(Cause, Option<u32>), [u64; 2]> = HashMap::new();
    let mut distinct = HashSet::new();
    for event in recording.events.iter().filter(|event| event.is_metadata()) {
        let path = event.path.map(|path| clean(recording.path(path)));
        if path.as_deref().is_some_and(is_kernels) {
            continue;
        }
        distinct.extend(path);
        let cause = attributor.attribute(event).cause;
        let listed = |path: u32| itself.get(&path).filter(|_| event.kind() == Kind::List).copied();
        let directory =
            event.path.map(|path| listed(path.0).unwrap_or_else(|| above[path.0 as usize]));
        for key in [Some((cause, None)), directory.map(|directory| (cause, Some(directory)))] {
            let Some(key) = key else { continue };
            let [number, failed] = counts.entry(key).or_default();
            *number += 1;
            *failed += u64::from(event.is_missing());
        }
    }
    rows.extend(counts.into_iter().map(|((cause, directory), [number, failed])| {
        let name = directory.map(|directory| name_of(&names[directory as usize]));
        let what = if name.is_some() { CountedKind::Directory } else { CountedKind::Cause };
        CountRow { of: Counted { what, cause: Some(cause), name }, number, failed }
    }));
    distinct.len() as u64
}

fn libraries(recording: &Recording, rows: &mut Vec<CountRow>) {
    let libraries = table(recording, GroupBy::Library, &CallFilter::default());
    rows.extend(libraries.rows.into_iter().filter(|row| row.metadata_ops > 0).map(|row| {
        let of = named(CountedKind::Library, &row.raw_key);
        CountRow { of, number: row.metadata_ops, failed: row.enoent }
    }));
}

fn search_lists(recording: &Recording, rows: &mut Vec<CountRow>) {
    for (path, elf) in &recording.images {
        let lists = [(CountedKind::Rpath, &elf.rpath), (CountedKind::Runpath, &elf.runpath)];
        for (what, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
            let of = named(what, &clean(recording.path(*path)));
            rows.push(CountRow { of, number: list.len() as u64, failed: 0 });
        }
    }
}

fn programs(recording: &Recording, rows: &mut Vec<CountRow>) {
    let mut counts: HashMap<Vec<u8>, u64> = HashMap::new();
    for process in &recording.processes {
        let exec = recording.program(process.id, Nanos(u64::MAX));
        let program = exec.map(|exec| program_name(recording, exec));
        *counts.entry(program.unwrap_or_default()).or_default() += 1;
    }
    rows.extend(counts.into_iter().map(|(program, number)| CountRow {
        of: named(CountedKind::Program, &program),
        number,
        failed: 0,
    }));
}

fn named(what: CountedKind, name: &[u8]) -> Counted {
    Counted { what, cause: None, name: Some(name_of(name)) }
}

fn name_of(bytes: &[u8]) -> Name {
    Name::of(OsStr::from_bytes(bytes))
}

/// Directories that the loader looks in by type of processor, below each that it is told of: those of
/// glibc up to 2.36 beside `glibc-hwcaps` (its sysdeps/**/dl-procinfo.h and elf/dl-hwcaps.c).
#[rustfmt::skip]
const BY_PROCESSOR: [&[u8]; 9] = [
    b"tls", b"x86_64", b"haswell", b"xeon_phi", b"avx512_1", b"aarch64", b"cpuid", b"atomics",
    b"glibc-hwcaps",
];

/// The directory that a path lies in, where those by type of processor count as what they lie in.
fn parent(path: &[u8]) -> &[u8] {
    const HWCAPS: &[u8] = b"/glibc-hwcaps/";
    let hwcaps = path.windows(HWCAPS.len()).position(|part| part == HWCAPS);
    let mut above = match hwcaps.or_else(|| path.iter().rposition(|byte| *byte == b'/')) {
        Some(0) => return b"/",
        Some(at) => &path[..at],
        None => return b"",
    };
    while let Some(at) = above.iter().rposition(|byte| *byte == b'/').filter(|at| *at > 0) {
        if !BY_PROCESSOR.contains(&&above[at + 1..]) {
            break;
        }
        above = &above[..at];
    }
    above
}

/// The directories that a start makes itself: their names may be others the next time.
struct MadeDirectories<'a>(BTreeSet<Cow<'a, [u8]>>);

impl<'a> MadeDirectories<'a> {
    fn of(recording: &'a Recording) -> MadeDirectories<'a> {
        let made = recording.events.iter().filter(|event| {
            matches!(event.call.known_name(), Some("mkdir" | "mkdirat"))
                && event.outcome == Outcome::Returned(0)
        });
        MadeDirectories(made.filter_map(|event| Some(clean(recording.path(event.path?)))).collect())
    }

    /// A path by a name that is the same each time: `*` stands for what may be another.
    fn steady<'p>(&self, path: &'p [u8]) -> Cow<'p, [u8]> {
        let path = clean(path);
        if self.0.is_empty() {
            return path;
        }
        let (mut steady, mut end) = (Vec::with_capacity(path.len()), 0);
        for (at, part) in path.split(|byte| *byte == b'/').enumerate() {
            if at > 0 {
                steady.push(b'/');
            }
            end += usize::from(at > 0) + part.len();
            match self.0.contains(&path[..end]) {
                true => steady.push(b'*'),
                false => steady.extend_from_slice(part),
            }
        }
        Cow::Owned(steady)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use recording::ExitStatus;
    use testkit::made::{Made, ask};

    #[test]
    fn directories_by_type_of_processor_count_as_what_they_lie_in() {
        for (path, directory) in [
            ("/opt/a/lib/libm.so.6", "/opt/a/lib"),
            ("/opt/a/lib/glibc-hwcaps/x86-64-v3/libm.so.6", "/opt/a/lib"),
            ("/opt/a/lib/tls/haswell/x86_64/libm.so.6", "/opt/a/lib"),
            ("/opt/a/lib/tls/aarch64/cpuid/libm.so.6", "/opt/a/lib"),
            ("/opt/a/lib/tls", "/opt/a/lib"),
            ("/tls", "/"),
            ("name", ""),
        ] {
            assert_eq!(parent(path.as_bytes()), directory.as_bytes(), "{path}");
        }
    }

    #[test]
    fn what_has_another_name_each_time_is_counted_under_one() {
        let counts = |times: u32, made: &str| {
            let mut start = Made::new();
            let command = start.command("/opt/app/bin/app");
            for _ in 0..times {
                start.call(command, ask("openat", "/sys/fs/cgroup/memory.max"));
            }
            start.call(command, ask("openat", "/system"));
            start.call(command, ask("mkdir", made));
            start.call(command, ask("openat", &format!("{made}/deep/file")).missing());
            start.end(command, ExitStatus::Exited(0));
            StartCounts::of(&start.recording())
        };
        let counted = counts(1, "/tmp/tmpa1b2");
        assert_eq!(counted, counts(9, "/tmp/tmpzzzz"));
        assert_eq!((counted.of_all(), counted.distinct), ((3, 1), 3));
        let names: Vec<_> = counted.rows.iter().filter_map(|row| row.of.name.as_ref()).collect();
        let has = |name: &str| names.iter().any(|known| known.to_string() == name);
        assert!(has("/") && has("/tmp/*/deep") && has("/tmp"), "{names:?}");
    }

    #[test]
    fn what_is_not_in_a_list_that_was_cut_had_at_most_as_many_as_its_last() {
        let mut start = Made::new();
        let command = start.command("/opt/app/bin/app");
        for directory in 0..=MOST_ROWS {
            let file = format!("/d/{directory:04}/x");
            start.call(command, ask("stat", &file));
            start.call(command, ask("stat", &file));
        }
        start.end(command, ExitStatus::Exited(0));
        let all = StartCounts::of(&start.recording());
        let what = CountedKind::Directory;
        let of_kind =
            |counts: &StartCounts| counts.rows.iter().filter(|row| row.of.what == what).count();
        let bounded = all.clone().bounded();
        assert_eq!((of_kind(&bounded), bounded.most_of_unlisted(what)), (MOST_ROWS, 2));
        assert_eq!(bounded.most_of_unlisted(CountedKind::Library), 0);
    }
}
