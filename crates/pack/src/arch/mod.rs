//! What the processor decides.

mod x86_64;

pub(crate) use x86_64::machine::{aux_action, clock, cpuid_records, xcr0};
pub(crate) use x86_64::table::{
    AuxRecord, CopyRecord, FileKind, FileRecord, MapRecord, PatchKind, PatchRecord, ProtectRecord,
    StubTable, TableRecord,
};
pub(crate) use x86_64::{MACHINE, stub};
