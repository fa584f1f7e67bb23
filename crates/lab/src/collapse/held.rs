//! Signals to becalm itself, held back while the process is in its hands.

/// Until this is dropped, signals that would end becalm stay pending.
pub(super) struct Held {
    before: libc::sigset_t,
}

impl Held {
    pub(super) fn back() -> Held {
        // SAFETY: sigset_t is plain data; both functions fill what they are given.
        let before = unsafe {
            let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, &raw mut before);
            before
        };
        Held { before }
    }

    /// Whether one has come that asks becalm to end.
    pub(super) fn asked_to_end(&self) -> bool {
        const END: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];
        // SAFETY: sigset_t is plain data, which the function fills.
        let pending = unsafe {
            let mut pending: libc::sigset_t = std::mem::zeroed();
            libc::sigpending(&raw mut pending);
            pending
        };
        // SAFETY: the set was filled above; the numbers are signals.
        END.into_iter().any(|signal| unsafe { libc::sigismember(&raw const pending, signal) == 1 })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: the set is one that the kernel has filled.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut());
        }
    }
}
