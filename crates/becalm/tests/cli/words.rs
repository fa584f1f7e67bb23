//! One thing, one word, everywhere: no help text, page, table head or JSON field says a word that
//! the glossary gives another one for.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::run;

use crate::BECALM;

/// What is not said, as words that follow each other, and what is said instead.
const NEVER: &[(&[&str], &str)] = &[
    (&["folder"], "directory"),
    (&["folders"], "directories"),
    (&["subfolder"], "subdirectory"),
    (&["culprit"], "source"),
    (&["culprits"], "sources"),
    (&["blame"], "source"),
    (&["to", "blame"], "source"),
    (&["in", "vain"], "failed lookups"),
    (&["answered", "no"], "failed lookups"),
    (&["answered", "no", "such", "file"], "ENOENT"),
    (&["question"], "metadata operation, RPC"),
    (&["questions"], "metadata operations, RPCs"),
    (&["answers", "a", "second"], "MDS ops/s"),
    (&["asked", "the", "filesystem"], "metadata operations"),
    (&["asks", "the", "filesystem"], "metadata operations"),
    (&["asked", "the", "server"], "RPCs"),
    (&["asks", "the", "server"], "RPCs"),
    (&["asks", "of", "the"], "metadata operations"),
    (&["asked", "of", "the"], "metadata operations"),
    (&["keeps", "a", "no"], "negative dentry cache"),
    (&["keeps", "no", "no"], "negative dentry cache"),
    (&["guess"], "inferred"),
    (&["guessed"], "inferred"),
    (&["guesses"], "inferred"),
];

/// JSON fields that say too little, and what they are called.
const NEVER_A_FIELD: &[(&str, &str)] = &[
    ("missing", "enoent"),
    ("metadata", "metadata_ops"),
    ("operations", "metadata_ops"),
    ("ops", "metadata_ops"),
    ("questions", "rpcs"),
    ("asked", "metadata_ops"),
    ("guessed", "inferred"),
    ("cost", "predicted_wait"),
    ("culprits", "sources"),
    ("reads", "data_reads"),
];

#[test]
fn help_texts_say_the_glossarys_words() {
    let mut wrong = Vec::new();
    let mut pages = 0;
    each_help(&mut Vec::new(), &mut |verb, help| {
        pages += 1;
        wrong.extend(forbidden(help).into_iter().map(|what| format!("becalm {verb}: {what}")));
    });
    assert!(pages > 40, "{pages} help texts");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// They show today's screens, table heads included, which `docs_commands` sees to.
#[test]
fn pages_and_the_screens_that_they_show_say_the_glossarys_words() {
    let pages = pages();
    assert!(pages.len() > 60, "{} pages", pages.len());
    let mut wrong = Vec::new();
    for page in &pages {
        let text = fs::read_to_string(page).unwrap();
        wrong
            .extend(forbidden(&text).into_iter().map(|what| format!("{}: {what}", page.display())));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn json_fields_say_the_glossarys_words() {
    let mut wrong = BTreeSet::new();
    let mut fields = 0;
    for page in pages().iter().filter(|page| page.parent().unwrap().ends_with("schema")) {
        for line in fs::read_to_string(page).unwrap().lines() {
            let Some(field) = line.strip_prefix("| `").and_then(|rest| rest.split('`').next())
            else {
                continue;
            };
            fields += 1;
            // The table of a profile that describes the metadata server.
            let field = field.strip_prefix("profile.metadata").unwrap_or(field);
            for part in field.split(['.', '[', ']']) {
                let never = NEVER_A_FIELD.iter().find(|(never, _)| part == *never);
                let never = never.map(|(_, say)| format!("{}: {field}: say {say}", page.display()));
                wrong.extend(never);
            }
        }
    }
    assert!(fields > 300, "{fields} fields");
    assert!(wrong.is_empty(), "{}", wrong.into_iter().collect::<Vec<_>>().join("\n"));
}

/// The help text of each verb, and of those below it that it lists.
fn each_help(verb: &mut Vec<String>, seen: &mut impl FnMut(&str, &str)) {
    let help = run(Command::new(BECALM).args(&*verb).arg("--help")).out().to_owned();
    seen(&verb.join(" "), &help);
    let below: Vec<String> = verbs_in(&help);
    for name in below {
        verb.push(name);
        each_help(verb, seen);
        verb.pop();
    }
}

/// Lines of two spaces, a verb, and what it is for.
fn verbs_in(help: &str) -> Vec<String> {
    let verb = |line: &str| {
        let rest = line.strip_prefix("  ")?;
        let (name, about) = rest.split_once("  ")?;
        let is_verb = name.starts_with(|first: char| first.is_ascii_lowercase())
            && name.chars().all(|char| char.is_ascii_lowercase() || char == '-')
            && !about.trim().is_empty();
        (is_verb && name != "help").then(|| name.to_owned())
    };
    let options = help.lines().position(|line| line.starts_with("Options")).unwrap_or(usize::MAX);
    help.lines().take(options).filter_map(verb).collect()
}

fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![root.join("README.md")];
    let mut left = vec![root.join("docs")];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                left.push(path);
            } else if path.extension().is_some_and(|end| end == "md") {
                pages.push(path);
            }
        }
    }
    pages
}

/// What of a text is not said, with its line. Words are compared without their case, and across
/// the ends of lines.
fn forbidden(text: &str) -> Vec<String> {
    let words: Vec<(usize, String)> = text
        .lines()
        .enumerate()
        .flat_map(|(number, line)| {
            line.split(|char: char| !char.is_alphabetic())
                .filter(|word| !word.is_empty())
                // What is all in capitals begins a screen: it goes on with no line before it.
                .map(move |word| {
                    (
                        number + 1,
                        if is_shouted(word) { word.to_owned() } else { word.to_lowercase() },
                    )
                })
        })
        .collect();
    let mut found = Vec::new();
    for (at, (line, _)) in words.iter().enumerate() {
        for (never, say) in NEVER {
            let here = words[at..].iter().map(|(_, word)| word.as_str()).take(never.len());
            if here.eq(never.iter().copied()) {
                found.push(format!("line {line} says '{}': say '{say}'", never.join(" ")));
            }
        }
    }
    found
}

fn is_shouted(word: &str) -> bool {
    word.len() > 1 && word.chars().all(char::is_uppercase)
}

#[test]
fn a_word_is_found_in_any_case_and_across_lines() {
    assert_eq!(forbidden("It was asked in\nVain, the Folder.").len(), 2);
    assert!(forbidden("questionable folders_of a directory").len() == 1);
}
