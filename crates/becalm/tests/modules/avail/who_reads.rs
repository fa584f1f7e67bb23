//! Each user is shown what Modules shows that user, and nobody what he may not read.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;

use testkit::copy_program;

use super::{FORMS, assert_same};
use crate::BECALM;
use crate::scene::{Modulepath, Modules, both};

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
    scene: Modulepath,
    becalm: String,
}

impl Shared {
    fn new() -> Shared {
        let scene = Modulepath::new();
        let becalm = scene.at("becalm");
        copy_program(BECALM, &becalm);
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

pub fn setfacl(list: &str, path: &Path) {
    assert!(Command::new("setfacl").args(["-m", list]).arg(path).status().unwrap().success());
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
fn what_an_access_list_withholds_from_somebody_is_not_in_the_index() {
    let [modules, _] = &both();
    let closing = [
        ("secret", "u:65534:---"),
        ("secret", "g:65534:r--"),
        ("secret/falcon", "u:65534:---"),
        ("secret/falcon", "u:65534:rwx,g::r,m::-w-"),
    ];
    for (closed, list) in closing {
        let shared = Shared::new();
        let tree = &shared.scene;
        tree.file("secret/falcon", "#%Module\n");
        tree.file("granted/1", "#%Module\n");
        let path = |name| tree.modulepath.join(name);
        setfacl(list, &path(closed));
        // More than everyone may, and what is made there later may be closed: neither matters.
        setfacl("u:1:rwx", &path("granted"));
        setfacl("u:1:rwx", &path("granted/1"));
        setfacl("d:u:65534:---", &path("granted"));
        let made = tree.becalm(modules, &["index", "--json"]);
        let answer = testkit::answer::parse(&made.stdout);
        assert_eq!(answer["indexes"][0]["limited"], 1, "{closed} {list}: {answer}");
        let index = fs::read(answer["indexes"][0]["index"].as_str().unwrap()).unwrap();
        let is_there = index.windows(6).any(|name| name == b"falcon");
        assert_eq!(is_there, closed.contains('/'), "{closed} {list}");
        for form in FORMS {
            let (native, real) = (shared.native(modules, form), shared.real(modules, form));
            for (mut native, mut real) in [(as_nobody(&native), as_nobody(&real)), (native, real)] {
                let (native, real) = (native.output().unwrap(), real.output().unwrap());
                assert_same(&native, &real, &format!("{closed} {list}: {form:?}"));
            }
        }
    }
}

#[test]
fn a_modulepath_that_somebody_cannot_get_to_has_no_index() {
    let [modules, _] = &both();
    let scene = Modulepath::new();
    for directory in ["listed", "closed", "closed/tree"] {
        fs::create_dir(scene.at(directory)).unwrap();
    }
    fs::write(scene.at("closed/tree/falcon"), "#%Module\n").unwrap();
    // The last step leads past the closed directory, the one before it through it.
    fs::set_permissions(scene.at("closed"), Permissions::from_mode(0o700)).unwrap();
    symlink(&scene.modulepath, scene.at("closed/hop")).unwrap();
    symlink(scene.at("closed/hop"), scene.at("linked")).unwrap();
    setfacl("u:65534:---", &scene.at("listed"));
    fs::rename(&scene.modulepath, scene.at("listed/modulefiles")).unwrap();
    symlink(scene.at("listed/modulefiles"), &scene.modulepath).unwrap();
    for path in ["listed/modulefiles", "modulefiles", "closed/tree"] {
        let made = scene.becalm(modules, &["index", scene.at(path).to_str().unwrap()]);
        assert_eq!(made.status.code(), Some(1), "{path}: {made:?}");
        assert!(String::from_utf8_lossy(&made.stdout).contains("everyone"), "{path}: {made:?}");
    }
    setfacl("u:65534:r-x", &scene.at("listed"));
    let made = |path: &str| scene.becalm(modules, &["index", scene.at(path).to_str().unwrap()]);
    assert_eq!(made("modulefiles").status.code(), Some(0));
    assert_eq!(made("linked").status.code(), Some(1));
}

#[test]
fn an_rc_file_that_an_access_list_closes_is_left_to_modules() {
    let [modules, _] = &both();
    let scene = Modulepath::new();
    setfacl("u:65534:---", &scene.modulepath.join("gcc/.version"));
    let made = scene.becalm(modules, &["index"]);
    assert_eq!(made.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&made.stdout).contains("not everyone may read it"), "{made:?}");
}

#[test]
fn under_any_umask_the_index_that_root_makes_is_for_everyone() {
    let [modules, _] = &both();
    let shared = Shared::new();
    let made = |umask: &str, index: &Path| {
        let mut shell = shared.scene.command("sh", modules);
        shell.args(["-c", &format!("umask {umask}; exec {BECALM} modules index")]);
        shell.env("BECALM_MODULES_INDEX", index).output().unwrap()
    };
    for umask in ["077", "0", "027", "777"] {
        let index = shared.scene.at(&format!("below{umask}/index"));
        let done = made(umask, &index);
        assert_eq!((done.status.code(), &*done.stderr), (Some(0), &b""[..]), "{umask}: {done:?}");
        for directory in index.ancestors().take(2) {
            assert_eq!(directory.metadata().unwrap().permissions().mode(), 0o40755, "{umask}");
        }
        let mut native = as_nobody(&shared.native(modules, &["avail"]));
        let native = native.env("BECALM_MODULES_INDEX", &index).output().unwrap();
        let real = as_nobody(&shared.real(modules, &["avail"])).output().unwrap();
        assert_same(&native, &real, umask);
    }
    // What is there is left as it is, and told.
    let index = shared.scene.at("mine/index");
    fs::create_dir(shared.scene.at("mine")).unwrap();
    fs::set_permissions(shared.scene.at("mine"), Permissions::from_mode(0o700)).unwrap();
    let done = made("022", &index);
    let said = String::from_utf8(done.stderr).unwrap();
    assert!(done.status.success() && said.contains("not everyone may enter it"), "{said}");
}
