//! What `/proc` says of this process and this machine: read to say who refused, never to say
//! whether something works.

use std::fs::read_to_string;

use proc::ProcessStatus;

use crate::answer::{RefusedBy, Refuser};
use crate::child::{ProbeFailure, ProbeStop, ask};

/// The facts that decide who refused.
pub(crate) struct Host {
    pub kernel: String,
    pub machine: String,
    pub uid: u32,
    /// Who traces this process.
    pub tracer: Fact<OuterTracer>,
    /// The seccomp filters on this process.
    pub filters: Fact<u32>,
    /// Whether no_new_privs is set, and cannot be unset.
    pub no_new_privs: bool,
    /// `CapEff`, one bit a capability.
    pub capabilities: u64,
}

/// Something that is there, is not there, or cannot be told (no `/proc`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fact<T> {
    Present(T),
    Absent,
    Unknown,
}

/// A process that traces this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OuterTracer {
    pub pid: u32,
    pub name: String,
}

/// Capability numbers (linux/capability.h).
pub(crate) const CAP_SYS_PTRACE: u32 = 19;
pub(crate) const CAP_SYS_ADMIN: u32 = 21;
pub(crate) const CAP_PERFMON: u32 = 38;
pub(crate) const CAP_BPF: u32 = 39;

impl Host {
    pub fn read() -> Host {
        let status = ProcessStatus::own();
        let number = |key: &str| status.as_ref()?.number(key)?.try_into().ok();
        let capabilities = status.as_ref().and_then(|status| status.mask("CapEff"));
        let (kernel, machine) = uname();
        Host {
            kernel,
            machine,
            uid: rustix::process::geteuid().as_raw(),
            tracer: fact(number("TracerPid")).map(OuterTracer::of),
            filters: filters(number("Seccomp"), number("Seccomp_filters")),
            no_new_privs: number("NoNewPrivs") == Some(1),
            capabilities: capabilities.unwrap_or(0),
        }
    }

    /// Whether this process has a capability, be it in its own user namespace only.
    pub fn has(&self, capability: u32) -> bool {
        self.capabilities >> capability & 1 == 1
    }

    /// Who refused, where that can be told whatever the probe: a filter, the time limit, or
    /// the kernel. `nonsense` is a form of the call that every kernel refuses with its second
    /// part: if it is refused otherwise, a filter did it, not the kernel.
    pub fn usual_refuser(
        &self,
        failure: &ProbeFailure,
        nonsense: Option<Nonsense>,
    ) -> Option<Refuser> {
        match failure {
            ProbeFailure::Hung => Some(Refuser::new(
                RefusedBy::Timeout,
                "the time limit: no answer in 5 seconds",
                "Try again when the machine is less busy.",
            )),
            ProbeFailure::Killed { signal: libc::SIGSYS, call } => Some(by_filter(call)),
            ProbeFailure::Error { call, .. } if self.is_filtered(nonsense) => Some(by_filter(call)),
            ProbeFailure::Error { errno: libc::ENOSYS, .. } => Some(Refuser {
                by: RefusedBy::Kernel,
                what: "the kernel, which does not have this call".to_owned(),
                remedy: None,
            }),
            _ => None,
        }
    }

    fn is_filtered(&self, nonsense: Option<Nonsense>) -> bool {
        let Some(Nonsense { call, usual }) = nonsense else { return false };
        if self.filters == Fact::Absent {
            return false;
        }
        match ask(call) {
            Err(ProbeFailure::Error { errno, .. }) => errno != usual,
            Err(ProbeFailure::Killed { signal, .. }) => signal == libc::SIGSYS,
            _ => false,
        }
    }
}

/// A call with arguments that no kernel accepts, and the error that kernels give for them.
#[derive(Clone, Copy)]
pub(crate) struct Nonsense {
    pub call: fn() -> Result<u64, ProbeStop>,
    pub usual: i32,
}

fn by_filter(call: &str) -> Refuser {
    let name = call.split('(').next().unwrap_or(call);
    Refuser::new(
        RefusedBy::Seccomp,
        "a seccomp filter that whoever started becalm has set",
        format!(
            "Start becalm outside that container, sandbox or service, or let its filter allow \
             {name}."
        ),
    )
}

impl OuterTracer {
    fn of(pid: u32) -> OuterTracer {
        let name = read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        OuterTracer { pid, name: term::plain(name.trim_end()) }
    }

    /// Its name and number, as far as they can be seen.
    pub fn describe(&self) -> String {
        match self.name.as_str() {
            "" => format!("process {}", self.pid),
            name => format!("{name} (process {})", self.pid),
        }
    }
}

impl<T> Fact<T> {
    fn map<U>(self, change: impl FnOnce(T) -> U) -> Fact<U> {
        match self {
            Fact::Present(value) => Fact::Present(change(value)),
            Fact::Absent => Fact::Absent,
            Fact::Unknown => Fact::Unknown,
        }
    }
}

fn fact(number: Option<u32>) -> Fact<u32> {
    match number {
        Some(0) => Fact::Absent,
        Some(number) => Fact::Present(number),
        None => Fact::Unknown,
    }
}

/// `Seccomp` is the mode (2: filter), `Seccomp_filters` how many (Linux 5.10): one at least.
fn filters(mode: Option<u32>, count: Option<u32>) -> Fact<u32> {
    match (mode, count) {
        (Some(2), count) => Fact::Present(count.unwrap_or(1)),
        (mode, _) => fact(mode),
    }
}

/// The kernel's release and the machine's name.
fn uname() -> (String, String) {
    let names = rustix::system::uname();
    let text = |name: &std::ffi::CStr| name.to_string_lossy().into_owned();
    (text(names.release()), text(names.machine()))
}

/// A sysctl's value, by its path below `/proc/sys`.
pub(crate) fn sysctl(path: &str) -> Option<i64> {
    read_to_string(format!("/proc/sys/{path}")).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_counted_even_where_the_kernel_only_says_that_there_is_one() {
        assert_eq!(filters(Some(2), Some(3)), Fact::Present(3));
        assert_eq!(filters(Some(2), None), Fact::Present(1));
        assert_eq!(filters(Some(0), Some(0)), Fact::Absent);
        assert_eq!(filters(None, None), Fact::Unknown);
    }
}
