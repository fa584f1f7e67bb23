//! What the tests of native `avail` share: real Modules, trees, and the program in a clean
//! environment.

pub mod lmod;
pub mod site;

use crate::BECALM;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use testkit::Scene;
use testkit::arch::LIB;
use testkit::installed::modern_modules;

/// A real Modules.
pub struct Modules {
    pub command: PathBuf,
    /// The directory with what shells evaluate to get `module`.
    pub init: PathBuf,
}

/// Debian's 5.2.
pub fn debians() -> PathBuf {
    format!("/usr{LIB}/modulecmd.tcl").into()
}

/// Debian's 5.2, and a newer one with the other grid.
pub fn both() -> [Modules; 2] {
    let newest = modern_modules().join("newest");
    assert!(newest.exists(), "run setup/modern-modules");
    let command = fs::canonicalize(newest.join("modulecmd.tcl")).unwrap();
    let debian = debians();
    assert!(debian.exists(), "package environment-modules");
    [
        Modules { command: debian, init: "/usr/share/modules/init".into() },
        Modules { command, init: newest.join("init") },
    ]
}

/// Debian's 5.2, 5.5 and a newer one.
pub fn all() -> Vec<Modules> {
    let home = modern_modules().join("5.5");
    let command = fs::canonicalize(home.join("modulecmd.tcl")).unwrap();
    both().into_iter().chain([Modules { command, init: home.join("init") }]).collect()
}

/// A modulepath, and a directory for its index.
pub struct Modulepath {
    scene: Scene,
    pub modulepath: PathBuf,
}

impl Modulepath {
    /// gcc/12 and gcc/13, which is the default.
    pub fn new() -> Modulepath {
        let scene = Scene::new();
        let modulepath = scene.path("modulefiles");
        let scene = Modulepath { scene, modulepath };
        scene.file("gcc/12", "#%Module\nsetenv GCC twelve\n");
        scene.file("gcc/13", "#%Module\nsetenv GCC thirteen\n");
        scene.file("gcc/.version", "#%Module\nset ModulesVersion 13\n");
        scene
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.scene.path(name)
    }

    pub fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.modulepath.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// A program that knows of this tree and one Modules, and of nothing else.
    pub fn command(&self, program: &str, modules: &Modules) -> Command {
        let mut command = Command::new(program);
        command.env_clear();
        command.env("PATH", "/usr/bin:/bin").env("LANG", "C.UTF-8");
        // fish makes itself at home, as root even where there is none.
        command.env("HOME", self.scene.directory());
        command.env("MODULES_CMD", &modules.command).env("MODULEPATH", &self.modulepath);
        command.env("BECALM_MODULES_INDEX", self.at("index"));
        command.env("XDG_STATE_HOME", self.at("state"));
        command
    }

    /// `becalm modules WORDS…`
    pub fn becalm(&self, modules: &Modules, words: &[&str]) -> Output {
        self.command(BECALM, modules).arg("modules").args(words).output().unwrap()
    }

    /// `becalm modules index`, which succeeds.
    #[track_caller]
    pub fn index(&self, modules: &Modules) {
        let made = self.becalm(modules, &["index"]);
        assert!(made.status.success(), "{made:?}");
    }

    /// `modulecmd bash WORDS…`
    pub fn real(&self, modules: &Modules, words: &[&str]) -> Output {
        let tclsh = &modules.command;
        self.command(tclsh.to_str().unwrap(), modules).arg("bash").args(words).output().unwrap()
    }
}
