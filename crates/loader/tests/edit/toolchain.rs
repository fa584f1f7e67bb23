//! What the tests share: compilers, tools, and how an edit is asked for.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use loader::edit::{
    EditRequest, EditRoom, Edited, NeededEdit, Refused, SearchPathEdit, apply, edit, reverse,
};

/// Runs a tool that has to succeed; its output.
pub fn tool(name: &str, arguments: &[&str]) -> String {
    let output = Command::new(name).args(arguments).env("LC_ALL", "C").output();
    let output = output.unwrap_or_else(|error| panic!("{name}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} {arguments:?}: {errors}");
    assert!(!errors.to_lowercase().contains("warning"), "{name} {arguments:?}: {errors}");
    text
}

/// The names of DT_NEEDED, as readelf(1) says.
pub fn needed(path: &Path) -> Vec<String> {
    let text = tool("readelf", &["--wide", "--dynamic", path.to_str().unwrap()]);
    let lines = text.lines().filter(|line| line.contains("(NEEDED)"));
    let name = |line: &str| Some(line.rsplit_once('[')?.1.strip_suffix(']')?.to_owned());
    lines.filter_map(name).collect()
}

/// New names by what `rename` makes of the old.
pub fn replace(old: &[String], rename: impl Fn(&str) -> Option<String>) -> NeededEdit {
    let pairs = old.iter().enumerate();
    let new = |(at, name): (usize, &String)| Some((at, rename(name)?.into_bytes()));
    NeededEdit::Replace(pairs.filter_map(new).collect::<BTreeMap<_, _>>())
}

/// Whether a name is the loader's, which keeps it.
pub fn is_loader(name: &str) -> bool {
    name.contains("ld-linux") || name.contains("ld64") || name == "libc.so"
}

/// The edit, and all that holds of every edit: undone byte for byte, and none the second time.
pub fn checked_edit(
    bytes: &[u8],
    request: &EditRequest,
    room: EditRoom,
) -> Result<(Edited, Vec<u8>), Refused> {
    let edited = edit(bytes, request, room)?;
    let after = apply(bytes, &edited.patches).unwrap();
    assert_eq!(after.len() as u64, edited.bytes_after);
    assert!(apply(&after, &reverse(&edited.patches)).unwrap() == bytes, "not undone");
    let again = edit(&after, request, room);
    assert_eq!(again.map(|again| again.patches.to_vec()), Ok(Vec::new()), "not idempotent");
    Ok((edited, after))
}

/// A request for names alone.
pub fn names(needed: NeededEdit) -> EditRequest {
    EditRequest { needed, search: SearchPathEdit::Keep }
}

/// Writes a program, as a new file: what a run of the one before has left running may still be that
/// one (ETXTBSY).
pub fn install(path: &Path, bytes: &[u8]) {
    if path.exists() {
        fs::remove_file(path).unwrap();
    }
    testkit::write_program(path, bytes);
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs a program for at most ten seconds; what it says and how it ends. The variables are for
/// the program, not for those that start it.
pub fn run(path: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    run_for("10", path, arguments, variables)
}

/// The same, for so many seconds.
pub fn run_for(
    seconds: &str,
    path: &Path,
    arguments: &[&str],
    variables: &[(&str, &str)],
) -> Output {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", seconds, "env"]).env_remove("LD_LIBRARY_PATH");
    command.args(variables.iter().map(|(name, value)| format!("{name}={value}")));
    command.arg(path).args(arguments).stdin(Stdio::null()).output().unwrap()
}
