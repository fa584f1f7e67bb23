//! The `--` that is missing before a command, or is something that looks like it.

use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use clap::{Arg, Command};

use super::leaf;

/// What is typed, or made by an editor, for `--`.
const MISTYPED: [&str; 7] = ["-", "---", "–", "—", "––", "−−", "‐‐"];

/// Verbs that take any file, programs too, and can do without a command.
const TAKES_PROGRAMS: [&str; 2] = ["build", "bind"];

/// What is wrong and what to type, where words of a command follow a verb that wants a `--` before
/// them. Where the words are understood as they are (a command's name may be taken for a file's),
/// they must be a command's for certain. An error is what is wrong with the line besides.
pub fn missing(
    command: &mut Command,
    words: &[OsString],
    is_refused: bool,
) -> Option<Result<String, clap::Error>> {
    command.build();
    let (verb, first) = leaf(command, words);
    if !verb.get_positionals().any(Arg::is_last_set) {
        return None;
    }
    if words.iter().any(|word| word == "--") {
        return None;
    }
    let takes_others = verb.get_positionals().any(|arg| !arg.is_last_set());
    let at = command_at(verb, words, first, takes_others || !is_refused)?;
    let mut mended = words.to_vec();
    if !is_refused && TAKES_PROGRAMS.contains(&verb.get_name()) && Path::new(&words[at]).exists() {
        return None;
    }
    // last(1) is a program, too.
    if !is_refused && words[at] == crate::last::NAME {
        return None;
    }
    let what = match MISTYPED.iter().find(|typed| words[at] == OsStr::new(typed)) {
        Some(typed) => {
            mended[at] = "--".into();
            format!("'{typed}' is not the '--' that belongs")
        }
        None => {
            mended.insert(at, "--".into());
            "'--' is missing".to_owned()
        }
    };
    match command.try_get_matches_from_mut(&mended) {
        Ok(_) => {
            let line = term::shell_line(&mended[1..]);
            Some(Ok(format!("{what} before the command; type: becalm {line}")))
        }
        Err(error) => is_refused.then_some(Err(error)),
    }
}

/// Where the command begins: at the first word that is neither an option of the verb's nor an
/// option's value, and, where the verb takes other words, is a command's name. None where there is
/// no such word.
fn command_at(
    verb: &Command,
    words: &[OsString],
    first: usize,
    must_be_one: bool,
) -> Option<usize> {
    let mut at = first;
    while let Some(word) = words.get(at) {
        let is_mistyped = MISTYPED.iter().any(|typed| word == OsStr::new(typed));
        if is_mistyped && words.get(at + 1).is_some_and(|next| is_command(next)) {
            return Some(at);
        } else if word.len() > 1 && word.as_bytes().starts_with(b"-") {
            at += 1 + usize::from(has_its_value_behind(verb, word)?);
        } else if !must_be_one || is_command(word) {
            return Some(at);
        } else {
            at += 1;
        }
    }
    None
}

/// The first word that is neither an option of the verb's nor an option's value, before any `--`.
pub fn first_word(verb: &Command, words: &[OsString], first: usize) -> Option<usize> {
    let mut at = first;
    loop {
        match words.get(at)? {
            word if word == "--" => return None,
            word if word.len() > 1 && word.as_bytes().starts_with(b"-") => {
                at += 1 + usize::from(has_its_value_behind(verb, word)?);
            }
            _ => return Some(at),
        }
    }
}

/// Whether the option's value is the next word; none where the verb has no such option.
fn has_its_value_behind(verb: &Command, word: &OsStr) -> Option<bool> {
    let word = word.to_str()?;
    let is_long = |arg: &&Arg, name: &str| {
        arg.get_long() == Some(name)
            || arg.get_all_aliases().is_some_and(|aliases| aliases.contains(&name))
    };
    let takes_next = |arg: &Arg| arg.get_action().takes_values() && !arg.is_require_equals_set();
    if let Some(name) = word.strip_prefix("--") {
        let (name, value) = name.split_once('=').map_or((name, None), |(name, v)| (name, Some(v)));
        let arg = verb.get_arguments().find(|arg| is_long(arg, name))?;
        return Some(value.is_none() && takes_next(arg));
    }
    // Letters without a value may be joined; behind one that has a value stands the value.
    let letters: Vec<char> = word.chars().skip(1).collect();
    for (number, letter) in letters.iter().enumerate() {
        let arg = verb.get_arguments().find(|arg| arg.get_short() == Some(*letter))?;
        if takes_next(arg) {
            return Some(number + 1 == letters.len());
        }
    }
    Some(false)
}

/// Whether a shell would start this: a program that is named by its path, or a name that is no
/// file's here and a program's in PATH. A recording is none, whatever its mode.
pub fn is_command(word: &OsStr) -> bool {
    let path = Path::new(word);
    if word.as_bytes().contains(&b'/') {
        return is_program(path);
    }
    let directories = std::env::var_os("PATH").unwrap_or_default();
    !word.is_empty()
        && !path.exists()
        && std::env::split_paths(&directories).any(|directory| is_program(&directory.join(path)))
}

/// A recording is none, even where every file may be executed.
fn is_program(path: &Path) -> bool {
    let may_be_executed = |file: Metadata| file.is_file() && file.permissions().mode() & 0o111 != 0;
    path.metadata().is_ok_and(may_be_executed) && !crate::load::is_recording(path)
}
