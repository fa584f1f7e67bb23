//! Which order of a list's directories changes nothing that is found, and the value that says it.

use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt;

use explain::{ListSearches, SourcePath, declared_entries, stem};
use recording::{Exec, Recording, SEARCH_VARIABLES};

use crate::machine::Machine;
use crate::python::to_path;

/// The most files of a list that are compared.
const FILES: usize = 50_000;
/// A recorded value may be cut from here on (`watch` keeps so many bytes of one).
const WHOLE: usize = 32 << 10;

/// What lies in the directories that a list gives.
pub(crate) struct ListContent {
    /// Of each directory, what searches would find in it; none of what the list does not give.
    names: Vec<HashSet<Vec<u8>>>,
}

impl ListContent {
    /// Reads them, or says why not.
    pub(crate) fn read(machine: &Machine, list: &ListSearches) -> Result<ListContent, String> {
        let mut left = FILES;
        let mut names = Vec::new();
        for entry in &list.entries {
            if !entry.is_given {
                names.push(HashSet::new());
                continue;
            }
            let files = (machine.files_below)(entry.directory.path(), left).ok_or_else(|| {
                format!("what is in {} cannot be read, or is too much", entry.directory)
            })?;
            left = left.saturating_sub(files.len());
            names.push(
                files.iter().map(|file| stem(file.as_os_str().as_bytes()).to_vec()).collect(),
            );
        }
        Ok(ListContent { names })
    }

    /// Whether two directories have something of the same name: their order then decides which is
    /// found.
    pub(crate) fn have_one_name(&self, one: usize, other: usize) -> bool {
        !self.names[one].is_disjoint(&self.names[other])
    }

    /// The directories of a list that are not there, or in which nothing is: and nothing was put by
    /// the command, that it may look for later.
    pub(crate) fn empty(&self, recording: &Recording, list: &ListSearches) -> Vec<usize> {
        let changes = recording.events.iter().filter(|event| event.is_change());
        let changed: HashSet<&[u8]> =
            changes.filter_map(|event| Some(recording.path(event.path?))).collect();
        let is_changed = |directory: &SourcePath| {
            changed.iter().any(|path| to_path(path).starts_with(directory.path()))
        };
        let is_empty = |at: &usize| {
            let entry = &list.entries[*at];
            entry.is_given && self.names[*at].is_empty() && !is_changed(&entry.directory)
        };
        (0..self.names.len()).filter(is_empty).collect()
    }
}

/// The value of a variable, where all programs of the recording have the one that the command was
/// started with: another one is set by a script, whatever the launch says.
pub(crate) fn launched_value(recording: &Recording, variable: &str) -> Result<String, String> {
    let of = |exec: &Exec| {
        exec.env.iter().find(|(name, _)| name == variable).map(|(_, value)| value.clone())
    };
    let mut execs = recording.processes.iter().flat_map(|process| &process.execs);
    let set_inside = || format!("{variable} is set by what the command runs, not where it starts");
    let value = execs.next().and_then(of).ok_or_else(set_inside)?;
    if execs.any(|exec| of(exec).is_some_and(|other| other != value)) {
        return Err(set_inside());
    }
    match value.len() < WHOLE && !value.contains(char::REPLACEMENT_CHARACTER) {
        true => Ok(value),
        false => Err(format!("{variable} is too long, or no text")),
    }
}

/// The value with the directories of a list in this order and without these; what is no directory of
/// it stays in its place. None where an entry is not a full path.
pub(crate) fn reordered(
    variable: &str,
    value: &str,
    list: &ListSearches,
    order: &[usize],
    without: &[usize],
) -> Option<String> {
    let separator = SEARCH_VARIABLES.iter().find(|known| known.name == variable)?.separator;
    let entries: Vec<&str> = value.split(separator).collect();
    let directories = declared_entries(variable, value);
    let entry_of = |directory: &str| {
        let clean = recording::query::clean(directory.as_bytes());
        let is_it = |at: &usize| list.entries[*at].directory.bytes() == &*clean;
        order.iter().copied().find(is_it)
    };
    let mut places = Vec::new();
    for directory in directories {
        places.push(match directory {
            Some(directory) => Some(entry_of(directory)?),
            None => None,
        });
    }
    let mut seen = HashSet::new();
    let mut sorted: Vec<&str> = Vec::new();
    for at in order.iter().filter(|at| !without.contains(at)) {
        let own = entries.iter().zip(&places).filter(|(_, place)| **place == Some(*at));
        sorted.extend(own.map(|(entry, _)| *entry).filter(|entry| seen.insert(*entry)));
    }
    let mut sorted = sorted.into_iter();
    // What stands for the default stays where it was among those that are left.
    let places = places.iter().zip(&entries);
    let all = places.filter_map(|(place, entry)| match place {
        Some(_) => sorted.next(),
        None => Some(*entry),
    });
    Some(all.collect::<Vec<_>>().join(&separator.to_string()))
}
