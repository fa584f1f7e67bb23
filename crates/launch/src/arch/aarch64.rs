//! 64-bit ARM.

/// An instruction that stops whoever comes by: `brk #0`.
pub(crate) const TRAP: &[u8] = &[0, 0, 0x20, 0xd4];
