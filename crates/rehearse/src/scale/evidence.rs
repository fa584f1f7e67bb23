//! Which component of a path was the missing one.
//!
//! The kernel says 'no such file' of a whole path, but its walk ended at the first component
//! that is not there, and it keeps that. The rest of the recording tells which one it was:
//!
//! - A directory that was ever found, or anything below it, is there.
//! - One that was asked for by itself, and never found, is not.
//! - Neither is one in which only directories were looked for, none of which is there: of
//!   `lib/glibc-hwcaps/x86-64-v3/` and its kin the loader asks for each, never for the first.
//!
//! Where nothing tells, the last component is taken: one lookup for each name, which is the most
//! it can be.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::Question;

/// What all the questions of a recording tell of each other.
#[derive(Default)]
pub(super) struct Evidence<'a> {
    found: FxHashSet<&'a [u8]>,
    missing: FxHashSet<&'a [u8]>,
}

impl<'a> Evidence<'a> {
    /// What these tell.
    pub(super) fn of(questions: impl Iterator<Item = Question<'a>>) -> Evidence<'a> {
        let mut evidence = Evidence::default();
        for question in questions {
            let path = trimmed(question.path);
            if question.missing {
                evidence.missing.insert(path);
            } else {
                evidence.find(path);
            }
            if let Some(other) = question.other_path {
                evidence.find(above(trimmed(other)));
            }
        }
        evidence.miss_directories_of_missing_directories();
        evidence
    }

    /// Adds to what is missing the directories in which only directories were looked for, in vain.
    fn miss_directories_of_missing_directories(&mut self) {
        let Evidence { found, missing } = self;
        let mut searched: FxHashSet<&[u8]> = FxHashSet::default();
        for path in missing.iter() {
            let mut directory = above(path);
            while !directory.is_empty() && !found.contains(directory) && searched.insert(directory)
            {
                directory = above(directory);
            }
        }
        let mut asked: Vec<&[u8]> = searched.union(missing).copied().collect();
        // What lies in a directory comes before it.
        asked.sort_unstable_by_key(|path| std::cmp::Reverse(path.len()));
        let mut only_directories: FxHashMap<&[u8], bool> = FxHashMap::default();
        for path in asked {
            if only_directories.get(path) == Some(&true) {
                missing.insert(path);
            }
            let is_missing_directory = searched.contains(path) && missing.contains(path);
            *only_directories.entry(above(path)).or_insert(true) &= is_missing_directory;
        }
    }

    /// A path is there, and so is all that leads to it.
    fn find(&mut self, mut path: &'a [u8]) {
        while !path.is_empty() && self.found.insert(path) {
            path = above(path);
        }
    }

    /// The question, with its path cut after the component that was missing.
    pub(super) fn cut(&self, question: Question<'a>) -> Question<'a> {
        if !question.missing {
            return question;
        }
        let whole = question.path;
        let ends = (1..whole.len()).filter(|end| whole[*end] == b'/');
        let mut parts = ends.map(|end| &whole[..end]);
        let first = parts.find(|part| self.missing.contains(part) && !self.found.contains(part));
        Question { path: first.unwrap_or(whole), ..question }
    }
}

/// The directory that holds this path; empty for a top directory.
fn above(path: &[u8]) -> &[u8] {
    path.iter().rposition(|byte| *byte == b'/').map_or(b"", |end| trimmed(&path[..end]))
}

fn trimmed(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    &path[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Wants;

    fn asked(path: &str, missing: bool) -> Question<'_> {
        Question { wants: Wants::Attributes, path: path.as_bytes(), missing, other_path: None }
    }

    fn cut(others: &[(&'static str, bool)], path: &'static str) -> String {
        let others = others.iter().chain(&[("/opt/there", false)]);
        let others = others.map(|(path, missing)| asked(path, *missing));
        let evidence = Evidence::of(others.chain([asked(path, true)]));
        String::from_utf8(evidence.cut(asked(path, true)).path.to_vec()).unwrap()
    }

    #[test]
    fn a_directory_that_was_answered_no_ends_the_walk() {
        assert_eq!(cut(&[("/opt/hwcaps/", true)], "/opt/hwcaps/v3/libm.so"), "/opt/hwcaps");
    }

    #[test]
    fn a_directory_that_was_ever_found_or_anything_below_it_does_not() {
        let path = "/opt/lib/libm.so";
        assert_eq!(cut(&[("/opt/lib", true), ("/opt/lib", false)], path), path);
        assert_eq!(cut(&[("/opt/lib", true), ("/opt/lib/x/y", false)], path), path);
    }

    #[test]
    fn a_directory_in_which_only_directories_were_looked_for_in_vain_is_not_there() {
        let others = [("/opt/hw/v3/", true), ("/opt/hw/v2/libm.so", true), ("/opt/hw/v2", true)];
        assert_eq!(cut(&others, "/opt/hw/v3/libm.so"), "/opt/hw");
        assert_eq!(cut(&[("/bin/a", true), ("/bin/b", true)], "/bin/c"), "/bin/c", "files");
    }

    #[test]
    fn where_nothing_tells_the_last_component_is_the_missing_one() {
        assert_eq!(cut(&[("/opt/li", true)], "/opt/lib/libm.so"), "/opt/lib/libm.so");
    }
}
