//! Files that a list names one by one: the jars of a class path.

use std::collections::{HashMap, HashSet};

use recording::{Exec, PathId, ProcessId};

use crate::search::{ListName, lists_of};
use crate::survey::{OpSurvey, split};

/// Fewer are not told of.
const FILES: usize = 50;

/// The files that lists named and processes opened.
#[derive(Default)]
pub(super) struct GivenFiles {
    of: HashSet<(ProcessId, PathId)>,
    /// The list that named most.
    longest: Option<(ListName, u64)>,
}

impl GivenFiles {
    /// Adds those that a process opened.
    pub(super) fn add(
        &mut self,
        survey: &OpSurvey,
        process: ProcessId,
        exec: &Exec,
        opened: &HashMap<PathId, &[u8]>,
    ) {
        for list in lists_of(survey.recording, exec) {
            let given: HashSet<&[u8]> = list.directories.iter().map(Vec::as_slice).collect();
            // `lib/*` are all jars in it (java(1)).
            let is_given = |path: &[u8]| {
                given.contains(path) || given.contains(&*[split(path).0, b"/*"].concat())
            };
            let files = opened.iter().filter(|(_, path)| is_given(path));
            let files: HashSet<_> = files.map(|(path, _)| (process, *path)).collect();
            if files.len() < FILES {
                continue;
            }
            let count = files.len() as u64;
            if self.longest.as_ref().is_none_or(|(_, most)| count > *most) {
                self.longest = Some((list.name, count));
            }
            self.of.extend(files);
        }
    }

    pub(super) fn has(&self, process: ProcessId, path: PathId) -> bool {
        self.of.contains(&(process, path))
    }

    /// The list that named most of them, and how many.
    pub(super) fn longest(&self) -> Option<(&ListName, u64)> {
        self.longest.as_ref().map(|(name, files)| (name, *files))
    }
}
