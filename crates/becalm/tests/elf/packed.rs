//! What the tests of packs share: a program, its pack, and its starts in each form.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use testkit::{Ran, Scene, run};

use crate::BECALM;

/// The forms, as `--pack-as` names them.
pub const FORMS: [&str; 2] = ["interpreter", "executable"];
/// What has a pack say why it is not used.
pub const REPORT: &str = "BECALM_PACK_REPORT";

/// A program and its pack.
pub struct Packed {
    pub scene: Scene,
    pub program: String,
    pub pack: String,
    /// What `becalm elf pack --json` said.
    pub made: Value,
}

impl Packed {
    /// A program of the system.
    pub fn new(program: &str) -> Packed {
        Packed::of(Scene::new(), program)
    }

    /// A program of a scene.
    #[track_caller]
    pub fn of(scene: Scene, program: &str) -> Packed {
        Packed::with(scene, program, &[])
    }

    #[track_caller]
    pub fn with(scene: Scene, program: &str, options: &[&str]) -> Packed {
        let pack = scene.at("program.pack");
        let made = run(&mut pack_command(program, &pack, options));
        assert_eq!(made.code(), 0, "{program}: {}", made.err());
        let made = serde_json::from_str(&made.out()).unwrap();
        Packed { scene, program: program.to_owned(), pack, made }
    }

    /// Others may start from it.
    pub fn given_to_all(self) -> Packed {
        for file in [&self.pack, self.made["copy"].as_str().unwrap()] {
            std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        self
    }

    /// The program itself.
    pub fn plain(&self, words: &[&str]) -> Command {
        clean(Command::new(&self.program), words)
    }

    /// It from its pack.
    pub fn packed(&self, form: &str, words: &[&str]) -> Command {
        let mut command = Command::new(BECALM);
        command.args(["run", "--pack", &self.pack, "--pack-as", form, "--", &self.program]);
        clean(command, words)
    }

    /// The pack executed, without becalm.
    pub fn alone(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.pack);
        std::os::unix::process::CommandExt::arg0(&mut command, &self.program);
        clean(command, words)
    }

    /// Whether it can be the executable.
    pub fn forms(&self) -> &[&str] {
        if self.made["mounted_only"].is_null() { &FORMS } else { &FORMS[..1] }
    }

    /// Asserts that it says and ends the same in every form, and from its pack.
    #[track_caller]
    pub fn assert_same(&self, words: &[&str]) {
        let plain = run(&mut self.plain(words));
        for form in self.forms() {
            let packed = run(self.packed(form, words).env(REPORT, "1"));
            assert_same(&plain, &packed, &format!("{} {words:?} as {form}", self.program));
        }
    }
}

/// Asserts that two runs say and end the same.
#[track_caller]
pub fn assert_same(plain: &Ran, packed: &Ran, what: &str) {
    assert_eq!(packed.err(), plain.err(), "{what}");
    assert_eq!(packed.out(), plain.out(), "{what}");
    assert_eq!(packed.status, plain.status, "{what}");
}

/// `becalm elf pack --json`.
pub fn pack_command(program: &str, pack: &str, options: &[&str]) -> Command {
    let mut command = Command::new(BECALM);
    command.args(["elf", "pack", "--json", program, "-o", pack]).args(options);
    clean(command, &[])
}

/// No variable of the tests' own changes how a program is loaded.
pub fn clean(mut command: Command, words: &[&str]) -> Command {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("LD_") {
            command.env_remove(name);
        }
    }
    command.args(words);
    command
}

/// Why a program is not packed.
#[track_caller]
pub fn refusal(program: &str) -> String {
    let scene = Scene::new();
    let pack = scene.at("x.pack");
    let ran = run(&mut pack_command(program, &pack, &[]));
    assert_eq!((ran.code(), ran.out().as_str()), (1, ""), "{}", ran.err());
    // Before it, the loader itself may say what it lacks.
    let err = ran.err();
    let (last, before) = err
        .lines()
        .collect::<Vec<_>>()
        .split_last()
        .map(|(last, before)| (last.to_string(), before.len()))
        .unwrap();
    assert!(
        last.starts_with("becalm: ") && before <= usize::from(err.contains("loading shared")),
        "{err}"
    );
    let left = std::fs::read_dir(scene.directory()).unwrap().count();
    assert_eq!(left, 0, "something is left behind");
    last
}

/// Runs a compiler of the system on files of tests/pack.
#[track_caller]
pub fn compile(scene: &Scene, compiler: &str, words: &[&str], to: &str) -> String {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/pack");
    let target = scene.at(to);
    let mut command = Command::new(compiler);
    for word in words {
        let source = sources.join(word);
        command.arg(if source.is_file() { source.into_os_string() } else { word.into() });
    }
    let done = run(command.args(["-o", &target]).current_dir(scene.directory()));
    assert_eq!(done.code(), 0, "{}", done.err());
    target
}

/// The program of tests/pack/all.cc with its library and what it opens; the words to start it with.
pub fn all(scene: Scene) -> (Packed, Vec<String>) {
    all_with(scene, &[])
}

/// It, with words for the linker of its program.
pub fn all_with(scene: Scene, linked: &[&str]) -> (Packed, Vec<String>) {
    scene.subdirectory("lib");
    let shared = ["-shared", "-fPIC", "-O1"];
    let thrower =
        compile(&scene, "g++", &[&shared[..], &["thrower.cc"]].concat(), "lib/libthrower.so");
    let plug = compile(&scene, "g++", &[&shared[..], &["plug.cc"]].concat(), "lib/libplug.so");
    let rpath = format!("-Wl,-rpath,{}:{}", scene.at("none"), scene.at("lib"));
    let words = [&["all.cc", "-O1", "-pthread", &thrower, &rpath], linked].concat();
    let program = compile(&scene, "g++", &words, "all");
    let other = scene.at("other");
    std::os::unix::fs::symlink(scene.at("lib"), &other).unwrap();
    let words = vec![plug, format!("{other}/libthrower.so"), "last".into()];
    (Packed::of(scene, &program), words)
}
