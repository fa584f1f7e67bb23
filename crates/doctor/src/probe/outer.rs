//! Who is there already: a tracer and filters that were set before becalm began.

use crate::answer::{About, Answer, Probe};
use crate::host::{Fact, Host};

const UNTOLD: &str = "/proc/self/status cannot be read";

/// A process has one tracer at most: another one would take becalm's place.
pub(crate) fn tracer(host: &Host) -> Probe {
    let about = About {
        name: "another_tracer",
        title: "another tracer",
        used_for: "a process can have one tracer only",
    };
    match &host.tracer {
        Fact::Present(tracer) => about.answered(Answer::Present, tracer.describe()),
        Fact::Absent => about.answered(Answer::Absent, "nothing traces becalm"),
        Fact::Unknown => about.answered(Answer::Unknown, UNTOLD),
    }
}

/// Filters add up, and the strictest answer counts. Whether one hides calls from another is what
/// the probe `seccomp` finds out.
pub(crate) fn filter(host: &Host) -> Probe {
    let about = About {
        name: "outer_seccomp_filter",
        title: "outer seccomp filter",
        used_for: "it could refuse calls or hide them",
    };
    match host.filters {
        Fact::Present(count) => {
            let plural = if count == 1 { "" } else { "s" };
            let remedy = "A recording is complete, but slower: every call stops, not only chosen \
                          ones. Outside that container, sandbox or service it is faster.";
            Probe {
                remedy: Some(remedy.to_owned()),
                ..about.answered(Answer::Present, format!("{count} filter{plural} on becalm"))
            }
        }
        Fact::Absent => about.answered(Answer::Absent, "no filter on becalm"),
        Fact::Unknown => about.answered(Answer::Unknown, UNTOLD),
    }
}
