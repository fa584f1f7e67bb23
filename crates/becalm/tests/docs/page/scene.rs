//! Where a page's commands run: a directory with all that the page takes for granted, made by
//! tests/docs/PAGE.sh, in which `/opt`, `/apps` and the like of the page lie, too.
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::Entry;
use crate::BECALM;
use testkit::run;

/// The directories that pages speak of. They are the scene's.
const DIRECTORIES: &[&str] =
    &["/opt", "/apps", "/shared", "/home/me", "/dev/shm/env", "/tmp/cluster"];

pub struct Stage {
    directory: TempDir,
}

/// What became of a command.
pub struct Said {
    pub status: Option<i32>,
    pub lines: Vec<String>,
}

pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

impl Stage {
    /// The scene of a page: `docs/fix.md` is set by `tests/docs/fix.sh`, if that is there.
    pub fn of(page: &str) -> Stage {
        // Not below /tmp, which nodes have for themselves; and of a short path where that can be
        // had, or tables of 80 columns are cut.
        let short = |below| tempfile::Builder::new().prefix("p").rand_bytes(2).tempdir_in(below);
        let directory = short("/srv").or_else(|_| short(env!("CARGO_TARGET_TMPDIR"))).unwrap();
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let stage = Stage { directory };
        for directory in
            ["bin", "home/me", "opt", "apps", "shared", "said", "state", "run", "dev/shm", "tmp"]
        {
            std::fs::create_dir_all(stage.at(directory)).unwrap();
        }
        symlink(BECALM, stage.at("bin/becalm")).unwrap();
        let name = page.rsplit('/').next().unwrap().trim_end_matches(".md");
        let setup = repository().join(format!("tests/docs/{name}.sh"));
        if setup.exists() {
            let text = stage.placed(&std::fs::read_to_string(&setup).unwrap());
            let ran =
                run(&mut stage
                    .bash(&format!("set -e\n. \"$REPOSITORY/tests/docs/scene.inc\"\n{text}")));
            assert_eq!(ran.code(), 0, "{}: {}{}", setup.display(), ran.out(), ran.err());
        }
        stage
    }

    /// A path in the scene.
    fn at(&self, name: &str) -> String {
        let directory = self.directory.path().canonicalize().unwrap();
        directory.join(name).into_os_string().into_string().unwrap()
    }

    /// A bash in the page's home.
    fn bash(&self, script: &str) -> Command {
        let mut bash = Command::new("bash");
        let path = std::env::var("PATH").unwrap();
        bash.args(["-c", script]).current_dir(self.at("home/me"));
        bash.env("PATH", format!("{}:{path}", self.at("bin")));
        bash.env("HOME", self.at("home/me")).env("COLUMNS", "80");
        bash.env("XDG_STATE_HOME", self.at("state")).env("XDG_RUNTIME_DIR", self.at("run"));
        bash.env("BECALM_MODULES_INDEX", self.at("index"));
        bash.env("BECALM_MODULES_HOOKS", self.at("hooks"));
        bash.env("HERE", self.at("").trim_end_matches('/'))
            .env("USERS_HOME", std::env::var_os("HOME").unwrap())
            .env("REPOSITORY", repository());
        bash.env("LC_ALL", "C.UTF-8").env_remove("PYTHONPATH").env_remove("PYENV_VERSION");
        for name in [
            "XDG_CONFIG_HOME",
            "XDG_CACHE_HOME",
            "LD_LIBRARY_PATH",
            "MODULEPATH",
            "LOADEDMODULES",
            "_LMFILES_",
        ] {
            bash.env_remove(name);
        }
        bash
    }

    /// The page's directories in the scene.
    fn placed(&self, text: &str) -> String {
        let mut placed = String::new();
        let mut rest = text;
        while let Some((at, directory)) = DIRECTORIES
            .iter()
            .filter_map(|directory| Some((rest.find(directory)?, directory)))
            .min()
        {
            let before = rest[..at].chars().next_back().or(placed.chars().next_back());
            let after = rest[at + directory.len()..].chars().next();
            let is_whole = before
                .is_none_or(|char| !char.is_alphanumeric() && !"./_-~}".contains(char))
                && after.is_none_or(|char| !char.is_alphanumeric() && !"._-".contains(char));
            placed.push_str(&rest[..at]);
            if is_whole {
                placed.push_str(self.at("").trim_end_matches('/'));
            }
            placed.push_str(directory);
            rest = &rest[at + directory.len()..];
        }
        placed + rest
    }

    /// Types all commands of the page into one bash.
    pub fn types(&self, entries: &[&Entry]) -> Vec<Said> {
        let mut script = String::from("[ ! -e \"$HERE/env\" ] || . \"$HERE/env\"\n");
        for (number, entry) in entries.iter().enumerate() {
            let (command, out) = (self.placed(&entry.command), self.at(&format!("said/{number}")));
            script.push_str(&format!(
                "{{ {command}\n}} >{out} 2>&1 </dev/null\necho $? >{out}.status\n"
            ));
        }
        let ran = run(&mut self.bash(&script));
        assert!(ran.err().is_empty(), "{}\n{script}", ran.err());
        let home = self.at("home/me");
        let here = self.at("");
        let here = here.trim_end_matches('/');
        let read = |name: String| std::fs::read(self.at(&name)).ok();
        (0..entries.len())
            .map(|number| {
                let text = read(format!("said/{number}")).unwrap_or_default();
                let text =
                    String::from_utf8_lossy(&text).replace(&home, "/home/me").replace(here, "");
                let status = read(format!("said/{number}.status"));
                let status =
                    status.and_then(|text| String::from_utf8_lossy(&text).trim().parse().ok());
                Said {
                    status,
                    lines: text.lines().map(|line| line.trim_end().to_owned()).collect(),
                }
            })
            .collect()
    }
}

impl Drop for Stage {
    /// A Slurm that the scene started knows its daemons by files in the directory.
    fn drop(&mut self) {
        let cluster = self.at("cluster");
        if Path::new(&cluster).exists() {
            let script = repository().join("setup/slurm-cluster");
            let _ = Command::new(script).arg("stop").arg(cluster).output();
        }
    }
}
