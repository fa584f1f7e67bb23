//! Programs that a test makes and then runs. The last hand on them is another process's: a file
//! that this one has open for writing, a child that another test forks at that moment has open,
//! too, and then nobody can run it (ETXTBSY).

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::NamedTempFile;

use crate::run;

/// Writes a program's bytes, in place.
#[track_caller]
pub fn write_program(path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) {
    let written = NamedTempFile::new().unwrap();
    fs::write(written.path(), bytes).unwrap();
    copy("--no-preserve=mode", written.path(), path.as_ref());
}

/// Copies a program, with its mode.
#[track_caller]
pub fn copy_program(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    copy("--preserve=mode", from.as_ref(), to.as_ref());
}

#[track_caller]
fn copy(mode: &str, from: &Path, to: &Path) {
    let ran = run(Command::new("cp").args([mode, "--"]).arg(from).arg(to));
    assert_eq!(ran.code(), 0, "{}", ran.err());
}
