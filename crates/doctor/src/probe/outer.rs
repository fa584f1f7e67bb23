//! Who is there already: a tracer and filters that were set before becalm began, and whose /proc.

use crate::answer::{MachineProbe, ProbeAnswer, ProbeSubject};
use crate::host::{Fact, Host};

const UNTOLD: &str = "/proc/self/status cannot be read";

/// A process has one tracer at most: another one would take becalm's place.
pub(crate) fn tracer(host: &Host) -> MachineProbe {
    let about = ProbeSubject {
        name: "another_tracer",
        title: "another tracer",
        used_for: "a process can have one tracer only",
    };
    match &host.tracer {
        Fact::Present(tracer) => about.answered(ProbeAnswer::Present, tracer.describe()),
        Fact::Absent => about.answered(ProbeAnswer::Absent, "nothing traces becalm"),
        Fact::Unknown => about.answered(ProbeAnswer::Unknown, UNTOLD),
    }
}

/// What /proc says of a process id is of the process that has it in becalm's own PID namespace.
pub(crate) fn proc() -> MachineProbe {
    let about = ProbeSubject {
        name: "own_proc",
        title: "/proc of its own",
        used_for: "a process's files, mappings and directory",
    };
    match proc::is_of_other_namespace() {
        false => about.works("/proc/self is becalm"),
        true => about.absent(
            "/proc is another PID namespace's, where process ids name other processes",
            "Mount its own: unshare --mount-proc, or mount -t proc proc /proc.",
        ),
    }
}

/// Filters add up, and the strictest answer counts. Whether one hides calls from another is what
/// the probe `seccomp` finds out.
pub(crate) fn filter(host: &Host) -> MachineProbe {
    let about = ProbeSubject {
        name: "outer_seccomp_filter",
        title: "outer seccomp filter",
        used_for: "it could refuse calls or hide them",
    };
    match host.filters {
        Fact::Present(count) => {
            let plural = if count == 1 { "" } else { "s" };
            let remedy = "A recording is complete, but slower: every call stops, not only chosen \
                          ones. Outside that container, sandbox or service it is faster.";
            MachineProbe {
                remedy: Some(remedy.to_owned()),
                ..about.answered(ProbeAnswer::Present, format!("{count} filter{plural} on becalm"))
            }
        }
        Fact::Absent => about.answered(ProbeAnswer::Absent, "no filter on becalm"),
        Fact::Unknown => about.answered(ProbeAnswer::Unknown, UNTOLD),
    }
}
