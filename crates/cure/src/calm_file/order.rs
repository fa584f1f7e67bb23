//! Whether the directories of a list, searched in another order, still have what they had: what is put
//! into them later, under a name that another one has, may be found in that order only.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use explain::declared_entries;

use super::{CalmChange, CalmFile};
use crate::machine::Machine;
use crate::search_value::{FILES, searched_name};

/// A list of directories in two orders.
struct ReorderedList {
    before: Vec<PathBuf>,
    now: Vec<PathBuf>,
}

impl CalmFile {
    /// The lists that it sets in another order.
    fn reordered(&self) -> impl Iterator<Item = ReorderedList> {
        let environment = &self.environment;
        environment.reordered.iter().filter_map(|(variable, before)| {
            let directories =
                |value: &OsString| Some(directories(variable.to_str()?, value.to_str()?));
            let now = environment.set.get(variable)?;
            Some(ReorderedList { before: directories(before)?, now: directories(now)? })
        })
    }

    /// How many directories are searched in another order.
    pub fn reordered_directories(&self) -> u64 {
        self.reordered().map(|list| list.now.len() as u64).sum()
    }

    /// Of the directories that are searched in another order, those in which something is found that was
    /// found in another one before; one name of each two.
    pub fn changes_of_order(&self, machine: &Machine) -> Vec<CalmChange> {
        self.reordered().flat_map(|list| list.changes(machine)).collect()
    }
}

impl ReorderedList {
    fn changes(&self, machine: &Machine) -> Vec<CalmChange> {
        let (mut left, mut changes) = (FILES, Vec::new());
        let mut directories_of: HashMap<Vec<u8>, Vec<usize>> = HashMap::new();
        for (at, directory) in self.now.iter().enumerate() {
            let Some(files) = (machine.files_below)(directory, left) else {
                let what = "cannot be read, or holds too much to compare".to_owned();
                changes.push(CalmChange { path: directory.clone(), what });
                continue;
            };
            left = left.saturating_sub(files.len());
            for file in files {
                let name = searched_name(file.as_os_str().as_bytes()).to_vec();
                let known = directories_of.entry(name).or_default();
                if known.last() != Some(&at) {
                    known.push(at);
                }
            }
        }
        let place: HashMap<&Path, usize> =
            self.before.iter().enumerate().map(|(at, directory)| (&**directory, at)).collect();
        let was_at = |at: &usize| place.get(&*self.now[*at]).copied().unwrap_or(usize::MAX);
        let mut others: BTreeMap<(usize, usize), &[u8]> = BTreeMap::new();
        for (name, all) in &directories_of {
            let Some((now, before)) = all.first().zip(all.iter().min_by_key(|at| was_at(at)))
            else {
                continue;
            };
            if now != before {
                let first = others.entry((*now, *before)).or_insert(name);
                *first = name.as_slice().min(*first);
            }
        }
        changes.extend(others.into_iter().map(|((now, before), name)| CalmChange {
            path: self.now[now].clone(),
            what: format!(
                "has {}, which is found in {} in the order before",
                recording::shown(name),
                self.now[before].display()
            ),
        }));
        changes
    }
}

/// The directories of a variable's value, each once.
fn directories(variable: &str, value: &str) -> Vec<PathBuf> {
    let mut directories: Vec<PathBuf> = Vec::new();
    for directory in declared_entries(variable, value).into_iter().flatten().map(PathBuf::from) {
        if !directories.contains(&directory) {
            directories.push(directory);
        }
    }
    directories
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Directories whose names are the files in them: `/x,y` has `x.pm` and `y.pm`.
    fn machine() -> Machine {
        let files_below = |directory: &Path, _| {
            let names = directory.to_str()?.trim_start_matches('/').split(',');
            names.map(|name| (name != "closed").then(|| format!("{name}.pm").into())).collect()
        };
        Machine { files_below, ..Machine::unknown() }
    }

    fn changes(before: &str, now: &str) -> Vec<String> {
        let mut calm = CalmFile::default();
        calm.environment.set.insert("PERL5LIB".into(), now.into());
        calm.environment.reordered.insert("PERL5LIB".into(), before.into());
        let changes = calm.changes_of_order(&machine()).into_iter();
        changes.map(|change| format!("{} {}", change.path.display(), change.what)).collect()
    }

    #[test]
    fn only_a_name_that_is_found_in_another_directory_now_is_a_change() {
        assert_eq!(changes("/a:/b,c:/d", "/d:/b,c:/a"), [""; 0]);
        assert_eq!(changes("/a,x:/b:/x,c", "/a,x:/x,c:/b"), [""; 0], "/a is first in both");
        assert_eq!(
            changes("/a,x:/b:/x,y,c:/a,y", "/x,y,c:/b:/a,x:/a,y"),
            ["/x,y,c has x, which is found in /a,x in the order before"]
        );
        assert_eq!(
            changes("/a:/closed", "/closed:/a"),
            ["/closed cannot be read, or holds too much to compare"]
        );
    }
}
