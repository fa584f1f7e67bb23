//! `becalm record`: what it sees, and that the command notices nothing of it.

#![allow(clippy::unwrap_used)]
// A test program: what fails, fails the test.
// What must hold whichever way becalm sees calls is one file, which each of the ways includes.
#![allow(clippy::duplicate_mod)]

mod daemon;
mod jobcontrol;
mod kill;
mod letting_go;
mod usual;

mod on_an_old_kernel;
mod with_all_syscalls;
mod without_ebpf;

/// The program under test.
const BECALM: &str = env!("CARGO_BIN_EXE_becalm");
