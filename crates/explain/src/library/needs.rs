//! Which file needed which library.

use std::collections::{HashMap, HashSet};

use recording::{PathId, Recording};

use crate::survey::split;

/// Which file needed which library first, in one program.
pub(super) struct NeededBy {
    by: HashMap<Vec<u8>, PathId>,
    /// Of each file, the one that needed it.
    loaded_by: HashMap<PathId, PathId>,
    program: PathId,
}

impl NeededBy {
    /// Walks the files breadth first, as the loader does: from the program, and then from each
    /// file that it opened later on its own account.
    pub fn of(recording: &Recording, program: PathId, opened: &[(&[u8], PathId)]) -> NeededBy {
        let mut needs = NeededBy { by: HashMap::new(), loaded_by: HashMap::new(), program };
        let mut files: HashMap<&[u8], PathId> = HashMap::new();
        for (name, path) in opened {
            files.entry(name).or_insert(*path);
        }
        let mut visited = HashSet::new();
        for root in [program].into_iter().chain(opened.iter().map(|(_, path)| *path)) {
            let mut queue = vec![root];
            let mut at = 0;
            while let Some(file) = queue.get(at).copied() {
                at += 1;
                if !visited.insert(file) {
                    continue;
                }
                for name in recording.images.get(&file).into_iter().flat_map(|own| &own.needed) {
                    let name = split(name.as_bytes()).1;
                    if needs.by.contains_key(name) {
                        continue;
                    }
                    needs.by.insert(name.to_vec(), file);
                    if let Some(path) = files.get(name) {
                        needs.loaded_by.entry(*path).or_insert(file);
                        queue.push(*path);
                    }
                }
            }
        }
        needs
    }

    /// The file that needed a library.
    pub fn by(&self, library: &[u8]) -> Option<PathId> {
        self.by.get(library).copied()
    }

    /// The file that needed a library, the one that needed that, and so on up to the program;
    /// where nobody is known to need it, the program alone.
    pub fn chain(&self, library: &[u8]) -> Vec<PathId> {
        let mut chain = vec![self.by(library).unwrap_or(self.program)];
        while let Some(above) = chain.last().and_then(|file| self.loaded_by.get(file)) {
            // A damaged recording could make a circle of it.
            if chain.contains(above) {
                break;
            }
            chain.push(*above);
        }
        if !chain.contains(&self.program) {
            chain.push(self.program);
        }
        chain
    }
}
