//! eBPF: calls reported at a quarter of a microsecond each, where it is permitted.

use tap::TapError;

use crate::answer::{About, By, Culprit, Probe};
use crate::child::{ChildFailure, Stop, ask};
use crate::host::{CAP_BPF, CAP_SYS_ADMIN, Host, Nonsense, sysctl};
use crate::sys::checked;

/// The simplest program can be loaded.
pub(crate) fn socket_filter(host: &Host) -> Probe {
    let about = About {
        name: "bpf_socket_filter",
        title: "eBPF, socket filter",
        used_for: "telling whether this user may use eBPF at all",
    };
    match ask(|| load(BPF_PROG_TYPE_SOCKET_FILTER)) {
        Ok(_) => about.works("a program of two instructions was loaded"),
        Err(failure) => about.refused(&failure, culprit(host, &failure)),
    }
}

/// A program can be loaded and attached to the entry of every system call.
pub(crate) fn tracepoint(host: &Host) -> Probe {
    let about = About {
        name: "bpf_tracepoint",
        title: "eBPF, tracepoint",
        used_for: "what a tap is made of",
    };
    match ask(|| load(BPF_PROG_TYPE_RAW_TRACEPOINT).and_then(attach)) {
        Ok(_) => about.works("a program was attached to raw_syscalls:sys_enter"),
        Err(failure) => about.refused(&failure, culprit(host, &failure)),
    }
}

/// The recorder's own tap can be opened: its programs pass the verifier, and a child's calls are
/// reported as they were made.
pub(crate) fn tap(host: &Host) -> Probe {
    let about = About {
        name: "bpf_tap",
        title: "eBPF, becalm's tap",
        used_for: "recording calls on descriptors without a stop",
    };
    match ask(open_tap) {
        Ok(_) => about.works("opened, and a child's calls reported as they were made"),
        Err(failure) => about.refused(&failure, culprit(host, &failure)),
    }
}

/// Unlike other probes it allocates memory: it needs a parent of one thread.
fn open_tap() -> Result<u64, Stop> {
    let failed = |call, error: &std::io::Error| Stop::Error {
        call,
        errno: error.raw_os_error().unwrap_or(libc::EIO),
    };
    match tap::Tap::open(&[libc::SYS_close as u16], tap::RING_BYTES) {
        Ok(_) => Ok(1),
        Err(TapError::Forbidden(error)) => Err(failed("bpf", &error)),
        Err(TapError::Unsupported { what, error } | TapError::System { what, error }) => {
            Err(failed(what, &error))
        }
        Err(TapError::Refused { tracepoint, error, .. }) => Err(failed(tracepoint, &error)),
        Err(TapError::SelfTest(what)) => Err(Stop::Error { call: what, errno: libc::EIO }),
        Err(_) => Err(Stop::Error { call: "bpf", errno: libc::EINVAL }),
    }
}

/// One instruction (linux/bpf.h).
#[repr(C)]
struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    value: i32,
}

/// `r0 = 0; exit`: drops nothing, traces nothing.
static PROGRAM: [Instruction; 2] = [
    Instruction { code: 0xb7, registers: 0, offset: 0, value: 0 },
    Instruction { code: 0x95, registers: 0, offset: 0, value: 0 },
];

/// The members of `union bpf_attr` for BPF_PROG_LOAD, up to Linux 4.10's.
#[repr(C)]
#[derive(Default)]
struct Load {
    kind: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel: u32,
    flags: u32,
}

/// The members of `union bpf_attr` for BPF_RAW_TRACEPOINT_OPEN.
#[repr(C)]
struct Attach {
    name: u64,
    program: u32,
    padding: u32,
}

const BPF_PROG_LOAD: i32 = 5;
const BPF_RAW_TRACEPOINT_OPEN: i32 = 17;
const BPF_PROG_TYPE_SOCKET_FILTER: u32 = 1;
const BPF_PROG_TYPE_RAW_TRACEPOINT: u32 = 17;

fn load(kind: u32) -> Result<u64, Stop> {
    let attributes = Load {
        kind,
        instruction_count: PROGRAM.len() as u32,
        instructions: PROGRAM.as_ptr() as u64,
        license: c"GPL".as_ptr() as u64,
        ..Load::default()
    };
    bpf("bpf(BPF_PROG_LOAD)", BPF_PROG_LOAD, &attributes)
}

fn attach(program: u64) -> Result<u64, Stop> {
    let name = c"sys_enter".as_ptr() as u64;
    let attributes = Attach { name, program: program as u32, padding: 0 };
    bpf("bpf(BPF_RAW_TRACEPOINT_OPEN)", BPF_RAW_TRACEPOINT_OPEN, &attributes)
}

fn bpf<T>(call: &'static str, command: i32, attributes: &T) -> Result<u64, Stop> {
    // SAFETY: `attributes` is as long as said, and what it points to is static.
    let done = unsafe {
        libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<T>())
    };
    checked(call, done)
}

fn culprit(host: &Host, failure: &ChildFailure) -> Culprit {
    let unprivileged = sysctl("kernel/unprivileged_bpf_disabled").unwrap_or(0);
    let may = host.has(CAP_BPF) || host.has(CAP_SYS_ADMIN);
    // The sysctl may be asked before the command's number is, so that nonsense proves nothing
    // where it applies.
    let nonsense = (unprivileged == 0 || may).then_some(NO_SUCH_COMMAND);
    if let Some(culprit) = host.usual_culprit(failure, nonsense) {
        return culprit;
    }
    let remedy = "A recording does not need it. As root, or with CAP_BPF and CAP_PERFMON, it is \
                  allowed.";
    match failure.errno() {
        Some(libc::EINVAL | libc::EIO) => Culprit::new(
            By::Kernel,
            "the kernel: a tap needs Linux 5.8, and to pass its own test there",
            "A recording does not need it.",
        ),
        Some(libc::EPERM | libc::EACCES) if unprivileged != 0 && !may => Culprit::new(
            By::Sysctl,
            format!("sysctl kernel.unprivileged_bpf_disabled = {unprivileged}"),
            remedy,
        ),
        Some(libc::EPERM | libc::EACCES) if !may => {
            Culprit::new(By::Capability, "lack of the capabilities CAP_BPF and CAP_PERFMON", remedy)
        }
        Some(libc::EPERM | libc::EACCES) => Culprit::new(
            By::SecurityModule,
            "the container, a security module or kernel lockdown",
            "A recording does not need it.",
        ),
        _ => Culprit::unknown("A recording does not need it."),
    }
}

/// The kernel knows no such command.
const NO_SUCH_COMMAND: Nonsense =
    Nonsense { call: || bpf("bpf", i32::MAX, &0_u64), usual: libc::EINVAL };
