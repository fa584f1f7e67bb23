#![doc = include_str!("../README.md")]
//!
//! Each is tried by doing it, in a forked child with a time limit, so that a
//! crash, a hang or a filter that kills is an answer too. Settings are read only afterwards, to
//! say who refused.
//!
//! | file | what it holds |
//! |---|---|
//! | `answer` | what a probe found, as a value |
//! | `child` | a probe that runs in a forked child |
//! | `arch` | what differs by processor |
//! | `sys` | the system calls that children make |
//! | `tracee` | a process that a child traces |
//! | `host` | what `/proc` says of this process, for naming who refused |
//! | `program` | what a small program of the system says, within a time limit |
//! | `probe` | the probes, one file a group |

mod answer;
mod arch;
mod child;
mod host;
mod probe;
mod program;
mod sys;
mod tracee;

pub use answer::{Diagnosis, MachineProbe, ProbeAnswer, Refusal, RefusedBy};
pub use probe::c_library::{Glibc, Hwcap, LoaderDirectory};

/// Probes everything. Takes well under a second where nothing hangs; a probe that hangs is
/// given up after five seconds.
///
/// Forks: call it while the process has one thread only.
pub fn examine() -> Diagnosis {
    let host = host::Host::read();
    let glibc = probe::c_library::glibc();
    let probes = vec![
        probe::trace::ptrace(&host),
        probe::trace::seccomp(&host),
        probe::trace::seccomp_with_privileges(&host),
        probe::outer::tracer(&host),
        probe::outer::filter(&host),
        probe::outer::proc(),
        probe::namespace::user(&host),
        probe::namespace::mount(&host),
        probe::fuse::device(&host),
        probe::fuse::mount(&host),
        probe::perf::software(&host),
        probe::perf::hardware(&host),
        probe::bpf::socket_filter(&host),
        probe::bpf::tracepoint(&host),
        probe::bpf::tap(&host),
        probe::memory::layout(&host),
        probe::memory::huge_pages(&host),
        probe::uring::io_uring(&host),
        probe::c_library::version(glibc.as_ref()),
        probe::c_library::search(glibc.as_ref()),
        probe::c_library::musl(),
        probe::processor::every_verb(),
    ];
    Diagnosis::new(&host, probes, glibc)
}
