//! `becalm modules index` and `avail` from the command line: the real command's bytes, or status
//! 75 and nothing.
#![allow(clippy::unwrap_used)]

mod modules_scene;
mod schema;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::{Command, Output};

use modules_scene::{BECALM, Modules, Scene, both};
use schema::Schema;

const FORMS: [&[&str]; 8] = [
    &["avail"],
    &["avail", "-t"],
    &["avail", "-l"],
    &["avail", "-j"],
    &["avail", "-a"],
    &["avail", "-d"],
    &["avail", "gcc"],
    &["avail", "nosuch"],
];

#[track_caller]
fn assert_same(native: &Output, real: &Output, what: &str) {
    assert_eq!(native.status.code(), Some(0), "{what}: {native:?}");
    // Modules writes the names of a JSON object in the order in which Tcl keeps them.
    let parsed = |output: &Output| serde_json::from_slice::<serde_json::Value>(&output.stderr);
    match (parsed(native), parsed(real)) {
        (Ok(json), Ok(real_json)) => {
            assert_eq!((json, &native.stdout), (real_json, &real.stdout), "{what}");
            assert_eq!(native.status, real.status, "{what}");
        }
        _ => assert_eq!(native, real, "{what}"),
    }
}

#[track_caller]
fn assert_left(native: &Output, what: &str) {
    assert_eq!(native.status.code(), Some(75), "{what}: {native:?}");
    assert!(native.stdout.is_empty() && native.stderr.is_empty(), "{what}: {native:?}");
}

/// Another user.
fn as_nobody(command: &Command) -> Command {
    let mut other = Command::new("setpriv");
    other.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]);
    other.arg(command.get_program()).args(command.get_args()).env_clear();
    other.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    other
}

/// A copy of the program, and of Modules, where every user gets at it.
struct Shared {
    scene: Scene,
    becalm: String,
}

impl Shared {
    fn new() -> Shared {
        let scene = Scene::new();
        let becalm = scene.at("becalm");
        fs::copy(BECALM, &becalm).unwrap();
        Shared { becalm: becalm.to_str().unwrap().to_owned(), scene }
    }

    fn native(&self, modules: &Modules, words: &[&str]) -> Command {
        let mut command = self.scene.command(&self.becalm, modules);
        command.arg("modules").args(words);
        command
    }

    fn real(&self, modules: &Modules, words: &[&str]) -> Command {
        let mut command = self.scene.command(modules.command.to_str().unwrap(), modules);
        command.arg("bash").args(words);
        command
    }
}

#[test]
fn the_index_says_what_it_holds_and_avail_answers_from_it() {
    let schema = Schema::of(include_str!("../../../docs/schema/becalm.modules.index.md"));
    schema.holds(&schema.example(), "example");
    for modules in &both() {
        let scene = Scene::new();
        assert_left(&scene.becalm(modules, &["avail"]), "without an index");

        let made = scene.becalm(modules, &["index", "--json"]);
        assert_eq!(made.status.code(), Some(0), "{made:?}");
        let answer: serde_json::Value = serde_json::from_slice(&made.stdout).unwrap();
        schema.holds(&answer, "made");
        assert_eq!(answer["indexes"][0]["files"], 2);
        assert_eq!(answer["indexes"][0]["rc_files"], 1);

        for form in FORMS {
            assert_same(&scene.becalm(modules, form), &scene.real(modules, form), &form.join(" "));
        }
    }
}

#[test]
fn a_modulepath_that_only_modules_can_read_has_no_index() {
    let [modules, _] = &both();
    let scene = Scene::new();
    scene
        .file("gcc/.modulerc", "#%Module\nif {[info exists env(X)]} { module-version gcc/12 x }\n");
    let made = scene.becalm(modules, &["index"]);
    assert_eq!(made.status.code(), Some(1));
    let said = String::from_utf8(made.stdout).unwrap();
    assert!(said.contains("left to Modules") && said.contains(".modulerc: line 2"), "{said}");
    let avail = scene.becalm(modules, &["avail", "--why"]);
    assert_eq!(avail.status.code(), Some(75));
    assert!(String::from_utf8_lossy(&avail.stderr).contains("no index"), "{avail:?}");
}

#[test]
fn what_may_not_be_equal_is_left_to_modules() {
    for modules in &both() {
        let scene = Scene::new();
        scene.index(modules);
        for words in [
            &["avail", "gcc@12"][..],
            &["avail", "--output=sym"],
            &["avail", "-v"],
            &["avail", "gcc/[12]*"],
            &["avail", "--no-such-option"],
        ] {
            assert_left(&scene.becalm(modules, words), &words.join(" "));
        }
        for (name, value) in [
            ("MODULEPATH", "modulefiles"),
            ("MODULEPATH", "/tmp/x$HOME"),
            ("MODULES_AVAIL_OUTPUT", "modulepath"),
            ("MODULES_SITECONFIG", "/etc/hosts"),
            ("MODULES_TAG_ABBREV", "hidden=HID"),
            ("MODULES_NOT_YET_THOUGHT_OF", "1"),
            ("__MODULES_LMTAG", "gcc/12&sticky"),
            ("MODULERCFILE", "/etc/hosts"),
            ("MODULES_CMD", "/usr/bin/tclsh"),
        ] {
            let mut command = scene.command(BECALM, modules);
            let avail = command.args(["modules", "avail"]).env(name, value).output().unwrap();
            assert_left(&avail, &format!("{name}={value}"));
        }
        let home = scene.at("home");
        fs::create_dir(&home).unwrap();
        fs::write(home.join(".modulerc"), "#%Module\n").unwrap();
        let mut command = scene.command(BECALM, modules);
        let avail = command.args(["modules", "avail"]).env("HOME", &home).output().unwrap();
        assert_left(&avail, "an rc file of the user");
    }
}

#[test]
fn a_changed_tree_is_left_to_modules_until_it_is_indexed_again() {
    type Change = fn(&Path);
    let changes: [(&str, Change); 6] = [
        ("a version more", |tree| fs::write(tree.join("gcc/14"), "#%Module\n").unwrap()),
        ("a version less", |tree| fs::remove_file(tree.join("gcc/12")).unwrap()),
        ("a name more", |tree| fs::create_dir(tree.join("new")).unwrap()),
        ("an rc file written in place", |tree| {
            fs::write(tree.join("gcc/.version"), "#%Module\nset ModulesVersion 12\n").unwrap();
        }),
        ("an rc file more", |tree| fs::write(tree.join(".modulerc"), "#%Module\n").unwrap()),
        ("a modulepath moved", |tree| {
            fs::rename(tree, tree.with_extension("old")).unwrap();
            fs::create_dir(tree).unwrap();
        }),
    ];
    for modules in &both() {
        for (what, change) in changes {
            let scene = Scene::new();
            scene.index(modules);
            assert_eq!(scene.becalm(modules, &["avail"]).status.code(), Some(0), "{what}");
            change(&scene.modulepath);
            assert_left(&scene.becalm(modules, &["avail"]), what);
            scene.index(modules);
            let (native, real) =
                (scene.becalm(modules, &["avail"]), scene.real(modules, &["avail"]));
            assert_same(&native, &real, what);
        }
    }
}

#[test]
fn an_index_of_somebody_else_or_of_garbage_is_not_used() {
    let [modules, _] = &both();
    let scene = Scene::new();
    scene.index(modules);
    let files = || fs::read_dir(scene.at("index")).unwrap().map(|entry| entry.unwrap().path());
    for path in files().filter(|path| path.extension().is_some_and(|kind| kind == "names")) {
        let content = fs::read(&path).unwrap();
        for cut in 0..content.len() {
            fs::write(&path, &content[..cut]).unwrap();
            assert_left(&scene.becalm(modules, &["avail"]), &format!("{cut} bytes"));
        }
        fs::write(&path, recording::seal("becalm-names 2", &[0xff; 64])).unwrap();
        assert_left(&scene.becalm(modules, &["avail"]), "garbage");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert_left(&scene.becalm(modules, &["avail"]), "a folder");
        fs::remove_dir(&path).unwrap();
        mkfifo(&path);
        assert_left(&scene.becalm(modules, &["avail"]), "a FIFO");
        fs::remove_file(&path).unwrap();
        fs::write(&path, &content).unwrap();
        chown(&path, Some(65_534), None).unwrap();
        assert_left(&scene.becalm(modules, &["avail"]), "another user's");
    }
}

/// A byte that is another one by now is an answer of Modules' own, or the right one: never a wrong
/// list.
#[test]
fn an_index_with_any_byte_changed_gives_no_wrong_list() {
    let [modules, _] = &both();
    let scene = Scene::new();
    scene.file("gcc/.modulerc", "#%Module\nmodule-version gcc/12 old\nmodule-alias cc gcc/13\n");
    scene.file("hdf5/1.14", "#%Module\n");
    scene.index(modules);
    let right = scene.becalm(modules, &["avail"]);
    assert!(right.status.success(), "{right:?}");
    for path in fs::read_dir(scene.at("index")).unwrap().map(|entry| entry.unwrap().path()) {
        let content = fs::read(&path).unwrap();
        for at in 0..content.len() {
            for flip in [1 << (at % 8), 0xff] {
                let mut changed = content.clone();
                changed[at] ^= flip;
                fs::write(&path, &changed).unwrap();
                let what = format!("{}: byte {at} ^ {flip:#x}", path.display());
                let given = scene.becalm(modules, &["avail"]);
                if given.status.success() {
                    assert_same(&given, &right, &what);
                } else {
                    assert_left(&given, &what);
                }
            }
        }
        fs::write(&path, &content).unwrap();
    }
}

fn mkfifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn each_user_is_shown_what_modules_shows_that_user() {
    let [modules, _] = &both();
    let shared = Shared::new();
    let tree = &shared.scene;
    tree.file("gcc/secret", "#%Module\n");
    tree.file("private/1", "#%Module\n");
    tree.file("mine/1", "#%Module\n");
    let mode = |name: &str, mode| {
        fs::set_permissions(tree.modulepath.join(name), Permissions::from_mode(mode)).unwrap();
    };
    mode("gcc/secret", 0o600);
    mode("private", 0o700);
    mode("mine", 0o700);
    chown(tree.modulepath.join("mine"), Some(65_534), Some(65_534)).unwrap();
    symlink("/nonexistent", tree.modulepath.join("gcc/broken")).unwrap();
    symlink("12", tree.modulepath.join("gcc/link")).unwrap();
    tree.index(modules);
    for form in FORMS {
        let (native, real) = (shared.native(modules, form), shared.real(modules, form));
        for (user, mut native, mut real) in
            [("nobody", as_nobody(&native), as_nobody(&real)), ("root", native, real)]
        {
            let (native, real) = (native.output().unwrap(), real.output().unwrap());
            assert_same(&native, &real, &format!("{user}: {}", form.join(" ")));
        }
    }
    let shown = |mut command: Command| String::from_utf8(command.output().unwrap().stderr).unwrap();
    let avail = shared.native(modules, &["avail", "-t"]);
    assert!(!shown(as_nobody(&avail)).contains("private/1"));
    assert!(shown(as_nobody(&avail)).contains("mine/1"));
    assert!(shown(avail).contains("private/1"));
}

#[test]
fn a_lease_takes_the_index_on_trust_and_no_longer() {
    let [modules, _] = &both();
    let scene = Scene::new();
    let made = scene.becalm(modules, &["index", "--lease", "3600"]);
    assert!(made.status.success());
    let before = scene.becalm(modules, &["avail", "-t"]);
    scene.file("new/1", "#%Module\n");
    assert_eq!(scene.becalm(modules, &["avail", "-t"]), before);
    // An hour later.
    for entry in fs::read_dir(scene.at("index")).unwrap() {
        let file = fs::File::open(entry.unwrap().path()).unwrap();
        let then = file.metadata().unwrap().modified().unwrap();
        file.set_modified(then - std::time::Duration::from_secs(3600)).unwrap();
    }
    assert_left(&scene.becalm(modules, &["avail", "-t"]), "an hour later");
}

#[test]
fn a_tree_with_traps_is_neither_waited_for_nor_indexed() {
    let [modules, _] = &both();
    let scene = Scene::new();
    mkfifo(&scene.modulepath.join("gcc/fifo"));
    let made = scene.becalm(modules, &["index"]);
    assert_eq!(made.status.code(), Some(1));
    fs::remove_file(scene.modulepath.join("gcc/fifo")).unwrap();
    symlink("..", scene.modulepath.join("gcc/loop")).unwrap();
    let made = scene.becalm(modules, &["index"]);
    assert_eq!(made.status.code(), Some(1));
    let file = scene.file("gcc/12", "#%Module\n");
    let made = scene.becalm(modules, &["index", file.to_str().unwrap()]);
    assert_eq!(made.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&made.stdout).contains("no folder"), "{made:?}");
}
