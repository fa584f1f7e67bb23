//! traps.rs again, as on a kernel before 5.3, whose calls are read from registers.

#[path = "traps.rs"]
mod traps;
