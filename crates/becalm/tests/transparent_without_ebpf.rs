//! transparent.rs again, without eBPF, as an ordinary user records.

#[path = "transparent.rs"]
mod transparent;
