//! memory.rs again, without eBPF, as an ordinary user records.

#[path = "memory.rs"]
mod memory;
