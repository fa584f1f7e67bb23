//! A second thread of the process that makes system calls for becalm, and runs nothing else.
//!
//! Should becalm be killed in the middle of one, the thread goes on behind it, with `ret`. Its
//! stack, a page of its own, then leads it into rt_sigreturn(2) and from there into exit(2), as a
//! thread that ends: the process goes on, with a page more.

use std::io;
use std::time::{Duration, Instant};

use libc::user_regs_struct as Registers;

use super::error::Error;
use super::instructions::Instructions;
use super::memory;
use super::stops::{self, Stop};

/// The thread; it ends when this is dropped.
pub(super) struct Helper {
    pid: i32,
    tid: i32,
    instructions: Instructions,
    registers: Registers,
    page: Option<u64>,
}

/// What a call came to.
struct Called {
    value: i64,
    /// What it has made, and how long that took.
    made: Option<(i32, Duration)>,
}

const PAGE: u64 = 4096;
/// Where in the page the stack is.
const STACK: u64 = 1024;

impl Helper {
    /// Takes over a thread that has just been made, and gives it a page.
    pub(super) fn of(pid: i32, tid: i32, instructions: Instructions) -> Result<Helper, Error> {
        let failed = |what| move |error| Error::Trace { pid, what, error };
        let stop = stops::wait(tid).map_err(failed("waiting for a new thread"))?;
        if stop == Stop::Gone {
            return Err(Error::Gone(pid));
        }
        let registers = stops::registers(tid).map_err(failed("reading registers"))?;
        let mut helper = Helper { pid, tid, instructions, registers, page: None };
        let (access, kind) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let arguments = [0, PAGE, access as u64, kind as u64, u64::MAX, 0];
        let page = helper.call("mmap", libc::SYS_mmap, arguments)? as u64;
        helper.page = Some(page);
        let way_out = way_out(instructions, page + STACK);
        memory::write(pid, page + STACK, &way_out).map_err(failed("writing to a page"))?;
        helper.registers.rsp = page + STACK;
        Ok(helper)
    }

    /// Has the kernel put blocks of memory into huge pages: madvise(2).
    ///
    /// # Errors
    /// The kernel's number, or the process is gone.
    pub(super) fn collapse(&mut self, start: u64, bytes: u64) -> Result<Result<(), i32>, Error> {
        let arguments = [start, bytes, libc::MADV_COLLAPSE as u64, 0, 0, 0];
        let called = self.make(libc::SYS_madvise, arguments).map_err(|error| self.lost(error))?;
        Ok(if called.value == 0 { Ok(()) } else { Err(-called.value as i32) })
    }

    /// How long the process is forked: a copy of it is made, which is killed before its first
    /// instruction, and taken apart. No signal tells the process of it (its exit signal is 0), and
    /// only wait(2) with `__WALL` or `__WCLONE` could see it. None if the kernel makes no more
    /// processes.
    pub(super) fn fork(&mut self) -> Result<Option<Duration>, Error> {
        let called = self.make(libc::SYS_clone, [0; 6]).map_err(|error| self.lost(error))?;
        let Some((child, copying)) = called.made else { return Ok(None) };
        let since = Instant::now();
        // SAFETY: a system call with two numbers; the child is traced, so its id is not another's.
        unsafe { libc::kill(child, libc::SIGKILL) };
        while stops::wait(child).map_err(|error| self.lost(error))? != Stop::Gone {}
        let taken_apart = since.elapsed();
        // By the id that it has in the process's own namespace.
        let arguments = [called.value as u64, 0, (libc::__WALL | libc::WNOHANG) as u64, 0, 0, 0];
        self.make(libc::SYS_wait4, arguments).map_err(|error| self.lost(error))?;
        Ok(Some(copying + taken_apart))
    }

    fn call(&mut self, name: &'static str, number: i64, args: [u64; 6]) -> Result<i64, Error> {
        let called = self.make(number, args).map_err(|error| self.lost(error))?;
        match called.value {
            value @ -4095..0 => Err(Error::Call {
                pid: self.pid,
                call: name,
                error: io::Error::from_raw_os_error(-value as i32),
            }),
            value => Ok(value),
        }
    }

    fn lost(&self, error: io::Error) -> Error {
        match error.raw_os_error() {
            Some(libc::ESRCH | libc::ECHILD) => Error::Gone(self.pid),
            _ => Error::Trace { pid: self.pid, what: "making a call", error },
        }
    }

    fn set(&self, number: i64, args: [u64; 6]) -> io::Result<()> {
        let [rdi, rsi, rdx, r10, r8, r9] = args;
        let call = Registers {
            rip: self.instructions.call,
            rax: number as u64,
            orig_rax: u64::MAX,
            rdi,
            rsi,
            rdx,
            r10,
            r8,
            r9,
            ..self.registers
        };
        stops::set_registers(self.tid, &call)
    }

    fn make(&mut self, number: i64, args: [u64; 6]) -> io::Result<Called> {
        self.set(number, args)?;
        let mut made = None;
        let value = stops::call(self.tid, |child, took| made = Some((child, took)))?;
        Ok(Called { value, made })
    }

    fn end(&mut self) -> io::Result<()> {
        if let Some(page) = self.page.take() {
            self.make(libc::SYS_munmap, [page, PAGE, 0, 0, 0, 0])?;
        }
        self.set(libc::SYS_exit, [0; 6])?;
        let mut signal = 0;
        loop {
            stops::resume(self.tid, signal)?;
            signal = match stops::wait(self.tid)? {
                Stop::Gone => return Ok(()),
                Stop::Signal(libc::SIGSTOP) => libc::SIGSTOP,
                _ => 0,
            };
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // It fails only if the process is gone, and the thread with it.
        let _ = self.end();
    }
}

/// A stack that `ret` takes to exit(2): the address of rt_sigreturn(2), and what that reads there
/// (arch/x86/include/uapi/asm/sigcontext.h: `struct rt_sigframe`'s `ucontext`).
fn way_out(instructions: Instructions, stack: u64) -> Vec<u8> {
    const STACK_FLAGS: usize = 4;
    const AX: usize = 19;
    const SP: usize = 21;
    const IP: usize = 22;
    const FLAGS: usize = 23;
    const SEGMENTS: usize = 24;
    const MASK: usize = 38;
    let mut words = [0_u64; MASK + 1];
    words[0] = instructions.sigreturn;
    // UC_SIGCONTEXT_SS and UC_STRICT_RESTORE_SS: the stack segment is given below.
    words[1] = 6;
    words[STACK_FLAGS] = libc::SS_DISABLE as u64;
    words[AX] = libc::SYS_exit as u64;
    words[SP] = stack;
    words[IP] = instructions.call;
    // Bit 1 is always set, and interrupts are on.
    words[FLAGS] = 0x202;
    // __USER_CS and, at the top, __USER_DS.
    words[SEGMENTS] = 0x33 | 0x2b << 48;
    words[MASK] = u64::MAX;
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}
