//! A tree of programs and libraries to bind, and what the real loader, strace and the filesystem
//! say of it before and after.

mod real;
mod snapshot;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::scene::becalm;
use super::{Ran, Scene, run};

pub use real::{
    LoaderCall, Shown, Start, asked, asked_until, loads, says, says_with, shown, start,
    start_of_loader, sum,
};
pub use snapshot::Snapshot;

/// The directory `tree` of a scene, which is to be bound, and `state`, where becalm keeps what it
/// needs to undo.
pub struct Site {
    /// Where both are.
    pub scene: Scene,
}

/// Where the programs and generators of the tests are.
fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests").canonicalize().unwrap()
}

impl Site {
    /// Both, empty.
    pub fn new() -> Site {
        Site::of(Scene::new())
    }

    /// In a scene that is there.
    pub fn of(scene: Scene) -> Site {
        scene.subdirectory("tree");
        Site { scene }
    }

    /// The directory that is to be bound.
    pub fn tree(&self) -> String {
        self.scene.at("tree")
    }

    /// A path in it.
    pub fn at(&self, name: &str) -> String {
        format!("{}/{name}", self.tree())
    }

    /// Builds a store with tests/store/make; the path of its program.
    #[track_caller]
    pub fn store(&self, libs: u64, kind: &[&str]) -> String {
        self.store_by("gcc", libs, kind)
    }

    /// The same by another compiler.
    #[track_caller]
    pub fn store_by(&self, compiler: &str, libs: u64, kind: &[&str]) -> String {
        let mut make = Command::new(sources().join("store/make"));
        make.env("CC", compiler).arg(format!("--libs={libs}")).args(kind).arg(self.tree());
        program(&run(&mut make))
    }

    /// Spreads a program over a store with tests/store/spread; the path of its copy.
    #[track_caller]
    pub fn spread(&self, words: &[&str]) -> String {
        program(&run(Command::new(sources().join("store/spread")).args(words).arg(self.tree())))
    }

    /// Builds `to` from files of tests/bind/. Words of gcc's may name files relative to the tree.
    #[track_caller]
    pub fn build(&self, to: &str, sources_and_words: &[&str]) -> String {
        self.build_by("gcc", to, sources_and_words)
    }

    /// The same by another compiler.
    #[track_caller]
    pub fn build_by(&self, compiler: &str, to: &str, sources_and_words: &[&str]) -> String {
        let target = PathBuf::from(self.at(to));
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        let mut gcc = Command::new(compiler);
        gcc.arg("-Wl,--no-as-needed,--unresolved-symbols=ignore-in-shared-libs");
        for word in sources_and_words {
            let source = sources().join("bind").join(word);
            gcc.arg(if word.ends_with(".c") { source.into_os_string() } else { word.into() });
        }
        let done = run(gcc.arg("-o").arg(&target).current_dir(self.tree()));
        assert!(done.status.success(), "{}", done.err());
        target.into_os_string().into_string().unwrap()
    }

    /// `<prefix>/lib/lib<name>.so.1`: offers the function `name`, which answers the prefix.
    #[track_caller]
    pub fn part(&self, prefix: &str, name: &str, words: &[&str]) -> String {
        let (part, says) = (format!("-DPART={name}"), format!("-DSAYS=\"{name} of {prefix}\""));
        let soname = format!("-Wl,-soname,lib{name}.so.1");
        let usual = ["part.c", "-shared", "-fPIC", &part, &says, &soname];
        self.build(&lib(prefix, name), &[&usual[..], words].concat())
    }

    /// `<prefix>/lib/lib<name>.so.1`: its function `name` opens lib`plugin`.so.1 by name.
    #[track_caller]
    pub fn host(&self, prefix: &str, name: &str, plugin: &str, words: &[&str]) -> String {
        let soname = format!("-Wl,-soname,lib{name}.so.1");
        let usual = ["-shared", "-fPIC", &soname];
        let hosts = hosting(name, plugin);
        let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
        self.build(&lib(prefix, name), &[&hosts[..], &usual[..], words].concat())
    }

    /// `<prefix>/bin/ask`: asks the functions that its arguments name.
    #[track_caller]
    pub fn ask(&self, prefix: &str, words: &[&str]) -> String {
        self.build(&format!("{prefix}/bin/ask"), &[&["ask.c"][..], words].concat())
    }

    /// The linker's option for a DT_RPATH of these directories of the tree.
    pub fn rpath(&self, directories: &[&str]) -> String {
        format!("-Wl,--disable-new-dtags,-rpath,{}", self.list(directories))
    }

    /// The same for a DT_RUNPATH.
    pub fn runpath(&self, directories: &[&str]) -> String {
        format!("-Wl,--enable-new-dtags,-rpath,{}", self.list(directories))
    }

    fn list(&self, directories: &[&str]) -> String {
        directories.iter().map(|directory| self.at(directory)).collect::<Vec<_>>().join(":")
    }

    /// `becalm words…`, with a state directory and an environment of the scene's own.
    pub fn becalm(&self, words: &[&str]) -> Command {
        let mut command = Command::new(becalm());
        command.args(words).env_clear().current_dir(self.scene.directory());
        command.env("XDG_STATE_HOME", self.scene.at("state")).env("COLUMNS", "100");
        command
    }

    /// What becalm says when it succeeds.
    #[track_caller]
    pub fn says(&self, words: &[&str]) -> String {
        let ran = run(&mut self.becalm(words));
        assert_eq!(ran.code(), 0, "{words:?}: {}{}", ran.out(), ran.err());
        assert_eq!(ran.err(), "", "{words:?}");
        ran.out()
    }

    /// Its status and the one line that it says when it fails.
    #[track_caller]
    pub fn fails(&self, words: &[&str]) -> (i32, String) {
        failure(&run(&mut self.becalm(words)))
    }

    /// Binds the tree; the answer of `--json`.
    #[track_caller]
    pub fn bind(&self, options: &[&str]) -> Value {
        self.bind_at(&self.tree(), options)
    }

    /// Binds another path.
    #[track_caller]
    pub fn bind_at(&self, path: &str, options: &[&str]) -> Value {
        let said = self.says(&[&["elf", "bind", "--json"], options, &[path]].concat());
        serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"))
    }

    /// Undoes the last change.
    #[track_caller]
    pub fn undo(&self) -> String {
        self.says(&["undo"])
    }

    /// The tree as it is.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::of(Path::new(&self.tree()))
    }

    /// The paths in the tree of all files that begin as ELF files do.
    pub fn elf_files(&self) -> Vec<PathBuf> {
        self.snapshot().files_that_begin_with(b"\x7fELF")
    }

    /// Whether becalm has never written anything: neither to the tree's `.becalm` nor to the
    /// state directory.
    pub fn is_untouched(&self) -> bool {
        !Path::new(&self.at(".becalm")).exists() && !Path::new(&self.scene.at("state")).exists()
    }
}

fn lib(prefix: &str, name: &str) -> String {
    format!("{prefix}/lib/lib{name}.so.1")
}

/// What builds a function `name` that opens lib`plugin`.so.1 by name.
pub fn hosting(name: &str, plugin: &str) -> [String; 4] {
    let host = format!("-DHOST={name}");
    let opens = format!("-DOPENS=\"lib{plugin}.so.1\"");
    ["host.c".to_owned(), host, opens, format!("-DASKS=\"{plugin}\"")]
}

/// The path that a generator prints.
#[track_caller]
fn program(ran: &Ran) -> String {
    assert_eq!(ran.code(), 0, "{}", ran.err());
    ran.out().trim_end().to_owned()
}

/// The status and the one line of a failure.
#[track_caller]
pub fn failure(ran: &Ran) -> (i32, String) {
    let said = ran.err();
    assert_eq!(ran.out(), "");
    assert!(said.starts_with("becalm: ") && said.lines().count() == 1, "not one line: {said:?}");
    (ran.code(), said)
}

/// The paths of what was changed.
pub fn changed(bound: &Value) -> Vec<&str> {
    let changes = bound["changes"].as_array().unwrap().iter();
    changes.map(|change| change["path"].as_str().unwrap()).collect()
}

/// Why a file was left out.
#[track_caller]
pub fn reason<'b>(bound: &'b Value, path: &str) -> &'b str {
    let mut all = bound["left_out"].as_array().unwrap().iter();
    let left = all.find(|left| left["path"] == path);
    left.unwrap_or_else(|| panic!("{path} is not left out: {bound:#}"))["reason"].as_str().unwrap()
}
