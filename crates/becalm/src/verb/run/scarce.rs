//! Where a limit leaves becalm itself too little memory, a command that would only be faster with it runs
//! without.

use std::ffi::OsString;

use rustix::process::{Resource, getrlimit};

use crate::exit::Failure;

/// What becalm needs at most, besides what it was started with.
const NEEDED: usize = 8 << 20;

/// What a shell's library needs of the stack (plain.c), and more than that.
const NEEDED_STACK: u64 = 256 << 10;

/// Options without which a command does the same.
const FOR_SPEED: [&str; 3] = ["--builtins", "--count", "--hugepages"];

/// Becomes the command of `run --builtins`, if there is too little memory for more.
pub fn in_scarce_memory(words: &[OsString]) -> Option<Result<u8, Failure>> {
    let end = words.iter().position(|word| word == "--").filter(|_| is_scarce())?;
    let (verb, options) = words.get(1..end)?.split_first()?;
    let is_for_speed = |word: &OsString| FOR_SPEED.iter().any(|option| word == option);
    let asked = options.iter().any(|word| word == "--builtins");
    if verb != "run" || !asked || !options.iter().all(is_for_speed) {
        return None;
    }
    let argv = words[end + 1..].to_vec();
    if argv.is_empty() {
        return None;
    }
    term::warn(
        "--builtins is not done: becalm has too little memory (ulimit -v, -d, -s); the command runs without",
    );
    let why = launch::replace(&launch::Command::of(argv), &[]);
    Some(Err(Failure { status: why.exit_status(), error: why.into() }))
}

fn is_scarce() -> bool {
    if getrlimit(Resource::Stack).current.is_some_and(|stack| stack < NEEDED_STACK) {
        return true;
    }
    let is_limited = |limit: Resource| getrlimit(limit).current.is_some();
    let any = [Resource::As, Resource::Data].into_iter().any(is_limited);
    any && Vec::<u8>::new().try_reserve_exact(NEEDED).is_err()
}
