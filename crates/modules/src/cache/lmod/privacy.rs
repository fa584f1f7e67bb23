//! What not everyone may read, and a cache for everyone must not show. Lmod knows no entry that
//! each user looks at anew: a modulepath is in its cache, or each user's Lmod walks it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::spider::Spider;
use crate::cache::readers::{FileReaders, Limit};
use crate::tree::rights::{Everyone, way_is_open};
use crate::tree::{ModulepathTree, WalkLimits, walk};

/// Who may enter which directory; each is asked once.
pub(super) struct Privacy {
    /// Where the cache is: whoever reads it came through the directories above.
    cache: PathBuf,
    everyone: Everyone,
    open: HashMap<PathBuf, bool>,
}

impl Privacy {
    /// Of a cache in a directory.
    pub(super) fn beside(directory: &Path) -> Privacy {
        let cache = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
        Privacy { cache, everyone: Everyone::default(), open: HashMap::new() }
    }

    /// What keeps somebody from reading one of these files of a modulepath: the modulepath, a
    /// directory in it, a file. Each is named once.
    pub(super) fn limits<'f>(
        &mut self,
        root: &Path,
        files: impl Iterator<Item = &'f Path>,
    ) -> Vec<PathBuf> {
        if !self.is_open(root) {
            return vec![root.to_owned()];
        }
        let mut readers = FileReaders::of(root);
        let mut limits: Vec<PathBuf> = files
            .filter_map(|file| {
                let name = file.strip_prefix(root).ok()?;
                match readers.limit(name, None)? {
                    Limit::File => Some(file.to_owned()),
                    Limit::Directory(directory) => Some(root.join(directory)),
                }
            })
            .collect();
        limits.sort();
        limits.dedup();
        limits
    }

    /// All of a cache that not everyone may read. What is not there any more, nobody may.
    pub(super) fn disclosed(&mut self, spider: &Spider) -> Vec<PathBuf> {
        let mut disclosed = Vec::new();
        for (root, files) in &spider.trees {
            let there = files.iter().filter(|file| rustix::fs::lstat(&***file).is_ok());
            disclosed.extend(self.limits(root, there.map(|file| &**file)));
        }
        disclosed
    }

    /// The first thing in a modulepath that not everyone may read.
    pub(super) fn first_limit(&mut self, root: &Path) -> Option<PathBuf> {
        let tree: ModulepathTree =
            walk(root, WalkLimits { cookies: false, ..WalkLimits::default() });
        let files: Vec<PathBuf> = tree.entries.iter().map(|entry| tree.path(entry)).collect();
        self.limits(root, files.iter().map(|file| &**file)).into_iter().next()
    }

    /// Whether everyone may come to a modulepath and list it.
    fn is_open(&mut self, root: &Path) -> bool {
        let Privacy { cache, everyone, open } = self;
        let is_open = way_is_open(Path::new("/"), root, |directory| {
            cache.starts_with(directory)
                || *open
                    .entry(directory.to_owned())
                    .or_insert_with(|| everyone.may_enter(directory))
        });
        let stat = rustix::fs::stat(root).map(|stat| crate::tree::ChangeStamp::of(&stat));
        is_open && stat.is_ok_and(|stamp| everyone.may_read(&stamp, root))
    }
}
