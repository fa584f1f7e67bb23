//! A site to be calmed: the cookbook's modulepaths, a Modules that every user may run, and places of
//! its own for all that becalm makes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use testkit::arch::LIB;
use testkit::installed::modern_modules;
use testkit::user::{as_a_user, is_root};
use testkit::{Ran, Scene, copy_program, run};

use super::debians;
use crate::BECALM;

/// Debian 12's Modules, and those that are unpacked for the tests.
pub const VERSIONS: [&str; 3] = ["5.2", "5.5", "newest"];

/// A site.
pub struct Site {
    pub scene: Scene,
    pub modulecmd: PathBuf,
    /// Its modulepaths, in the order in which they are searched.
    pub paths: Vec<String>,
    /// Whether an ordinary user works there, and not whoever runs the tests.
    pub is_a_users: bool,
}

impl Site {
    /// The tree of Modules' cookbook 'Reduce I/O load', with this Modules.
    pub fn cookbook(version: &str) -> Site {
        let mut site = Site::empty(version);
        let make = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/modules/make");
        let made = run(Command::new(make).arg("plain").arg(site.scene.at("tree")));
        assert_eq!(made.code(), 0, "{}", made.err());
        site.paths = made.out().trim_end().split(':').map(str::to_owned).collect();
        site
    }

    /// Some directories of it, for what has to be asked of several users.
    pub fn some_of_the_cookbook(version: &str) -> Site {
        let site = Site::cookbook(version);
        for directory in site.paths.iter().flat_map(|path| fs::read_dir(path).unwrap()) {
            let directory = directory.unwrap().path();
            let letter = directory.to_str().unwrap().as_bytes().last().copied();
            if !matches!(letter, Some(b'a' | b'b' | b'g')) {
                fs::remove_dir_all(directory).unwrap();
            }
        }
        site
    }

    /// A site without modulepaths.
    pub fn empty(version: &str) -> Site {
        let scene = Scene::new();
        fs::set_permissions(scene.directory(), fs::Permissions::from_mode(0o755)).unwrap();
        copy_program(BECALM, scene.at("becalm"));
        let modulecmd = match version {
            "5.2" => debians(),
            version => for_everyone(&scene, &modern_modules().join(version)),
        };
        Site { scene, modulecmd, paths: Vec::new(), is_a_users: false }
    }

    /// The same, of an ordinary user: all in it is his.
    pub fn of_a_user(mut self) -> Site {
        self.is_a_users = true;
        if is_root() {
            let mut chown = Command::new("chown");
            let given = chown.args(["-R", "65534:65534"]).arg(self.scene.directory()).status();
            assert!(given.unwrap().success());
        }
        self
    }

    /// One module in a modulepath, which is one of the site's from then on.
    pub fn module(&mut self, name: &str) {
        let path = PathBuf::from(self.scene.at(name));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "#%Module\n").unwrap();
        let root = self.scene.at(name.split('/').next().unwrap());
        if !self.paths.contains(&root) {
            self.paths.push(root);
        }
    }

    /// Words, run by whoever works there, in an environment that has nothing of another site.
    pub fn command<S: AsRef<str>>(&self, words: &[S]) -> Command {
        let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
        let mut command = match self.is_a_users {
            true => as_a_user(&words),
            false => {
                let mut command = Command::new(words[0]);
                command.args(&words[1..]);
                command
            }
        };
        command.env_clear().env("PATH", "/usr/bin:/bin").env("LANG", "C.UTF-8");
        command.env("HOME", self.scene.at("home")).env("COLUMNS", "100");
        command.env("MODULES_CMD", &self.modulecmd).env("MODULEPATH", self.paths.join(":"));
        command.env("XDG_STATE_HOME", self.scene.at("state"));
        command.env("BECALM_MODULES_INDEX", self.scene.at("index"));
        command.env("BECALM_MODULES_HOOKS", self.scene.at("hooks"));
        command.current_dir("/");
        command
    }

    /// `becalm WORDS…`
    pub fn becalm(&self, words: &[&str]) -> Ran {
        let becalm = self.scene.at("becalm");
        run(&mut self.command(&[&[becalm.as_str()], words].concat()))
    }

    /// What `becalm modules WORDS… --json` answers, and its status.
    #[track_caller]
    pub fn answer(&self, words: &[&str]) -> (i32, Value) {
        let becalm = self.scene.at("becalm");
        let verb = [becalm.as_str(), "modules", words[0], "--json"];
        let (status, stdout, stderr) = self.patiently(&[&verb, &words[1..]].concat());
        assert_eq!(stderr, "", "{words:?}");
        (status, testkit::answer::parse(stdout))
    }

    /// What words end with and write: a plan is proven by hundreds of commands, which on a busy
    /// machine takes its time.
    pub fn patiently(&self, words: &[&str]) -> (i32, String, String) {
        let output = self.command(&[&["timeout", "1800"], words].concat()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
    }

    /// What Modules itself says to `module WORDS…`.
    pub fn real(&self, words: &[&str]) -> String {
        let modulecmd = self.modulecmd.to_str().unwrap();
        run(&mut self.command(&[&["tclsh", modulecmd, "bash"], words].concat())).err()
    }

    /// How many calls on files and descriptors a command makes, by strace.
    pub fn calls(&self, words: &[&str]) -> usize {
        let log = self.scene.at("calls");
        let _ = fs::remove_file(&log);
        let strace = ["strace", "-f", "-qq", "-e", "trace=%file,%desc", "-o", &log, "--"];
        run(&mut self.command(&[&strace, words].concat()));
        fs::read_to_string(log).unwrap().lines().count()
    }

    /// What is in one directory of the site's.
    pub fn content_of(&self, name: &str) -> Vec<(PathBuf, u32, Vec<u8>)> {
        let directory = self.scene.at(name);
        self.content().into_iter().filter(|file| file.0.starts_with(&directory)).collect()
    }

    /// Every file, directory and link of the site's trees and of what becalm makes, the journal left
    /// out: path, permissions and content.
    pub fn content(&self) -> Vec<(PathBuf, u32, Vec<u8>)> {
        let mut files = Vec::new();
        let mut left = vec![self.scene.directory().to_owned()];
        let own = ["state", "modules", "becalm", "calls", "home"].map(|name| self.scene.at(name));
        while let Some(directory) = left.pop() {
            for entry in fs::read_dir(&directory).unwrap() {
                let path = entry.unwrap().path();
                if own.iter().any(|own| path == Path::new(own)) {
                    continue;
                }
                let seen = path.symlink_metadata().unwrap();
                if seen.is_dir() {
                    left.push(path.clone());
                }
                let content =
                    if seen.is_file() { fs::read(&path).unwrap_or_default() } else { Vec::new() };
                files.push((path, seen.permissions().mode(), content));
            }
        }
        files.sort();
        files
    }
}

/// An unpacked Modules, copied to where every user gets at it: its script says where its library is.
fn for_everyone(scene: &Scene, unpacked: &Path) -> PathBuf {
    let copy = scene.at("modules");
    let copied = Command::new("cp").arg("-r").arg(unpacked).arg(&copy).status().unwrap();
    assert!(copied.success(), "run setup/install-test-tools");
    let script = PathBuf::from(format!("{copy}/usr{LIB}/modulecmd.tcl"));
    let text = fs::read_to_string(&script).unwrap();
    fs::write(&script, text.replace(unpacked.to_str().unwrap(), &copy)).unwrap();
    script
}

/// The parts of a plan of one kind: their paths, states and texts.
pub fn parts<'a>(answer: &'a Value, kind: &str) -> Vec<(&'a str, &'a str, &'a str)> {
    let text = |part: &'a Value, name| part[name].as_str().unwrap();
    let parts = answer["parts"].as_array().unwrap().iter().filter(|part| part["part"] == kind);
    parts.map(|part| (text(part, "path"), text(part, "state"), text(part, "text"))).collect()
}
