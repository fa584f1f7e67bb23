//! Signals: delivered as they would be without a tracer.

use proc::ProcessStatus;
use recording::Nanos;

use crate::arch::KERNEL_RESTARTS;
use crate::ptrace::{StoppedThread, TraceError};
use crate::task::{InterruptedCall, InterruptedCalls};

/// Decides whether a signal that a thread is stopped at goes on to it.
///
/// The kernel drops an ignored signal when it is sent; not so for a traced process, whose
/// tracer might want it (kernel/signal.c, `sig_ignored`). It then wakes the thread, and a call
/// that the kernel cannot restart returns EINTR: an error that an untraced program would never
/// see. Such a signal is not delivered, and the call is made again if no handler runs after all.
///
/// `interrupted` are the thread's.
pub(crate) fn deliver(
    thread: &StoppedThread,
    interrupted: &mut InterruptedCalls,
    signal: i32,
    now: Nanos,
) -> Result<bool, TraceError> {
    let tid = thread.tid();
    let is = |rule: fn(&SignalMasks, i32) -> bool| {
        SignalMasks::of(tid).is_some_and(|masks| rule(&masks, signal))
    };
    let mut registers = thread.registers()?;
    if registers.left_call_with_eintr(tid, &interrupted.kept)? && is(SignalMasks::ignore) {
        restart(thread, interrupted, now)?;
        return Ok(false);
    }
    if registers.before_signal(tid, &mut interrupted.kept, || is(SignalMasks::catch))? {
        thread.set_registers(&registers)?;
    }
    Ok(true)
}

/// Has a call be made again that a stop without effect has ended with EINTR, as [`deliver`] has
/// it; a thread that has left none stays as it is. Where a handler runs after all, the call returns
/// EINTR: the kernel sees to that, or [`deliver`].
pub(crate) fn restart(
    thread: &StoppedThread,
    interrupted: &mut InterruptedCalls,
    now: Nanos,
) -> Result<(), TraceError> {
    let tid = thread.tid();
    let mut registers = thread.registers()?;
    if !registers.left_call_with_eintr(tid, &interrupted.kept)? {
        return Ok(());
    }
    if let Some((timeout, result)) = registers.timeout(tid) {
        interrupted.timed = made_again(interrupted.timed, registers.instruction(), timeout, now);
        if interrupted.timed.is_none() {
            registers.set_result(result);
            return thread.set_registers(&registers);
        }
    }
    if registers.make_again(tid, &mut interrupted.kept)? {
        thread.set_registers(&registers)?;
    }
    Ok(())
}

/// The same for a thread that is let go of, whose next signal nobody sees. Where the kernel does not
/// see to it, a call whose handler waits is not made again; a signal that comes between this look
/// and the call ends none.
pub(crate) fn restart_at_last(
    thread: &StoppedThread,
    interrupted: &mut InterruptedCalls,
    now: Nanos,
) -> Result<(), TraceError> {
    let handler_waits = || SignalMasks::of(thread.tid()).is_some_and(|masks| masks.have_handler());
    if !KERNEL_RESTARTS && handler_waits() {
        return Ok(());
    }
    restart(thread, interrupted, now)
}

/// A call with a timeout that a signal without effect has interrupted, if it is made again; none
/// where its time is over.
///
/// A restarted call waits its whole time again: for ever, if such signals keep coming. It ends with
/// the first of them that comes after its time.
fn made_again(
    before: Option<InterruptedCall>,
    ip: u64,
    timeout: Nanos,
    now: Nanos,
) -> Option<InterruptedCall> {
    let same = before.filter(|before| before.ip == ip);
    let until = same.map_or(now + timeout, |before| before.until);
    (now < until).then_some(InterruptedCall { ip, until })
}

/// What a process does with signals, and which of them wait for a thread: sets, bit 0 for signal 1.
#[derive(Clone, Copy, Debug, Default)]
struct SignalMasks {
    waiting: u64,
    blocked: u64,
    ignored: u64,
    caught: u64,
}

fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

impl SignalMasks {
    fn of(tid: i32) -> Option<SignalMasks> {
        let status = ProcessStatus::of(tid)?;
        let mask = |name| status.mask(name).unwrap_or(0);
        Some(SignalMasks {
            waiting: mask("SigPnd") | mask("ShdPnd"),
            blocked: mask("SigBlk"),
            ignored: mask("SigIgn"),
            caught: mask("SigCgt"),
        })
    }

    /// Whether a signal has no effect: ignored, or by default ignored (signal(7)).
    fn ignore(&self, signal: i32) -> bool {
        let by_default =
            [libc::SIGCHLD, libc::SIGWINCH, libc::SIGURG, libc::SIGCONT].contains(&signal);
        self.ignored & bit(signal) != 0 || (by_default && !self.catch(signal))
    }

    /// Whether a signal is handled.
    fn catch(&self, signal: i32) -> bool {
        self.caught & bit(signal) != 0
    }

    /// Whether a signal waits whose handler runs next.
    fn have_handler(&self) -> bool {
        self.waiting & self.caught & !self.blocked != 0
    }

    /// Whether a signal waits that is neither blocked nor handled, and whose default is to end the
    /// process (signal(7)).
    fn are_deadly(&self) -> bool {
        const HARMLESS: [i32; 8] = [
            libc::SIGCHLD,
            libc::SIGWINCH,
            libc::SIGURG,
            libc::SIGCONT,
            libc::SIGSTOP,
            libc::SIGTSTP,
            libc::SIGTTIN,
            libc::SIGTTOU,
        ];
        let harmless = HARMLESS.into_iter().map(bit).sum::<u64>();
        self.waiting & !(self.blocked | self.ignored | self.caught | harmless) != 0
    }
}

/// Whether a signal that ends its process waits for a stopped thread.
pub(crate) fn is_doomed(tid: i32) -> bool {
    SignalMasks::of(tid).is_some_and(|masks| masks.are_deadly())
}

/// Whether one of these signals waits for a thread, and is not blocked.
pub(crate) fn waits(tid: i32, signals: &[i32]) -> bool {
    let mask: u64 = signals.iter().map(|signal| bit(*signal)).sum();
    SignalMasks::of(tid).is_some_and(|masks| masks.waiting & !masks.blocked & mask != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_without_effect_where_it_is_ignored_or_nobody_handles_a_harmless_one() {
        let masks = SignalMasks {
            ignored: bit(libc::SIGHUP),
            caught: bit(libc::SIGWINCH) | bit(libc::SIGUSR1),
            ..SignalMasks::default()
        };
        assert!(masks.ignore(libc::SIGHUP) && masks.ignore(libc::SIGCHLD));
        assert!(!masks.ignore(libc::SIGWINCH), "handled");
        assert!(!masks.ignore(libc::SIGUSR1) && !masks.ignore(libc::SIGTERM));
        assert!(!masks.ignore(libc::SIGSTOP) && !masks.ignore(64));
        assert!(masks.catch(libc::SIGUSR1) && !masks.catch(libc::SIGHUP));
    }

    #[test]
    fn a_handler_waits_where_its_signal_does_and_is_not_held_back() {
        let with = |waiting: i32| SignalMasks {
            waiting: bit(waiting),
            blocked: bit(libc::SIGTERM),
            caught: bit(libc::SIGINT) | bit(libc::SIGTERM),
            ..SignalMasks::default()
        };
        assert!(with(libc::SIGINT).have_handler());
        assert!(!with(libc::SIGTERM).have_handler() && !with(libc::SIGHUP).have_handler());
    }

    #[test]
    fn only_a_signal_that_will_end_the_process_is_deadly() {
        let with = |waiting: i32| SignalMasks {
            waiting: bit(waiting),
            blocked: bit(libc::SIGTERM),
            ignored: bit(libc::SIGHUP),
            caught: bit(libc::SIGINT),
        };
        let deadly = |signal: i32| with(signal).are_deadly();
        assert!(deadly(libc::SIGKILL) && deadly(libc::SIGUSR1) && deadly(64));
        assert!(!deadly(libc::SIGTERM) && !deadly(libc::SIGHUP) && !deadly(libc::SIGINT));
        assert!(!deadly(libc::SIGCHLD) && !deadly(libc::SIGTSTP));
        assert!(!SignalMasks::default().are_deadly());
    }

    #[test]
    fn an_interrupted_call_is_made_again_until_its_first_time_is_over() {
        let first = made_again(None, 7, Nanos(100), Nanos(1000));
        assert_eq!(first, Some(InterruptedCall { ip: 7, until: Nanos(1100) }));
        // Its time does not begin anew.
        assert_eq!(made_again(first, 7, Nanos(100), Nanos(1099)), first);
        assert_eq!(made_again(first, 7, Nanos(100), Nanos(1100)), None);
        let other = made_again(first, 8, Nanos(100), Nanos(1100));
        assert_eq!(other, Some(InterruptedCall { ip: 8, until: Nanos(1200) }), "another call");
        assert_eq!(made_again(None, 7, Nanos(0), Nanos(1000)), None, "it does not wait");
    }
}
