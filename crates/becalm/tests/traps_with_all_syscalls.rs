//! traps.rs again, with every call stopped at, no filter choosing.

#[path = "traps.rs"]
mod traps;
