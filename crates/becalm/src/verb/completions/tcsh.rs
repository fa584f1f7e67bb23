//! tcsh, which clap_complete does not know: one `complete`, whose rules look at the word before.
//!
//! So options are those of all verbs, and values those of all options of a name.

use std::collections::{BTreeMap, BTreeSet};

use clap::{Arg, Command};

/// What the walk over all verbs finds.
#[derive(Default)]
struct CompleteWords<'a> {
    /// The verbs, or the choice of words, that may follow a verb.
    below: BTreeMap<&'a str, BTreeSet<String>>,
    options: BTreeSet<&'a str>,
    /// The values of options that have a choice of them.
    values: BTreeMap<&'a str, BTreeSet<String>>,
}

/// The `complete` command, in one line: tcsh's backquotes make a blank of an end of line.
pub fn script(becalm: &Command) -> String {
    let mut words = CompleteWords::default();
    words.take(becalm);
    // Rules are tried in their order.
    let mut rules = vec!["'n/--/c/'".to_owned()];
    for (option, values) in words.values.iter().filter(|(_, values)| !values.is_empty()) {
        rules.push(rule(&format!("n/--{option}"), values));
    }
    rules.push(rule("c/--", &words.options));
    for (verb, below) in words.below.iter().filter(|(_, below)| !below.is_empty()) {
        let place = if *verb == "becalm" { "p/1" } else { &format!("n/{verb}") };
        rules.push(rule(place, below));
    }
    rules.push("'p/*/f/'".to_owned());
    format!("complete becalm {};\n", rules.join(" "))
}

impl<'a> CompleteWords<'a> {
    fn take(&mut self, verb: &'a Command) {
        for arg in verb.get_arguments() {
            let values = values(arg);
            match arg.get_long() {
                Some(option) => {
                    self.options.insert(option);
                    self.values.entry(option).or_default().extend(values);
                }
                None => self.below.entry(verb.get_name()).or_default().extend(values),
            }
        }
        for below in verb.get_subcommands() {
            let names = self.below.entry(verb.get_name()).or_default();
            names.insert(below.get_name().to_owned());
            self.take(below);
        }
    }
}

/// Of an option whose value is the next word.
fn values(arg: &Arg) -> Vec<String> {
    let is_next = arg.get_action().takes_values() && !arg.is_require_equals_set();
    let possible = arg.get_possible_values();
    let shown = possible.iter().filter(|value| is_next && !value.is_hide_set());
    shown.map(|value| value.get_name().to_owned()).collect()
}

/// In the place that a pattern describes, these words are offered.
fn rule(place: &str, words: &BTreeSet<impl AsRef<str>>) -> String {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    format!("'{place}/({})/'", words.join(" "))
}
