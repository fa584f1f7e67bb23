//! The verb that is meant by one that is none.

use std::ffi::OsString;
use std::path::Path;

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::{leaf, to_type};

/// What to type where a word is no verb: the line with the one that is meant, if that is certain
/// enough and the line is understood; else where to look.
pub fn meant(command: &mut Command, error: &clap::Error, words: &[OsString]) -> Option<String> {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return None;
    }
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    let (group, at) = leaf(command, words);
    let wrong = format!(
        "there is no verb '{}'",
        term::shell_line([&words[1..at], &[typed.into()]].concat())
    );
    let candidates = match typed.contains('/') || Path::new(typed).exists() {
        true => Vec::new(),
        false => like(group, typed).unwrap_or_else(|| below(command, typed)),
    };
    let lists = term::shell_line([&words[1..at], &["--help".into()]].concat());
    let [candidate] = &candidates[..] else {
        return Some(match &candidates[..] {
            [] => format!("{wrong}; becalm {lists} lists them"),
            several => {
                let lines: Vec<String> =
                    several.iter().map(|words| format!("becalm {}", words.join(" "))).collect();
                format!("{wrong}; there are {}", lines.join(" and "))
            }
        });
    };
    let mut mended = vec![words[0].clone()];
    mended.extend(candidate.iter().map(OsString::from));
    mended.extend_from_slice(&words[at + 1..]);
    let verb = candidate.join(" ");
    Some(match to_type(command, &mended) {
        Some(line) => format!("{wrong}{line}"),
        None => format!("{wrong}; becalm {verb} --help tells of the one that is like it"),
    })
}

/// The verb of a group that is typed with a letter more, less, other or out of place; with two, if
/// it is long. None of a letter or two.
fn like(group: &Command, typed: &str) -> Option<Vec<Vec<String>>> {
    let far = |verb: &Command| strsim::damerau_levenshtein(verb.get_name(), typed);
    let verbs = group.get_subcommands().filter(|verb| !verb.is_hide_set());
    let nearest = verbs.min_by_key(|verb| far(verb))?;
    let is_near = far(nearest) * 4 <= nearest.get_name().len().max(typed.len());
    is_near.then(|| vec![path_to(group, nearest)])
}

/// The words of a verb of this group, without becalm's own.
fn path_to(group: &Command, verb: &Command) -> Vec<String> {
    let names = group.get_bin_name().unwrap_or_default().split(' ').skip(1).map(str::to_owned);
    names.chain([verb.get_name().to_owned()]).collect()
}

/// Verbs of exactly this name in any group that help shows.
fn below(command: &Command, typed: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let verbs = command.get_subcommands();
    for verb in verbs.filter(|verb| !verb.is_hide_set() && verb.get_name() != "help") {
        if verb.get_name() == typed {
            found.push(vec![typed.to_owned()]);
        }
        for mut words in below(verb, typed) {
            words.insert(0, verb.get_name().to_owned());
            found.push(words);
        }
    }
    found
}
