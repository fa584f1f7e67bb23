//! Which order of a list's directories changes nothing that is found, and the value that says it.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use explain::{ListSearches, declared_entries, stem};
use recording::{Exec, Recording, SEARCH_VARIABLES};

use crate::machine::Machine;

/// The most files of a list that are compared.
pub(crate) const FILES: usize = 50_000;
/// A recorded value may be cut from here on (`watch` keeps so many bytes of one).
const WHOLE: usize = 32 << 10;

/// The variables of which it is known that the first directory that has a relative name decides: only
/// these are given another order. CMake looks below each prefix in many places, TeX in all that is
/// below, man(1) by section and language, Tcl for the newest version; R installs into the first library.
const FIRST_DECIDES: [&str; 19] = [
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
];

/// Whether the first directory of a variable that has a relative name decides what is found.
pub fn first_decides(variable: &str) -> bool {
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
    // pkg-config(1) prefers what is not installed yet.
    name.strip_suffix(b"-uninstalled").unwrap_or(name)
}

/// What a file below a directory is searched as.
pub(crate) fn searched_name(file: &[u8]) -> &[u8] {
    without_variant(stem(file))
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
            let name = |file: &PathBuf| searched_name(file.as_os_str().as_bytes()).to_vec();
            names.push(files.iter().map(name).collect());
        }
        Ok(ListContent { names })
    }

    /// Whether two directories have something of the same name: their order then decides which is
    /// found.
    pub(crate) fn have_one_name(&self, one: usize, other: usize) -> bool {
        !self.names[one].is_disjoint(&self.names[other])
    }
}

/// Whether the directories of a list are only searched: who lists one sees their order, and a name
/// with `..` leads out of the directory that it was found from.
pub(crate) fn is_used_by_search_alone(
    recording: &Recording,
    list: &ListSearches,
) -> Result<(), String> {
    let given = || list.entries.iter().filter(|entry| entry.is_given);
    let is_below = |path: &[u8]| {
        given().find(|entry| {
            let rest = path.strip_prefix(entry.directory.bytes());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
        })
    };
    for event in recording.events.iter().filter(|event| event.is_metadata()) {
        let Some(path) = event.path.map(|path| recording.path(path)) else { continue };
        let leads_out = path.windows(4).position(|part| part == b"/../");
        let (used, how) = match (event.is_listing(), leads_out) {
            (true, _) => (is_below(path), "is listed"),
            (false, Some(place)) => (is_below(&path[..place]), "is left by `..`"),
            (false, None) => continue,
        };
        if let Some(entry) = used {
            return Err(format!("{} {how}: another order may show there", entry.directory));
        }
    }
    Ok(())
}

/// Whether the entries of a variable are directories, or patterns that are the same in each of them.
pub(crate) fn is_of_plain_directories(variable: &str, value: &str) -> Result<(), String> {
    let known = SEARCH_VARIABLES.iter().find(|known| known.name == variable);
    let separator = known.map_or(':', |known| known.separator);
    let mut patterns: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (entry, directory) in value.split(separator).zip(declared_entries(variable, value)) {
        let Some(directory) = directory else { continue };
        let pattern = entry.strip_prefix(directory).unwrap_or(entry);
        if pattern.contains('*') || directory.contains('*') {
            return Err(format!("{variable} has a wildcard, which stands for what lies there"));
        }
        patterns.entry(directory).or_default().insert(pattern);
    }
    let mut kinds = patterns.into_values();
    let first = kinds.next();
    match kinds.all(|kind| Some(kind) == first) {
        true => Ok(()),
        false => Err(format!("{variable} has other patterns for other directories")),
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
        assert_eq!(without_variant(b"zlib-uninstalled"), b"zlib");
    }

    #[test]
    fn only_directories_with_the_same_patterns_are_given_another_order() {
        let of = is_of_plain_directories;
        assert_eq!(of("LUA_PATH", "/a/?.lua;/a/?/init.lua;/b/?.lua;/b/?/init.lua;;"), Ok(()));
        assert!(of("LUA_PATH", "/a/?.lua;/b/?.lua;/b/?/main.lua").is_err());
        assert!(of("LUA_PATH", "/a/?.lua;/b/pre-?.lua").is_err());
        assert_eq!(of("CLASSPATH", "/a:/b:/c"), Ok(()));
        assert!(of("CLASSPATH", "/jars/*:/b").is_err());
    }
}
