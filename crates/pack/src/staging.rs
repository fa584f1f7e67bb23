//! Where a pack and its program's copy are written before they have their names.

use std::fs::{File, Permissions, remove_dir_all, rename};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use launch::Unfinished;
use tempfile::TempDir;

use crate::PackError;

/// A directory of the moment beside a pack. It goes with this, and if becalm is asked to end.
pub(crate) struct PackStaging {
    directory: TempDir,
    unfinished: Unfinished,
}

impl PackStaging {
    /// Makes it.
    pub fn beside(target: &Path) -> Result<PackStaging, PackError> {
        let parent = target.parent().unwrap_or(Path::new("/"));
        // Whatever the umask is, what is in it is nobody else's to exchange.
        let own = Permissions::from_mode(0o700);
        let make =
            || tempfile::Builder::new().prefix(".becalm-").permissions(own).tempdir_in(parent);
        let begun = Unfinished::begin(make, |path| remove_dir_all(path));
        let (directory, unfinished) = begun.map_err(PackError::at("write in", parent))?;
        Ok(PackStaging { directory, unfinished })
    }

    fn path(&self, which: usize) -> PathBuf {
        self.directory.path().join(["pack", "program"][which])
    }

    /// Begins the pack (0), or the copy (1).
    pub fn file(&self, which: usize) -> Result<File, PackError> {
        let path = self.path(which);
        let options = &mut File::options();
        let file = options.read(true).write(true).create_new(true).open(&path);
        file.map_err(PackError::at("write", &path))
    }

    /// Gives both their names. The copy first: with an older pack, it is found to be another one, and not
    /// used.
    pub fn place(self, names: [&Path; 2]) -> Result<(), PackError> {
        self.unfinished.finish(|| {
            for which in [1, 0] {
                let to = names[which];
                rename(self.path(which), to).map_err(PackError::at("rename to", to))?;
            }
            Ok(())
        })
    }
}
