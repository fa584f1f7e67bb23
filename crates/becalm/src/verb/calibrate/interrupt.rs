//! Whether somebody has asked becalm to end, asked by any thread.

use std::sync::atomic::{AtomicI32, Ordering};

use anyhow::Context;

use crate::exit::Failure;

/// Requests to end that wait until what was made is removed.
pub struct Interrupt {
    requests: launch::EndRequests,
    came: AtomicI32,
}

impl Interrupt {
    /// From now on.
    pub fn wait_for() -> Result<Interrupt, Failure> {
        let requests = launch::EndRequests::wait_for().context("signals")?;
        Ok(Interrupt { requests, came: AtomicI32::new(0) })
    }

    /// Whether one has come.
    pub fn has_come(&self) -> bool {
        if let Some(signal) = self.requests.signal() {
            self.came.store(signal, Ordering::Relaxed);
        }
        self.came.load(Ordering::Relaxed) != 0
    }

    /// The signal that asked.
    pub fn signal(&self) -> Option<i32> {
        self.has_come().then(|| self.came.load(Ordering::Relaxed))
    }
}
