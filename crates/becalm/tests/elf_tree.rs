//! `becalm elf tree`: what it shows is what the real loader does.

#![allow(clippy::unwrap_used)] // A test program.

mod schema;
mod support;

use std::fs;
use std::path::{Path, PathBuf};

use schema::Schema;
use serde_json::Value;
use support::bound::{Asked, Site, asked, loads, start};
use support::run;

/// `becalm elf tree --json --probes`, and its exit status.
#[track_caller]
fn tree(site: &Site, words: &[&str]) -> (i32, Value) {
    let words = [&["elf", "tree", "--json", "--probes"], words].concat();
    let ran = run(&mut site.becalm(&words));
    assert_eq!(ran.err(), "");
    (ran.code(), serde_json::from_str(&ran.out()).unwrap())
}

/// The files that it says are loaded, beside the program itself and the kernel's own, without
/// links.
fn libraries(tree: &Value) -> Vec<PathBuf> {
    let paths = tree["objects"].as_array().unwrap()[1..].iter().map(|object| &object["path"]);
    let paths = paths.map(|path| PathBuf::from(path.as_str().unwrap()));
    paths.filter(|path| path.is_absolute()).map(|path| path.canonicalize().unwrap()).collect()
}

/// The opens and stats that it says are made.
fn probes(tree: &Value) -> Vec<Asked> {
    let probe = |probe: &Value| {
        let call = match probe["call"].as_str().unwrap() {
            "open" => "open",
            "stat" => "stat",
            _ => return None,
        };
        let answer = probe["answer"].as_str().unwrap();
        let error = (answer.starts_with('E')).then(|| answer.to_owned());
        Some(Asked { call, path: probe["path"].as_str().unwrap().to_owned(), error })
    };
    tree["probes"].as_array().unwrap().iter().filter_map(probe).collect()
}

#[test]
fn the_probes_are_those_that_strace_sees_one_by_one() {
    for kind in [&[][..], &["--runpath"], &["--no-rpath"]] {
        let site = Site::new();
        let app = site.store(40, kind);
        let folders = Path::new(&app).ancestors().nth(3).unwrap().read_dir().unwrap();
        let folders = folders.map(|folder| folder.unwrap().path().join("lib"));
        let list = std::env::join_paths(folders).unwrap().into_string().unwrap();
        let (mut words, mut variables) = (vec![], vec![]);
        if kind == ["--no-rpath"] {
            words.extend(["--library-path", &list]);
            variables.push(("LD_LIBRARY_PATH", list.as_str()));
        }
        words.push(&app);
        let (status, tree) = tree(&site, &words);
        let mut real = asked(&app, &[], &variables);
        real.retain(|asked| asked.call != "mmap");
        assert_eq!(probes(&tree), real, "{kind:?}");
        assert_eq!(status, 0);
        assert_eq!(libraries(&tree), loads(&app, &variables), "{kind:?}");
    }
}

#[test]
fn of_a_bound_store_it_says_that_none_is_in_vain() {
    let site = Site::new();
    let app = site.store(20, &[]);
    let before = tree(&site, &[&app]).1;
    assert_eq!(before["searches"], start(&app, &[]).to_json());
    site.bind(&[]);
    let (status, after) = tree(&site, &[&app]);
    assert_eq!(status, 0);
    assert_eq!(after["searches"], start(&app, &[]).to_json());
    assert_eq!(libraries(&after), loads(&app, &[]));
    assert_eq!(libraries(&after), libraries(&before));
    let said = site.says(&["elf", "tree", &app]);
    let headline = said.lines().next().unwrap();
    assert!(headline.contains("none in vain"), "{headline}");
}

#[test]
fn a_library_is_shown_as_ldd_shows_it() {
    let site = Site::new();
    let x = site.part("x", "x", &[]);
    let y = site.part("y", "y", &[&site.rpath(&["n", "x/lib"]), &x]);
    let (status, tree) = tree(&site, &[&y]);
    assert_eq!((status, libraries(&tree)), (0, loads(&y, &[])));
}

#[test]
fn a_library_that_is_not_found_is_exit_status_1_and_named() {
    let site = Site::new();
    let x = site.part("x", "x", &[]);
    let app = site.ask("app", &[&site.rpath(&["n", "x/lib"]), &x]);
    fs::remove_file(&x).unwrap();
    let (status, value) = tree(&site, &[&app]);
    assert_eq!((status, &value["complete"]), (1, &Value::Bool(false)));
    assert_eq!(value["missing"][0]["name"], "libx.so.1");
    let ran = run(&mut site.becalm(&["elf", "tree", &app]));
    assert_eq!((ran.code(), ran.err()), (1, String::new()));
    let said = ran.out();
    assert!(said.lines().next().unwrap().contains("1 is not found"), "{said}");
    assert!(said.contains("libx.so.1: not found"), "{said}");
}

#[test]
fn its_probes_are_a_line_each() {
    let site = Site::new();
    let app = site.store(12, &[]);
    let said = site.says(&["elf", "tree", "--probes", &app]);
    assert_eq!(said.lines().count(), tree(&site, &[&app]).1["probes"].as_array().unwrap().len());
    let missing = said.lines().find(|line| line.contains("ENOENT")).unwrap();
    assert!(missing.contains(&site.tree()) || missing.contains("/etc/"), "{missing}");
}

#[test]
fn what_cannot_be_simulated_is_one_line() {
    let site = Site::new();
    let text = site.scene.file("tree/text", "no program", 0o755);
    let cut = site.scene.file("tree/cut", b"\x7fELF\x02\x01\x01", 0o755);
    let folder = site.tree();
    let missing = site.at("missing");
    for path in [&text, &cut, &folder, &missing] {
        let (status, said) = site.fails(&["elf", "tree", path]);
        assert_eq!(status, 1, "{said}");
        assert!(said.contains(path.as_str()), "{said}");
    }
    assert_eq!(run(&mut site.becalm(&["elf", "tree"])).code(), 2);
}

#[test]
fn its_json_is_what_the_schema_says() {
    let schema = Schema::of(include_str!("../../../docs/schema/becalm.elf.tree.md"));
    schema.holds(&schema.example(), "example");
    let site = Site::new();
    let x = site.part("x", "x", &[]);
    let app = site.ask("app", &[&site.rpath(&["n", "x/lib"]), &x]);
    let whole = tree(&site, &[&app]).1;
    schema.holds(&whole, "with `--probes`");
    assert_eq!(whole["ends_after_probe"], Value::Null);
    let without: Value =
        serde_json::from_str(&site.says(&["elf", "tree", "--json", &app])).unwrap();
    schema.holds(&without, "neither");
    fs::remove_file(&x).unwrap();
    let (_, broken) = tree(&site, &[&app]);
    schema.holds(&broken, "with `--probes`");
    schema.holds(&broken, "where something is missing");
    assert!(broken["ends_after_probe"].is_u64());
}
