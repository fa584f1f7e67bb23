//! Signals to becalm itself, held back while the process is in its hands.

use launch::signals;

/// Until this is dropped, signals that would end becalm stay pending.
pub(super) struct SignalsHeldBack {
    before: libc::sigset_t,
}

impl SignalsHeldBack {
    pub(super) fn all() -> SignalsHeldBack {
        SignalsHeldBack { before: signals::block(&signals::all()) }
    }

    /// Whether one has come that asks becalm to end.
    pub(super) fn asked_to_end(&self) -> bool {
        signals::is_pending([libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT])
    }
}

impl Drop for SignalsHeldBack {
    fn drop(&mut self) {
        signals::block_only(&self.before);
    }
}
