//! A process followed call by call.

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString};
use std::time::{SystemTime, UNIX_EPOCH};

use launch::Ended;
use rustix::io::Errno;

use super::asked::TERMINAL_MOST;
use super::filled;
use super::policy::{EnteredCall, NotedChild, PendingQuestion, unrepeatable};
use super::process::{FollowedProcess, InnerPipes, descriptor, is_null};
use super::{
    AnswerDependency, DependencyTrace, FollowedProgram, LeftBecause, StatAttributes, WrittenTo,
};
use crate::bind::CpuBinder;
use crate::ptrace::{CallSource, PtraceStop, Resume, StopChange, StoppedThread, Waited, wait};
use crate::reader::{CallReader, StoppedCall};
use crate::shape::{CallShapes, Extent};
use crate::signals;

/// What a command may write and be kept.
const OUTPUT_MOST: usize = 4 << 20;
/// What it may depend on.
const DEPENDENCIES_MOST: usize = 100_000;

/// How a note begins that says what the next child depends on: the notes before it.
const CHILD: &[u8] = b"child/";
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
    pipes: InnerPipes,
    pub(super) program: FollowedProgram<'a>,
    reader: CallReader,
    known: HashSet<AnswerDependency>,
    pub(super) trace: DependencyTrace,
    written: usize,
    pub(super) child: NotedChild,
    /// Most of what a stop costs is waking the other side on another processor.
    binder: CpuBinder,
    /// The working directory that it began in, once it has gone to another.
    home: Option<Vec<u8>>,
    /// Whether the next getcwd(2) decides nothing.
    directory_is_free: bool,
    /// Whether it may ask what its user is called: that goes with the user's number, which is known.
    asks_for_user: bool,
    /// Whether it has started a pager.
    pages: bool,
    /// Whether it has changed its environment.
    environment_changed: bool,
    /// When the command began, in seconds since 1970.
    began: i64,
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
                note if note.starts_with(CHILD) => self.child = NotedChild::Announced,
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
            PendingQuestion::GoTo(_) | PendingQuestion::Note(_) if process.child.is_some() => {
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

    fn left(
        &mut self,
        thread: &StoppedThread,
        process: &mut FollowedProcess,
        question: PendingQuestion,
    ) -> Result<(), LeftBecause> {
        use PendingQuestion as Question;
        if matches!(question, Question::Nothing | Question::Note(_)) {
            return Ok(());
        }
        let (value, failed) = match self.reader.call(thread, false) {
            Ok(StoppedCall::Exit { value, failed }) => (value, failed),
            _ => return Err(disturbed("a call's result could not be read")),
        };
        let error = if failed { -value as i32 } else { 0 };
        // The kernel's own 'restart me': the call is made again.
        if error >= 512 {
            return Err(disturbed("a call was interrupted"));
        }

        let pid = process.pid;
        match question {
            Question::Nothing | Question::Note(_) => {}
            Question::Open(path) | Question::Execute(path) if failed => {
                self.failed_open(path, error)?
            }
            Question::Open(path) => {
                if let Some(program) = process.child.as_mut().and_then(|it| it.program.as_mut()) {
                    program.opened.push(path.clone());
                }
                let opened = format!("/proc/{pid}/fd/{value}");
                self.content(path, &CString::new(opened).unwrap_or_default())?;
            }
            Question::Attributes { path, follow, at, is_statx } => {
                let told = match failed {
                    true => Err(error),
                    false => Ok(filled::attributes(pid, at, is_statx)?),
                };
                self.add(AnswerDependency::Attributes { path, follow, told });
            }
            Question::Access { path, mode, effective } => {
                self.add(AnswerDependency::Access { path, mode, effective, told: error });
            }
            Question::Link { path, at, room } => {
                let told = match failed {
                    true => Err(error),
                    false => Ok(filled::bytes(pid, at, value as usize)?),
                };
                let link = AnswerDependency::Link { path, told };
                // There may have been no room for more.
                if !failed && value as u64 >= room && !link.holds() {
                    return Err(unrepeatable("a link's target is longer than it can read"));
                }
                self.add(link);
            }
            Question::GoTo(path) if failed => self.failed_open(path, error)?,
            Question::GoTo(path) => {
                let told = crate::files::proc_link(self.pid, "cwd")
                    .ok_or_else(|| unrepeatable("its directory has no path"))?;
                let enter = libc::X_OK as u32;
                let access = AnswerDependency::Access {
                    path: path.clone(),
                    mode: enter,
                    effective: true,
                    told: 0,
                };
                self.add(access);
                self.add(AnswerDependency::RealPath { path, told });
            }
            Question::Child if failed => return Err(disturbed("it could not start a child")),
            Question::Child if self.child == NotedChild::Announced => {
                self.child = NotedChild::Started;
            }
            Question::Child => {}
            Question::Execute(_) => return Err(disturbed("a child became a program")),
            Question::Pipe(_) if failed => return Err(disturbed("it could not make a pipe")),
            Question::Pipe(at) => {
                let pair = filled::bytes(pid, at, 8)?;
                let fd = i32::from_ne_bytes([pair[0], pair[1], pair[2], pair[3]]);
                let pipe = descriptor(pid, fd).map(|pipe| (pipe.device, pipe.inode));
                self.pipes.extend(pipe);
            }
            Question::OpenNull if failed => {
                return Err(unrepeatable("/dev/null cannot be opened"));
            }
            Question::OpenNull => {
                if !descriptor(pid, value as i32).is_some_and(|file| is_null(&file)) {
                    return Err(unrepeatable("/dev/null is another file"));
                }
            }
            Question::WorkingDirectory if failed => {
                return Err(unrepeatable("its working directory has no path"));
            }
            Question::WorkingDirectory => {}
            Question::Terminal { fd, request, at } => {
                // The kernel's termios has 36 bytes, the size of a window 8.
                let length = if request == libc::TCGETS { 36 } else { 8 };
                debug_assert!(length <= TERMINAL_MOST);
                let told = match failed {
                    true => Err(error),
                    false => Ok(filled::bytes(pid, at, length)?),
                };
                self.add(AnswerDependency::Terminal { fd, request, told });
            }
            Question::Descriptor(fd) => {
                let path = CString::new(format!("/proc/{pid}/fd/{fd}")).unwrap_or_default();
                let told = StatAttributes::of(&path, true).map_or(0, |it| it.mode & libc::S_IFMT);
                self.add(AnswerDependency::Descriptor { fd, told });
            }
            Question::AbsentSocket(path) => {
                if error != libc::ENOENT {
                    return Err(disturbed("a socket came to be"));
                }
                let told = Err(libc::ENOENT);
                self.add(AnswerDependency::Attributes { path, follow: true, told });
            }
            Question::Write { .. } if failed => {
                return Err(disturbed("what it wrote could not be written"));
            }
            Question::Write { to, parts } => self.wrote(pid, to, &parts, value as u64)?,
        }
        Ok(())
    }

    fn wrote(
        &mut self,
        pid: i32,
        to: WrittenTo,
        parts: &[(u64, u64)],
        written: u64,
    ) -> Result<(), LeftBecause> {
        self.written = self.written.saturating_add(written as usize);
        if self.written > OUTPUT_MOST {
            return Err(unrepeatable("it writes too much"));
        }
        let mut left = written;
        for (at, length) in parts {
            let length = left.min(*length);
            let bytes = filled::bytes(pid, *at, length as usize)?;
            match self.trace.output.last_mut() {
                Some((last, text)) if *last == to => text.extend(bytes),
                _ => self.trace.output.push((to, bytes)),
            }
            left -= length;
        }
        Ok(())
    }

    /// A file that is there could not be opened: its attributes say why, as long as they are the
    /// same.
    fn failed_open(&mut self, path: CString, error: i32) -> Result<(), LeftBecause> {
        let now = StatAttributes::of(&path, true);
        if let Ok(told) = now {
            self.check_settled(&path, &path, &told)?;
            self.add(AnswerDependency::Content { path, told });
            return Ok(());
        }
        let now = now.map_err(Errno::raw_os_error);
        if now != Err(error) {
            return Err(unrepeatable("a file cannot be opened, for no reason that shows"));
        }
        self.add(AnswerDependency::Attributes { path, follow: true, told: Err(error) });
        Ok(())
    }

    /// A file or directory that was opened, as `opened` leads to it.
    pub(super) fn content(&mut self, path: CString, opened: &CStr) -> Result<(), LeftBecause> {
        let told = StatAttributes::of(opened, true)
            .map_err(|_| disturbed("an open file could not be looked at"))?;
        if !told.has_content() {
            return Err(unrepeatable(&format!("{} is no file", shown(&path))));
        }
        if self.asks_for_user && is_of_name_service(&path) {
            return Ok(());
        }
        self.check_settled(opened, &path, &told)?;
        self.add(AnswerDependency::Content { path, told });
        Ok(())
    }

    /// Whether a file's times tell of every change that is still to come.
    fn check_settled(
        &self,
        path: &CStr,
        name: &CStr,
        told: &StatAttributes,
    ) -> Result<(), LeftBecause> {
        let margin = super::settled::margin(path, told.device)
            .ok_or_else(|| unrepeatable(&format!("{} has no times to rely on", shown(name))))?;
        match told.changed.0 < self.began - margin {
            true => Ok(()),
            false => Err(disturbed(&format!("{} has just changed", shown(name)))),
        }
    }

    /// What was read while it ran is read as it still is.
    fn check_contents(&mut self) {
        let has_changed = |dependency: &AnswerDependency| {
            matches!(dependency, AnswerDependency::Content { .. }) && !dependency.holds()
        };
        if self.trace.dependencies.iter().any(has_changed) {
            self.trace.end = Err(disturbed("a file changed while it was read"));
        }
    }

    fn add(&mut self, dependency: AnswerDependency) {
        if self.known.insert(dependency.clone()) {
            self.trace.dependencies.push(dependency);
        }
    }
}

/// What daemons of name services share with their clients, and write all the time: sssd's, nscd's.
fn is_of_name_service(path: &CStr) -> bool {
    let path = path.to_bytes();
    [&b"/var/lib/sss/"[..], b"/var/cache/nscd/", b"/run/nscd/", b"/var/run/nscd/"]
        .iter()
        .any(|directory| path.starts_with(directory))
}

pub(super) fn disturbed(why: &str) -> LeftBecause {
    LeftBecause::Disturbed(why.to_owned())
}

fn shown(path: &CStr) -> String {
    recording::shown(path.to_bytes()).to_string()
}
