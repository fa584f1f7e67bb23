//! A process followed call by call.

use std::collections::HashMap;
use std::ffi::CString;
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use launch::{Ended, signals};
use recording::Call;
use rustc_hash::{FxHashMap, FxHashSet};

use super::answered::may_open;
use super::cpu::SharedCpu;
use super::held::{GOES_ON, HeldOutput};
use super::notes::unescaped_note;
use super::policy::{EnteredCall, NotedChild, PendingQuestion, unrepeatable};
use super::process::{ChildProcess, ChildRole, FollowedProcess, InnerPipes, ProcessRole};
use super::settled::FilesystemMargins;
use super::temporary::TemporaryFiles;
use super::ways::FollowedWays;
use super::{
    AnswerDependency, DependencyTrace, FollowRefused, FollowedProgram, LeftBecause, StatAttributes,
};
use crate::arch;
use crate::decode::CallEntry;
use crate::ptrace::{
    CallSource, PtraceStop, Resume, StopChange, StoppedThread, SyscallInfo, ThreadEnd, Waited, wait,
};

/// What it may depend on.
const DEPENDENCIES_MOST: usize = 100_000;

/// A note has said that an interpreter is about to be made, and none that it is followed.
const UNFOLLOWED: &str = "it makes an interpreter that is not followed";

/// Tcl tells its number then (`errorCode`).
const FAILED: &str = "a program that it starts fails";

/// How a note begins that says what the next child depends on: the notes before it.
const CHILD: &[u8] = b"child/";
/// One that says that the next child is a shell, which becomes the program at this path.
const BECOMES: &[u8] = b"becomes/";
/// And one that says that the next child shows what is written to it, and how it is started.
const PAGER: &[u8] = b"pager/";

/// A process that is being followed, with those that it starts.
pub(super) struct FollowedCommand<'a> {
    pub(super) pid: i32,
    pub(super) processes: FxHashMap<i32, FollowedProcess>,
    /// Children that have stopped before their parent said that it has started them.
    pub(super) early: FxHashSet<i32>,
    pub(super) pipes: InnerPipes,
    pub(super) program: FollowedProgram<'a>,
    source: CallSource,
    pub(super) known: FxHashSet<AnswerDependency>,
    pub(super) trace: DependencyTrace,
    pub(super) written: usize,
    /// There from when on there is something that it wrote.
    pub(super) held: Option<HeldOutput>,
    pub(super) child: NotedChild,
    /// What the next child becomes, as a note has said.
    pub(super) announced: Option<CString>,
    /// The command's interpreter, once it was executed.
    pub(super) interpreter: Option<StatAttributes>,
    pub(super) temporary: TemporaryFiles,
    pub(super) margins: FilesystemMargins,
    pub(super) ways: FollowedWays,
    cpu: SharedCpu,
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
    /// Whether a program that it has started has ended with another status than 0.
    pub(super) program_failed: bool,
    /// When the command began, in seconds since 1970.
    pub(super) began: i64,
}

impl<'a> FollowedCommand<'a> {
    /// A seized process that is about to become a command.
    pub fn new(pid: i32, program: FollowedProgram<'a>, cpu: SharedCpu) -> FollowedCommand<'a> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let trace = DependencyTrace {
            dependencies: Vec::new(),
            notes: Vec::new(),
            programs: Vec::new(),
            output: Vec::new(),
            disturbed: None,
            end: Err(LeftBecause::Disturbed("it did not start".into())),
        };
        let process = FollowedProcess { pid, pending: None, child: None };
        FollowedCommand {
            pid,
            processes: HashMap::from_iter([(pid, process)]),
            early: FxHashSet::default(),
            pipes: InnerPipes::new(),
            program,
            source: CallSource::Kernel,
            known: FxHashSet::default(),
            trace,
            written: 0,
            held: None,
            child: NotedChild::None,
            announced: None,
            interpreter: None,
            temporary: TemporaryFiles::default(),
            margins: FilesystemMargins::default(),
            ways: FollowedWays::default(),
            cpu,
            home: None,
            directory_is_free: false,
            asks_for_user: true,
            pages: false,
            environment_changed: false,
            program_failed: false,
            began: now.as_secs() as i64,
        }
    }

    /// Follows it to its end, or kills it where it is about to do what cannot be repeated.
    pub fn run(mut self) -> (Result<DependencyTrace, FollowRefused>, SharedCpu) {
        let followed = self.follow();
        self.held = None;
        self.end_all();
        if followed.is_ok() && self.trace.end.is_ok() {
            self.check_contents();
        }
        let started = match self.interpreter {
            Some(_) => followed.map_err(FollowRefused::from),
            None => Err(FollowRefused::NotStarted),
        };
        (started.map(|()| self.trace), self.cpu)
    }

    fn follow(&mut self) -> io::Result<()> {
        loop {
            let (thread, stop) = match self.next_change()? {
                Some(Waited::Change(StopChange::Stopped(thread, stop))) => (thread, stop),
                Some(Waited::Change(StopChange::Ended(end))) => match self.ended(&end) {
                    true => return Ok(()),
                    false => continue,
                },
                Some(Waited::Nothing) => continue,
                Some(Waited::Nobody) => return Ok(()),
                None => {
                    self.trace.end = Err(disturbed(GOES_ON));
                    return Ok(());
                }
            };
            let Some(mut process) = self.processes.remove(&thread.tid()) else {
                self.early.insert(thread.tid());
                // Until its parent's stop.
                thread.killed();
                continue;
            };
            let stopped = self.stopped(&thread, stop, &mut process);
            let resume = process.resume();
            self.processes.insert(process.pid, process);
            match stopped {
                Ok(signal) => {
                    let others: Vec<i32> = self.processes.keys().copied().collect();
                    self.cpu.renew(&others);
                    // One that was killed is told of next.
                    let _ = thread.resume(resume, signal);
                }
                Err(why) => {
                    thread.killed();
                    self.trace.end = Err(why);
                    return Ok(());
                }
            }
        }
    }

    /// What happens next; none where a user would wait for too long for what was written.
    fn next_change(&self) -> io::Result<Option<Waited>> {
        match wait(-1, 0)? {
            Waited::Nothing if self.held.as_ref().is_some_and(HeldOutput::is_long) => Ok(None),
            change => Ok(Some(change)),
        }
    }

    /// A process has ended; whether it was the command.
    fn ended(&mut self, end: &ThreadEnd) -> bool {
        let Some(mut process) = self.processes.remove(&end.tid) else { return false };
        if process.child.is_some() {
            self.child_ended(&mut process, end.status);
            return false;
        }
        let is_unfollowed = self.asks_for_user && self.trace.notes.iter().any(|it| it == b"user");
        self.trace.end = match (self.processes.is_empty(), self.temporary.is_left()) {
            _ if self.program_failed => Err(unrepeatable(FAILED)),
            _ if is_unfollowed => Err(unrepeatable(UNFOLLOWED)),
            (false, _) => Err(unrepeatable("what it has started runs on")),
            (_, true) => Err(unrepeatable("it leaves a file that it has made")),
            _ => Ok(Ended::from_wait(end.status)),
        };
        true
    }

    /// Ends what still runs, and waits for that; takes away what it has made for itself.
    fn end_all(&mut self) {
        for pid in self.processes.keys().chain(&self.early) {
            let _ = signals::send(*pid, libc::SIGKILL);
        }
        for pid in self.processes.keys().chain(&self.early) {
            loop {
                match wait(*pid, 0) {
                    Ok(Waited::Change(StopChange::Stopped(thread, _))) => thread.killed(),
                    Ok(Waited::Nothing) => {}
                    _ => break,
                }
            }
        }
        self.temporary.remove_all();
    }

    /// Takes in a stop; with which signal to go on, 0 for none.
    fn stopped(
        &mut self,
        thread: &StoppedThread,
        stop: PtraceStop,
        process: &mut FollowedProcess,
    ) -> Result<i32, LeftBecause> {
        let is_begun = self.interpreter.is_some();
        match stop {
            PtraceStop::Exec if process.is_ignored() => {}
            PtraceStop::Exec => {
                if self.source == CallSource::Kernel {
                    self.source = thread.call_source();
                }
                self.executed(process)?;
            }
            // Becalm's own, before the command is executed.
            PtraceStop::FilteredCall if !is_begun => {}
            PtraceStop::FilteredCall if process.is_ignored() => self.ignored(thread, process)?,
            PtraceStop::FilteredCall => process.pending = self.entered(thread, process)?,
            PtraceStop::Call => {
                if let Some(question) = process.pending.take() {
                    self.left(thread, process, question)?;
                }
            }
            PtraceStop::Birth => {
                let child = thread.event_message().unwrap_or(0) as i32;
                self.born(child, process)?;
            }
            PtraceStop::Signal(signal) => {
                let has_started = self.child != NotedChild::None || !self.pipes.is_empty();
                let is_of_child = signal == libc::SIGCHLD && has_started;
                if !is_of_child && !process.is_ignored() {
                    return Err(disturbed("a signal came"));
                }
                let now = recording::Nanos(0);
                let deliver = crate::signals::deliver(thread, &mut Default::default(), signal, now);
                return Ok(if deliver.unwrap_or(true) { signal } else { 0 });
            }
            PtraceStop::Begin | PtraceStop::Exit | PtraceStop::Other => {}
            PtraceStop::Group(_) => return Err(disturbed("it was stopped")),
        }
        Ok(0)
    }

    /// What a call asks for that is about to be made; none where that is known already.
    fn entered(
        &mut self,
        thread: &StoppedThread,
        process: &FollowedProcess,
    ) -> Result<Option<PendingQuestion>, LeftBecause> {
        let entry = self.entry(thread)?;
        if process.role() == ProcessRole::Pager {
            return Self::pager_entered(thread, &entry).map(|()| None);
        }
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
        match &question {
            PendingQuestion::Note(note) => self.noted(note)?,
            PendingQuestion::Execute(path) => self.may_execute(path)?,
            PendingQuestion::GoTo(_) if process.child.is_some() => {
                return Err(unrepeatable("what it starts goes elsewhere"));
            }
            _ => {}
        }
        if self.known.len() > DEPENDENCIES_MOST {
            return Err(unrepeatable("it depends on too much"));
        }
        // A relative path is the process's own to follow.
        match uses_directory {
            true => {
                if let PendingQuestion::Open(path) = &question {
                    may_open(path, StatAttributes::of(path, true).ok())?;
                }
                Ok(Some(question))
            }
            false => self.answered(thread, question, (&entry, process.role())),
        }
    }

    pub(super) fn entry(&self, thread: &StoppedThread) -> Result<CallEntry, LeftBecause> {
        let unknown = || disturbed("a call could not be read");
        match thread.syscall_info(self.source, true).map_err(|_| unknown())? {
            SyscallInfo::Entry { arch, ip, number, args, .. } => {
                let (abi, number) = arch::table(arch, number);
                let shape = crate::arguments::CallShape::NONE;
                Ok(CallEntry { call: Call::new(abi, number), shape, args, ip })
            }
            _ => Err(unknown()),
        }
    }

    /// A call's result: 0 or more, or an error's number below.
    pub(super) fn result(&self, thread: &StoppedThread) -> Result<(i64, bool), LeftBecause> {
        match thread.syscall_info(self.source, false) {
            Ok(SyscallInfo::Exit { value, failed }) => Ok((value, failed)),
            _ => Err(disturbed("a call's result could not be read")),
        }
    }

    fn noted(&mut self, note: &[u8]) -> Result<(), LeftBecause> {
        if let Some(why) = (self.program.refuses)(note) {
            return Err(LeftBecause::Unrepeatable(why));
        }
        match note {
            b"getcwd" => self.directory_is_free = true,
            b"user" if self.asks_for_user => return Err(unrepeatable(UNFOLLOWED)),
            b"user" => self.asks_for_user = true,
            b"begun" | b"user/known" => self.asks_for_user = false,
            b"changed" => self.environment_changed = true,
            b"temporary" => self.temporary.expect(),
            note if note.starts_with(CHILD) => self.child = NotedChild::Announced,
            note if note.starts_with(BECOMES) => {
                self.announced =
                    unescaped_note(&note[BECOMES.len()..]).and_then(|path| CString::new(path).ok());
            }
            // A pager may do as the environment says, and is started with becalm's.
            note if note.starts_with(PAGER) && (self.pages || self.environment_changed) => {
                return Err(unrepeatable("it starts a pager in another environment"));
            }
            note if note.starts_with(PAGER) => {
                (self.child, self.pages) = (NotedChild::Pager, true);
            }
            _ => {}
        }
        self.trace.notes.push(note.to_vec());
        Ok(())
    }
}

impl FollowedProcess {
    /// To the exit of a call of which the answer counts.
    fn resume(&self) -> Resume {
        if self.pending.is_some() { Resume::ToCall } else { Resume::ToEvent }
    }

    fn is_ignored(&self) -> bool {
        matches!(&self.child, Some(ChildProcess { role: ChildRole::Ignored, .. }))
    }
}

pub(super) fn disturbed(why: &str) -> LeftBecause {
    LeftBecause::Disturbed(why.to_owned())
}
