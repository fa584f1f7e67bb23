//! Which order of a list's directories changes nothing that is found, and the value that says it.

use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use explain::{ListSearches, SourcePath, declared_entries, stem};
use recording::{Exec, Recording, SEARCH_VARIABLES};

use crate::machine::Machine;
use crate::python::to_path;

/// The most files of a list that are compared.
const FILES: usize = 50_000;
/// A recorded value may be cut from here on (`watch` keeps so many bytes of one).
const WHOLE: usize = 32 << 10;

/// The variables of which it is known that the first directory that has a relative name decides: only
/// these are given another order. CMake looks below each prefix in many places, TeX in all that is
/// below, man(1) by section and language, Tcl for the newest version.
const FIRST_DECIDES: [&str; 20] = [
    "PERL5LIB",
    "PERLLIB",
    "RUBYLIB",
    "LUA_PATH",
    "LUA_CPATH",
    "LUA_PATH_5_2",
    "LUA_PATH_5_3",
    "LUA_PATH_5_4",
    "LUA_CPATH_5_2",
    "LUA_CPATH_5_3",
    "LUA_CPATH_5_4",
    "NODE_PATH",
    "CLASSPATH",
    "CPATH",
    "C_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH",
    "ROOT_INCLUDE_PATH",
    "PKG_CONFIG_PATH",
    "PKG_CONFIG_LIBDIR",
    "R_LIBS",
];

/// Whether the first directory of a variable that has a relative name decides what is found.
pub(crate) fn first_decides(variable: &str) -> bool {
    FIRST_DECIDES.contains(&variable)
}

/// A name without the directories of a version or an architecture that perl and others look into first
/// in each directory: `5.36.0/x86_64-linux-gnu/Foo` is what `Foo` is, too.
fn without_variant(mut name: &[u8]) -> &[u8] {
    while let Some(slash) = name.iter().position(|byte| *byte == b'/') {
        let first = &name[..slash];
        let is_variant = first.first().is_some_and(u8::is_ascii_digit)
            || first.windows(5).any(|part| part == b"linux");
        if !is_variant {
            break;
        }
        name = &name[slash + 1..];
    }
    name
}

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
            let name = |file: &PathBuf| without_variant(stem(file.as_os_str().as_bytes())).to_vec();
            names.push(files.iter().map(name).collect());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_a_version_or_an_architecture_is_the_same_name() {
        assert_eq!(without_variant(b"5.36.0/x86_64-linux-gnu/Foo/Bar"), b"Foo/Bar");
        assert_eq!(without_variant(b"Foo/5.36/Bar"), b"Foo/5.36/Bar");
        assert_eq!(without_variant(b"5.36"), b"5.36");
    }
}
