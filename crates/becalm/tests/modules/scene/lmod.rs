//! Real Lmods, a hierarchy of modules, and becalm that answers for them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread::sleep;
use std::time::Duration;

use testkit::Scene;
use testkit::installed::modern_modules;

use crate::BECALM;

/// An Lmod.
#[derive(Clone, Copy)]
pub struct Lmod {
    pub name: &'static str,
}

/// 8.6 and 8.7.
pub const LMODS: [Lmod; 2] = [Lmod { name: "lmod" }, Lmod { name: "lmod-8.7" }];

/// The last one that starts tclsh for each modulefile in Tcl.
pub const LMOD_6_6: Lmod = Lmod { name: "lmod-6.6" };

impl Lmod {
    pub fn script(self) -> PathBuf {
        let script = modern_modules().join(self.name).join("lmod");
        fs::canonicalize(script).expect("run setup/modern-modules")
    }

    pub fn init(self, shell: &str) -> PathBuf {
        modern_modules().join(self.name).join("init").join(shell)
    }
}

/// What a run says: status, standard output, standard error.
pub type Said = (Option<i32>, String, String);

pub fn said(output: &Output) -> Said {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// A modulepath, a home, and an environment in which `module` was used before.
pub struct LmodScene {
    scene: Scene,
    pub lmod: Lmod,
    pub environment: BTreeMap<String, String>,
}

impl LmodScene {
    /// Two compilers, an MPI of one of them, a module in Tcl; no module is loaded.
    pub fn new(lmod: Lmod) -> LmodScene {
        let mut scene = LmodScene { scene: Scene::new(), lmod, environment: BTreeMap::new() };
        let mpi = scene.at("gcc13");
        let add = format!("prepend_path(\"MODULEPATH\", \"{}\")\n", mpi.display());
        let gcc = "help([[a compiler]])\nwhatis(\"Description: compiles\")\nfamily(\"compiler\")\n";
        scene.file("core/gcc/12.lua", &format!("{gcc}setenv(\"GCC\", \"12\")\n"));
        scene.file("core/gcc/13.lua", &format!("{gcc}setenv(\"GCC\", \"13\")\n{add}"));
        scene.file("core/intel/1.lua", "family(\"compiler\")\nset_alias(\"icc\", \"cc\")\n");
        scene.file("core/uses/1.lua", "setenv(\"USES\", os.getenv(\"ASKED\") or \"nothing\")\n");
        scene.file("gcc13/openmpi/4.lua", "prepend_path(\"PATH\", \"/opt/openmpi/bin\")\n");
        if lmod.name != LMOD_6_6.name {
            let tcl = "#%Module\nif {[info exists env(ASKED)]} { setenv TCL_ASKED $env(ASKED) }\n";
            scene.file("core/tcl/1.0", &format!("{tcl}module-whatis in-tcl\n"));
            scene.file("core/tcl/2.0", tcl);
            scene.file("core/tcl/.version", "#%Module\nset ModulesVersion 1.0\n");
        }
        fs::create_dir_all(scene.at("home")).unwrap();
        for (name, value) in [
            ("PATH", "/usr/bin:/bin".into()),
            ("LANG", "C.UTF-8".into()),
            ("TERM", "xterm".into()),
            ("HOME", scene.at("home")),
            ("XDG_STATE_HOME", scene.at("state")),
            ("MODULEPATH", scene.at("core")),
        ] as [(&str, PathBuf); 6]
        {
            scene.environment.insert(name.into(), value.to_str().unwrap().into());
        }
        // How long the first listing took is in Lmod's table of modules from then on.
        scene.evaluate(&["avail"]);
        scene
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.scene.path(name)
    }

    pub fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.at(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// A program in the environment of this scene.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command.env_clear().envs(&self.environment).current_dir(self.scene.directory());
        command.stdin(std::process::Stdio::null());
        command
    }

    /// Has a shell evaluate what Lmod answers, and keeps the environment that it has then.
    pub fn evaluate(&mut self, words: &[&str]) {
        let script = format!(
            "eval \"$({} bash {} 2>/dev/null)\"; unset _ SHLVL PWD OLDPWD; exec env -0",
            self.lmod.script().display(),
            words.join(" ")
        );
        let output = self.command("/bin/bash").args(["-c", &script]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let variables = text.split_terminator('\0').filter_map(|line| line.split_once('='));
        self.environment = variables.map(|(name, value)| (name.into(), value.into())).collect();
    }

    /// What Lmod itself says.
    pub fn real(&self, words: &[&str]) -> Said {
        said(&self.command(self.lmod.script()).args(words).output().unwrap())
    }

    pub fn answer(&self, options: &[&str], words: &[&str]) -> Command {
        let mut command = self.command(BECALM);
        command.args(["modules", "answer", "--tool"]).arg(self.lmod.script());
        command.args(options).args(words);
        command
    }

    /// What becalm answers.
    pub fn asked(&self, words: &[&str]) -> Said {
        said(&self.answer(&[], words).output().unwrap())
    }

    /// Whether becalm would answer from memory, and if not, why.
    pub fn why(&self, words: &[&str]) -> Said {
        said(&self.answer(&["--why"], words).output().unwrap())
    }

    pub fn is_remembered(&self, words: &[&str]) -> bool {
        self.why(words).0 == Some(0)
    }

    /// Asks until the answer is remembered: what was changed just now is not relied on.
    #[track_caller]
    pub fn remember(&self, words: &[&str]) -> Said {
        let mut answer = self.asked(words);
        for _ in 0..40 {
            if self.is_remembered(words) {
                return answer;
            }
            sleep(Duration::from_millis(500));
            answer = self.asked(words);
        }
        panic!("{}: {words:?}: {:?}", self.lmod.name, self.why(words));
    }
}
