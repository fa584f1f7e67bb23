//! A process followed call by call.

use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::time::{SystemTime, UNIX_EPOCH};

use launch::Ended;

use super::notes::unescaped_note;
use super::policy::{EnteredCall, NotedChild, PendingQuestion, unrepeatable};
use super::process::{FollowedProcess, InnerPipes};
use super::temporary::TemporaryFiles;
use super::{AnswerDependency, DependencyTrace, FollowedProgram, LeftBecause, StatAttributes};
use crate::bind::CpuBinder;
use crate::ptrace::{CallSource, PtraceStop, Resume, StopChange, StoppedThread, Waited, wait};
use crate::reader::{CallReader, StoppedCall};
use crate::shape::{CallShapes, Extent};
use crate::signals;

/// What it may depend on.
const DEPENDENCIES_MOST: usize = 100_000;

/// How a note begins that says what the next child depends on: the notes before it.
const CHILD: &[u8] = b"child/";
/// One that says that the next child is a shell, which becomes the program at this path.
const BECOMES: &[u8] = b"becomes/";
/// And one that says that the next child shows what is written to it, and how it is started.
const PAGER: &[u8] = b"pager/";

/// A process that is being followed, with those that it starts.
pub(super) struct FollowedCommand<'a> {
    pid: i32,
    pub(super) processes: HashMap<i32, FollowedProcess>,
    /// Children that a note stands for, and of which nobody has heard yet.
    pub(super) unfollowed: HashSet<i32>,
    /// Children that have stopped before their parent said that it has started them.
    pub(super) early: HashSet<i32>,
    pub(super) pipes: InnerPipes,
    pub(super) program: FollowedProgram<'a>,
    pub(super) reader: CallReader,
    pub(super) known: HashSet<AnswerDependency>,
    pub(super) trace: DependencyTrace,
    pub(super) written: usize,
    pub(super) child: NotedChild,
    /// What the next child becomes, as a note has said.
    pub(super) announced: Option<CString>,
    /// The command's interpreter.
    pub(super) interpreter: Option<StatAttributes>,
    pub(super) temporary: TemporaryFiles,
    /// Most of what a stop costs is waking the other side on another processor.
    binder: CpuBinder,
    /// The working directory that it began in, once it has gone to another.
    home: Option<Vec<u8>>,
    /// Whether the next getcwd(2) decides nothing.
    directory_is_free: bool,
    /// Whether it may ask what its user is called: that goes with the user's number, which is known.
    pub(super) asks_for_user: bool,
    /// Whether it has started a pager.
    pub(super) pages: bool,
    /// Whether it has changed its environment.
    environment_changed: bool,
    /// When the command began, in seconds since 1970.
    pub(super) began: i64,
}

impl<'a> FollowedCommand<'a> {
    /// A seized process that is about to become a command.
    pub fn new(pid: i32, options: i32, program: FollowedProgram<'a>) -> FollowedCommand<'a> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let trace = DependencyTrace {
            dependencies: Vec::new(),
            notes: Vec::new(),
            programs: Vec::new(),
            output: Vec::new(),
            end: Err(LeftBecause::Disturbed("it did not start".into())),
        };
        let shapes = CallShapes::new(Extent::All);
        let source = CallSource::Kernel;
        let process = FollowedProcess { pid, pending: None, child: None };
        FollowedCommand {
            pid,
            processes: HashMap::from([(pid, process)]),
            unfollowed: HashSet::new(),
            early: HashSet::new(),
            pipes: InnerPipes::new(),
            program,
            reader: CallReader { options, shapes, filtered: false, source },
            known: HashSet::new(),
            trace,
            written: 0,
            child: NotedChild::None,
            announced: None,
            interpreter: None,
            temporary: TemporaryFiles::default(),
            binder: CpuBinder::new(true),
            home: None,
            directory_is_free: false,
            asks_for_user: true,
            pages: false,
            environment_changed: false,
            began: now.as_secs() as i64,
        }
    }

    /// Follows it until it is about to end or is let go of, gives what was seen to `keep`, and lets
    /// it go on. It ends only after that.
    pub fn run(mut self, keep: impl FnOnce(DependencyTrace)) {
        let (thread, signal) = loop {
            let (thread, stop) = match wait(-1, 0) {
                Ok(Waited::Change(StopChange::Stopped(thread, stop))) => (thread, stop),
                Ok(Waited::Change(StopChange::Ended(end))) if end.tid != self.pid => {
                    match self.processes.remove(&end.tid) {
                        // Killed without a stop at its end.
                        Some(FollowedProcess { child: Some(_), .. }) => return,
                        _ => continue,
                    }
                }
                Ok(Waited::Nothing) => continue,
                _ => return,
            };
            let Some(mut process) = self.processes.remove(&thread.tid()) else {
                if self.unfollowed.remove(&thread.tid()) {
                    let _ = thread.detach(0);
                } else {
                    self.early.insert(thread.tid());
                    // Until its parent's stop.
                    thread.killed();
                }
                continue;
            };
            let stopped = self.stopped(&thread, stop, &mut process);
            self.processes.insert(process.pid, process);
            match stopped {
                Ok(Some(signal)) => {
                    match self.child {
                        NotedChild::None if !self.is_parent() => self.binder.alone(self.pid),
                        // Nobody would give a child its processors back.
                        _ => self.binder.stop(),
                    }
                    if thread.resume(Resume::ToCall, signal).is_err() {
                        return;
                    }
                }
                Ok(None) => break (thread, 0),
                Err((why, signal)) => {
                    self.trace.end = Err(why);
                    break (thread, signal);
                }
            }
        };
        self.binder.stop();
        // What cannot be repeated must not wait for what is written down of it.
        let ends = self.trace.end.is_ok();
        if ends {
            self.check_contents();
            keep(self.trace);
            let _ = thread.detach(signal);
        } else {
            let _ = thread.detach(signal);
            keep(self.trace);
        }
    }

    /// Takes in a stop; with which signal to go on, 0 for none; none at the end.
    fn stopped(
        &mut self,
        thread: &StoppedThread,
        stop: PtraceStop,
        process: &mut FollowedProcess,
    ) -> Result<Option<i32>, (LeftBecause, i32)> {
        match stop {
            PtraceStop::Exec => {
                if self.reader.source == CallSource::Kernel {
                    self.reader.source = thread.call_source();
                }
                self.executed(process).map_err(|why| (why, 0))?;
                // The exec's own exit comes next.
                process.pending = Some(PendingQuestion::Nothing);
                Ok(Some(0))
            }
            PtraceStop::Call => {
                let result = match process.pending.take() {
                    None => self
                        .entered(thread, process)
                        .map(|question| process.pending = Some(question)),
                    Some(question) => self.left(thread, process, question),
                };
                result.map(|()| Some(0)).map_err(|why| (why, 0))
            }
            PtraceStop::Birth => {
                let child = thread.event_message().unwrap_or(0) as i32;
                self.born(child).map_err(|why| (why, 0))?;
                Ok(Some(0))
            }
            PtraceStop::Exit if process.child.is_some() => {
                self.child_ended(process);
                Ok(Some(0))
            }
            PtraceStop::Exit if self.is_parent() => {
                Err((unrepeatable("what it has started runs on"), 0))
            }
            PtraceStop::Exit if self.temporary.is_left() => {
                Err((unrepeatable("it leaves a file that it has made"), 0))
            }
            PtraceStop::Exit => {
                let status = thread.event_message().unwrap_or(0) as i32;
                self.trace.end = Ok(Ended::from_wait(status));
                Ok(None)
            }
            PtraceStop::Signal(signal) => {
                let deliver = signals::deliver(thread, &mut None, signal, recording::Nanos(0));
                let signal = if deliver.unwrap_or(true) { signal } else { 0 };
                let has_started = self.child != NotedChild::None || !self.pipes.is_empty();
                if signal == libc::SIGCHLD && has_started {
                    return Ok(Some(signal));
                }
                Err((disturbed("a signal came"), signal))
            }
            PtraceStop::Begin | PtraceStop::Other => Ok(Some(0)),
            _ => Err((disturbed("it was stopped"), 0)),
        }
    }

    fn entered(
        &mut self,
        thread: &StoppedThread,
        process: &FollowedProcess,
    ) -> Result<PendingQuestion, LeftBecause> {
        let entry = match self.reader.call(thread, true) {
            Ok(StoppedCall::Entry(entry)) => entry,
            _ => return Err(disturbed("a call could not be read")),
        };
        let mut uses_directory = false;
        let question = EnteredCall {
            tid: process.pid,
            command: process.child.is_some().then_some(self.pid),
            role: process.role(),
            temporary: &mut self.temporary,
            pipes: &self.pipes,
            entry: &entry,
            preludes: self.program.preludes,
            child: self.child,
            uses_directory: &mut uses_directory,
            asks_for_user: self.asks_for_user,
            pages: self.pages,
        }
        .question()?;
        if matches!(question, PendingQuestion::WorkingDirectory) && self.directory_is_free {
            self.directory_is_free = false;
            uses_directory = false;
        }
        if uses_directory {
            let directory = crate::files::proc_link(process.pid, "cwd");
            let directory = directory.ok_or_else(|| unrepeatable("its directory has no path"))?;
            if self.home.as_ref().is_none_or(|home| *home == directory) {
                self.add(AnswerDependency::WorkingDirectory(directory));
            }
        }
        if matches!(question, PendingQuestion::GoTo(_)) && self.home.is_none() {
            self.home = crate::files::proc_link(self.pid, "cwd");
        }
        if let PendingQuestion::Note(note) = &question {
            if let Some(why) = (self.program.refuses)(note) {
                return Err(LeftBecause::Unrepeatable(why));
            }
            match note.as_slice() {
                b"getcwd" => self.directory_is_free = true,
                b"user" => self.asks_for_user = true,
                b"begun" | b"user/known" => self.asks_for_user = false,
                b"changed" => self.environment_changed = true,
                b"temporary" => self.temporary.expect(),
                note if note.starts_with(CHILD) => self.child = NotedChild::Announced,
                note if note.starts_with(BECOMES) => {
                    self.announced = unescaped_note(&note[BECOMES.len()..])
                        .and_then(|path| CString::new(path).ok());
                }
                // A pager may do as the environment says, and is started with becalm's again.
                note if note.starts_with(PAGER) && (self.pages || self.environment_changed) => {
                    return Err(unrepeatable("it starts a pager in another environment"));
                }
                note if note.starts_with(PAGER) => {
                    (self.child, self.pages) = (NotedChild::Announced, true);
                }
                _ => {}
            }
            self.trace.notes.push(note.clone());
        }
        match &question {
            PendingQuestion::Execute(path) => self.may_execute(path)?,
            PendingQuestion::GoTo(_) if process.child.is_some() => {
                return Err(unrepeatable("what it starts goes elsewhere"));
            }
            PendingQuestion::Child => self.binder.stop(),
            _ => {}
        }
        if self.known.len() > DEPENDENCIES_MOST {
            return Err(unrepeatable("it depends on too much"));
        }
        Ok(question)
    }
}

pub(super) fn disturbed(why: &str) -> LeftBecause {
    LeftBecause::Disturbed(why.to_owned())
}
