//! The children of a followed command.
//!
//! A program gives another answer each time where it asks the clock, the processor or an address,
//! of which no call tells. So only programs are followed that are known not to.

use std::ffi::{CStr, CString};

use super::follow::{FollowedCommand, disturbed};
use super::policy::{NotedChild, PendingQuestion, unrepeatable};
use super::process::{ChildProcess, FollowedProcess, StartedProgram};
use super::{LeftBecause, StatAttributes};
use crate::ptrace::{Resume, StoppedThread};

impl FollowedCommand<'_> {
    /// The command has started a child, which may have stopped already.
    pub(super) fn born(&mut self, child: i32) -> Result<(), LeftBecause> {
        let stopped = self.early.remove(&child).then(|| StoppedThread::heard_of(child));
        if self.child == NotedChild::Announced {
            match stopped {
                Some(thread) => drop(thread.detach(0)),
                None => drop(self.unfollowed.insert(child)),
            }
            return Ok(());
        }
        let followed =
            FollowedProcess { pid: child, pending: None, child: Some(ChildProcess::default()) };
        self.processes.insert(child, followed);
        match stopped.map(|thread| thread.resume(Resume::ToCall, 0)) {
            Some(Err(_)) => Err(disturbed("a process that it started is gone")),
            _ => Ok(()),
        }
    }

    /// Whether something that it has started still runs.
    pub(super) fn is_parent(&self) -> bool {
        self.processes.values().any(|process| process.child.is_some())
    }

    /// What a child has done is part of what the command has done.
    pub(super) fn child_ended(&mut self, process: &mut FollowedProcess) {
        let child = process.child.take().unwrap_or_default();
        self.trace.programs.extend(child.program);
    }

    /// Whether a child may become a program: one with other rights would not get them.
    pub(super) fn may_execute(&self, path: &CStr) -> Result<(), LeftBecause> {
        match crate::signals::has_file_privilege(path.to_bytes()) {
            true => Err(unrepeatable("it starts a program with other rights")),
            false => Ok(()),
        }
    }

    /// A process has become a program: its own file, and a script, if it is one.
    pub(super) fn executed(&mut self, process: &mut FollowedProcess) -> Result<(), LeftBecause> {
        let link = CString::new(format!("/proc/{}/exe", process.pid)).unwrap_or_default();
        let Some(child) = &mut process.child else {
            let path = self.program.program.as_os_str().as_encoded_bytes();
            return self.content(CString::new(path).unwrap_or_default(), &link);
        };
        let asked = match process.pending.take() {
            Some(PendingQuestion::Execute(path)) => path,
            _ => return Err(disturbed("a child became a program")),
        };
        let path = crate::files::proc_link(process.pid, "exe").unwrap_or_default();
        let is_itself = StatAttributes::of(&asked, true) == StatAttributes::of(&link, true);
        if !is_itself || !(self.program.follows)(&path) {
            return Err(unrepeatable(&format!("it starts {}", recording::shown(&path))));
        }
        child.program = Some(StartedProgram { path, opened: Vec::new() });
        self.content(asked, &link)
    }
}
