//! What calls of a followed process were told.

use std::ffi::CString;

use super::answered::tell;
use super::asked::TERMINAL_MOST;
use super::filled;
use super::follow::{FollowedCommand, disturbed};
use super::policy::{NotedChild, PendingQuestion, unrepeatable};
use super::process::{FollowedProcess, descriptor, is_null};
use super::{AnswerDependency, LeftBecause, StatAttributes, WrittenTo};
use crate::ptrace::StoppedThread;

/// What a command may write and be kept.
const OUTPUT_MOST: usize = 4 << 20;

impl FollowedCommand<'_> {
    pub(super) fn left(
        &mut self,
        thread: &StoppedThread,
        process: &mut FollowedProcess,
        question: PendingQuestion,
    ) -> Result<(), LeftBecause> {
        use PendingQuestion as Question;
        if matches!(question, Question::Nothing | Question::Note(_)) {
            return Ok(());
        }
        let (value, failed) = self.result(thread)?;
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
            Question::OpenInPlace { path, told, at, own } => {
                tell(thread, at, &own)?;
                if failed {
                    return Err(disturbed("what it reads first could not be opened"));
                }
                self.check_settled(&path, &path, &told)?;
                self.add(AnswerDependency::Content { path, told });
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
                let told = crate::files::proc_link(pid, "cwd")
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
            Question::Wait => {
                let is_first = self.trace.output.iter().all(|(to, _)| *to != WrittenTo::PagerEnded);
                if self.pages && !failed && value > 0 && is_first {
                    self.trace.output.push((WrittenTo::PagerEnded, Vec::new()));
                }
            }
            Question::Child if self.child != NotedChild::None => self.child = NotedChild::Started,
            Question::Child => {}
            Question::Execute(_) => return Err(disturbed("a child became a program")),
            Question::Pipe(_) if failed => return Err(disturbed("it could not make a pipe")),
            Question::Pipe(at) => {
                let pair = filled::bytes(pid, at, 8)?;
                let fd = i32::from_ne_bytes([pair[0], pair[1], pair[2], pair[3]]);
                let pipe = descriptor(pid, fd).map(|pipe| (pipe.device, pipe.inode));
                self.pipes.extend(pipe);
            }
            Question::MakeTemporary(_) | Question::RemoveTemporary(_) if failed => {
                return Err(unrepeatable("it could not make a file of its own, or remove it"));
            }
            Question::MakeTemporary(path) => {
                if !self.temporary.add(path, pid, value as i32) {
                    return Err(disturbed("a file that it has made could not be looked at"));
                }
            }
            Question::RemoveTemporary(path) => self.temporary.remove(&path),
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
            // They are never made.
            Question::Write { .. } => {}
        }
        Ok(())
    }

    /// Takes in what is written; how much that is.
    pub(super) fn wrote(
        &mut self,
        pid: i32,
        to: WrittenTo,
        parts: &[(u64, u64)],
    ) -> Result<i64, LeftBecause> {
        let mut written = 0;
        for (at, length) in parts {
            written += *length as usize;
            self.written = self.written.saturating_add(*length as usize);
            if self.written > OUTPUT_MOST {
                return Err(unrepeatable("it writes too much"));
            }
            let bytes = filled::bytes(pid, *at, *length as usize)?;
            match self.trace.output.last_mut() {
                Some((last, text)) if *last == to => text.extend(bytes),
                _ => self.trace.output.push((to, bytes)),
            }
        }
        Ok(written as i64)
    }
}
