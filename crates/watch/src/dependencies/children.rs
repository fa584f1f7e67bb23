//! The children of a followed command.
//!
//! A program gives another answer each time where it asks the clock, the processor or an address,
//! of which no call tells. So only programs are followed that are known not to.

use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::follow::{FollowedCommand, disturbed};
use super::policy::{NotedChild, PendingQuestion, unrepeatable};
use super::process::{
    ChildProcess, ChildRole, DescriptorEnd, FollowedProcess, StartedProgram, end_of_child,
};
use super::{LeftBecause, StatAttributes};
use crate::ptrace::{Resume, StoppedThread};

impl FollowedCommand<'_> {
    /// The command has started a child, which may have stopped already.
    pub(super) fn born(&mut self, child: i32, parent: &FollowedProcess) -> Result<(), LeftBecause> {
        let stopped = self.early.remove(&child).then(|| StoppedThread::heard_of(child));
        let role = match (parent.child.as_ref().map(|child| child.role), self.child) {
            (Some(role @ (ChildRole::Ignored | ChildRole::Pager)), _) => role,
            (_, NotedChild::Announced) => ChildRole::Ignored,
            (_, NotedChild::Pager) => ChildRole::Pager,
            _ => ChildRole::Followed,
        };
        let becomes = self.announced.take();
        // Tcl makes one for what a child complains of before it starts it, or makes none.
        self.temporary.expect_no_more();
        let is_child = ChildProcess { role, becomes, ..ChildProcess::default() };
        let followed = FollowedProcess { pid: child, pending: None, child: Some(is_child) };
        self.processes.insert(child, followed);
        match stopped.map(|thread| thread.resume(Resume::ToEvent, 0)) {
            Some(Err(_)) => Err(disturbed("a process that it started is gone")),
            _ => Ok(()),
        }
    }

    /// What a child has done is part of what the command has done.
    pub(super) fn child_ended(&mut self, process: &mut FollowedProcess, status: i32) {
        let child = process.child.take().unwrap_or_default();
        let is_program = child.role == ChildRole::Followed && child.program.is_some();
        self.program_failed |= status != 0 && is_program && !child.is_tool;
        // What the interpreter asks for, its prelude has said.
        self.trace.programs.extend(child.program.filter(|_| !child.is_tool));
    }

    /// A child of which is known already what it says has nothing to complain of; else this cannot be repeated.
    pub(super) fn ignored(
        &self,
        thread: &StoppedThread,
        process: &FollowedProcess,
    ) -> Result<(), LeftBecause> {
        let entry = self.entry(thread)?;
        if !matches!(entry.call.known_name(), Some("write" | "writev")) {
            return Ok(());
        }
        match end_of_child(self.pid, process.pid, entry.args[0] as i32, &self.pipes)? {
            DescriptorEnd::Standard(_) => Err(unrepeatable("a program that it starts complains")),
            _ => Ok(()),
        }
    }

    /// Whether a child may become a program: one with other rights would not get them.
    pub(super) fn may_execute(&self, path: &CStr) -> Result<(), LeftBecause> {
        match launch::gives_rights(Path::new(OsStr::from_bytes(path.to_bytes()))) {
            true => Err(unrepeatable("it starts a program with other rights")),
            false => Ok(()),
        }
    }

    /// A process has become a program: its own file, and a script, if it is one.
    pub(super) fn executed(&mut self, process: &mut FollowedProcess) -> Result<(), LeftBecause> {
        let link = CString::new(format!("/proc/{}/exe", process.pid)).unwrap_or_default();
        let Some(child) = &mut process.child else {
            self.interpreter = StatAttributes::of(&link, true).ok();
            let path = self.program.program.as_os_str().as_encoded_bytes();
            return self.content(CString::new(path).unwrap_or_default(), &link);
        };
        let asked = match process.pending.take() {
            Some(PendingQuestion::Execute(path)) => path,
            _ => return Err(disturbed("a child became a program")),
        };
        let path = crate::files::proc_link(process.pid, "exe").unwrap_or_default();
        let file = StatAttributes::of(&link, true);
        let is_itself = StatAttributes::of(&asked, true) == file;
        let is_announced = child.becomes.as_ref() == Some(&asked);
        let is_shell = child.becomes.is_some() && child.program.is_none() && is_shell(&path);
        let is_tool = is_announced && self.interpreter.is_some() && self.interpreter == file.ok();
        if !is_itself || !(is_shell || is_tool || (self.program.follows)(&path)) {
            return Err(unrepeatable(&format!("it starts {}", recording::shown(&path))));
        }
        let before = child.program.replace(StartedProgram { path, opened: Vec::new() });
        self.trace.programs.extend(before);
        if !is_shell {
            child.becomes = None;
        }
        child.is_tool = is_tool;
        self.content(asked, &link)
    }
}

/// Whether a program runs plain words as sh(1) does, and says nothing of its own before.
fn is_shell(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    matches!(name, b"dash" | b"bash")
}
