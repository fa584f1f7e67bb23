//! How a command ended, and how to end in the same way.

use rustix::process::{Resource, Rlimit, setrlimit};

use crate::signals::{self, Disposition};

/// How a command ended, from its wait status (wait(2)).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
pub enum Ended {
    /// It exited with this status.
    Exited(u8),
    /// This signal killed it.
    Signaled(i32),
}

impl Ended {
    /// From the status that `wait4` gave for an ended process.
    pub fn from_wait(status: i32) -> Ended {
        if libc::WIFSIGNALED(status) {
            Ended::Signaled(libc::WTERMSIG(status))
        } else {
            Ended::Exited(libc::WEXITSTATUS(status) as u8)
        }
    }

    /// Passes the end on to whoever waits for this process: returns the exit status, or dies
    /// by the same signal, without a core dump of its own.
    pub fn pass_on(self) -> u8 {
        let signal = match self {
            Ended::Exited(status) => return status,
            Ended::Signaled(signal) => signal,
        };
        let no_core = Rlimit { current: Some(0), maximum: Some(0) };
        let _ = setrlimit(Resource::Core, no_core);
        Disposition::DEFAULT.give(signal);
        signals::unblock(&signals::set([signal]));
        let _ = signals::send(std::process::id() as i32, signal);
        // Still here: the signal is one that does not kill (its number is this shell's way).
        128u8.wrapping_add(signal as u8)
    }
}
