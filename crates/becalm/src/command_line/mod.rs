//! The command line, parsed; where it cannot be, one line with what to type instead.
//!
//! | file | what it holds |
//! |---|---|
//! | `groups` | the verbs as `becalm --help` groups them |
//! | `dashes` | the `--` that is missing before a command |

mod dashes;
mod groups;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory, FromArgMatches};

use crate::Cli;
use crate::exit::{self, USAGE};

/// The verb and its options. What stands in their way is said, and ends becalm.
pub fn parse(words: &[OsString]) -> Result<Cli, ExitCode> {
    let mut command = groups::grouped(Cli::command());
    let parsed = command.try_get_matches_from_mut(words);
    let is_for_help = parsed.as_ref().is_err_and(|error| !error.use_stderr());
    if !is_for_help && let Some(line) = dashes::missing(&mut command, words, parsed.is_err()) {
        return Err(match line {
            Ok(line) => refuse(&line),
            // What else is wrong is said of the line as it should be.
            Err(error) => exit::usage(&error),
        });
    }
    match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => Ok(cli),
        Err(error) => Err(match mistyped_verb(&error, words) {
            Some(line) => refuse(&line),
            None => exit::usage(&error),
        }),
    }
}

fn refuse(line: &str) -> ExitCode {
    term::warn(line);
    ExitCode::from(USAGE)
}

/// What to type where a verb is like none.
fn mistyped_verb(error: &clap::Error, words: &[OsString]) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        Some(ContextValue::Strings(texts)) => texts.last().map(String::as_str),
        _ => None,
    };
    if error.kind() != ErrorKind::InvalidSubcommand {
        return None;
    }
    let typed = text(ContextKind::InvalidSubcommand)?;
    let Some(meant) = text(ContextKind::SuggestedSubcommand) else {
        return Some(format!("there is no verb '{typed}'; becalm --help lists them"));
    };
    let mut words = words.to_vec();
    let at = words.iter().skip(1).position(|word| word == typed)? + 1;
    words[at] = meant.into();
    let line = term::shell_line(&words[1..]);
    Some(format!("there is no verb '{typed}'; type: becalm {line}"))
}

/// The verb of several words that the words begin with, and how many they are.
fn leaf<'a>(command: &'a Command, words: &[OsString]) -> (&'a Command, usize) {
    let mut leaf = (command, 1);
    while let Some(word) = words.get(leaf.1)
        && let Some(below) = leaf.0.find_subcommand(word)
    {
        leaf = (below, leaf.1 + 1);
    }
    leaf
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every verb that help shows, with all its words.
    fn shown_verbs(command: &Command, words: &str, found: &mut Vec<(String, Command)>) {
        for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
            let words = format!("{words} {}", verb.get_name());
            found.push((words.clone(), verb.clone()));
            shown_verbs(verb, &words, found);
        }
    }

    #[test]
    fn the_help_of_every_verb_ends_with_an_example_of_it_and_leaves_offer_json() {
        let mut verbs = Vec::new();
        shown_verbs(&Cli::command(), "becalm", &mut verbs);
        assert!(verbs.len() > 30, "{}", verbs.len());
        for (words, verb) in verbs {
            let help = verb.get_after_help().expect(&words).to_string();
            let last = help.trim_end().rsplit("\n\n").next().expect(&words);
            assert!(last.trim_start().starts_with("Example"), "{words} --help ends with: {last}");
            assert!(last.contains(&words), "{words}: {last}");
            let is_leaf = verb.get_subcommands().next().is_none();
            let has_json = verb.get_arguments().any(|arg| arg.get_long() == Some("json"));
            assert!(has_json || !is_leaf || words.ends_with("modules avail"), "{words}");
        }
    }

    #[test]
    fn a_leaf_is_found_below_its_verb() {
        let words = ["becalm", "elf", "tree", "/bin/ls"].map(OsString::from);
        let command = Cli::command();
        let (verb, at) = leaf(&command, &words);
        assert_eq!((verb.get_name(), at), ("tree", 3));
    }
}
