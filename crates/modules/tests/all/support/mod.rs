//! The real Modules that tests compare with, and trees.
#![allow(dead_code)] // Each test file uses a part.

pub mod bench;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use modules::site::{Environment, ModulesSite};
use testkit::Scene;
pub use testkit::installed::modern_modules;

/// The real Modules: the distribution's, 5.5, and a newer one.
pub fn sites() -> Vec<ModulesSite> {
    let environment = Environment::default();
    let modern = modern_modules();
    let mut sites = vec![ModulesSite::find(&environment).expect("package environment-modules")];
    for name in ["5.5", "newest"] {
        let command = modern.join(name).join("modulecmd.tcl");
        sites.push(ModulesSite::at(&command, &environment).expect("run setup/modern-modules"));
    }
    sites
}

/// A tree of files for one test, which everyone may read.
pub struct ModuleTree {
    scene: Scene,
}

impl ModuleTree {
    pub fn new() -> ModuleTree {
        ModuleTree { scene: Scene::new() }
    }

    pub fn path(&self) -> &Path {
        self.scene.root()
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.scene.path(name)
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
