//! io_uring: calls that no tracer sees.

use crate::answer::{MachineProbe, ProbeSubject, RefusedBy, Refuser};
use crate::child::{ProbeStop, ask};
use crate::host::{Host, Nonsense, sysctl};
use crate::sys::checked;

/// A ring can be set up.
pub(crate) fn io_uring(host: &Host) -> MachineProbe {
    let about = ProbeSubject {
        name: "io_uring",
        title: "io_uring",
        used_for: "nothing: files opened by it escape a recording",
    };
    let mut room = [0_u32; PARAMETERS];
    let failure = match ask(|| set_up(1, room.as_mut_ptr())) {
        Ok(_) => return about.works("a ring was set up; a recording says when a program does so"),
        Err(failure) => failure,
    };
    if failure.errno() == Some(libc::ENOSYS) && host.filters == crate::host::Fact::Absent {
        return MachineProbe {
            remedy: None,
            ..about.absent("the kernel was built without it", "")
        };
    }
    let disabled = sysctl("kernel/io_uring_disabled").unwrap_or(0);
    let nonsense = (disabled == 0).then_some(NO_PARAMETERS);
    let refuser = match host.usual_refuser(&failure, nonsense) {
        Some(refuser) => refuser,
        None if disabled != 0 => Refuser {
            by: RefusedBy::Sysctl,
            what: format!("sysctl kernel.io_uring_disabled = {disabled}"),
            remedy: None,
        },
        None => Refuser::unknown(""),
    };
    // Nothing to remedy: without it, a recording has one blind spot less.
    about.refused(&failure, Refuser { remedy: None, ..refuser })
}

/// `struct io_uring_params` (linux/io_uring.h) is 120 bytes.
const PARAMETERS: usize = 30;

fn set_up(entries: u32, parameters: *mut u32) -> Result<u64, ProbeStop> {
    // SAFETY: `parameters` is null or has room for `struct io_uring_params`.
    checked("io_uring_setup", unsafe {
        libc::syscall(libc::SYS_io_uring_setup, entries, parameters)
    })
}

/// The kernel reads the parameters first.
const NO_PARAMETERS: Nonsense =
    Nonsense { call: || set_up(0, std::ptr::null_mut()), usual: libc::EFAULT };
