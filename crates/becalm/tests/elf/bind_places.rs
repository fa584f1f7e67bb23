//! `becalm elf bind` and where things lie: links of both kinds, trees that move, stores of package
//! managers, programs that run, files of other users.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use testkit::bound::{Site, changed, failure, hosting, reason, says, shown, start};
use testkit::user::{as_a_user, is_root, scene_for_a_user};
use testkit::{Live, run};

/// A program that needs y, which needs x.
fn small(site: &Site) -> String {
    let x = site.part("x", "x", &[]);
    let y = site.part("y", "y", &[&site.rpath(&["n", "m", "x/lib"]), &x]);
    site.ask("app", &[&site.rpath(&["n", "m", "x/lib", "y/lib"]), &y])
}

#[test]
fn both_names_of_a_file_are_bound_and_stay_one_file() {
    let site = Site::new();
    let app = small(&site);
    let other = site.at("app/bin/also");
    fs::hard_link(&app, &other).unwrap();
    let untouched = site.snapshot();
    let bound = site.bind(&[]);
    // Sorted, the first name stands for the file.
    let mut changes = bound["changes"].as_array().unwrap().iter();
    let change = changes.find(|change| change["path"] == other).unwrap();
    assert_eq!(change["also"], json!([app]));
    let inode = |path: &str| fs::metadata(path).unwrap().ino();
    assert_eq!(inode(&app), inode(&other));
    for name in [&app, &other] {
        assert_eq!(start(name, &[]).in_vain(), 0);
    }
    site.undo();
    site.snapshot().assert_is(&untouched);
    assert_eq!(inode(&app), inode(&other));
}

#[test]
fn a_file_with_a_name_elsewhere_is_left_out() {
    let site = Site::new();
    let app = small(&site);
    let outside = site.scene.at("outside");
    fs::hard_link(&app, &outside).unwrap();
    let (before, inode) = (fs::read(&app).unwrap(), fs::metadata(&app).unwrap().ino());
    // Alone, it is all that there would be to bind: the answer is no, as for what else is fixed.
    for words in
        [&["elf", "bind", "--json", &app][..], &["elf", "bind", "--json", "--dry-run", &app]]
    {
        let ran = run(&mut site.becalm(words));
        let bound: Value = serde_json::from_str(&ran.out()).unwrap();
        assert_eq!((ran.code(), changed(&bound).len()), (1, 0), "{bound:#}");
        assert!(reason(&bound, &app).contains("hard link"), "{bound:#}");
    }
    let ran = run(&mut site.becalm(&["elf", "bind", &app]));
    assert!(ran.out().starts_with("Nothing can be bound: 1 file cannot be changed\n"));
    assert_eq!((fs::read(&app).unwrap(), fs::metadata(&outside).unwrap().ino()), (before, inode));
    // Both named, both are bound.
    let words = ["elf", "bind", "--json", &site.tree(), &outside];
    let bound: Value = serde_json::from_str(&site.says(&words)).unwrap();
    assert!(bound["applied"].is_string(), "{bound:#}");
    assert_eq!(start(&outside, &[]).in_vain(), 0);
    assert_eq!(fs::metadata(&app).unwrap().ino(), fs::metadata(&outside).unwrap().ino());
}

/// A view, as package managers make them: one `bin` and one `lib` with links into all prefixes.
fn view(site: &Site) -> String {
    for directory in ["bin", "lib"] {
        fs::create_dir_all(site.scene.at(&format!("view/{directory}"))).unwrap();
    }
    for file in site.elf_files() {
        let directory = file.parent().unwrap().file_name().unwrap().to_str().unwrap();
        let name = file.file_name().unwrap().to_str().unwrap();
        symlink(&file, site.scene.at(&format!("view/{directory}/{name}"))).unwrap();
    }
    site.scene.at("view/bin/app")
}

#[test]
fn a_bound_store_is_calm_through_its_view_too() {
    let site = Site::new();
    site.store(20, &[]);
    let app = view(&site);
    let before = shown(&app, &[]);
    site.bind(&[]);
    assert_eq!(shown(&app, &[]), before);
    assert_eq!(start(&app, &[]).in_vain(), 0);
}

#[test]
fn a_program_that_is_named_through_a_link_is_bound_where_it_lies() {
    let site = Site::new();
    let app = site.store(20, &[]);
    let link = view(&site);
    let bound = site.bind_at(&link, &[]);
    assert_eq!(changed(&bound), [app.as_str()]);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(says(&link, &[]), says(&app, &[]));
}

/// What a view links to is the store's, and the store was not named: it stays, and that is said.
#[test]
fn a_view_alone_leaves_the_store_as_it_is_and_says_why() {
    let site = Site::new();
    site.store(20, &[]);
    view(&site);
    let untouched = site.snapshot();
    let said = site.says(&["elf", "bind", &site.scene.at("view")]);
    site.snapshot().assert_is(&untouched);
    assert!(said.starts_with("Nothing to bind"), "{said}");
    assert!(said.contains("link"), "nothing tells that the view holds links only: {said}");
}

#[test]
fn a_store_whose_lists_lead_through_a_link_is_bound() {
    let site = Site::new();
    let real = site.tree();
    let link = site.scene.at("opt");
    symlink(&real, &link).unwrap();
    let x = site.part("x", "x", &[]);
    let list =
        format!("-Wl,--disable-new-dtags,-rpath,{link}/n:{link}/m:{link}/x/lib:{link}/y/lib");
    let y = site.part("y", "y", &[&list, &x]);
    let app = site.ask("app", &[&list, &y]);
    let before = shown(&app, &["x", "y"]);
    for path in [&link, &real] {
        site.bind_at(path, &[]);
        assert_eq!(shown(&app, &["x", "y"]), before, "{path}");
        assert_eq!(start(&app, &[]).in_vain(), 0, "{path}");
    }
}

/// A tree that finds its libraries from where it lies.
fn movable(site: &Site) -> String {
    let origin = "-Wl,--disable-new-dtags,-rpath,$ORIGIN/../none:$ORIGIN/../../none:$ORIGIN/../lib";
    let x = site.part("moves", "x", &[]);
    let y = site.part("moves", "y", &["-Wl,--disable-new-dtags,-rpath,$ORIGIN/none:$ORIGIN", &x]);
    site.ask("moves", &[origin, &y])
}

#[test]
fn a_tree_that_finds_itself_can_still_be_moved() {
    for mode in ["needed", "farm", "closure"] {
        let site = Site::new();
        let app = movable(&site);
        let before = shown(&app, &["x", "y"]);
        site.bind(&["--mode", mode]);
        assert_eq!(shown(&app, &["x", "y"]), before, "{mode}");
        fs::rename(site.at("moves"), site.at("moved")).unwrap();
        let moved = shown(&site.at("moved/bin/ask"), &["x", "y"]);
        assert_eq!(moved.says, before.says, "{mode}");
        let there = moved.loads.iter().filter(|path| path.starts_with(site.at("moved")));
        assert_eq!(there.count(), 2, "{mode}: {:?}", moved.loads);
    }
}

#[test]
fn such_a_tree_is_bound_to_its_place_on_demand() {
    let site = Site::new();
    let app = movable(&site);
    let before = shown(&app, &["x", "y"]);
    site.bind(&["--absolute"]);
    assert_eq!(shown(&app, &["x", "y"]), before);
    assert_eq!(start(&app, &[]).in_vain(), 0);
}

/// As conda does it: one program, hard-linked into two prefixes with libraries of their own.
#[test]
fn each_prefix_of_a_linked_program_keeps_its_own_libraries() {
    for mode in ["needed", "farm", "closure"] {
        for (only_in_b, options) in [(false, &["--absolute"][..]), (true, &[])] {
            let site = Site::new();
            let x = site.part(if only_in_b { "c" } else { "a" }, "x", &[]);
            let y = site.part("y", "y", &[]);
            site.part("b", "x", &[]);
            let origin = "-Wl,-rpath,$ORIGIN/../none:$ORIGIN/../lib";
            let app = site.ask("a", &[origin, &site.runpath(&["c/lib", "y/lib"]), &x, &y]);
            let other = site.at("b/bin/ask");
            fs::create_dir_all(site.at("b/bin")).unwrap();
            fs::hard_link(&app, &other).unwrap();
            let ask = |app: &str| shown(app, &["x", "y"]);
            let before = (ask(&app), ask(&other));
            assert!(before.1.says.contains("x: x of b\n"), "{}", before.1.says);
            let bound = site.bind(&[&["--mode", mode], options].concat());
            assert_eq!((ask(&app), ask(&other)), before, "{mode}, {options:?}");
            if mode == "needed" {
                assert!(reason(&bound, &app).contains("several directories"), "{bound:#}");
            }
        }
    }
}

/// The plugin lies in a directory of the program's list; what it needs lies beside that directory.
#[test]
fn a_plugin_that_finds_its_libraries_from_where_it_lies_still_does() {
    for options in [&[][..], &["--absolute"], &["--mode=closure"], &["--mode=farm"]] {
        let site = Site::new();
        let x = site.part("x", "x", &[]);
        let beside = site.part("plugin/beside", "beside", &[]);
        site.part("plugin", "plugin", &["-Wl,-rpath,$ORIGIN/../beside/lib", &beside]);
        let hosts = hosting("host", "plugin");
        let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
        let list = site.runpath(&["n", "m", "x/lib", "plugin/lib"]);
        let app = site.ask("app", &[&hosts[..], &["-rdynamic", &list, &x]].concat());
        let before = shown(&app, &["host", "x"]);
        assert!(before.says.contains("host: plugin of plugin\n"), "{}", before.says);
        let bound = site.bind(options);
        assert!(changed(&bound).contains(&app.as_str()), "{options:?}: {bound:#}");
        assert_eq!(shown(&app, &["host", "x"]), before, "{options:?}");
    }
}

/// A copy beside the tree loads its own libraries, as before.
#[test]
fn a_farm_ties_no_tree_that_finds_itself_to_its_place() {
    let site = Site::new();
    let app = movable(&site);
    let bound = site.bind(&["--mode=farm"]);
    assert!(reason(&bound, &app).contains("--absolute"), "{bound:#}");
    run(Command::new("cp").args(["-a", &site.at("moves"), &site.at("copy")]));
    let copy = shown(&site.at("copy/bin/ask"), &["x", "y"]);
    let there = copy.loads.iter().filter(|path| path.starts_with(site.at("copy")));
    assert_eq!(there.count(), 2, "{:?}", copy.loads);
}

#[test]
fn strip_undoes_nothing() {
    for options in [&[][..], &["--mode=farm"], &["--mode=closure"]] {
        let site = Site::new();
        // Short lists: the names do not fit in their place, and go where strip might clear.
        let app = small(&site);
        let store = site.store(20, &[]);
        let before = (shown(&app, &["x", "y"]), shown(&store, &[]));
        site.bind(options);
        let calm = (start(&app, &[]).in_vain(), start(&store, &[]).in_vain());
        for file in site.elf_files() {
            let ran = run(Command::new("strip").arg(&file));
            assert_eq!((ran.code(), ran.err()), (0, String::new()), "{file:?}");
        }
        assert_eq!((shown(&app, &["x", "y"]), shown(&store, &[])), before, "{options:?}");
        assert_eq!((start(&app, &[]).in_vain(), start(&store, &[]).in_vain()), calm);
    }
}

#[test]
fn a_store_that_promises_never_to_change_is_refused_unless_asked() {
    for manager in ["nix", "gnu"] {
        let site = Site::new();
        fs::remove_dir(site.tree()).unwrap();
        let directory = site.scene.subdirectory(manager);
        symlink(&directory, site.tree()).unwrap();
        let app = site.store(20, &[]);
        let store = format!("{directory}/store");
        let app_prefix = Path::new(&app).ancestors().nth(2).unwrap().to_str().unwrap();
        let untouched = site.snapshot();
        // The store, a package, a file; by way of a link; and a directory that holds a store.
        for path in [&store, app_prefix, &app, &format!("{}/store", site.tree()), &directory] {
            let (status, said) = site.fails(&["elf", "bind", path]);
            assert_eq!(status, 1, "{path}");
            assert!(said.contains("--immutable"), "{path}: {said}");
            site.snapshot().assert_is(&untouched);
            assert!(site.is_untouched(), "{path}");
        }
        let bound = site.bind_at(&store, &["--immutable"]);
        let expected = if manager == "nix" { "nix" } else { "guix" };
        assert_eq!(bound["stores"], json!([{ "manager": expected, "root": store }]));
        assert_eq!(start(&app, &[]).in_vain(), 0);
    }
}

#[test]
fn stores_of_spack_and_easybuild_are_told() {
    let site = Site::new();
    let app = site.store(12, &[]);
    let prefix = Path::new(&app).ancestors().nth(2).unwrap().to_str().unwrap().to_owned();
    assert_eq!(site.bind(&["--dry-run"])["stores"], json!([]));
    let log = format!("{prefix}/easybuild/easybuild-app-3.3-20261121.120000.log");
    fs::create_dir(Path::new(&log).parent().unwrap()).unwrap();
    fs::write(&log, "== 2026-11-21 ==\n").unwrap();
    let bound = site.bind_at(&prefix, &["--dry-run"]);
    assert_eq!(bound["stores"], json!([{ "manager": "easybuild", "root": prefix }]));
    let spack = site.scene.subdirectory("tree/store/.spack-db");
    let root = Path::new(&spack).parent().unwrap();
    for path in [root.to_str().unwrap(), &site.tree()] {
        let bound = site.bind_at(path, &["--dry-run"]);
        let told = bound["stores"].as_array().unwrap();
        let spack = json!({ "manager": "spack", "root": root });
        assert!(told.contains(&spack), "{path}: {told:?}");
    }
}

#[test]
fn a_program_that_runs_meanwhile_goes_on() {
    let site = Site::new();
    let app = small(&site);
    let before = says(&app, &["x", "y"]);
    let mut command = Command::new(&app);
    let mut live = Live::start(command.args(["-", "x", "y"]).env_clear());
    live.wait_for("waiting");
    site.bind(&[]);
    let ran = live.end();
    assert_eq!((ran.code(), ran.err()), (0, String::new()));
    assert_eq!(ran.out(), "x: x of x\ny: y of y\n");
    assert_eq!(says(&app, &["x", "y"]), before);
    assert_eq!(start(&app, &[]).in_vain(), 0);
}

/// `becalm elf bind` by an ordinary user.
fn bind_as_a_user(site: &Site, state: &str, words: &[&str]) -> Command {
    let becalm = site.scene.at("becalm");
    let mut command = as_a_user(&[&[&*becalm, "elf", "bind"], words].concat());
    command.env_clear().env("XDG_STATE_HOME", state).current_dir(site.scene.directory());
    command
}

#[test]
fn an_ordinary_user_binds_his_own_tree_and_no_other_s() {
    if !is_root() {
        return;
    }
    let (scene, _) = scene_for_a_user(&[]);
    let site = Site::of(scene);
    let app = small(&site);
    let untouched = site.snapshot();
    let state = site.scene.at("state");

    for words in [&["tree"][..], &["--dry-run", "tree"]] {
        let ran = run(&mut bind_as_a_user(&site, &state, words));
        let said = ran.out();
        assert_eq!((ran.code(), ran.err()), (1, String::new()), "{said}");
        assert!(said.starts_with("Nothing can be bound: 3 files cannot be changed\n"), "{said}");
        assert!(said.replace('\n', " ").contains("belongs to user 0"), "{said}");
        assert!(said.contains(&site.tree()), "{said}");
    }
    site.snapshot().assert_is(&untouched);
    assert!(!Path::new(&state).exists());

    let ran = run(Command::new("chown").args(["-R", "65534:65534", &site.tree()]));
    assert_eq!(ran.code(), 0);
    let hidden = site.scene.subdirectory("tree/hidden");
    fs::set_permissions(&hidden, fs::Permissions::from_mode(0o000)).unwrap();
    let ran = run(&mut bind_as_a_user(&site, &state, &["--json", "tree"]));
    assert_eq!((ran.code(), ran.err()), (0, String::new()));
    let bound: Value = serde_json::from_str(&ran.out()).unwrap();
    assert!(reason(&bound, &hidden).contains("ermission denied"));
    assert_eq!(start(&app, &[]).in_vain(), 0);
    assert_eq!(fs::metadata(&app).unwrap().uid(), 65534);
}

#[test]
fn without_a_place_for_what_undo_needs_nothing_is_changed() {
    if !is_root() {
        return;
    }
    let (scene, _) = scene_for_a_user(&[]);
    let site = Site::of(scene);
    small(&site);
    run(Command::new("chown").args(["-R", "65534:65534", &site.tree()]));
    let untouched = site.snapshot();
    let state = site.scene.subdirectory("of-root");
    // A dry run needs none, and says all the same that the real one cannot be.
    for words in [&["tree"][..], &["--dry-run", "tree"]] {
        let (status, said) = failure(&run(&mut bind_as_a_user(&site, &state, words)));
        assert_eq!(status, 1);
        assert!(said.contains(&state), "{said}");
        site.snapshot().assert_is(&untouched);
    }
}

/// An empty element of a list is the directory in which the program is started, and a relative one is below it: a
/// library there comes first. Behind what is found, neither is asked.
#[test]
fn what_the_working_directory_is_asked_for_first_is_not_bound() {
    for (first, is_bound) in [(":", false), ("w/lib:", false), (".:", false), ("", true)] {
        for options in [&[][..], &["--absolute"], &["--mode=farm"], &["--mode=closure"]] {
            let site = Site::new();
            let part = site.part("a", "part", &[]);
            site.part("w", "part", &[]);
            let [n, m, a] = ["n", "m", "a/lib"].map(|name| site.at(name));
            let list = format!("-Wl,--disable-new-dtags,-rpath,{first}{n}:{m}:{a}:");
            let app = site.ask("app", &[&list, &part]);
            let directories = [site.tree(), site.at("w"), site.at("w/lib"), site.at("n")];
            fs::create_dir_all(site.at("n")).unwrap();
            let said = || {
                directories.each_ref().map(|directory| {
                    run(Command::new(&app).arg("part").current_dir(directory)).out()
                })
            };
            let before = said();
            assert_eq!(before.iter().any(|it| it.contains("part of w")), !is_bound, "{before:?}");
            let bound = site.bind(options);
            assert_eq!(said(), before, "{first} {options:?}: {bound:#}");
            // A farm would come before all of the list; and for libc, the last element is asked.
            let expected = is_bound && !options.concat().contains("mode");
            assert_eq!(
                changed(&bound).contains(&&*app),
                expected,
                "{first} {options:?}: {bound:#}"
            );
            if !is_bound {
                assert!(bound.to_string().contains("where the program is started"), "{bound:#}");
            }
        }
    }
}
