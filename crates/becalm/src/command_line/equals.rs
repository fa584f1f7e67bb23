//! The `=` that is missing between an option and its value, where it can do without one: `--json
//! out.json` before a command.

use std::ffi::{OsStr, OsString};

use clap::{Arg, Command};

use super::{dashes, leaf, to_type};

/// What is wrong and what to type, where a refused line is understood once such a value is joined to
/// its option. A command's name is no value: its `--` is missing.
pub fn missing(command: &mut Command, words: &[OsString]) -> Option<String> {
    command.build();
    let (verb, first) = leaf(command, words);
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let at = (first..end.saturating_sub(1)).find(|at| is_without(verb, &words[*at]))?;
    let value = &words[at + 1];
    let is_value = !dashes::is_command(value) && !value.as_encoded_bytes().starts_with(b"-");
    if !is_value {
        return None;
    }
    let option = words[at].clone();
    let mut mended = words.to_vec();
    mended[at].push("=");
    let value = mended.remove(at + 1);
    mended[at].push(value);
    let line = to_type(command, &mended)?;
    Some(format!("the value of '{}' stands behind a '='{line}", option.display()))
}

/// Whether the word is an option whose value must be joined to it, without one.
fn is_without(verb: &Command, word: &OsStr) -> bool {
    let name = word.to_str().and_then(|word| word.strip_prefix("--"));
    let is_it = |arg: &Arg| arg.is_require_equals_set() && arg.get_long() == name;
    name.is_some() && verb.get_arguments().any(is_it)
}
