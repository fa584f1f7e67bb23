//! What users are to be answered as before.

use std::collections::BTreeSet;
use std::path::Path;

use launch::Ended;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{CommandOutput, TidyView};
use crate::site::Release;
use crate::tree::{TreeEntry, TreeEntryKind};

/// A `module` command whose answer must not change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CheckedCommand {
    /// The words after `module`.
    pub words: Vec<String>,
}

impl CheckedCommand {
    /// `module WORDS…`
    pub fn new(words: &[&str]) -> CheckedCommand {
        CheckedCommand { words: words.iter().map(|word| (*word).to_owned()).collect() }
    }

    /// Whether the answer is JSON, in which the order of names says nothing.
    pub fn is_json(&self) -> bool {
        self.words.iter().any(|word| word == "-j")
    }

    /// As one would type it.
    pub fn text(&self) -> String {
        format!("module {}", self.words.join(" "))
    }
}

/// What is asked of a whole modulepath.
pub(super) fn general() -> Vec<CheckedCommand> {
    [
        &["avail"][..],
        &["avail", "-t"],
        &["avail", "-l"],
        &["avail", "-j"],
        &["avail", "-a"],
        &["avail", "-d"],
        &["avail", "-L"],
        &["whatis"],
    ]
    .map(CheckedCommand::new)
    .to_vec()
}

/// What names all modules and symbols that a user sees.
pub(super) fn names_question() -> CheckedCommand {
    CheckedCommand::new(&["avail", "-a", "-j"])
}

/// Whether a user was shown modules, where there are some. Two answers that fail are equal, and
/// prove nothing.
pub(super) fn lists_modules(answer: &CommandOutput, view: &TidyView, release: &Release) -> bool {
    let is_modulefile = |entry: &TreeEntry| match &entry.kind {
        TreeEntryKind::File(cookie) => cookie.is_valid_for(release),
        _ => false,
    };
    let mut entries = view.trees.iter().flat_map(|tree| &tree.entries);
    let shows = !modules(&answer.stderr).is_empty();
    answer.ended == Ended::Exited(0) && (shows || !entries.any(is_modulefile))
}

/// Every name that means a module to one of the users: of files, of directories that hold some, of
/// symbols and aliases. `answers` are those to [`names_question`].
pub(super) fn names<'a>(
    views: &[TidyView],
    answers: impl IntoIterator<Item = &'a str>,
) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut add = |name: &Path| {
        let parts = name.ancestors().filter(|part| !part.as_os_str().is_empty());
        names.extend(parts.filter_map(Path::to_str).map(str::to_owned));
    };
    let entries = views.iter().flat_map(|view| &view.trees).flat_map(|tree| &tree.entries);
    for entry in entries.filter(|entry| matches!(entry.kind, TreeEntryKind::File(_))) {
        add(&entry.name);
    }
    for answer in answers {
        for (name, module) in modules(answer) {
            add(Path::new(&name));
            let symbols = module.get("symbols").and_then(Value::as_array).cloned();
            let directory = Path::new(&name).parent().unwrap_or(Path::new(""));
            for symbol in symbols.unwrap_or_default() {
                if let Some(symbol) = symbol.as_str() {
                    add(&directory.join(symbol));
                }
            }
        }
    }
    names
}

/// The modules of an answer in JSON, in the order of the modulepaths.
fn modules(answer: &str) -> Vec<(String, Value)> {
    let Ok(Value::Object(paths)) = serde_json::from_str(answer.trim()) else { return Vec::new() };
    let modules = paths.into_iter().filter_map(|(_, modules)| match modules {
        Value::Object(modules) => Some(modules),
        _ => None,
    });
    modules.flatten().collect()
}

/// A few modules of each modulepath, spread over it: those that are loaded, and timed.
pub(super) fn some_loads(answer: &str, each: usize) -> Vec<CheckedCommand> {
    let Ok(Value::Object(paths)) = serde_json::from_str(answer.trim()) else { return Vec::new() };
    let mut loads = Vec::new();
    for modules in paths.values().filter_map(Value::as_object) {
        let step = modules.len().div_ceil(each).max(1);
        let names = modules.keys().step_by(step).filter(|name| !name.starts_with('-'));
        loads.extend(names.map(|name| CheckedCommand::new(&["load", name])));
    }
    loads
}
