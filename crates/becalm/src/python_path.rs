//! `PYTHONPATH`, by which a hook comes to a command's Pythons.

use std::ffi::{OsStr, OsString};

const VARIABLE: &str = "PYTHONPATH";

/// What the command would inherit.
pub fn given() -> Option<OsString> {
    std::env::var_os(VARIABLE)
}

/// Runs a command that inherits this one instead.
pub fn instead<T>(list: &OsStr, run: impl FnOnce() -> T) -> T {
    let given = given();
    set(Some(list));
    let ran = run();
    set(given.as_deref());
    ran
}

fn set(value: Option<&OsStr>) {
    // SAFETY: this process has one thread, so nobody else reads its environment.
    unsafe {
        match value {
            Some(value) => std::env::set_var(VARIABLE, value),
            None => std::env::remove_var(VARIABLE),
        }
    }
}
