//! The real Modules that tests compare with, and trees.
#![allow(dead_code)] // Each test file uses a part.

pub mod bench;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use modules::site::{Environment, Site};
use tempfile::TempDir;

/// Where setup/modern-modules has put Modules 5.5 and newer.
pub fn modern() -> PathBuf {
    let below = |base: PathBuf| base.join("becalm-tests");
    let home = std::env::var_os("BECALM_TEST_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::var_os("XDG_CACHE_HOME").map(|cache| below(cache.into())));
    let home =
        home.unwrap_or_else(|| below(Path::new(&std::env::var_os("HOME").unwrap()).join(".cache")));
    home.join("modules")
}

/// The real Modules: the distribution's, 5.5, and a newer one.
pub fn sites() -> Vec<Site> {
    let environment = Environment::default();
    let modern = modern();
    let mut sites = vec![Site::find(&environment).expect("package environment-modules")];
    for name in ["5.5", "newest"] {
        let command = modern.join(name).join("modulecmd.tcl");
        sites.push(Site::at(&command, &environment).expect("run setup/modern-modules"));
    }
    sites
}

/// A tree of files for one test, which everyone may read.
pub struct Scene {
    directory: TempDir,
}

impl Scene {
    pub fn new() -> Scene {
        let directory = TempDir::new().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        Scene { directory }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The number of the user who runs the test.
    pub fn owner(&self) -> u32 {
        fs::metadata(self.path()).unwrap().uid()
    }

    /// Writes a file, and the directories that it lies in.
    pub fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.at(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// A modulefile.
    pub fn module(&self, name: &str) -> PathBuf {
        self.file(name, "#%Module1.0\nmodule-whatis {a module}\n")
    }
}
