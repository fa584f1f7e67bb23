//! transparent.rs again, with every call stopped at, no filter choosing.

#[path = "transparent.rs"]
mod transparent;
