//! What the probes found, as a value.

use schemars::JsonSchema;
use serde::Serialize;

use crate::child::ProbeFailure;
use crate::host::Host;
use crate::probe::c_library::Glibc;

/// Everything that was found.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Diagnosis {
    /// `becalm.doctor/1` (docs/schema/becalm.doctor.md).
    pub schema: &'static str,
    /// Whether becalm's main job can be done here: a recording.
    pub can_record: bool,
    /// How a recording would see calls, as in a recording's header: `ptrace+seccomp+ebpf`,
    /// `ptrace+seccomp`, or `ptrace` alone, at which every call stops.
    pub backend: Option<&'static str>,
    /// `uname -r`.
    pub kernel: String,
    /// `uname -m`.
    pub machine: String,
    /// Effective user id of the probes.
    pub uid: u32,
    /// The probes, in the order they are shown.
    pub probes: Vec<MachineProbe>,
    /// What the machine's glibc says of itself; none where there is no glibc.
    pub glibc: Option<Glibc>,
}

/// One probe and its answer.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MachineProbe {
    /// A short name that stays the same, e.g. `ptrace`.
    pub name: &'static str,
    /// The name for people.
    pub title: &'static str,
    /// What becalm uses it for.
    pub used_for: &'static str,
    /// The answer.
    pub answer: ProbeAnswer,
    /// What was seen.
    pub detail: Option<String>,
    /// Who refused, and how.
    pub refusal: Option<Refusal>,
    /// What to do, where something can be done.
    pub remedy: Option<String>,
}

/// The answer of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProbeAnswer {
    /// It was done, and did what it should.
    Works,
    /// The machine can, but something forbids it.
    Refused,
    /// The machine has no such thing.
    Absent,
    /// A fact rather than an ability: it is there.
    Present,
    /// It cannot be found out here.
    Unknown,
}

impl ProbeAnswer {
    /// As shown.
    pub fn word(self) -> &'static str {
        match self {
            ProbeAnswer::Works => "works",
            ProbeAnswer::Refused => "refused",
            ProbeAnswer::Absent => "absent",
            ProbeAnswer::Present => "present",
            ProbeAnswer::Unknown => "unknown",
        }
    }
}

/// A refusal.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Refusal {
    /// The call that was refused.
    pub call: String,
    /// The error's name, e.g. `EPERM`; none if the call did not return.
    pub error: Option<String>,
    /// What kind of thing refused.
    pub by: RefusedBy,
    /// The thing itself, in words.
    pub what: String,
}

/// What kind of thing refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RefusedBy {
    /// A seccomp filter that was there before becalm.
    Seccomp,
    /// Another tracer.
    Tracer,
    /// The Yama security module (`kernel.yama.ptrace_scope`).
    Yama,
    /// Another sysctl.
    Sysctl,
    /// A capability that this process lacks.
    Capability,
    /// A file's owner and mode.
    Permission,
    /// Another security module (SELinux, AppArmor).
    SecurityModule,
    /// The kernel itself: too old, or built without it.
    Kernel,
    /// Too little of something, for now.
    Resources,
    /// Nothing answered within the time limit.
    Timeout,
    /// Nothing that becalm can name.
    Unknown,
}

/// Who refused, and what to do about it.
pub(crate) struct Refuser {
    pub by: RefusedBy,
    pub what: String,
    pub remedy: Option<String>,
}

impl Refuser {
    pub fn new(by: RefusedBy, what: impl Into<String>, remedy: impl Into<String>) -> Refuser {
        Refuser { by, what: what.into(), remedy: Some(remedy.into()) }
    }

    /// A sysctl, with the value that makes it refuse and how to change it.
    pub fn sysctl(name: &str, value: i64, wanted: i64) -> Refuser {
        Refuser::new(
            RefusedBy::Sysctl,
            format!("sysctl {name} = {value}"),
            format!("An administrator can allow it: sysctl {name}={wanted}"),
        )
    }

    pub fn unknown(remedy: impl Into<String>) -> Refuser {
        Refuser::new(RefusedBy::Unknown, "something that leaves no trace in /proc", remedy)
    }
}

/// What a probe is, before it is answered.
#[derive(Clone, Copy)]
pub(crate) struct ProbeSubject {
    pub name: &'static str,
    pub title: &'static str,
    pub used_for: &'static str,
}

impl ProbeSubject {
    pub fn answered(self, answer: ProbeAnswer, detail: impl Into<String>) -> MachineProbe {
        MachineProbe {
            name: self.name,
            title: self.title,
            used_for: self.used_for,
            answer,
            detail: Some(detail.into()),
            refusal: None,
            remedy: None,
        }
    }

    pub fn works(self, detail: impl Into<String>) -> MachineProbe {
        self.answered(ProbeAnswer::Works, detail)
    }

    /// The machine has no such thing, and what to do instead.
    pub fn absent(self, detail: impl Into<String>, remedy: impl Into<String>) -> MachineProbe {
        MachineProbe { remedy: Some(remedy.into()), ..self.answered(ProbeAnswer::Absent, detail) }
    }

    pub fn refused(self, failure: &ProbeFailure, refuser: Refuser) -> MachineProbe {
        let error = failure.errno().map(|errno| errno_name(errno).into_owned());
        self.stopped(failure.call().to_owned(), error, refuser)
    }

    /// These calls worked, and were not seen.
    pub fn hidden(self, calls: String, refuser: Refuser) -> MachineProbe {
        self.stopped(calls, None, refuser)
    }

    fn stopped(self, call: String, error: Option<String>, refuser: Refuser) -> MachineProbe {
        MachineProbe {
            name: self.name,
            title: self.title,
            used_for: self.used_for,
            answer: ProbeAnswer::Refused,
            detail: None,
            refusal: Some(Refusal { call, error, by: refuser.by, what: refuser.what }),
            remedy: refuser.remedy,
        }
    }
}

/// `EPERM` for 1, and so on.
pub(crate) fn errno_name(errno: i32) -> std::borrow::Cow<'static, str> {
    recording::errno_name(u16::try_from(errno).unwrap_or(u16::MAX))
}

impl Diagnosis {
    pub(crate) fn new(host: &Host, probes: Vec<MachineProbe>, glibc: Option<Glibc>) -> Diagnosis {
        let is =
            |name, answer| probes.iter().any(|probe| probe.name == name && probe.answer == answer);
        let backend = if !is("ptrace", ProbeAnswer::Works) || !is("own_proc", ProbeAnswer::Works) {
            None
        } else if is("outer_seccomp_filter", ProbeAnswer::Present) {
            // The recorder then sets no filter, which the other one could outrank.
            Some("ptrace")
        } else {
            let tap = is("bpf_tap", ProbeAnswer::Works);
            let backend = if tap { "ptrace+seccomp+ebpf" } else { "ptrace+seccomp" };
            is("seccomp", ProbeAnswer::Works).then_some(backend)
        };
        Diagnosis {
            schema: "becalm.doctor/1",
            can_record: backend.is_some(),
            backend,
            kernel: host.kernel.clone(),
            machine: host.machine.clone(),
            uid: host.uid,
            probes,
            glibc,
        }
    }
}
