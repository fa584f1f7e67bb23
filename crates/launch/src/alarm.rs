//! A signal that ends what this process waits in, after some time.

use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::time::Duration;

use crate::signals;

extern "C" fn nothing(_: i32) {}

/// SIGALRM after some time, and again as often: a call that waits ends with EINTR. Once it is dropped, all
/// is as it was.
#[derive(Debug)]
pub struct WaitAlarm {
    action: libc::sigaction,
    timer: libc::itimerval,
    mask: libc::sigset_t,
}

impl WaitAlarm {
    /// From now on.
    pub fn after(time: Duration) -> WaitAlarm {
        let time = libc::timeval {
            tv_sec: time.as_secs() as libc::time_t,
            tv_usec: time.subsec_micros().into(),
        };
        let timer = libc::itimerval { it_interval: time, it_value: time };
        let mut before = WaitAlarm {
            // SAFETY: both are plain numbers, for which zero is valid.
            action: unsafe { MaybeUninit::zeroed().assume_init() },
            // SAFETY: as above.
            timer: unsafe { MaybeUninit::zeroed().assume_init() },
            mask: signals::block(&signals::set([])),
        };
        // SAFETY: all are initialised, and live on through the calls. The handler does nothing; without
        // SA_RESTART, what waits is interrupted.
        unsafe {
            let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
            action.sa_sigaction = nothing as extern "C" fn(i32) as libc::sighandler_t;
            libc::sigaction(libc::SIGALRM, &action, &mut before.action);
            libc::setitimer(libc::ITIMER_REAL, &timer, &mut before.timer);
        }
        signals::unblock(&signals::set([libc::SIGALRM]));
        before
    }
}

impl Drop for WaitAlarm {
    fn drop(&mut self) {
        // SAFETY: both were filled by the kernel.
        unsafe {
            libc::setitimer(libc::ITIMER_REAL, &self.timer, null_mut());
            libc::sigaction(libc::SIGALRM, &self.action, null_mut());
        }
        signals::block_only(&self.mask);
    }
}
