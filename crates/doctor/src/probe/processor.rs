//! What becalm can do on this processor.

use crate::answer::{MachineProbe, ProbeSubject};
use crate::arch::MISSING;

/// Whether each verb does here what it does on x86-64.
pub(crate) fn every_verb() -> MachineProbe {
    let about = ProbeSubject {
        name: "every_verb",
        title: "every verb",
        used_for: "this processor, as x86-64",
    };
    match MISSING {
        [] => about.works("all of becalm is there for this processor"),
        missing => about.absent(
            format!("not there for this processor: {}", missing.join("; ")),
            "Nothing to do: all else is there.",
        ),
    }
}
