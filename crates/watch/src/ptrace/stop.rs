//! Why a thread stands still: what `wait4` says, told apart.

/// A stop of a traced thread (ptrace(2), "Stopped states").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PtraceStop {
    /// Before or after a call; which of them, its call's source knows.
    Call,
    /// Before a call that the seccomp filter has chosen.
    FilteredCall,
    /// About to get a signal.
    Signal(i32),
    /// In the call that has just made a thread or a process.
    Birth,
    /// Has become a program.
    Exec,
    /// About to end.
    Exit,
    /// Stopped with its group, by this signal.
    Group(i32),
    /// A new thread before its first instruction, one that was interrupted, or one whose group
    /// goes on.
    Begin,
    /// Of no interest.
    Other,
}

impl PtraceStop {
    /// What a wait status says; none of a thread that has ended.
    pub fn of(status: i32) -> Option<PtraceStop> {
        const STOPS: [i32; 4] = [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
        if !libc::WIFSTOPPED(status) {
            return None;
        }
        let signal = libc::WSTOPSIG(status);
        Some(match status >> 16 {
            // PTRACE_O_TRACESYSGOOD sets the bit.
            0 if signal == libc::SIGTRAP | 0x80 => PtraceStop::Call,
            0 => PtraceStop::Signal(signal),
            libc::PTRACE_EVENT_SECCOMP => PtraceStop::FilteredCall,
            libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE => {
                PtraceStop::Birth
            }
            libc::PTRACE_EVENT_EXEC => PtraceStop::Exec,
            libc::PTRACE_EVENT_EXIT => PtraceStop::Exit,
            libc::PTRACE_EVENT_STOP if STOPS.contains(&signal) => PtraceStop::Group(signal),
            libc::PTRACE_EVENT_STOP => PtraceStop::Begin,
            _ => PtraceStop::Other,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The status of a stop by a signal, with an event (wait4(2), ptrace(2)).
    fn status(signal: i32, event: i32) -> Option<PtraceStop> {
        PtraceStop::of(event << 16 | signal << 8 | 0x7f)
    }

    #[test]
    fn a_stop_at_a_call_is_no_signal_and_sigtrap_is_one() {
        assert_eq!(status(libc::SIGTRAP | 0x80, 0), Some(PtraceStop::Call));
        assert_eq!(status(libc::SIGTRAP, 0), Some(PtraceStop::Signal(libc::SIGTRAP)));
        let filtered = status(libc::SIGTRAP, libc::PTRACE_EVENT_SECCOMP);
        assert_eq!(filtered, Some(PtraceStop::FilteredCall));
    }

    #[test]
    fn all_ways_to_make_a_process_are_births() {
        let events = [libc::PTRACE_EVENT_FORK, libc::PTRACE_EVENT_VFORK, libc::PTRACE_EVENT_CLONE];
        for event in events {
            assert_eq!(status(libc::SIGTRAP, event), Some(PtraceStop::Birth));
        }
        // The parent of a vfork goes on: asked for by nobody.
        let done = status(libc::SIGTRAP, libc::PTRACE_EVENT_VFORK_DONE);
        assert_eq!(done, Some(PtraceStop::Other));
    }

    #[test]
    fn a_groups_stop_is_told_from_a_signal_and_from_a_begin() {
        for signal in [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU] {
            assert_eq!(status(signal, libc::PTRACE_EVENT_STOP), Some(PtraceStop::Group(signal)));
            assert_eq!(status(signal, 0), Some(PtraceStop::Signal(signal)));
        }
        let begin = status(libc::SIGTRAP, libc::PTRACE_EVENT_STOP);
        assert_eq!(begin, Some(PtraceStop::Begin));
    }

    #[test]
    fn an_end_is_no_stop() {
        let (exited, killed) = (23 << 8, libc::SIGKILL);
        assert_eq!((PtraceStop::of(exited), PtraceStop::of(killed)), (None, None));
    }
}
