//! A directory for one test, with files in it and a state directory beside them.

#![allow(dead_code)] // Each test program uses a part of it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use remedy::{Applied, Edit, Error, Options, Plan, Seen, Step, UndoOptions, Undone};
use testkit::Scene;

pub const NOBODY: u32 = 65534;

pub struct EditedFiles {
    scene: Scene,
}

impl EditedFiles {
    pub fn new() -> EditedFiles {
        EditedFiles::of(Scene::new())
    }

    /// In a directory of another filesystem.
    pub fn below(directory: &Path) -> EditedFiles {
        EditedFiles::of(Scene::below(directory))
    }

    fn of(scene: Scene) -> EditedFiles {
        fs::create_dir(scene.path("files")).unwrap();
        EditedFiles { scene }
    }

    pub fn root(&self) -> PathBuf {
        self.scene.directory()
    }

    /// A path among the files.
    pub fn at(&self, name: impl AsRef<Path>) -> PathBuf {
        self.root().join("files").join(name)
    }

    pub fn file(&self, name: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.at(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// The directory that stands for `$XDG_STATE_HOME`.
    pub fn state_home(&self) -> PathBuf {
        self.root().join("state")
    }

    pub fn state(&self) -> PathBuf {
        self.state_home().join("becalm")
    }

    pub fn options(&self) -> Options<'static> {
        Options::new(self.state())
    }

    pub fn apply(&self, steps: Vec<Step>) -> Result<Applied, Error> {
        remedy::apply(&plan(steps), &self.options())
    }

    pub fn undo(&self, id: &str) -> Result<Undone, Error> {
        remedy::undo(id, &self.options(), UndoOptions::default())
    }

    /// All that is below the files.
    pub fn picture(&self) -> Picture {
        picture(&self.root().join("files"))
    }

    /// What every failed application leaves: nothing beside the files, nothing in the state.
    #[track_caller]
    pub fn is_as(&self, before: &Picture) {
        assert_eq!(self.picture(), *before);
    }

    pub fn entries(&self) -> Vec<remedy::Entry> {
        remedy::list(&self.state()).unwrap()
    }
}

/// Every name below a directory, with what undoing must bring back.
pub type Picture = BTreeMap<PathBuf, String>;

pub fn picture(directory: &Path) -> Picture {
    let mut picture = Picture::new();
    take(directory, &mut picture);
    picture
}

fn take(path: &Path, picture: &mut Picture) {
    let found = fs::symlink_metadata(path).unwrap();
    let owner = format!("{:o} {}:{} ", found.mode(), found.uid(), found.gid());
    let what = if found.is_symlink() {
        format!("-> {:?}", fs::read_link(path).unwrap())
    } else if found.is_dir() {
        String::new()
    } else {
        let times = (found.mtime(), found.mtime_nsec());
        let content = fs::read(path).unwrap();
        format!("x{} {times:?} {}", found.nlink(), remedy::Digest::of(&content))
    };
    picture.insert(path.to_owned(), owner + &what);
    if found.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            take(&entry.unwrap().path(), picture);
        }
    }
}

/// The names of becalm's temporaries below a directory.
pub fn litter(directory: &Path) -> Vec<String> {
    let is_litter = |path: &PathBuf| path.file_name().unwrap().as_bytes().starts_with(b".becalm-");
    let litter = picture(directory).into_keys().filter(is_litter);
    litter.map(|path| path.display().to_string()).collect()
}

pub fn plan(steps: Vec<Step>) -> Plan {
    Plan { title: "test".into(), steps, ..Plan::default() }
}

/// A patch of the first bytes of a file that begins with `old`.
pub fn patch(path: &Path, old: &str, new: &str) -> Step {
    let edits = vec![Edit { offset: 0, old: old.into(), new: new.into() }];
    Step::Patch {
        path: path.into(),
        also: vec![],
        seen: Seen::of(path).unwrap(),
        edits: edits.into(),
    }
}

/// The same of a file with several names.
pub fn patch_all(names: &[&Path], old: &str, new: &str) -> Step {
    let Step::Patch { path, seen, edits, .. } = patch(names[0], old, new) else { unreachable!() };
    Step::Patch { path, also: names[1..].iter().map(PathBuf::from).collect(), seen, edits }
}

pub fn bytes(path: impl AsRef<Path>) -> Vec<u8> {
    fs::read(path).unwrap()
}

/// The example `apply`, as it is now: cargo builds examples beside all tests, but not beside one. Asked for the whole
/// workspace, it takes the libraries that are built; asked for this crate, it would build all once more, with fewer
/// features. On a machine that has tests but no cargo (tests/arm/run), it is as it was built with them.
pub fn apply_program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        if Path::new(env!("CARGO")).exists() {
            run(&[env!("CARGO"), "build", "--quiet", "--workspace", "--example", "apply"]);
        }
        let test = std::env::current_exe().unwrap();
        test.parent().unwrap().parent().unwrap().join("examples/apply")
    })
}

/// Before Linux 6.13 a file's times are those of the last tick of a clock that may have 100 in a second: of two
/// writes within one, nothing tells.
pub fn let_time_tick() {
    std::thread::sleep(std::time::Duration::from_millis(20));
}

/// Runs words, and gives what they say; they must succeed.
#[track_caller]
pub fn run(words: &[&str]) -> String {
    let output = output(words);
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
pub fn output(words: &[&str]) -> Output {
    Command::new(words[0]).args(&words[1..]).output().unwrap_or_else(|error| {
        panic!("{}: {error}: setup/install-test-tools", words[0]);
    })
}

/// Whether root runs the tests. In CI it must.
pub fn is_root() -> bool {
    // SAFETY: geteuid has no preconditions and cannot fail.
    let root = unsafe { libc::geteuid() } == 0;
    assert!(root || std::env::var_os("CI").is_none(), "this test needs root");
    root
}
