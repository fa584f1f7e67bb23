//! Where the stack is limited (`ulimit -s 64`): a larger one of becalm's own. The limit stays, for the
//! command. It is no thread's, since a process of several may not enter a user namespace.

use std::cell::RefCell;
use std::io;
use std::mem::MaybeUninit;
use std::ptr::null_mut;

use rustix::process::{Resource, getrlimit};

/// What becalm needs at most, and more than that.
const ENOUGH: u64 = 1 << 20;
const SIZE: usize = 8 << 20;
/// The largest page that there is.
const GUARD: usize = 64 << 10;

type Work = Box<dyn FnOnce()>;

thread_local! {
    static WORK: RefCell<Option<Work>> = const { RefCell::new(None) };
}

/// Does `work` where the stack is large enough, if that can be had.
pub fn with_enough_stack<T: 'static>(work: impl FnOnce() -> T + 'static) -> T {
    if getrlimit(Resource::Stack).current.is_none_or(|limit| limit >= ENOUGH) {
        return work();
    }
    let done = std::rc::Rc::new(RefCell::new(None));
    let into = done.clone();
    WORK.set(Some(Box::new(move || *into.borrow_mut() = Some(work()))));
    if on_another().is_err() {
        run();
    }
    // `run` has been here, on one stack or the other.
    done.take().unwrap_or_else(|| std::process::abort())
}

/// Runs [`WORK`], once.
extern "C" fn run() {
    if let Some(work) = WORK.take() {
        work();
    }
}

fn on_another() -> io::Result<()> {
    let (mut here, mut there) =
        (MaybeUninit::<libc::ucontext_t>::zeroed(), MaybeUninit::<libc::ucontext_t>::zeroed());
    let stack = mapped()?;
    // SAFETY: both contexts outlive the switch, which comes back when `run` ends; `run` takes no
    // arguments, and a panic does not leave an `extern "C"` function. The stack stays mapped.
    unsafe {
        if libc::getcontext(there.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        let context = &mut *there.as_mut_ptr();
        context.uc_stack.ss_sp = stack;
        context.uc_stack.ss_size = SIZE;
        context.uc_link = here.as_mut_ptr();
        libc::makecontext(context, run, 0);
        if libc::swapcontext(here.as_mut_ptr(), context) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// A stack, whose lowest pages are a guard.
fn mapped() -> io::Result<*mut libc::c_void> {
    let all = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: the kernel chooses the place; nothing else knows of it.
    unsafe {
        let stack = libc::mmap(null_mut(), SIZE, all, kind, -1, 0);
        if stack == libc::MAP_FAILED || libc::mprotect(stack, GUARD, libc::PROT_NONE) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(stack)
    }
}
