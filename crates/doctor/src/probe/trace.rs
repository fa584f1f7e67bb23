//! ptrace and seccomp: what a recording is made with.

use libc::{c_int, c_long, sock_filter, sock_fprog};
use rustix::thread::set_no_new_privs;

use crate::answer::{MachineProbe, ProbeSubject, RefusedBy, Refuser};
use crate::child::{ProbeFailure, ProbeStop, ask};
use crate::host::{CAP_SYS_PTRACE, Fact, Host, Nonsense, sysctl};
use crate::sys::{checked, refused};
use crate::tracee::{CallStop, Tracee, seize};

/// A child can be seized, and its system calls be seen one by one.
pub(crate) fn ptrace(host: &Host) -> MachineProbe {
    let about = ProbeSubject {
        name: "ptrace",
        title: "ptrace",
        used_for: "recording what a command and its children do",
    };
    match ask(see_a_call) {
        Ok(_) => about.works("a forked child was seized and its getppid call seen"),
        Err(failure) => refused_tracing(about, host, &failure),
    }
}

/// A filter set with no_new_privs makes chosen calls stop, and each stop arrives.
pub(crate) fn seccomp(host: &Host) -> MachineProbe {
    let about = ProbeSubject {
        name: "seccomp",
        title: "seccomp filter",
        used_for: "recording at a low cost: only chosen calls stop",
    };
    match ask(|| see_filtered_calls(true)) {
        Ok(seen) => all_calls_arrived(about, seen),
        Err(failure) => refused_tracing(about, host, &failure),
    }
}

/// The same without no_new_privs, which would take set-user-id programs their rights.
pub(crate) fn seccomp_with_privileges(host: &Host) -> MachineProbe {
    let about = ProbeSubject {
        name: "seccomp_with_privileges",
        title: "seccomp, set-uid kept",
        used_for: "recording set-user-id programs as they are",
    };
    match ask(|| see_filtered_calls(false)) {
        Ok(seen) if host.no_new_privs => MachineProbe {
            detail: Some("but no_new_privs is already set, by whoever started becalm".to_owned()),
            ..all_calls_arrived(about, seen)
        },
        Ok(seen) => all_calls_arrived(about, seen),
        Err(failure) if failure.errno() == Some(libc::EACCES) => about.refused(
            &failure,
            Refuser::new(
                RefusedBy::Capability,
                "lack of the capability CAP_SYS_ADMIN",
                "Only set-user-id programs (sudo, mount) need it: record those as root.",
            ),
        ),
        Err(failure) => refused_tracing(about, host, &failure),
    }
}

/// Seizes a child and follows it, call by call, to one that it is known to make.
fn see_a_call() -> Result<u64, ProbeStop> {
    let call = || u8::from(rustix::process::getppid().is_none());
    // Without the second option, PTRACE_GET_SYSCALL_INFO cannot tell such stops from SIGTRAP.
    let options = libc::PTRACE_O_EXITKILL | libc::PTRACE_O_TRACESYSGOOD;
    let mut tracee = Tracee::start(options, call)?;
    tracee.interrupt()?;
    tracee.wait()?;
    tracee.go()?;
    loop {
        tracee.resume(true)?;
        let status = tracee.wait()?;
        if !libc::WIFSTOPPED(status) {
            // It ended, and the call was never seen.
            return Err(ProbeStop::Error { call: "ptrace(PTRACE_SYSCALL)", errno: libc::EIO });
        }
        if tracee.seen(status)? == CallStop::Entry(libc::SYS_getppid) {
            return Ok(1);
        }
    }
}

/// Calls that a recording must see, with arguments that do no harm.
const CALLS: [(c_long, &str); 6] = [
    (libc::SYS_openat, "openat"),
    (libc::SYS_newfstatat, "newfstatat"),
    (libc::SYS_statx, "statx"),
    (libc::SYS_faccessat, "faccessat"),
    (libc::SYS_readlinkat, "readlinkat"),
    (libc::SYS_execve, "execve"),
];

/// Runs a child under a filter that stops at [`CALLS`], and returns which of them did, one bit
/// each.
fn see_filtered_calls(no_new_privs: bool) -> Result<u64, ProbeStop> {
    let options = libc::PTRACE_O_EXITKILL | libc::PTRACE_O_TRACESECCOMP;
    let mut tracee = Tracee::start(options, || match set_filter(no_new_privs) {
        Ok(()) => make_calls(),
        Err(ProbeStop::Error { errno, .. } | ProbeStop::Killed { signal: errno, .. }) => {
            errno as u8
        }
    })?;
    tracee.go()?;
    let mut seen = 0;
    loop {
        let status = tracee.wait()?;
        if libc::WIFEXITED(status) {
            return match libc::WEXITSTATUS(status) {
                0 => Ok(seen),
                errno => Err(ProbeStop::Error { call: "seccomp(SECCOMP_SET_MODE_FILTER)", errno }),
            };
        }
        if libc::WIFSIGNALED(status) {
            return Err(ProbeStop::Killed { call: "seccomp", signal: libc::WTERMSIG(status) });
        }
        if is_event(status, libc::PTRACE_EVENT_SECCOMP)
            && let CallStop::Seccomp(number) = tracee.seen(status)?
        {
            let call = CALLS.iter().position(|(known, _)| *known == number);
            seen |= call.map_or(0, |at| 1 << at);
        }
        tracee.resume(false)?;
    }
}

fn is_event(status: c_int, event: c_int) -> bool {
    status >> 8 == libc::SIGTRAP | event << 8
}

/// The filter: `SECCOMP_RET_TRACE` for [`CALLS`], allow the rest (seccomp(2)).
fn set_filter(no_new_privs: bool) -> Result<(), ProbeStop> {
    const LENGTH: usize = CALLS.len() + 3;
    let step =
        |code: u32, jt: usize, k: u32| sock_filter { code: code as u16, jt: jt as u8, jf: 0, k };
    let mut filter = [step(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW); LENGTH];
    // The call's number is the first word of `struct seccomp_data`.
    filter[0] = step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0);
    for (at, (number, _)) in CALLS.iter().enumerate() {
        let equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
        filter[1 + at] = step(equal, CALLS.len() - at, *number as u32);
    }
    filter[LENGTH - 1] = step(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_TRACE);
    if no_new_privs {
        set_no_new_privs(true).map_err(refused("prctl(PR_SET_NO_NEW_PRIVS)"))?;
    }
    operate(libc::SECCOMP_SET_MODE_FILTER, &mut filter).map(|_| ())
}

/// seccomp(2), without flags.
fn operate(operation: u32, filter: &mut [sock_filter]) -> Result<u64, ProbeStop> {
    let program = sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: `program` describes `filter`; the kernel copies both.
    let done = unsafe { libc::syscall(libc::SYS_seccomp, operation, 0, &raw const program) };
    checked("seccomp", done)
}

/// Makes [`CALLS`], whatever they return.
fn make_calls() -> u8 {
    answers_of_the_kernel();
    0
}

/// Makes [`CALLS`], and returns which of them the kernel itself answered, one bit each: two are
/// made so that it gives an error that no filter would.
fn answers_of_the_kernel() -> u64 {
    let root = c"/".as_ptr();
    let here = libc::AT_FDCWD;
    let mut room = [0_u8; 256];
    let to = room.as_mut_ptr();
    // SAFETY: `room` is large enough for a `struct stat` (144 bytes) and a `struct statx` (256);
    // "/" is no link (EINVAL), and execve's null pointers make it fail (EFAULT).
    let answers = unsafe {
        [
            errno_of(libc::syscall(libc::SYS_openat, here, root, libc::O_PATH, 0)) == 0,
            errno_of(libc::syscall(libc::SYS_newfstatat, here, root, to, 0)) == 0,
            errno_of(libc::syscall(libc::SYS_statx, here, root, 0, 0, to)) == 0,
            errno_of(libc::syscall(libc::SYS_faccessat, here, root, libc::F_OK)) == 0,
            errno_of(libc::syscall(libc::SYS_readlinkat, here, root, to, 256)) == libc::EINVAL,
            errno_of(libc::syscall(libc::SYS_execve, 0, 0, 0)) == libc::EFAULT,
        ]
    };
    bits(&answers)
}

fn bits(answers: &[bool; CALLS.len()]) -> u64 {
    answers.iter().rev().fold(0, |bits, answer| bits << 1 | u64::from(*answer))
}

/// The error number of a call that returned this, or 0.
fn errno_of(returned: c_long) -> c_int {
    match returned {
        0.. => 0,
        _ => std::io::Error::last_os_error().raw_os_error().unwrap_or(0),
    }
}

/// A filter above ours can take a call before our filter's answer counts. If it refuses the
/// call, then to everybody, and a recording misses only that refusal. If it lets a supervisor
/// answer (user-notify), the call is made and a recording would not show it.
fn all_calls_arrived(about: ProbeSubject, seen: u64) -> MachineProbe {
    let names = |set: u64| {
        let chosen = CALLS.iter().enumerate().filter(|(at, _)| set >> at & 1 == 1);
        chosen.map(|(_, (_, name))| *name).collect::<Vec<_>>().join(", ")
    };
    let all = (1 << CALLS.len()) - 1;
    if seen == all {
        return about.works(format!("all of {} chosen calls stopped", CALLS.len()));
    }
    let answered = ask(|| Ok(answers_of_the_kernel())).unwrap_or(all);
    let hidden = all & !seen & answered;
    if hidden == 0 {
        return about.works(format!(
            "all chosen calls stopped but {}, which an outer seccomp filter refuses to everybody",
            names(!seen & all)
        ));
    }
    about.hidden(
        names(hidden),
        Refuser::new(
            RefusedBy::Seccomp,
            "an outer seccomp filter, which hands these calls to a supervisor before becalm sees \
             them",
            "becalm records without a filter of its own here.",
        ),
    )
}

fn refused_tracing(about: ProbeSubject, host: &Host, failure: &ProbeFailure) -> MachineProbe {
    let nonsense = if failure.call().starts_with("ptrace") { NO_SUCH_PROCESS } else { NO_SUCH_OP };
    if let Some(refuser) = host.usual_refuser(failure, Some(nonsense)) {
        return about.refused(failure, refuser);
    }
    let yama = sysctl("kernel/yama/ptrace_scope");
    let refuser = match (failure.errno(), &host.tracer, yama) {
        (Some(libc::EPERM), Fact::Present(tracer), _) => Refuser::new(
            RefusedBy::Tracer,
            format!("{}, which traces becalm and its children already", tracer.describe()),
            "A process has one tracer. Run becalm outside that one.",
        ),
        (Some(libc::EPERM), _, Some(scope @ 2..)) if !host.has(CAP_SYS_PTRACE) => {
            Refuser { by: RefusedBy::Yama, ..Refuser::sysctl("kernel.yama.ptrace_scope", scope, 1) }
        }
        (Some(libc::EPERM), _, Some(3)) => Refuser::new(
            RefusedBy::Yama,
            "sysctl kernel.yama.ptrace_scope = 3",
            "It stays so until a reboot: set 1 in /etc/sysctl.d, then reboot.",
        ),
        (Some(libc::EACCES), ..) => Refuser::new(
            RefusedBy::SecurityModule,
            "a security module (SELinux's deny_ptrace, AppArmor)",
            "Ask the administrator to allow ptrace of own children.",
        ),
        (Some(libc::EIO | libc::EINVAL), ..) => Refuser::new(
            RefusedBy::Kernel,
            "the kernel: this needs Linux 4.8 or later",
            "Record on a machine with a later kernel.",
        ),
        _ => Refuser::unknown("becalm cannot record here. Try outside any container."),
    };
    about.refused(failure, refuser)
}

/// There is no process -1, and the kernel looks for it before it looks at anything else.
const NO_SUCH_PROCESS: Nonsense =
    Nonsense { call: || seize(-1, 0).map(|()| 0), usual: libc::ESRCH };

/// There is no such operation of seccomp(2).
const NO_SUCH_OP: Nonsense = Nonsense { call: || operate(0xffff, &mut []), usual: libc::EINVAL };
