//! Rehearsals for tests, as root and as an ordinary user.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;
use std::process::Command;

use super::live::wait_until;
use super::scene::{Scene, becalm};
use super::user::{as_a_user, scene_for_a_user};

/// Somebody who rehearses, and a directory of theirs.
pub struct Rehearser {
    /// Whose owner this is.
    pub scene: Scene,
    becalm: String,
    ordinary: bool,
}

/// Root, where the tests run as root, and an ordinary user.
pub fn each_rehearser() -> Vec<Rehearser> {
    let (scene, _) = scene_for_a_user(&[]);
    let own = scene.at("becalm");
    let mut all = vec![Rehearser { scene, becalm: own, ordinary: true }];
    if rustix::process::geteuid().is_root() {
        all.push(Rehearser { scene: Scene::new(), becalm: becalm().to_owned(), ordinary: false });
    }
    all
}

/// Asserts how many RPCs a server was sent by several runs of one start whose lookups are at once, from
/// several threads: at most this many, but that Linux' FUSE wakes who waits for a name before it has
/// entered how long the name is cached (`fuse_lookup`), and some then look it up again.
#[track_caller]
pub fn assert_at_most(rpcs: &[u64], most: u64) {
    assert!(rpcs.iter().min().is_some_and(|least| *least <= most), "{most}: {rpcs:?}");
    assert!(rpcs.iter().all(|run| *run <= most + most / 10), "{most}: {rpcs:?}");
}

impl Rehearser {
    /// `becalm rehearse` with these words.
    pub fn becalm(&self, words: &[&str]) -> Command {
        let all: Vec<&str> =
            [self.becalm.as_str(), "rehearse"].iter().chain(words).copied().collect();
        let mut command = self.command(&all);
        command.current_dir("/");
        command
    }

    /// becalm's own path.
    pub fn program(&self) -> &str {
        &self.becalm
    }

    /// A command of this user's.
    pub fn command(&self, words: &[&str]) -> Command {
        if self.ordinary {
            return as_a_user(words);
        }
        let mut command = Command::new(words[0]);
        command.args(&words[1..]);
        command
    }

    /// `becalm rehearse --profile local PATH -- words…`
    pub fn rehearse(&self, path: &str, words: &[&str]) -> Command {
        self.with(&[], path, words)
    }

    /// The same with more options.
    pub fn with(&self, options: &[&str], path: &str, words: &[&str]) -> Command {
        let all = [&["--profile", "local"], options, &[path, "--"], words].concat();
        self.becalm(&all)
    }

    /// A directory with a file `file` in it that holds `text`, both this user's.
    pub fn tree(&self, name: &str) -> String {
        let path = self.scene.subdirectory(name);
        let file = format!("{path}/file");
        fs::write(&file, "text\n").unwrap();
        let owner = fs::metadata(self.scene.directory()).unwrap();
        for path in [&path, &file] {
            let _ = chown(path, Some(owner.uid()), Some(owner.gid()));
        }
        path
    }

    /// Waits until nothing of a rehearsal of this scene is left: no server, no mount in any
    /// namespace.
    #[track_caller]
    pub fn assert_tidy(&self) {
        let directory = self.scene.directory();
        wait_until("all mounts and servers are gone", || leftovers(&directory).is_empty());
    }
}

/// Processes that see a mount of a rehearsal below a directory, or serve one.
pub fn leftovers(directory: &Path) -> Vec<String> {
    let mut left = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap_or_default();
        let Ok(pid) = name.parse::<u32>() else { continue };
        let mounts = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
        let point = directory.to_string_lossy().into_owned();
        if mounts.lines().any(|line| line.contains("fuse.becalm") && line.contains(&point)) {
            left.push(format!("{pid} sees a mount"));
        }
        if serves(pid, directory) {
            left.push(format!("{pid} serves"));
        }
    }
    left
}

/// Whether a process is a server that has a directory below this one open.
pub fn serves(pid: u32, directory: &Path) -> bool {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    name.trim() == "becalm-server"
        && open
            .filter_map(|fd| fs::read_link(fd.path()).ok())
            .any(|file| file.starts_with(directory))
}

/// The server of a rehearsal below a directory.
#[track_caller]
pub fn server(directory: &Path) -> i32 {
    let pids = || {
        let entries = fs::read_dir("/proc").unwrap().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
    };
    let found: Vec<u32> = pids().filter(|pid| serves(*pid, directory)).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found[0] as i32
}
