//! How a command ended, and how to end in the same way.

/// How a command ended, from its wait status (wait(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
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
        let no_core = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: plain system calls on this process; the set is initialised before use.
        unsafe {
            libc::setrlimit(libc::RLIMIT_CORE, &no_core);
            libc::signal(signal, libc::SIG_DFL);
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, signal);
            libc::sigprocmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
            libc::kill(libc::getpid(), signal);
        }
        // Still here: the signal is one that does not kill (its number is this shell's way).
        128u8.wrapping_add(signal as u8)
    }
}
