//! What `becalm elf bind` leaves as it is, and says why.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::BECALM;
use serde_json::Value;
use testkit::arch::{LOADER, LOADER_NAME};
use testkit::bound::{Site, changed, hosting, loads, reason, says_with, shown, start};
use testkit::run;
use testkit::user::{as_a_user, is_root, scene_for_a_user};

/// A tree with a program that can be bound; the path of that, and the words that link others to
/// the same library.
fn site_with_program() -> (Site, String, [String; 2]) {
    let site = Site::new();
    let x = site.part("x", "x", &[]);
    let words = [site.rpath(&["n", "m", "x/lib"]), x];
    let app = site.ask("app", &[&words[0], &words[1]]);
    (site, app, words)
}

/// Binds; the file must be as before, and left out for a reason with these words in it.
#[track_caller]
fn is_left_out(site: &Site, app: &str, path: &str, because: &str) {
    let before = (fs::read(path).unwrap(), fs::metadata(path).unwrap().permissions());
    let bound = site.bind(&[]);
    assert!(changed(&bound).contains(&app), "the rest is bound: {bound:#}");
    let reason = reason(&bound, path);
    assert!(reason.contains(because), "{path}: {reason}");
    assert_eq!((fs::read(path).unwrap(), fs::metadata(path).unwrap().permissions()), before);
    assert_eq!(start(app, &[]).in_vain(), 0);
}

#[test]
fn a_setuid_program_is_left_out() {
    let (site, app, words) = site_with_program();
    let setuid = site.ask("setuid", &[&words[0], &words[1]]);
    fs::set_permissions(&setuid, fs::Permissions::from_mode(0o4755)).unwrap();
    is_left_out(&site, &app, &setuid, "setuid");
}

#[test]
fn a_static_program_is_left_out() {
    let (site, app, _) = site_with_program();
    let program = site.build("static/bin/ask", &["ask.c", "-static", "-w"]);
    is_left_out(&site, &app, &program, "static");
}

/// It has a dynamic section, for its own relocations, and needs nothing.
#[test]
fn a_static_program_that_can_lie_anywhere_stays_as_it_is() {
    let (site, app, _) = site_with_program();
    let program = site.build("static/bin/ask", &["ask.c", "-static-pie", "-w"]);
    let before = fs::read(&program).unwrap();
    let bound = site.bind(&[]);
    assert!(changed(&bound).contains(&app.as_str()), "{bound:#}");
    assert_eq!(fs::read(&program).unwrap(), before);
}

#[test]
fn a_copy_of_the_loader_is_left_out() {
    let (site, app, _) = site_with_program();
    let copy = site.at(&format!("x/lib/{LOADER_NAME}"));
    fs::copy(LOADER, &copy).unwrap();
    is_left_out(&site, &app, &copy, "loader");
}

#[test]
fn java_s_own_libraries_are_left_out() {
    let (site, app, words) = site_with_program();
    let jvm = site.part("java", "jvm", &[&words[0], &words[1], "-Wl,-soname,libjvm.so"]);
    is_left_out(&site, &app, &jvm, "libjvm.so*");
}

#[test]
fn what_the_user_names_is_left_out() {
    let site = Site::new();
    let x = site.part("x", "x", &[]);
    let mpi = site.part("mpi", "mpi", &[]);
    let list = site.runpath(&["n", "m", "x/lib", "mpi/lib"]);
    let app = site.ask("app", &[&list, &x, &mpi]);
    site.part("other", "mpi", &[]);
    site.bind(&["--leave", "libmpi.so.*"]);
    let other = [("LD_LIBRARY_PATH", &*site.at("other/lib"))];
    let said = says_with(&app, &["mpi", "x"], &other);
    assert!(said.ends_with("mpi: mpi of other\nx: x of x\n"), "{said}");
    let said = says_with(&app, &["mpi", "x"], &[]);
    assert!(said.ends_with("mpi: mpi of mpi\nx: x of x\n"), "{said}");
}

/// What lies in a store is a stub that is linked against; the node's own driver comes by the
/// variable.
#[test]
fn a_driver_s_stub_is_left_out_and_the_driver_still_comes_by_ld_library_path() {
    let (site, _, words) = site_with_program();
    let stub = site.part("stubs", "cuda", &[]);
    let list = site.runpath(&["n", "m", "x/lib", "stubs/lib"]);
    let app = site.ask("gpu", &[&list, &words[1], &stub]);
    site.part("driver", "cuda", &[]);
    let driver = [("LD_LIBRARY_PATH", &*site.at("driver/lib"))];
    let before = says_with(&app, &["cuda"], &driver);
    assert!(before.ends_with("cuda: cuda of driver\n"));
    let without = shown(&app, &["cuda"]);

    let bound = site.bind(&[]);

    assert!(reason(&bound, &stub).contains("libcuda.so*"));
    assert!(changed(&bound).contains(&app.as_str()), "{bound:#}");
    assert_eq!(says_with(&app, &["cuda"], &driver), before);
    assert_eq!(shown(&app, &["cuda"]), without);
}

/// What looks like a library and is none: never an error, never a change, and no end of the walk.
#[test]
fn what_is_no_whole_elf_file_does_no_harm() {
    let (site, app, words) = site_with_program();
    let whole = fs::read(&words[1]).unwrap();
    let mut odd = vec![
        site.scene.file("tree/script.so", "#!/bin/sh\nexit 1\n", 0o755),
        site.scene.file("tree/libtext.so.1", "INPUT(libx.so.1)\n", 0o644),
        site.scene.file("tree/libempty.so", "", 0o755),
        site.scene.file("tree/libmagic.so", b"\x7fELF", 0o755),
        site.scene.file("tree/libhead.so", &whole[..64], 0o755),
        site.scene.file("tree/libpage.so", &whole[..4096], 0o755),
        site.scene.file("tree/liblast.so", &whole[..whole.len() - 1], 0o755),
        site.build("libobject.so", &["part.c", "-c", "-DPART=o", "-DSAYS=\"o\""]),
    ];
    let debug = site.at("x/lib/libx.so.1.debug");
    let objcopy = ["--only-keep-debug", &app, &debug];
    assert_eq!(run(std::process::Command::new("objcopy").args(objcopy)).code(), 0);
    odd.push(debug);
    assert_eq!(run(std::process::Command::new("mkfifo").arg(site.at("libpipe.so"))).code(), 0);
    symlink(site.at("nowhere"), site.at("libdangling.so")).unwrap();
    symlink(site.tree(), site.at("loop")).unwrap();
    symlink("/dev/zero", site.at("libzero.so")).unwrap();
    let untouched = site.snapshot();

    let bound = site.bind(&[]);

    let changed = changed(&bound);
    assert!(changed.contains(&app.as_str()), "{bound:#}");
    let after = site.snapshot();
    let differs = after.differs_in(&untouched);
    for path in &odd {
        assert!(!differs.contains(&Path::new(path)), "{path} has changed");
        assert!(!changed.contains(&path.as_str()), "{path} is to change");
    }
    assert_eq!(start(&app, &[]).in_vain(), 0);
}

#[test]
fn a_named_file_that_is_no_elf_file_is_told() {
    let site = Site::new();
    let text = site.scene.file("tree/notes", "text", 0o755);
    let bound = site.bind_at(&text, &[]);
    assert!(reason(&bound, &text).contains("ELF"), "{bound:#}");
    assert_eq!(run(std::process::Command::new("mkfifo").arg(site.at("pipe"))).code(), 0);
    let bound = site.bind_at(&site.at("pipe"), &[]);
    assert!(!reason(&bound, &site.at("pipe")).is_empty());
}

/// Words that must succeed.
#[track_caller]
fn done(words: &[&str]) {
    let ran = run(Command::new(words[0]).args(&words[1..]));
    assert_eq!(ran.code(), 0, "{words:?}: {}", ran.err());
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// What a plan and its application say of a store of which one thing cannot be changed.
struct Told {
    dry: Value,
    bound: Value,
}

/// Plans and binds by `becalm`; both must say the same, the rest must be bound, and a start must
/// make the calls that were told.
#[track_caller]
fn told(site: &Site, app: &str, becalm: impl Fn(&[&str]) -> Command) -> Told {
    let before = (loads(app, &[]), site.snapshot());
    let told = |words: &[&str]| -> Value {
        let ran = run(&mut becalm(words));
        assert_eq!((ran.code(), ran.err()), (0, String::new()), "{words:?}: {}", ran.out());
        serde_json::from_str(&ran.out()).unwrap()
    };
    let tree = site.tree();
    let dry = told(&["elf", "bind", "--json", "--dry-run", &tree]);
    assert!(site.snapshot() == before.1, "a dry run writes nothing");
    let mut bound = told(&["elf", "bind", "--json", &tree]);
    assert!(bound["applied"].is_string(), "{bound:#}");
    bound["applied"] = Value::Null;
    assert_eq!(dry, bound);
    assert!(!changed(&bound).is_empty());
    assert_eq!(bound["programs"][0]["after"], start(app, &[]).to_json());
    assert_eq!(loads(app, &[]), before.0);
    Told { dry, bound }
}

/// The libraries of a store, sorted.
fn libraries(site: &Site) -> Vec<PathBuf> {
    let is_library = |path: &PathBuf| text(path).contains("/lib/lib");
    site.elf_files().into_iter().filter(is_library).collect()
}

/// A capability, a flag, a directory of which nothing may change: of all that `remedy` refuses,
/// what root meets. It is given back at the end, come what may.
struct Obstacle<'a> {
    set: Vec<&'a str>,
    unset: Vec<&'a str>,
}

impl Obstacle<'_> {
    fn new<'a>(words: [&'a str; 2], unset: [&'a str; 2], path: &'a str) -> Obstacle<'a> {
        let with = |[tool, flag]: [&'a str; 2]| vec![tool, flag, path];
        let obstacle = Obstacle { set: with(words), unset: with(unset) };
        done(&obstacle.set);
        obstacle
    }
}

impl Drop for Obstacle<'_> {
    fn drop(&mut self) {
        let _ = Command::new(self.unset[0]).args(&self.unset[1..]).status();
    }
}

#[test]
fn one_thing_that_cannot_be_changed_never_keeps_the_rest_from_being_bound() {
    if !is_root() {
        return;
    }
    let site = Site::new();
    let app = site.store(12, &[]);
    let one = text(&libraries(&site)[3]).to_owned();
    let directory = text(Path::new(&one).parent().unwrap()).to_owned();
    for (set, unset, path, because) in [
        (["setcap", "cap_net_raw+ep"], ["setcap", "-r"], &one, "has file capabilities"),
        (["chattr", "+i"], ["chattr", "-i"], &one, "is immutable"),
        (["chattr", "+a"], ["chattr", "-a"], &one, "is append-only"),
        (["chattr", "+i"], ["chattr", "-i"], &directory, "/lib: is immutable"),
    ] {
        let before = fs::read(&one).unwrap();
        let obstacle = Obstacle::new(set, unset, path);
        let Told { bound, .. } = told(&site, &app, |words| site.becalm(words));
        assert!(reason(&bound, &one).contains(because), "{}", reason(&bound, &one));
        assert_eq!(changed(&bound).len(), 12, "{set:?}: all but one of 13: {bound:#}");
        assert_eq!(fs::read(&one).unwrap(), before);
        drop(obstacle);
        site.undo();
        let bound = site.bind(&["--dry-run"]);
        assert_eq!((changed(&bound).len(), &bound["left_out"]), (13, &Value::Array(vec![])));
    }
    // The program alone has a list that is searched: without it, nothing is gained.
    let _obstacle = Obstacle::new(["setcap", "cap_net_raw+ep"], ["setcap", "-r"], &app);
    for words in [&["elf", "bind", "--json"][..], &["elf", "bind", "--json", "--dry-run"]] {
        let ran = run(&mut site.becalm(&[words, &[&site.tree()]].concat()));
        let bound: Value = serde_json::from_str(&ran.out()).unwrap();
        assert_eq!((ran.code(), changed(&bound).len()), (1, 0), "{bound:#}");
        assert!(reason(&bound, &app).contains("has file capabilities"), "{bound:#}");
    }
}

/// Where no directory of links can be made, files are bound all the same, and keep their lists.
#[test]
fn a_tree_in_which_no_directory_can_be_made_is_bound_without_farms() {
    if !is_root() {
        return;
    }
    let site = Site::new();
    let plugin = site.part("plugin", "plugin", &[]);
    let x = site.part("x", "x", &[]);
    let list = site.rpath(&["n", "m", "x/lib", "plugin/lib", "host/lib"]);
    let host = site.host("host", "host", "plugin", &[&list, &x]);
    let app = site.ask("app", &[&list, &host, &x]);
    let farmed = site.bind(&["--dry-run"]);
    assert!(farmed["links"].as_u64().unwrap() > 0, "{farmed:#}");
    let before = shown(&app, &["host", "x"]);
    let tree = site.tree();
    let obstacle = Obstacle::new(["chattr", "+i"], ["chattr", "-i"], &tree);
    let Told { dry, bound } = told(&site, &app, |words| site.becalm(words));
    assert_eq!((&bound["links"], &bound["directories"]), (&Value::from(0), &Value::Array(vec![])));
    assert!(changed(&dry).contains(&app.as_str()));
    assert!(reason(&bound, &site.at(".becalm")).contains("is immutable"), "{bound:#}");
    assert_eq!(shown(&app, &["host", "x"]), before);
    drop(obstacle);
    site.undo();
    fs::remove_file(plugin).unwrap();
}

/// As an ordinary user, what belongs to others, and what lies in their directories.
#[test]
fn what_is_somebody_else_s_stays_and_the_rest_is_bound() {
    if !is_root() {
        return;
    }
    let (scene, _) = scene_for_a_user(&[]);
    let becalm = scene.at("becalm");
    let site = Site::of(scene);
    let app = site.store(12, &[]);
    let own = |path: &str| done(&["chown", "-R", "65534:65534", path]);
    let libraries = libraries(&site);
    let (one, other) = (text(&libraries[2]), text(&libraries[7]));
    let directory = libraries[7].parent().unwrap();
    let as_user = |words: &[&str]| {
        let mut command = as_a_user(&[&[becalm.as_str()], words].concat());
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap());
        command.env("XDG_STATE_HOME", site.scene.at("state")).current_dir(site.scene.directory());
        command
    };
    for (path, to, left, because) in [
        (Path::new(one), (0, 0), one, "belongs to user 0"),
        (Path::new(one), (65534, 7), one, "is of group 7"),
        (directory, (0, 0), other, "write into the directory: Permission denied"),
    ] {
        own(&site.tree());
        chown(path, Some(to.0), Some(to.1)).unwrap();
        let Told { bound, .. } = told(&site, &app, as_user);
        assert!(reason(&bound, left).contains(because), "{}", reason(&bound, left));
        assert_eq!(changed(&bound).len(), 12, "{bound:#}");
        assert_eq!(run(&mut as_user(&["undo"])).code(), 0);
    }
}

/// Root of a container: it may not make files of users that the container does not know.
#[test]
fn in_a_user_namespace_the_files_of_unknown_users_stay() {
    if !is_root() {
        return;
    }
    let site = Site::new();
    let app = site.store(12, &[]);
    let one = text(&libraries(&site)[5]).to_owned();
    chown(&one, Some(12345), Some(12345)).unwrap();
    let within = |words: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--", BECALM]).args(words).env_clear();
        command.env("XDG_STATE_HOME", site.scene.at("state")).current_dir(site.scene.directory());
        command
    };
    let Told { bound, .. } = told(&site, &app, within);
    assert!(reason(&bound, &one).contains("this user namespace"), "{}", reason(&bound, &one));
    assert_eq!(changed(&bound).len(), 12);
}

/// A program that opens a plugin by name, so that its list becomes a farm.
fn program_with_plugin(site: &Site) -> String {
    let x = site.part("x", "x", &[]);
    site.part("plugin", "plugin", &[]);
    let hosts = hosting("host", "plugin");
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let list = site.rpath(&["n", "m", "x/lib", "plugin/lib"]);
    site.ask("app", &[&hosts[..], &["-rdynamic", &list, &x]].concat())
}

/// Whoever may write to `.becalm` would decide what root's programs load.
#[test]
fn an_own_directory_that_another_user_may_change_is_not_relied_on() {
    if !is_root() {
        return;
    }
    for (planted, because) in [
        ("link", "symbolic link"),
        ("user", "belongs to user 65534"),
        ("mode", "may write"),
        ("farm", "belongs to user 65534"),
    ] {
        for options in [&[][..], &["--mode=farm"], &["--mode=closure"]] {
            let site = Site::new();
            let app = program_with_plugin(&site);
            let before = shown(&app, &["host"]);
            let own = site.at(".becalm");
            let mut blamed = own.clone();
            match planted {
                "link" => symlink(site.scene.subdirectory("elsewhere"), &own).unwrap(),
                _ => fs::create_dir(&own).unwrap(),
            }
            match planted {
                "user" => chown(&own, Some(65534), None).unwrap(),
                "mode" => fs::set_permissions(&own, fs::Permissions::from_mode(0o1777)).unwrap(),
                "farm" => {
                    blamed = site.scene.subdirectory("tree/.becalm/farm");
                    chown(&blamed, Some(65534), None).unwrap();
                }
                _ => {}
            }
            let bound = site.bind(options);
            assert!(reason(&bound, &blamed).contains(because), "{planted}: {bound:#}");
            assert!(!bound["changes"].to_string().contains("becalm"), "{planted}: {bound:#}");
            assert_eq!(shown(&app, &["host"]), before, "{planted}, {options:?}");
        }
    }
}

/// Root finds the licensed library; others load the free one, and must go on to.
#[test]
fn what_not_everyone_may_read_stays_a_name() {
    if !is_root() {
        return;
    }
    let closings = [
        ("tree/lic/lib", "chmod 750 $0"),
        ("tree/lic/lib/libx.so.1", "chmod 750 $0"),
        ("tree/lic/lib/libx.so.1", "setfacl -m u:65534:--- $0"),
        ("tree/lic/lib", "chgrp 65534 $0; chmod 705 $0"),
    ];
    for options in [&[][..], &["--mode=farm"], &["--mode=closure"]] {
        for (closed, close) in closings {
            let (scene, _) = scene_for_a_user(&[]);
            let site = Site::of(scene);
            site.part("free", "x", &[]);
            let x = site.part("lic", "x", &[]);
            let y = site.part("y", "y", &[]);
            let hosts = hosting("host", "x");
            let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
            let list = site.runpath(&["n", "m", "lic/lib", "free/lib", "y/lib"]);
            let app = site.ask("app", &[&hosts[..], &["-rdynamic", &list, &x, &y]].concat());
            run(Command::new("sh").args(["-ec", close]).arg(site.scene.at(closed))).out();
            let said = |command: &mut Command| run(command.env_clear()).out();
            let both = || {
                let user = said(&mut as_a_user(&[&*app, "x", "host"]));
                (said(Command::new(&app).args(["x", "host"])), user)
            };
            let before = both();
            assert!(before.0.contains("x: x of lic\n"), "{}", before.0);
            assert!(before.1.contains("x: x of free\n"), "{}", before.1);
            let bound = site.bind(options);
            assert_eq!(both(), before, "{options:?}: {bound:#}");
            let is_told = bound.to_string().contains("not everyone may read");
            assert!(is_told || options == ["--mode=farm"], "{options:?}: {bound:#}");
        }
    }
}

/// On some filesystems every file has a list, and each is the same one.
#[test]
fn a_list_that_a_whole_store_has_keeps_nothing_a_name() {
    let (site, app, _) = site_with_program();
    let list = "u:4242:---";
    run(Command::new("setfacl").args(["-R", "-m", list]).arg(site.at("tree"))).out();
    let bound = site.bind(&[]);
    assert!(changed(&bound).contains(&app.as_str()), "{bound:#}");
    assert!(!bound.to_string().contains("not everyone may read"), "{bound:#}");
    assert_eq!(start(&app, &[]).in_vain(), 0);
}

/// A library's list of directories is inherited by one that has none, for a name that is not bound:
/// without the list, the start would differ. That costs no other library its edit.
#[test]
fn what_one_odd_file_needs_costs_no_other_file_its_edit() {
    let site = Site::new();
    site.part("listed", "listed", &[]);
    let listed = site.at("listed/lib/liblisted.so.1");
    let heir = site.part("heir", "heir", &[&listed]);
    let odd = site.part("odd", "odd", &[&site.rpath(&["n", "m", "heir/lib", "listed/lib"]), &heir]);
    let x = site.part("x", "x", &[]);
    let usual = site.part("usual", "usual", &[&site.rpath(&["n", "m", "o", "x/lib"]), &x]);
    let list = site.rpath(&["n", "odd/lib", "usual/lib"]);
    let app = site.ask("app", &[&list, &odd, &usual]);
    let before = loads(&app, &[]);

    let bound = site.bind(&["--leave", "liblisted.so.1", "--keep-rpath", "none"]);

    assert_eq!(loads(&app, &[]), before);
    let list_of = |path: &str| {
        let changes = bound["changes"].as_array().unwrap();
        let change = changes.iter().find(|change| change["path"] == path);
        change.unwrap_or_else(|| panic!("{path} is not bound: {bound:#}"))["search"].clone()
    };
    assert_eq!(list_of(&odd), Value::Null, "it keeps its list");
    for without in [&usual, &app] {
        assert_ne!(list_of(without), Value::Null, "{without} needs no list: {bound:#}");
    }
}
