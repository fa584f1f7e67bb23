//! A process of a followed command: the command itself, or a child that it has started.

use std::collections::HashSet;
use std::ffi::CString;

use super::policy::{PendingQuestion, unrepeatable};
use super::{LeftBecause, StatAttributes};

/// A program that a command has started, of which the calls are among the command's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartedProgram {
    /// Its file, without links.
    pub path: Vec<u8>,
    /// The files that it has opened.
    pub opened: Vec<CString>,
}

/// A process that is followed.
#[derive(Debug)]
pub(super) struct FollowedProcess {
    pub pid: i32,
    /// The call that it is in.
    pub pending: Option<PendingQuestion>,
    /// Of a child, what it has become since.
    pub child: Option<ChildProcess>,
}

/// What is known of a child alone.
#[derive(Debug, Default)]
pub(super) struct ChildProcess {
    pub role: ChildRole,
    /// None as long as it is what started it.
    pub program: Option<StartedProgram>,
    /// Of a shell that is to become a program by plain words: that program's path.
    pub becomes: Option<CString>,
    /// Whether it is the command's own interpreter, which a prelude speaks for.
    pub is_tool: bool,
}

/// What a child is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ChildRole {
    /// To do a part of what the command does.
    #[default]
    Followed,
    /// To say what a note has said already that it depends on.
    Ignored,
    /// To show what is written to it, which is kept.
    Pager,
}

/// What a process is, and so what it may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProcessRole {
    /// The command, or its interpreter once more.
    Tool,
    /// A shell that is about to become a program: what it asks for itself decides nothing.
    Shell,
    /// A program that is known, or is not one yet.
    Program,
    /// What is to become a pager.
    Pager,
}

impl FollowedProcess {
    /// What it is now.
    pub fn role(&self) -> ProcessRole {
        match &self.child {
            None => ProcessRole::Tool,
            Some(ChildProcess { role: ChildRole::Pager, .. }) => ProcessRole::Pager,
            Some(child) if child.is_tool => ProcessRole::Tool,
            Some(ChildProcess { program: Some(_), becomes: Some(_), .. }) => ProcessRole::Shell,
            Some(_) => ProcessRole::Program,
        }
    }
}

/// Where a descriptor leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DescriptorEnd {
    /// The command's own standard descriptor of this number.
    Standard(i32),
    /// A pipe between the command's processes, or nowhere.
    Inside,
    /// A file that the process has opened itself, or nothing.
    Opened,
}

/// The pipes that the command has made: device and number.
pub(super) type InnerPipes = HashSet<(u64, u64)>;

/// The null device (null(4)).
pub(super) fn is_null(file: &StatAttributes) -> bool {
    file.mode & libc::S_IFMT == libc::S_IFCHR && file.is_device == libc::makedev(1, 3)
}

/// What stat(2) says of a process's descriptor.
pub(super) fn descriptor(pid: i32, fd: i32) -> Option<StatAttributes> {
    let path = CString::new(format!("/proc/{pid}/fd/{fd}")).ok()?;
    StatAttributes::of(&path, true).ok()
}

/// Where a child's descriptor leads to: it may have come by any of the command's.
///
/// # Errors
/// It is one of several standard descriptors that are the same file.
pub(super) fn end_of_child(
    command: i32,
    child: i32,
    fd: i32,
    pipes: &InnerPipes,
) -> Result<DescriptorEnd, LeftBecause> {
    let Some(file) = descriptor(child, fd) else { return Ok(DescriptorEnd::Opened) };
    if is_null(&file) || pipes.contains(&(file.device, file.inode)) {
        return Ok(DescriptorEnd::Inside);
    }
    let is_same = |standard: &i32| {
        descriptor(command, *standard)
            .is_some_and(|other| (other.device, other.inode) == (file.device, file.inode))
    };
    let same: Vec<i32> = (0..=2).filter(is_same).collect();
    match same.as_slice() {
        [] => Ok(DescriptorEnd::Opened),
        [one] => Ok(DescriptorEnd::Standard(*one)),
        // To read one of them or to write is refused or not by its number.
        [0, ..] if fd == 0 => Ok(DescriptorEnd::Standard(0)),
        _ => Err(unrepeatable("a program that it starts writes to one of its two outputs")),
    }
}
