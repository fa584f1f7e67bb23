//! Builds the trap programs of tests/traps.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::Path;
use std::process::Command;

use super::run;
use super::scene::kept;

/// The trap program of that name, built if it is not there yet.
#[track_caller]
pub fn trap(name: &str) -> String {
    trap_with(name, &[])
}

/// The trap program of that name, built with these flags beside the usual ones.
///
/// Built programs stay in cargo's directory for tests, under a name made from all that they are
/// built from, so that each is built once, however many tests run it at once.
#[track_caller]
pub fn trap_with(name: &str, flags: &[&str]) -> String {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/traps");
    let source = sources.join(format!("{name}.c"));
    let mut hasher = DefaultHasher::new();
    fs::read(&source).unwrap_or_else(|error| panic!("{source:?}: {error}")).hash(&mut hasher);
    fs::read(sources.join("trap.h")).unwrap().hash(&mut hasher);
    flags.hash(&mut hasher);
    let directory = kept().join(format!("{:x}", hasher.finish()));
    let program = directory.join(name);
    if !program.exists() {
        fs::create_dir_all(&directory).unwrap();
        // Built aside, then renamed: a test beside this one sees all of it or none.
        let aside = tempfile::Builder::new().prefix(name).tempdir_in(&directory).unwrap();
        let built = aside.path().join(name);
        let mut compile = Command::new("cc");
        compile.args(["-O1", "-Wall", "-Wextra", "-Werror", "-pthread"]).args(flags);
        let done = run(compile.arg(&source).arg("-o").arg(&built));
        assert!(done.status.success(), "{}", done.err());
        fs::rename(built, &program).unwrap();
    }
    program.canonicalize().unwrap().into_os_string().into_string().unwrap()
}
