//! x86-64.

/// An instruction that stops whoever comes by: `int3`.
pub(crate) const TRAP: &[u8] = &[0xcc];
