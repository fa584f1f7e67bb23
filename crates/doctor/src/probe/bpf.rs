//! eBPF: calls reported at a quarter of a microsecond each, where it is permitted.

use std::os::fd::{AsFd, OwnedFd};

use tap::{ProgramKind, TapError};

use crate::answer::{MachineProbe, ProbeSubject, RefusedBy, Refuser};
use crate::child::{ProbeFailure, ProbeStop, ask};
use crate::host::{CAP_BPF, CAP_SYS_ADMIN, Host, Nonsense, sysctl};
use crate::sys::checked;

/// The simplest program can be loaded.
pub(crate) fn socket_filter(host: &Host) -> MachineProbe {
    let about = ProbeSubject {
        name: "bpf_socket_filter",
        title: "eBPF, socket filter",
        used_for: "telling whether this user may use eBPF at all",
    };
    match ask(|| load(ProgramKind::SocketFilter).map(|_| 1)) {
        Ok(_) => about.works("a program of two instructions was loaded"),
        Err(failure) => about.refused(&failure, refuser(host, &failure)),
    }
}

/// A program can be loaded and attached to the entry of every system call.
pub(crate) fn tracepoint(host: &Host) -> MachineProbe {
    let about = ProbeSubject {
        name: "bpf_tracepoint",
        title: "eBPF, tracepoint",
        used_for: "what a tap is made of",
    };
    match ask(|| load(ProgramKind::RawTracepoint).and_then(attach).map(|_| 1)) {
        Ok(_) => about.works("a program was attached to raw_syscalls:sys_enter"),
        Err(failure) => about.refused(&failure, refuser(host, &failure)),
    }
}

/// The recorder's own tap can be opened: its programs pass the verifier, and a child's calls are
/// reported as they were made.
pub(crate) fn tap(host: &Host) -> MachineProbe {
    let about = ProbeSubject {
        name: "bpf_tap",
        title: "eBPF, becalm's tap",
        used_for: "recording most calls without a stop",
    };
    match ask(open_tap) {
        Ok(_) => about.works("opened, and a child's calls reported as they were made"),
        Err(failure) => about.refused(&failure, refuser(host, &failure)),
    }
}

/// Unlike other probes it allocates memory: it needs a parent of one thread.
fn open_tap() -> Result<u64, ProbeStop> {
    match tap::Tap::open(&[libc::SYS_close as u16], tap::RING_BYTES) {
        Ok(_) => Ok(1),
        Err(TapError::Forbidden(error)) => Err(failed("bpf")(error)),
        Err(TapError::Unsupported { what, error } | TapError::System { what, error }) => {
            Err(failed(what)(error))
        }
        Err(TapError::Refused { tracepoint, error, .. }) => Err(failed(tracepoint)(error)),
        Err(TapError::SelfTest(what)) => Err(ProbeStop::Error { call: what, errno: libc::EIO }),
        Err(_) => Err(ProbeStop::Error { call: "bpf", errno: libc::EINVAL }),
    }
}

fn load(kind: ProgramKind) -> Result<OwnedFd, ProbeStop> {
    tap::load_smallest(kind).map_err(failed("bpf(BPF_PROG_LOAD)"))
}

fn attach(program: OwnedFd) -> Result<OwnedFd, ProbeStop> {
    tap::attach_to_every_call(program.as_fd()).map_err(failed("bpf(BPF_RAW_TRACEPOINT_OPEN)"))
}

fn failed(call: &'static str) -> impl FnOnce(std::io::Error) -> ProbeStop {
    move |error| ProbeStop::Error { call, errno: error.raw_os_error().unwrap_or(libc::EIO) }
}

fn refuser(host: &Host, failure: &ProbeFailure) -> Refuser {
    let unprivileged = sysctl("kernel/unprivileged_bpf_disabled").unwrap_or(0);
    let may = host.has(CAP_BPF) || host.has(CAP_SYS_ADMIN);
    // The sysctl may be asked before the command's number is, so that nonsense proves nothing
    // where it applies.
    let nonsense = (unprivileged == 0 || may).then_some(NO_SUCH_COMMAND);
    if let Some(refuser) = host.usual_refuser(failure, nonsense) {
        return refuser;
    }
    let remedy = "A recording does not need it. As root, or with CAP_BPF and CAP_PERFMON, it is \
                  allowed.";
    match failure.errno() {
        Some(libc::EINVAL | libc::EIO) => Refuser::new(
            RefusedBy::Kernel,
            "the kernel: a tap needs Linux 5.8, and to pass its own test there",
            "A recording does not need it.",
        ),
        Some(libc::EPERM | libc::EACCES) if unprivileged != 0 && !may => Refuser::new(
            RefusedBy::Sysctl,
            format!("sysctl kernel.unprivileged_bpf_disabled = {unprivileged}"),
            remedy,
        ),
        Some(libc::EPERM | libc::EACCES) if !may => Refuser::new(
            RefusedBy::Capability,
            "lack of the capabilities CAP_BPF and CAP_PERFMON",
            remedy,
        ),
        Some(libc::EPERM | libc::EACCES) => Refuser::new(
            RefusedBy::SecurityModule,
            "the container, a security module or kernel lockdown",
            "A recording does not need it.",
        ),
        _ => Refuser::unknown("A recording does not need it."),
    }
}

/// The kernel knows no such command.
const NO_SUCH_COMMAND: Nonsense = Nonsense {
    call: || {
        // SAFETY: reads nothing: the length is zero.
        checked("bpf", unsafe { libc::syscall(libc::SYS_bpf, i32::MAX, 0, 0) })
    },
    usual: libc::EINVAL,
};
