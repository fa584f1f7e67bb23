//! traps.rs again, without eBPF, as an ordinary user records.

#[path = "traps.rs"]
mod traps;
