//! Reading ahead: what a program's own list of directories holds, while its start is simulated.
//!
//! A simulation asks one question after the other, as the loader does, and on a shared filesystem
//! each takes a while. Most of what it will ask is known beforehand: the program's list.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::{Disk, World};
use crate::ElfObject;

/// Shorter lists are not worth a thread.
const LONG: usize = 32;
/// As many questions as wait at a time, besides the simulation's own.
const THREADS: usize = 3;

impl Disk {
    /// Does `work`, and meanwhile reads the libraries in the directories that `program` lists.
    pub fn reading_ahead<T>(&self, program: &Path, work: impl FnOnce() -> T) -> T {
        let directories = self.directories_of(program);
        if directories.len() < LONG {
            return work();
        }
        let (next, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                // Without a thread it takes longer, and that is all.
                let _ = std::thread::Builder::new().spawn_scoped(scope, || {
                    // From the end: the simulation begins at the other.
                    while let Some(directory) =
                        directories.iter().rev().nth(next.fetch_add(1, Ordering::Relaxed))
                    {
                        if is_over.load(Ordering::Relaxed) {
                            return;
                        }
                        self.read_libraries(Path::new(directory));
                    }
                });
            }
            let result = work();
            is_over.store(true, Ordering::Relaxed);
            result
        })
    }

    fn directories_of(&self, program: &Path) -> Vec<String> {
        let Some(object) = self.open(program).ok().and_then(|opened| opened.object.ok()) else {
            return Vec::new();
        };
        let ElfObject { rpath, runpath, .. } = &*object;
        let lists = runpath.iter().chain(rpath).filter_map(|list| list.to_str());
        let directories = lists.flat_map(|list| list.split(':'));
        directories
            .filter(|directory| directory.starts_with('/') && !directory.contains('$'))
            .map(str::to_owned)
            .collect()
    }
}
