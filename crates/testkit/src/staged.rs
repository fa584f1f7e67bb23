//! A packed environment where nothing can be mounted, and a directory that it is unpacked in.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::imaged::{As, Imaged};
use super::live::{Ran, run, wait_until};
use super::programs::{copy_program, write_program};
use super::user::{as_a_user, is_root};

/// A user namespace in which none can be made, and nothing mounted.
pub const NOWHERE: &str = "echo 0 > /proc/sys/user/max_user_namespaces && \
                       exec setpriv --ambient-caps=-all --inh-caps=-all --bounding-set=-all \"$@\"";

/// A packed environment, and a directory that trees are made in.
pub struct Staging {
    /// The environment.
    pub env: Imaged,
    /// The directory.
    pub dir: String,
}

impl Staging {
    /// A small one.
    pub fn new() -> Staging {
        Staging::of(Imaged::of("an env, été", fill))
    }

    /// With this environment.
    pub fn of(env: Imaged) -> Staging {
        let dir = env.scene.subdirectory("memory");
        fs::set_permissions(&dir, PermissionsExt::from_mode(0o1777)).unwrap();
        Staging { env, dir }
    }

    /// `becalm run --image IMAGE options… -- words…` where nothing can be mounted.
    pub fn plain(&self, who: As, options: &[&str], words: &[&str]) -> Command {
        let becalm = self.env.scene.at("becalm");
        let mut line = match who {
            As::User => vec!["unshare", "-U", "-c", "--keep-caps"],
            _ => vec!["unshare", "-Ur"],
        };
        line.extend(["sh", "-c", NOWHERE, "sh", &becalm, "run", "--image", &self.env.image]);
        line.extend(options);
        line.push("--");
        line.extend(words);
        match who {
            As::User => as_a_user(&line),
            _ => {
                let mut command = Command::new(line[0]);
                command.args(&line[1..]);
                command
            }
        }
    }

    /// The same with `--stage`.
    pub fn run(&self, who: As, options: &[&str], words: &[&str]) -> Command {
        let stage = format!("--stage={}", self.dir);
        self.plain(who, &[&[stage.as_str()], options].concat(), words)
    }

    /// A shell that has the environment's `bin` in its PATH, and the directory as `$0`.
    pub fn sh(&self, who: As, options: &[&str], script: &str) -> Command {
        let mut command = self.run(who, options, &["sh", "-c", script, &self.env.directory]);
        command
            .env("PATH", format!("{}/bin:{}", self.env.directory, std::env::var("PATH").unwrap()));
        command.env("ENV_ROOT", &self.env.directory);
        command
    }

    /// The command is refused in one line, for this reason.
    #[track_caller]
    pub fn refused(&self, command: &mut Command, why: &str) {
        let ran: Ran = run(command);
        assert_eq!((ran.code(), ran.out().as_str()), (125, ""), "{}", ran.err());
        assert_eq!(ran.err().lines().count(), 1, "{}", ran.err());
        assert!(ran.err().contains(why), "{why}: {}", ran.err());
    }

    /// Waits until nothing is left.
    #[track_caller]
    pub fn all_gone(&self) {
        wait_until("the tree is removed", || self.left().is_empty());
    }

    /// What is in the directory, by any depth that tells anything.
    pub fn left(&self) -> Vec<String> {
        let found = Command::new("find").args([&self.dir, "-mindepth", "1"]).output().unwrap();
        String::from_utf8_lossy(&found.stdout).lines().map(str::to_owned).collect()
    }
}

fn fill(directory: &Path) {
    fs::create_dir_all(directory.join("bin")).unwrap();
    fs::create_dir_all(directory.join("lib/a directory, é")).unwrap();
    fs::write(directory.join("lib/a directory, é/file"), "content").unwrap();
    fs::hard_link(directory.join("lib/a directory, é/file"), directory.join("lib/other name"))
        .unwrap();
    copy_program("/bin/echo", directory.join("bin/own-echo"));
    let own = directory.join("bin/own-echo").display().to_string();
    let long = format!("#!/bin/sh\n'''exec' \"{own}\" \"$0\" \"$@\"\n' '''\n");
    for (name, text) in [("tool", "#!/bin/sh\necho \"$0 $*\"\n"), ("piplike", &long)] {
        write_program(directory.join("bin").join(name), text);
        let mode = PermissionsExt::from_mode(0o755);
        fs::set_permissions(directory.join("bin").join(name), mode).unwrap();
    }
    fs::write(directory.join("lib/more.pth"), directory.join("lib").display().to_string()).unwrap();
    let library = directory.join("lib/libown.so").display().to_string();
    let rpath = format!("-rpath={}", directory.join("lib").display());
    // Not by -Wl: there is a comma in the path.
    let gcc = ["-shared", "-o", &library, "-Xlinker", &rpath, "-x", "c", "/dev/null"];
    assert!(Command::new("gcc").args(gcc).status().unwrap().success());
    symlink(directory.join("lib/other name"), directory.join("absolute")).unwrap();
    symlink("/etc/passwd", directory.join("outside")).unwrap();
    symlink("lib/other name", directory.join("relative")).unwrap();
}

/// An ordinary user, and root.
pub fn each_user() -> Vec<As> {
    if is_root() { vec![As::User, As::Root] } else { vec![As::User] }
}

/// What `--json` said.
#[track_caller]
pub fn told(ran: &Ran) -> Value {
    serde_json::from_str(&ran.err()).unwrap_or_else(|error| panic!("{error}: {}", ran.err()))
}
