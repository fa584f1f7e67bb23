//! The command, started from the tree as far as that is seen from outside.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::moved::MovedPaths;

/// Bytes of a script that are looked at.
const HEAD: u64 = 4096;

/// The command with its own word, and a script that is its first argument, in the tree; and
/// where it is a script whose interpreter was in the image, that interpreter in the tree with it.
/// Other arguments may name what is to be written, and stay.
pub(super) fn moved(
    moved: &MovedPaths,
    argv: &[OsString],
    variables: &[(OsString, OsString)],
) -> Vec<OsString> {
    let mut argv = argv.to_vec();
    for (index, word) in argv.iter_mut().enumerate().take(2) {
        let path = absolute(word);
        let there = path.and_then(|path| moved.path(path.as_os_str().as_bytes()));
        let there = there.map(OsString::from_vec);
        if let Some(there) = there.filter(|there| index == 0 || Path::new(there).is_file()) {
            *word = there;
        }
    }
    match script(moved, &argv, variables) {
        Some((interpreter, file)) => {
            let arguments = argv.into_iter().skip(1);
            interpreter.into_iter().chain([file.into()]).chain(arguments).collect()
        }
        None => argv,
    }
}

/// A word that is a path, from the root.
fn absolute(word: &OsStr) -> Option<PathBuf> {
    match word.as_bytes().contains(&b'/') {
        true => std::path::absolute(word).ok(),
        false => None,
    }
}

/// What starts the command's file, and the file, where it is a script for an interpreter that has
/// moved.
fn script(
    moved: &MovedPaths,
    argv: &[OsString],
    variables: &[(OsString, OsString)],
) -> Option<(Vec<OsString>, PathBuf)> {
    let search = variables.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone());
    let search = search.or_else(|| std::env::var_os("PATH"));
    let command = launch::Command::of(argv.to_vec());
    let file = command.file_in(&search.unwrap_or_else(|| "/bin:/usr/bin".into())).ok()?;
    let mut head = Vec::new();
    File::open(&file).ok()?.take(HEAD).read_to_end(&mut head).ok()?;
    let (interpreter, option) = interpreter(&head)?;
    let interpreter = moved.path(interpreter)?;
    let words = [Some(interpreter), option.map(<[u8]>::to_vec)];
    Some((words.into_iter().flatten().map(OsString::from_vec).collect(), file))
}

/// The interpreter of a script, and its option, if it has one: execve(2) takes all that follows
/// as one.
fn interpreter(head: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
    let mut lines = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n');
    let first = lines.next()?.trim_ascii();
    if first == b"/bin/sh"
        && let Some(path) = lines.next().and_then(through_shell)
    {
        return Some((path, None));
    }
    let end = first.iter().position(|byte| *byte == b' ' || *byte == b'\t');
    let (path, rest) = first.split_at(end.unwrap_or(first.len()));
    let option = rest.trim_ascii();
    Some((path, (!option.is_empty()).then_some(option)))
}

/// The second line of scripts that pip makes where the interpreter's path is long or has spaces
/// (distlib's scripts.py, `_build_shebang`): `'''exec' "/path/python" "$0" "$@"`.
fn through_shell(line: &[u8]) -> Option<&[u8]> {
    let path = line.strip_prefix(b"'''exec' ")?.trim_ascii().strip_suffix(b"\"$0\" \"$@\"")?;
    let path = path.trim_ascii();
    Some(path.strip_prefix(b"\"").and_then(|path| path.strip_suffix(b"\"")).unwrap_or(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interpreter_is_found_as_the_kernel_and_pip_write_it() {
        let of = |text: &'static str| interpreter(text.as_bytes());
        let path: &[u8] = b"/e/bin/python3";
        assert_eq!(of("#!/e/bin/python3\nx"), Some((path, None)));
        assert_eq!(of("#! /e/bin/python3 -s -E \nx"), Some((path, Some(&b"-s -E"[..]))));
        let long = "#!/bin/sh\n'''exec' \"/an env/bin/python3\" \"$0\" \"$@\"\n' '''\n";
        assert_eq!(of(long), Some((&b"/an env/bin/python3"[..], None)));
        let plain = "#!/bin/sh\n'''exec' /e/bin/python3 \"$0\" \"$@\"\n' '''\n";
        assert_eq!(of(plain), Some((path, None)));
        assert_eq!(of("#!/bin/sh\necho\n"), Some((&b"/bin/sh"[..], None)));
        assert_eq!(of("\x7fELF"), None);
    }
}
