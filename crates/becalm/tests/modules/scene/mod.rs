//! What the tests of native `avail` share: real Modules, trees, and the program in a clean
//! environment.

use crate::BECALM;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// A real Modules.
pub struct Modules {
    pub command: PathBuf,
    /// The directory with what shells evaluate to get `module`.
    pub init: PathBuf,
}

/// Debian's 5.2, and a newer one with the other grid.
pub fn both() -> [Modules; 2] {
    let below = |base: PathBuf| base.join("becalm-tests");
    let home = std::env::var_os("BECALM_TEST_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::var_os("XDG_CACHE_HOME").map(|at| below(at.into())));
    let home =
        home.unwrap_or_else(|| below(Path::new(&std::env::var_os("HOME").unwrap()).join(".cache")));
    let newest = home.join("modules/newest");
    assert!(newest.exists(), "run setup/modern-modules");
    let command = fs::canonicalize(newest.join("modulecmd.tcl")).unwrap();
    let debian = PathBuf::from("/usr/lib/x86_64-linux-gnu/modulecmd.tcl");
    assert!(debian.exists(), "package environment-modules");
    [
        Modules { command: debian, init: "/usr/share/modules/init".into() },
        Modules { command, init: newest.join("init") },
    ]
}

/// A modulepath, and a directory for its index.
pub struct Scene {
    directory: TempDir,
    pub modulepath: PathBuf,
}

impl Scene {
    /// gcc/12 and gcc/13, which is the default.
    pub fn new() -> Scene {
        let directory = TempDir::new().unwrap();
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
        let modulepath = directory.path().join("modulefiles");
        let scene = Scene { directory, modulepath };
        scene.file("gcc/12", "#%Module\nsetenv GCC twelve\n");
        scene.file("gcc/13", "#%Module\nsetenv GCC thirteen\n");
        scene.file("gcc/.version", "#%Module\nset ModulesVersion 13\n");
        scene
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
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
        command.env("HOME", self.directory.path());
        command.env("MODULES_CMD", &modules.command).env("MODULEPATH", &self.modulepath);
        command.env("BECALM_MODULES_INDEX", self.at("index"));
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
