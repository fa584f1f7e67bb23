//! A call that a stop without effect has ended with EINTR, and how it is made again.
//!
//! Before a thread stops for a signal, the kernel has decided what becomes of its call, and forgets
//! the call (do_signal of arch/arm64/kernel/signal.c): a restart is prepared, or EINTR stands, and the
//! stop itself changes neither any more. So what x86's kernel does after the stop is done here.
//! A 32-bit thread's call stays as it is: EINTR.

use super::{ArmRegisters, COUNT, NT_ARM_SYSTEM_CALL, PC, set_register_set};
use crate::memory;
use crate::ptrace::TraceError;

/// `svc #0`: the instruction that makes a call.
const CALL: u32 = 0xd400_0001;
const CALL_SIZE: u64 = 4;

/// The register that has a call's number. A call leaves it, and all others but x0, as they are.
const NUMBER: usize = 8;

/// `NO_SYSCALL` (asm/ptrace.h): the number of a thread in no call.
const NO_CALL: i32 = -1;

/// What is kept of a thread whose calls signals end.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeptRegisters {
    /// Those with which it goes on to make a call again.
    again: Option<Box<[u64; COUNT]>>,
    /// The call that a handler has ended, if one ran when the thread got its latest signal.
    handled: Option<HandledCall>,
}

/// A call that has ended with EINTR since a handler runs.
#[derive(Clone, Debug)]
struct HandledCall {
    /// What the handler's end puts back (rt_sigreturn(2)).
    after: Box<[u64; COUNT]>,
    first_argument: u64,
}

impl ArmRegisters {
    /// Whether a thread at a signal's stop has just left a system call with EINTR, which no handler
    /// has ended.
    pub fn left_call_with_eintr(&self, tid: i32, kept: &KeptRegisters) -> Result<bool, TraceError> {
        let eintr = self.narrow.is_none() && self.result() == -i64::from(libc::EINTR);
        if !eintr || !is_call(tid, self.x[PC].wrapping_sub(CALL_SIZE)) {
            return Ok(false);
        }
        // Signals that a handler held back come at its end, when all registers are put back: the thread
        // looks as if it had left its call only now. What it has left has another first argument:
        // rt_sigreturn's is what the handler happened to leave in x0.
        match kept.handled.as_ref().filter(|handled| *handled.after == self.x) {
            Some(handled) => Ok(self.first_argument(tid)? == Some(handled.first_argument)),
            None => Ok(true),
        }
    }

    /// Has a call be made again that the thread has left with EINTR; false: it cannot be.
    pub fn make_again(&mut self, tid: i32, kept: &mut KeptRegisters) -> Result<bool, TraceError> {
        let Some(first) = self.first_argument(tid)? else { return Ok(false) };
        self.x[0] = first;
        self.x[PC] -= CALL_SIZE;
        kept.again = Some(Box::new(self.x));
        Ok(true)
    }

    /// Has the call return EINTR all the same that a thread is about to make again, where a handler
    /// runs before that; whether registers have changed.
    ///
    /// To be asked whenever a thread gets a signal: it is kept which call a handler would end.
    pub fn before_signal(
        &mut self,
        tid: i32,
        kept: &mut KeptRegisters,
        is_caught: impl FnOnce() -> bool,
    ) -> Result<bool, TraceError> {
        if self.narrow.is_some() {
            return Ok(false);
        }
        let is_again = kept.again.as_ref().is_some_and(|again| **again == self.x);
        if is_call(tid, self.x[PC]) {
            // Put back by the kernel, which takes that back where a handler ends the call, or here.
            let mut after = Box::new(self.x);
            after[0] = -i64::from(libc::EINTR) as u64;
            after[PC] += CALL_SIZE;
            kept.handled = Some(HandledCall { after, first_argument: self.x[0] });
        } else if self.left_call_with_eintr(tid, kept)?
            && let Some(first_argument) = self.first_argument(tid)?
        {
            kept.handled = Some(HandledCall { after: Box::new(self.x), first_argument });
        }
        match &kept.handled {
            Some(handled) if is_again && is_caught() => self.x = *handled.after,
            _ => return Ok(false),
        }
        kept.again = None;
        Ok(true)
    }

    /// The first argument of the call that a stopped thread has left; none where it is not told. No
    /// register holds it any more but the kernel's orig_x0, which /proc tells of a thread that is in a
    /// call (collect_syscall of lib/syscall.c): so the thread is in its call while that is read.
    fn first_argument(&self, tid: i32) -> Result<Option<u64>, TraceError> {
        let Ok(number) = u16::try_from(self.x[NUMBER]) else { return Ok(None) };
        set_number(tid, number.into())?;
        let told = std::fs::read_to_string(format!("/proc/{tid}/syscall"));
        set_number(tid, NO_CALL)?;
        Ok(told.ok().and_then(|told| first_argument_in(&told)))
    }
}

fn set_number(tid: i32, number: i32) -> Result<(), TraceError> {
    set_register_set(tid, NT_ARM_SYSTEM_CALL, &number.to_ne_bytes())
}

fn is_call(tid: i32, at: u64) -> bool {
    let mut instruction = [0; CALL_SIZE as usize];
    memory::read(tid, at, &mut instruction)
        .is_ok_and(|got| got == instruction.len() && u32::from_le_bytes(instruction) == CALL)
}

/// Of `NUMBER ARGUMENT… SP PC` (proc_pid_syscall(5)); none of a thread in no call.
fn first_argument_in(told: &str) -> Option<u64> {
    let mut words = told.split_ascii_whitespace();
    words.next()?.parse::<u32>().ok()?;
    u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This process stands for the stopped one: its memory is read in the same way.
    fn own() -> i32 {
        std::process::id() as i32
    }

    const EINTR: u64 = -libc::EINTR as i64 as u64;

    /// Registers behind the first of these instructions.
    fn behind(code: &[u32; 2], x0: u64) -> ArmRegisters {
        let mut x = std::array::from_fn(|at| 0x100 + at as u64);
        (x[0], x[PC]) = (x0, code.as_ptr() as u64 + CALL_SIZE);
        // Of no call, so that none is asked for its arguments.
        x[NUMBER] = u64::MAX;
        ArmRegisters { x, narrow: None, number: None }
    }

    const MAKES_A_CALL: [u32; 2] = [CALL, 0xd65f_03c0];

    #[test]
    fn only_what_stands_behind_a_calls_instruction_with_eintr_has_left_one() {
        let left = |registers: ArmRegisters| {
            registers.left_call_with_eintr(own(), &KeptRegisters::default()).unwrap()
        };
        assert!(left(behind(&MAKES_A_CALL, EINTR)));
        assert!(!left(behind(&MAKES_A_CALL, 0)));
        assert!(!left(behind(&[0xd65f_03c0, CALL], EINTR)), "behind another instruction");
        let narrow = ArmRegisters { narrow: Some([0; 18]), ..behind(&MAKES_A_CALL, EINTR) };
        assert!(!left(narrow), "32 bits");
    }

    #[test]
    fn what_a_handlers_end_puts_back_is_no_call_that_was_just_left() {
        let registers = behind(&MAKES_A_CALL, EINTR);
        let handled = HandledCall { after: Box::new(registers.x), first_argument: 5 };
        let mut kept = KeptRegisters { again: None, handled: Some(handled) };
        assert!(!registers.left_call_with_eintr(own(), &kept).unwrap());
        // Another call at the same place.
        kept.handled.as_mut().unwrap().after[19] += 1;
        assert!(registers.left_call_with_eintr(own(), &kept).unwrap());
    }

    #[test]
    fn a_call_that_is_to_be_made_again_returns_eintr_where_a_handler_runs_first() {
        let left = behind(&MAKES_A_CALL, EINTR);
        let mut registers = behind(&MAKES_A_CALL, 5);
        registers.x[PC] -= CALL_SIZE;
        let again = || KeptRegisters { again: Some(Box::new(registers.x)), handled: None };
        let mut kept = again();
        let mut gets = |registers: &ArmRegisters, caught: bool| {
            let mut registers = ArmRegisters { x: registers.x, narrow: None, number: None };
            let changed = registers.before_signal(own(), &mut kept, || caught).unwrap();
            (changed, registers.x)
        };
        assert_eq!(gets(&registers, false), (false, registers.x), "no handler");
        assert_eq!(gets(&registers, true), (true, left.x));
        assert_eq!(gets(&registers, true), (false, registers.x), "the kernel's own restart");
        assert!(!left.left_call_with_eintr(own(), &kept).unwrap(), "the handler's end");
        kept = again();
        registers.x[1] += 1;
        assert!(!registers.before_signal(own(), &mut kept, || true).unwrap(), "another call");
    }

    #[test]
    fn the_first_argument_is_read_of_a_thread_in_a_call() {
        let told = "22 0x3 0xffffe0 0x1 0xffffffff 0x0 0x8 0xffffd10a4a70 0xffffb59c5aa8\n";
        assert_eq!(first_argument_in(told), Some(3));
        assert_eq!(
            first_argument_in("0 0xffffffffffffffff 0x0 0x0 0x0 0x0 0x0 0x1 0x2\n"),
            Some(u64::MAX)
        );
        assert_eq!(first_argument_in("-1 0xffffd10a4a70 0xffffb59c5aa8\n"), None);
        assert_eq!(first_argument_in("running\n"), None);
    }
}
