//! What one rank does at its start: computes, asks the filesystem, reads, in order.

use std::path::PathBuf;

use recording::{Event, Kind as Call, Nanos, Outcome, PathId, ProcessId, Recording};
use rustc_hash::FxHashMap;

use super::{Compute, Place, compute, evidence::Evidence, place};
use crate::{Ask, Cache, Node, Question, Shared, Span, Wants};

/// What one rank does at its start.
pub struct Start<'a> {
    /// What the first process ran: `python3`.
    pub program: String,
    /// In order.
    pub(super) steps: Vec<Step<'a>>,
    /// Computing after the last step.
    pub(super) rest: Nanos,
    /// Which paths count.
    pub shared: Shared,
    /// How they were chosen.
    pub place: Place,
    /// How the compute time is known.
    pub compute: Compute,
    /// Metadata operations of the recording that ask the shared filesystem.
    pub calls: u64,
    /// And those that ask something else: together, what [`Recording::metadata_operations`] counts.
    pub elsewhere: u64,
    /// Where images were mounted when the recording began: the node answers for them.
    pub images: Vec<String>,
}

/// A question to the shared filesystem, what is computed before it and read after it.
pub(super) struct Step<'a> {
    pub(super) think: Nanos,
    pub(super) question: Question<'a>,
    /// Bytes of a file that one node has to fetch.
    pub(super) bytes: u64,
}

/// A recording that says nothing of many ranks.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Who answered what, it does not tell.
    #[error(
        "the command changed its mounts on the way ({how}): an image, say, answers there instead of \
         the server, and the recording does not tell; record the command inside, as in: becalm run \
         --image FILE -- becalm record -o REC -- CMD", how = .0
    )]
    MountsChanged(String),
    /// It has no metadata operations at all.
    #[error("the recording has no metadata operations: there is nothing to project")]
    Nothing,
    /// None of them counts.
    #[error(
        "none of the {elsewhere} metadata operations was asked of {}; most were below {most}: name \
         what is shared with --below, for example --below {most}", .looked_at
    )]
    Elsewhere {
        /// How many there are.
        elsewhere: u64,
        /// Where they were looked for.
        looked_at: String,
        /// Where most of them are.
        most: String,
    },
}

impl<'a> Start<'a> {
    /// What the recorded command does of what is below these directories (none: those that a
    /// cluster would share), computing this long in all if that is known.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn of(
        recording: &'a Recording,
        below: &[PathBuf],
        compute: Option<Nanos>,
    ) -> Result<Start<'a>, StartError> {
        if let Some(how) = recording.mounts_changed() {
            return Err(StartError::MountsChanged(how));
        }
        let (shared, place) = place::shared(recording, below);
        let mut order: Vec<&Event> = recording.events.iter().collect();
        order.sort_by_key(|event| event.start);
        let gaps = compute::gaps(recording, &order);
        let asked = asked(recording, &order);
        let evidence = Evidence::of(asked.iter().map(|(_, question)| *question));
        let mut start = Start {
            program: program(recording),
            steps: Vec::new(),
            rest: Nanos(0),
            compute: Compute::Recorded,
            calls: 0,
            elsewhere: 0,
            images: images(recording),
            shared,
            place,
        };
        let bytes = fetched(recording, &order, &start.shared);
        start.fill(&asked, &evidence, &gaps, &bytes);
        start.elsewhere = recording.metadata_operations() - start.calls;
        if start.steps.is_empty() {
            return Err(nothing(recording, &start));
        }
        if let Some(total) = compute {
            start.think(total);
        }
        Ok(start)
    }

    fn fill(
        &mut self,
        asked: &[(usize, Question<'a>)],
        evidence: &Evidence<'a>,
        gaps: &[f64],
        bytes: &[u64],
    ) {
        let mut forgetful = forgetful(&self.shared);
        let (mut think, mut done) = (0.0, 0);
        let mut counted = None;
        for (event, question) in asked {
            think += gaps[done..=*event].iter().sum::<f64>();
            self.read(&bytes[done..=*event]);
            done = *event + 1;
            let question = evidence.cut(*question);
            if forgetful.ask(Nanos(0), &question).total() == 0 {
                continue;
            }
            // What the kernel opens at an exec is asked, and is no call.
            self.calls += u64::from(counted.replace(*event) != Some(*event));
            self.steps.push(Step { think: Nanos(think as u64), question, bytes: 0 });
            think = 0.0;
        }
        self.read(&bytes[done..]);
        self.rest = Nanos((think + gaps[done..].iter().sum::<f64>()) as u64);
    }

    /// Reads so much before the next question.
    fn read(&mut self, bytes: &[u64]) {
        if let Some(step) = self.steps.last_mut() {
            step.bytes += bytes.iter().sum::<u64>();
        }
    }

    /// Spreads this compute time as the recorded one is spread; evenly, if there is none.
    fn think(&mut self, total: Nanos) {
        let recorded = self.compute_time().0 as f64;
        let even = total.0 / (self.steps.len() as u64 + 1);
        let scaled = |think: Nanos| match recorded {
            0.0 => Nanos(even),
            recorded => Nanos((think.0 as f64 * total.0 as f64 / recorded) as u64),
        };
        self.steps.iter_mut().for_each(|step| step.think = scaled(step.think));
        self.rest = scaled(self.rest);
        self.compute = Compute::Given;
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

/// All questions, each with the number of its event in `order`.
fn asked<'a>(recording: &'a Recording, order: &[&Event]) -> Vec<(usize, Question<'a>)> {
    let path = |id: Option<PathId>| id.map(|id| recording.path(id));
    let mut asked = Vec::new();
    for (number, event) in order.iter().enumerate().filter(|(_, event)| event.is_metadata()) {
        let Some(first) = path(event.path) else { continue };
        let Some(question) = Question::of(event, first, path(event.other_path)) else { continue };
        asked.push((number, question));
        if event.kind() == Call::Exec && !event.outcome.failed() {
            let opened = opened_by_kernel(recording, event);
            asked.extend(opened.map(|question| (number, question)));
        }
    }
    asked
}

/// What the kernel itself opens at an exec (execve(2)): a script's interpreter, and the loader.
fn opened_by_kernel<'a>(
    recording: &'a Recording,
    event: &Event,
) -> impl Iterator<Item = Question<'a>> {
    let execs = &recording.process(event.process).execs;
    let exec = execs.iter().find(|exec| exec.at >= event.start);
    let image = exec.filter(|exec| exec.image != exec.path).map(|exec| exec.image);
    let loader = exec.and_then(|exec| exec.loader);
    image.into_iter().chain(loader).map(|path| Question {
        wants: Wants::Open,
        path: recording.path(path),
        missing: false,
        other_path: None,
    })
}

/// No call reads more (read(2)).
const MOST_READ: u64 = 0x7fff_f000;

/// How many bytes each read fetches to a node: what a process reads of a file beyond what any
/// has read of it. (A file's pages stay on the node.)
fn fetched(recording: &Recording, order: &[&Event], shared: &Shared) -> Vec<u64> {
    let is_shared: Vec<bool> = recording.paths().map(|path| shared.contains(path)).collect();
    let mut read: FxHashMap<(PathId, ProcessId), u64> = FxHashMap::default();
    let mut there: FxHashMap<PathId, u64> = FxHashMap::default();
    let fetched = |event: &&Event| match (event.kind(), event.path, event.outcome) {
        (Call::Read, Some(path), Outcome::Returned(bytes @ 1..)) if is_shared[path.0 as usize] => {
            let own = read.entry((path, event.process)).or_default();
            *own += (bytes as u64).min(MOST_READ);
            let there = there.entry(path).or_default();
            let more = own.saturating_sub(*there);
            *there += more;
            more
        }
        _ => 0,
    };
    order.iter().map(fetched).collect()
}

/// A node that keeps nothing: it asks whatever can be asked.
fn forgetful(shared: &Shared) -> Node {
    let nothing =
        Cache { entries: Span::ZERO, negatives: Span::ZERO, open: Ask::Asked, list: Ask::Asked };
    Node::keeping(nothing, shared.clone())
}

/// Where images were mounted.
fn images(recording: &Recording) -> Vec<String> {
    let mounts = recording.header.mounts.iter().filter(|mount| mount.is_image());
    mounts.map(|mount| mount.point.clone()).collect()
}

/// The first process's program.
fn program(recording: &Recording) -> String {
    let first = recording.processes.first().and_then(|process| process.execs.first());
    let given = recording.header.argv.first().map(|word| word.as_bytes());
    let path = first.map(|exec| recording.path(exec.path)).or(given).unwrap_or(b"the command");
    recording::shown(path.rsplit(|byte| *byte == b'/').next().unwrap_or(path))
}

fn nothing(recording: &Recording, start: &Start) -> StartError {
    let mut below: FxHashMap<&[u8], u64> = FxHashMap::default();
    for event in recording.events.iter().filter(|event| event.is_metadata()) {
        let path = event.path.map_or(&b""[..], |path| recording.path(path));
        if !recording.header.is_answered_on_node(path) {
            let end = path.iter().skip(1).position(|byte| *byte == b'/');
            *below.entry(&path[..end.map_or(path.len(), |end| end + 1)]).or_default() += 1;
        }
    }
    let most = below.into_iter().max_by_key(|(directory, calls)| (*calls, *directory));
    let roots: Vec<_> = start.shared.roots.iter().map(|root| root.display().to_string()).collect();
    match most {
        Some((most, _)) if start.elsewhere > 0 => StartError::Elsewhere {
            elsewhere: start.elsewhere,
            looked_at: match start.place {
                Place::Given => roots.join(", "),
                _ => "what a cluster would share".to_owned(),
            },
            most: recording::shown(most),
        },
        _ => StartError::Nothing,
    }
}
