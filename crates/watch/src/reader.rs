//! How the tracer learns of calls: which of them stop, what they are, and who says so.

use recording::Call;

use crate::decode::CallEntry;
use crate::ptrace::{self, CallSource, Resume, StoppedThread, SyscallInfo, TraceError};
use crate::shape::CallShapes;
use crate::{arch, filter};

/// How calls are seen.
pub(crate) struct CallReader {
    /// What threads stop at besides, and what becomes of them if the tracer dies.
    pub options: i32,
    pub shapes: CallShapes,
    /// Whether a seccomp filter chooses the calls, or every call stops.
    pub filtered: bool,
    pub source: CallSource,
}

/// A call that a thread has stopped at.
pub(crate) enum StoppedCall {
    /// It is about to be made.
    Entry(CallEntry),
    /// A filter of the command's own asked for a tracer.
    Foreign,
    /// It has returned.
    Exit { value: i64, failed: bool },
    /// There is none.
    None,
}

impl CallReader {
    /// The call of a thread that has stopped for it; `entry` says whether before it.
    pub fn call(&self, thread: &StoppedThread, entry: bool) -> Result<StoppedCall, TraceError> {
        Ok(match thread.syscall_info(self.source, entry)? {
            SyscallInfo::Entry { arch, ip, number, args, filter } => {
                let mark = match filter {
                    // Registers do not hold the filter's mark; the event's message does.
                    None if self.filtered => Some(thread.event_message()? as u32),
                    mark => mark,
                };
                if mark.is_some_and(|mark| mark != filter::MARK) {
                    return Ok(StoppedCall::Foreign);
                }
                let (abi, number) = arch::table(arch, number);
                let call = Call::new(abi, number);
                StoppedCall::Entry(CallEntry { call, shape: self.shapes.of(call), args, ip })
            }
            SyscallInfo::Exit { value, failed } => StoppedCall::Exit { value, failed },
            SyscallInfo::None { .. } => StoppedCall::None,
        })
    }

    /// How a thread goes on: to the exit of the call that it is in, if it is in one.
    pub fn resume(&self, in_call: bool) -> Resume {
        if in_call || !self.filtered { Resume::ToCall } else { Resume::ToEvent }
    }
}

/// What threads of a command of becalm's own stop at, with a filter or without. They end with the
/// tracer.
pub(crate) fn options(filtered: bool) -> i32 {
    let filter = if filtered { libc::PTRACE_O_TRACESECCOMP } else { 0 };
    ptrace::OPTIONS | libc::PTRACE_O_EXITKILL | filter
}
