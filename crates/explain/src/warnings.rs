//! What the reader must know before believing the numbers.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use cost::ProjectionError;
use recording::{Blind, LetGo, ProcessId, Recording};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cost::RunWait;
use crate::findings::RunWarning;
use crate::who;
use crate::words::{count, counted, listed};

/// The most names that are spelt out in one warning.
const NAMES: usize = 3;

/// What a warning is about.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum WarningKind {
    /// The recording is cut: all counts are lower bounds.
    Cut,
    /// The command was let go of when its start was over.
    LetGo,
    /// Processes still ran when the recording ended.
    Running,
    /// It ran already when the recording began.
    Joined,
    /// io_uring opens files without a system call.
    IoUring,
    /// Calls on descriptors were lost.
    Lost,
    /// A process moved to another root or mount namespace.
    OtherRoot,
    /// becalm itself ran under a seccomp filter.
    OuterFilter,
    /// A process installed a seccomp filter of its own.
    OwnFilter,
    /// The kernel refused what it takes to follow a process.
    RequestFailed,
    /// Page faults could not be watched.
    FaultsUnseen,
    /// Page faults came faster than they could be written down.
    FaultsLost,
    /// A program gets privileges when it is executed, and under a tracer does not.
    Setuid,
    /// A process was refused to trace another one.
    TracerRefused,
    /// A process could not be read.
    Unreadable,
    /// The command changed its mounts on the way.
    MountsChanged,
    /// None of it was in the directories that were named.
    NothingBelow,
    /// A considerable part of it is on no filesystem that is taken for shared.
    LeftOut,
    /// The recording could not be kept as the last one.
    NotKept,
    /// The command failed.
    Failed,
}

/// The warnings of a recording, what invalidates most first.
pub fn warnings(recording: &Recording) -> Vec<RunWarning> {
    let mut warnings = Vec::new();
    if let Some(why) = recording.cut {
        let text = format!("the recording is cut ({why}): all counts are lower bounds");
        warnings.push(RunWarning { kind: WarningKind::Cut, text });
    }
    warnings.extend(joined(recording));
    warnings.extend(blinds(recording));
    warnings.extend(mounts_changed(recording));
    warnings.extend(running(recording));
    warnings.extend(failed(recording));
    warnings
}

/// The same with what the predicted wait does not hold.
pub(crate) fn of_run(recording: &Recording, wait: &RunWait, still_running: u64) -> Vec<RunWarning> {
    let mut warnings = warnings_of_run(recording, still_running);
    let is_running = usize::from(still_running > 0);
    warnings.splice(is_running..is_running, of_wait(recording, wait));
    warnings
}

/// The same as [`warnings`] for a recording that is still being made, because the command left so many
/// processes behind.
pub fn warnings_of_run(recording: &Recording, still_running: u64) -> Vec<RunWarning> {
    let mut warnings = warnings(recording);
    if still_running > 0 {
        warnings.retain(|warning| warning.kind != WarningKind::Cut);
        let text = format!(
            "the command has ended, {} of its processes still {}: what is done there from now on is \
             not counted",
            count(still_running),
            if still_running == 1 { "runs" } else { "run" }
        );
        warnings.insert(0, RunWarning { kind: WarningKind::Running, text });
    }
    warnings
}

/// What the predicted wait does not hold. That the mounts changed is said already.
fn of_wait(recording: &Recording, wait: &RunWait) -> Option<RunWarning> {
    if let Some(why) = &wait.refused {
        let is_below = matches!(why, ProjectionError::Elsewhere { .. });
        let kind = WarningKind::NothingBelow;
        return is_below.then(|| RunWarning { kind, text: why.to_string() });
    }
    let left = wait.left_out.as_ref()?;
    let why = match left.in_memory * 2 > left.operations {
        true => "the kernel serves them from memory here",
        false => "they were on nothing that is taken for shared",
    };
    let text = format!(
        "{} of {} metadata operations are in no predicted wait, as {why}; to count most of them: \
         --below {}",
        count(left.operations),
        count(recording.metadata_operations()),
        term::quoted(&left.directory),
    );
    Some(RunWarning { kind: WarningKind::LeftOut, text })
}

/// Blind spots as a verb says them that has no recording at hand to name the programs.
pub fn said(blinds: &[Blind]) -> Vec<String> {
    let line = |blind: &Blind| {
        let (_, text, _) = describe(blind);
        match blind {
            Blind::OuterFilter | Blind::Lost { .. } | Blind::FaultsLost { .. } => text.to_owned(),
            Blind::Setuid { path, .. } => format!("{} {text}", recording::shown(path.as_bytes())),
            _ => format!("a process of the command {text}"),
        }
    };
    blinds.iter().map(line).collect::<BTreeSet<_>>().into_iter().collect()
}

/// One warning for each kind of blind spot, with the programs it concerns.
fn blinds(recording: &Recording) -> Vec<RunWarning> {
    let mut kinds: BTreeMap<WarningKind, (&str, BTreeSet<String>)> = BTreeMap::new();
    let distinct: HashSet<&Blind> = recording.blinds.iter().collect();
    for blind in distinct {
        let (kind, text, process) = describe(blind);
        if matches!(blind, Blind::OtherRoot { process } if recording.keeps_its_root(*process)) {
            // Its paths are what they are outside, and what is mounted there is known.
            continue;
        }
        let (_, names) = kinds.entry(kind).or_insert((text, BTreeSet::new()));
        match blind {
            Blind::Setuid { path, .. } => names.insert(recording::shown(path.as_bytes())),
            _ => process.is_some_and(|process| names.insert(program(recording, process))),
        };
    }
    kinds
        .into_iter()
        .map(|(kind, (text, names))| {
            let names = shorten(names.into_iter().collect());
            let text = if names.is_empty() { text.to_owned() } else { format!("{names} {text}") };
            RunWarning { kind, text }
        })
        .collect()
}

/// A blind spot's kind, what it means after the name of the program, and the process.
fn describe(blind: &Blind) -> (WarningKind, &'static str, Option<ProcessId>) {
    match blind {
        Blind::IoUring { process } => (
            WarningKind::IoUring,
            "used io_uring: files opened through the ring pass no system call and are not counted",
            Some(*process),
        ),
        Blind::Setuid { process, .. } => (
            WarningKind::Setuid,
            "gets privileges when it is executed; a traced process does not, so it may have done \
             less or failed",
            Some(*process),
        ),
        Blind::TracerRefused { process } => (
            WarningKind::TracerRefused,
            "wanted to trace another process and was refused, because becalm traces it already; \
             what it does untraced is not shown",
            Some(*process),
        ),
        Blind::OwnFilter { process } => (
            WarningKind::OwnFilter,
            "installed a seccomp filter of its own; calls that the filter ends are not counted",
            Some(*process),
        ),
        Blind::OuterFilter => (
            WarningKind::OuterFilter,
            "becalm itself ran under a seccomp filter: all is counted, but the times are longer",
            None,
        ),
        Blind::Unreadable { process } => (
            WarningKind::Unreadable,
            "could not be read by becalm: some of its paths are missing",
            Some(*process),
        ),
        Blind::OtherRoot { process } => (
            WarningKind::OtherRoot,
            "moved to another root or mount namespace: its paths are given as seen from outside",
            Some(*process),
        ),
        Blind::Lost { .. } => (
            WarningKind::Lost,
            "calls on descriptors came faster than they could be recorded, and some are missing",
            None,
        ),
        Blind::RequestFailed { process, .. } => (
            WarningKind::RequestFailed,
            "could not be followed all the way, as the kernel refused what that takes: some of its \
             calls are missing",
            Some(*process),
        ),
        Blind::FaultsUnseen { process, .. } => (
            WarningKind::FaultsUnseen,
            "maps much of its files, and the kernel refused to tell when what of them is touched \
             (perf_event_open(2)): what it has of them in memory in the end is counted, in the \
             order of the files",
            Some(*process),
        ),
        Blind::FaultsLost { .. } => (
            WarningKind::FaultsLost,
            "page faults came faster than they could be recorded: more of the mapped files was \
             touched than is counted",
            None,
        ),
    }
}

fn mounts_changed(recording: &Recording) -> Option<RunWarning> {
    // That it moved to another root or namespace is said already.
    if recording.blinds.iter().any(|blind| matches!(blind, Blind::OtherRoot { .. })) {
        return None;
    }
    let how = recording.mounts_changed()?;
    let text = format!(
        "the command changed its mounts on the way ({how}): what an image served there is counted \
         as if a server had, and no wait is predicted; to have one, record inside: becalm run --image \
         FILE -- becalm record -o REC -- CMD"
    );
    Some(RunWarning { kind: WarningKind::MountsChanged, text })
}

/// That it is only a part of a run.
fn joined(recording: &Recording) -> Option<RunWarning> {
    let age = time(recording.header.joined.as_ref()?.age);
    let left = recording.processes.iter().filter(|process| process.end.is_none()).count() as u64;
    let watched = recording.summary.as_ref().map_or("a while".into(), |end| time(end.ended));
    let text = match left {
        0 => format!(
            "watched for {watched} to its end, from {age} after its start: what it did before is \
             not counted"
        ),
        _ => format!(
            "watched for {watched} from {age} after its start, and then left to itself with {}: \
             what it did before and does now is not counted",
            counted(left, "process", "processes")
        ),
    };
    Some(RunWarning { kind: WarningKind::Joined, text })
}

fn time(nanos: recording::Nanos) -> String {
    term::number::time(std::time::Duration::from_nanos(nanos.0))
}

/// That a recording is of a start alone, and how to have more.
pub fn watched_until(let_go: &LetGo) -> String {
    format!("{}; --until exit watches the whole run", let_go.words())
}

fn running(recording: &Recording) -> Option<RunWarning> {
    // In a cut recording no process has its end; that is said already, and so it is of what was
    // left to itself.
    recording.summary.as_ref()?;
    if recording.header.joined.is_some() {
        return None;
    }
    if let Some(let_go) = recording.let_go() {
        return Some(RunWarning { kind: WarningKind::LetGo, text: watched_until(let_go) });
    }
    let left: Vec<_> = recording
        .processes
        .iter()
        .filter(|process| process.end.is_none())
        .map(|process| format!("{} (pid {})", program(recording, process.id), process.pid))
        .collect();
    let many = counted(left.len() as u64, "process was", "processes were");
    (!left.is_empty()).then(|| RunWarning {
        kind: WarningKind::Running,
        text: format!(
            "{many} still running when the recording ended, and not followed any further: {}",
            shorten(left)
        ),
    })
}

fn failed(recording: &Recording) -> Option<RunWarning> {
    let failure = recording.processes.first()?.end?.status.failure()?;
    let text = format!("the command {failure}: this is what it did up to there");
    Some(RunWarning { kind: WarningKind::Failed, text })
}

/// The last program that a process ran.
fn program(recording: &Recording, process: ProcessId) -> String {
    let last = recording::Nanos(u64::MAX);
    let exec = recording.program(process, last);
    exec.map_or_else(|| "a process".to_owned(), |exec| who::name(recording, exec))
}

fn shorten(mut names: Vec<String>) -> String {
    if names.len() > NAMES {
        let more = names.len() - (NAMES - 1);
        names.truncate(NAMES - 1);
        names.push(format!("{more} more"));
    }
    listed(&names)
}
