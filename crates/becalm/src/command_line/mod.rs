//! The command line, parsed; where it cannot be, one line with what to type instead.
//!
//! | file | what it holds |
//! |---|---|
//! | `groups` | the verbs as `becalm --help` groups them |
//! | `container` | the `--` behind a container that is run |
//! | `dashes` | the `--` that is missing before a command |
//! | `shown` | the verbs and options that help shows, and no others |
//! | `equals` | the `=` that is missing between an option and its value |
//! | `verbs` | the verb that is meant by one that is none |

mod container;
mod dashes;
mod equals;
mod groups;
mod shown;
mod verbs;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ErrorKind};
use clap::{Arg, Command, CommandFactory, FromArgMatches};

use crate::Cli;
use crate::exit::{self, USAGE};

pub use shown::shown;

/// The verb and its options. What stands in their way is said, and ends becalm.
pub fn parse(words: &[OsString]) -> Result<Cli, ExitCode> {
    let mut command = with_negative_numbers(groups::grouped(Cli::command()));
    let words = &*container::separated(&mut command, words);
    let parsed = command.try_get_matches_from_mut(words);
    let is_for_help = parsed.as_ref().is_err_and(|error| !error.use_stderr());
    if parsed.is_err()
        && let Some(line) = equals::missing(&mut command, words)
    {
        return Err(refuse(&line));
    }
    if !is_for_help && let Some(line) = dashes::missing(&mut command, words, parsed.is_err()) {
        return Err(match line {
            Ok(line) => refuse(&line),
            // What else is wrong is said of the line as it should be.
            Err(error) => exit::usage(&error),
        });
    }
    match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => Ok(cli),
        Err(mut error) => Err(match verbs::meant(&mut command, &error, words) {
            Some(line) => refuse(&line),
            None => {
                // "use '-- -j'": what follows a `--` is a command here, never an option's value.
                if error.kind() == ErrorKind::UnknownArgument {
                    error.remove(ContextKind::Suggested);
                }
                exit::usage(&error)
            }
        }),
    }
}

/// A number below 0 is an option's wrong value, not an option.
fn with_negative_numbers(command: Command) -> Command {
    let takes_values = |arg: &Arg| !arg.is_positional() && arg.get_action().takes_values();
    command
        .mut_args(|arg| match takes_values(&arg) {
            true => arg.allow_negative_numbers(true),
            false => arg,
        })
        .mut_subcommands(with_negative_numbers)
}

fn refuse(line: &str) -> ExitCode {
    term::warn(line);
    ExitCode::from(USAGE)
}

/// The end of a sentence: what to type, where becalm understands the mended words, or would if they
/// had their `--`.
fn to_type(command: &mut Command, mended: &[OsString]) -> Option<String> {
    match command.try_get_matches_from_mut(mended) {
        Ok(_) => Some(format!("; type: becalm {}", term::shell_line(&mended[1..]))),
        Err(_) => match dashes::missing(command, mended, true)? {
            Ok(line) => Some(format!(", and {line}")),
            Err(_) => None,
        },
    }
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

    /// What they print is other programs' to read: Modules' own answer, a shell's script, a page of
    /// man; or a screen for a person, whose numbers are those of `report --json` and `check --json`.
    const HAVE_NO_JSON: [&str; 5] = [
        "becalm browse",
        "becalm modules answer",
        "becalm modules avail",
        "becalm completions",
        "becalm man",
    ];

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
            assert!(has_json || !is_leaf || HAVE_NO_JSON.contains(&words.as_str()), "{words}");
            let has_schema = crate::verb::schema::has(words.trim_start_matches("becalm "));
            assert!(has_schema || !is_leaf || !has_json, "no schema: {words}");
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
