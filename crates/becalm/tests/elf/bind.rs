//! `becalm elf bind` on whole stores: what it changes, what it spares, that it does so once, and
//! that it can be taken back.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use testkit::bound::{Site, changed, loads, says, shown, start, start_of_loader};
use testkit::run;

/// How many PT_LOAD segments a 64-bit file has, and the size of its section headers in bytes.
fn headers(path: &Path) -> (usize, u64) {
    let bytes = fs::read(path).unwrap();
    let number = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]) as usize;
    let table = u64::from_le_bytes(bytes[32..40].try_into().unwrap()) as usize;
    let entries = (0..number(56)).map(|entry| &bytes[table + entry * number(54)..]);
    let loads = entries.filter(|entry| entry[..4] == [1, 0, 0, 0]).count();
    (loads, (number(58) * number(60)) as u64)
}

fn size(path: &Path) -> u64 {
    fs::metadata(path).unwrap().len()
}

/// Binds a store of so many libraries and holds what strace, the loader and the files say
/// against what is promised.
#[track_caller]
fn is_calmed(libraries: u64, kind: &[&str]) {
    let site = Site::new();
    let app = site.store(libraries, kind);
    let (before, shown_before) = (start(&app, &[]), shown(&app, &[]));
    let sizes = site.elf_files().into_iter().map(|path| (size(&path), headers(&path), path));
    let sizes: Vec<(u64, (usize, u64), PathBuf)> = sizes.collect();

    let bound = site.bind(&[]);

    let after = start(&app, &[]);
    assert_eq!(shown(&app, &[]), shown_before);
    assert_eq!((after.failed_opens, after.failed_stats), (0, 0));
    assert!(after.opens <= libraries + 2, "{after:?}");
    assert!(after.mmaps <= before.mmaps, "{before:?} {after:?}");
    for (size_before, (loads_before, _), path) in sizes {
        let (loads, table) = headers(&path);
        assert_eq!(loads, loads_before, "PT_LOAD of {path:?}");
        // A section header more may bring the table of them to the end.
        assert!(size(&path) <= size_before + table + 8, "{path:?} grew from {size_before}");
    }
    assert_eq!(bound["predicted"]["before"], before.to_json());
    assert_eq!(bound["predicted"]["after"], after.to_json());
    assert_eq!(bound["programs"][0]["objects"], shown_before.loads.len() + 1);
}

#[test]
fn a_store_under_rpath_starts_without_one_probe_in_vain() {
    is_calmed(150, &[]);
}

#[test]
fn a_store_under_runpath_starts_without_one_probe_in_vain() {
    is_calmed(40, &["--runpath"]);
}

/// Emacs opens its compiled Lisp and libgcc by name.
#[test]
fn emacs_over_a_store_asks_in_vain_twice_at_most() {
    let site = Site::new();
    let directories = fs::read_dir("/usr/lib/emacs").unwrap();
    let lisp = directories.map(|directory| directory.unwrap().path().join("native-lisp"));
    let lisp = lisp.filter(|directory| directory.is_dir()).max().unwrap();
    let program = fs::canonicalize("/usr/bin/emacs").unwrap();
    let emacs = site.spread(&["--with", lisp.to_str().unwrap(), program.to_str().unwrap()]);
    let batch = ["--batch", "--quick", "--eval", "(princ (+ 40 2))"];
    let (before, loaded) = (start_of_loader(&emacs), loads(&emacs, &[]));
    assert!(before.in_vain() > 100, "{before:?}");

    site.bind(&[]);

    let after = start_of_loader(&emacs);
    assert_eq!(loads(&emacs, &[]), loaded);
    assert!(after.in_vain() <= 2, "{after:?}");
    assert_eq!(says(&emacs, &batch), "42");
}

#[test]
fn a_second_run_changes_nothing() {
    for mode in ["needed", "farm", "closure"] {
        let site = Site::new();
        site.store(20, &[]);
        let first = site.bind(&["--mode", mode]);
        assert!(first["applied"].is_string(), "{mode}: {first:#}");
        let bound = site.snapshot();
        let second = site.bind(&["--mode", mode]);
        let nothing = [&second["changes"], &second["applied"], &second["links"], &second["files"]];
        let expected = [json!([]), Value::Null, json!(0), json!([])];
        assert_eq!(nothing.map(Value::clone), expected, "{mode}");
        site.snapshot().assert_is(&bound);
        let said = site.says(&["elf", "bind", "--mode", mode, &site.tree()]);
        assert!(said.starts_with("Nothing to bind"), "{mode}: {said}");
    }
}

#[test]
fn undo_restores_every_byte_permission_and_time() {
    for options in [&[][..], &["--keep-rpath=all"], &["--mode=farm"], &["--mode=closure"]] {
        let site = Site::new();
        let app = site.store(20, &[]);
        // Old, and nobody's to write, as installed files are.
        for file in site.elf_files() {
            fs::set_permissions(&file, fs::Permissions::from_mode(0o555)).unwrap();
            let long_ago = std::time::UNIX_EPOCH + std::time::Duration::new(1_000_000_000, 1);
            fs::File::open(&file).unwrap().set_modified(long_ago).unwrap();
        }
        let (untouched, shown_untouched) = (site.snapshot(), shown(&app, &[]));
        let applied = site.bind(options);
        assert!(!site.snapshot().differs_in(&untouched).is_empty(), "{options:?}");
        let said = site.undo();
        assert!(said.contains(applied["applied"].as_str().unwrap()), "{said}");
        site.snapshot().assert_is(&untouched);
        assert!(!Path::new(&site.at(".becalm")).exists());
        assert_eq!(shown(&app, &[]), shown_untouched);
    }
}

#[test]
fn undo_refuses_what_was_built_anew_meanwhile() {
    let site = Site::new();
    site.store(12, &[]);
    let bound = site.bind(&[]);
    let rebuilt = changed(&bound)[0];
    fs::write(rebuilt, "another build").unwrap();
    let bound_tree = site.snapshot();
    let (status, said) = site.fails(&["undo", bound["applied"].as_str().unwrap()]);
    assert_eq!(status, 1);
    assert!(said.contains(rebuilt), "{said}");
    site.snapshot().assert_is(&bound_tree);
}

#[test]
fn of_a_bound_store_only_a_package_that_came_later_is_changed() {
    let site = Site::new();
    let app = site.store(20, &[]);
    site.bind(&[]);
    let bound = site.snapshot();
    let directories = Path::new(&app).ancestors().nth(3).unwrap().read_dir().unwrap();
    let parts: Vec<String> = directories
        .map(|directory| format!("{}/lib", directory.unwrap().path().to_str().unwrap()))
        .filter(|directory| Path::new(directory).is_dir())
        .collect();
    let part000 = parts.iter().find(|directory| directory.contains("part000")).unwrap();
    let library = format!("{part000}/libpart000.so.1");
    let rpath = format!("-Wl,--disable-new-dtags,-rpath,{}", parts.join(":"));
    let ask = site.ask("late", &[&rpath, &library]);
    let before = shown(&ask, &["nobody"]);

    let later = site.bind(&[]);

    assert_eq!(changed(&later), [ask.as_str()]);
    assert_eq!(site.snapshot().differs_in(&bound).len(), 3, "a program and two directories");
    assert_eq!(shown(&ask, &["nobody"]), before);
    assert_eq!(start(&ask, &[]).in_vain(), 0);
}

#[test]
fn a_single_file_is_bound_alone() {
    let site = Site::new();
    let app = site.store(20, &[]);
    let before = (start(&app, &[]), shown(&app, &[]));
    let untouched = site.snapshot();
    let bound = site.bind_at(&app, &[]);
    assert_eq!(changed(&bound), [app.as_str()]);
    assert_eq!(site.snapshot().differs_in(&untouched), [Path::new(&app)]);
    assert_eq!(shown(&app, &[]), before.1);
    assert!(start(&app, &[]).in_vain() < before.0.in_vain());
}

/// What a plan does to the tree, whatever way led to it.
fn plan_of(bound: &Value) -> [&Value; 5] {
    ["changes", "directories", "links", "risks", "predicted"].map(|field| &bound[field])
}

#[test]
fn a_tree_is_bound_alike_by_whatever_path_it_is_named() {
    for mode in ["needed", "farm"] {
        let site = Site::new();
        site.store(12, &[]);
        let link = site.scene.at("link");
        std::os::unix::fs::symlink(site.tree(), &link).unwrap();
        let by_path = site.bind(&["--dry-run", "--mode", mode]);
        for name in ["tree", "./tree/", "tree/../tree", &link] {
            let by_name = site.bind_at(name, &["--dry-run", "--mode", mode]);
            assert_eq!(plan_of(&by_name), plan_of(&by_path), "{name} with {mode}");
        }
        let twice =
            site.says(&["elf", "bind", "--json", "--dry-run", "--mode", mode, "tree", &link]);
        let twice: Value = serde_json::from_str(&twice).unwrap();
        assert_eq!(plan_of(&twice), plan_of(&by_path), "named twice with {mode}");
    }
}

#[test]
fn names_that_are_no_plain_words_are_bound_like_others() {
    let site = Site::new();
    let odd = "a space 'quotes' and \u{e9}";
    let list = site.rpath(&["a/lib", "b/lib", &format!("{odd}/lib")]);
    let library = site.part("plain", "x", &[]);
    let odd_library = site.at(&format!("{odd}/lib/libx.so.1"));
    fs::create_dir_all(site.at(&format!("{odd}/lib"))).unwrap();
    fs::rename(&library, &odd_library).unwrap();
    let app = site.ask(odd, &[&list, &odd_library]);
    let before = shown(&app, &["x"]).says;
    let bound = site.bind(&[]);
    assert!(changed(&bound).contains(&app.as_str()), "{bound:#}");
    assert_eq!(says(&app, &["x"]), before);
    assert_eq!(start(&app, &[]).in_vain(), 0);
    let said = site.says(&["elf", "bind", &site.tree()]);
    assert!(said.starts_with("Nothing to bind"), "{said}");
}

#[test]
fn a_dry_run_writes_nothing_and_says_what_to_run() {
    let site = Site::new();
    let app = site.store(20, &[]);
    let untouched = site.snapshot();
    for mode in ["needed", "farm", "closure"] {
        let said = site.says(&["elf", "bind", "--dry-run", "--mode", mode, &site.tree()]);
        assert!(said.starts_with("Would bind"), "{said}");
        let next = format!("Next: becalm elf bind --mode {mode} {}\n", site.tree());
        assert!(said.ends_with(&next), "{said}");
        assert_eq!(site.bind(&["--dry-run", "--mode", mode])["applied"], Value::Null);
    }
    site.snapshot().assert_is(&untouched);
    assert!(site.is_untouched());
    assert!(start(&app, &[]).in_vain() > 0);
}

#[test]
fn the_plan_can_be_saved_and_is_what_is_then_applied() {
    let site = Site::new();
    site.store(12, &[]);
    let file = site.scene.at("plan.json");
    let planned = site.bind(&["--dry-run", "--plan", &file]);
    let plan = testkit::answer::parse(fs::read(&file).unwrap());
    assert_eq!(plan["schema"], "becalm.plan/1");
    assert_eq!(plan["title"], format!("elf bind {}", site.tree()));
    assert_eq!(plan["predicted"], planned["predicted"]);
    let steps = plan["steps"].as_array().unwrap().iter();
    let (patches, others): (Vec<_>, Vec<_>) = steps.partition(|step| step["do"] == "patch");
    let patched: Vec<_> = patches.iter().map(|step| step["path"].as_str().unwrap()).collect();
    assert_eq!(patched, changed(&planned));
    // The C library, which is named and stays as it is.
    assert!(others.iter().all(|step| step["do"] == "rely"), "{others:?}");
    assert!(others.iter().any(|step| step["path"].as_str().unwrap().contains("libc.so")));
    assert_eq!(changed(&site.bind(&[])), patched);
}

#[test]
fn its_json_is_what_the_schema_says() {
    let site = Site::new();
    // Two programs that disagree, a library that nobody loads, one with two names, a store, and
    // something that is left out.
    fs::create_dir_all(site.at(".spack-db")).unwrap();
    let middle = site.part("middle", "middle", &[]);
    for prefix in ["one", "two"] {
        let leaf = site.part(prefix, "leaf", &[]);
        let list = site.rpath(&["none", "middle/lib", &format!("{prefix}/lib")]);
        site.ask(prefix, &[&list, &middle, &leaf]);
    }
    site.part("middle", "middle", &["one/lib/libleaf.so.1"]);
    let used = site.part("used", "used", &[]);
    let list = site.rpath(&["none", "used/lib", "missing"]);
    let alone = site.part("alone", "alone", &[&list, &used]);
    fs::hard_link(&alone, format!("{alone}.0")).unwrap();
    site.part("alone", "cuda", &[&list, &used]);
    let gone = site.part("gone", "gone", &[]);
    site.ask("incomplete", &[&site.rpath(&["none", "one/lib"]), "one/lib/libleaf.so.1", &gone]);
    fs::remove_file(gone).unwrap();
    let changing = ["changes", "libraries", "left_out", "conflicts", "stores"];
    let always = &changing[2..];
    for (options, has) in [(&["--dry-run"][..], &changing[..]), (&[], &changing), (&[], always)] {
        let bound = site.bind(options);
        assert!(has.iter().all(|list| bound[list][0].is_object()), "{bound:#}");
    }
}

#[test]
fn wrong_usage_is_told_from_a_path_that_is_not_there() {
    let site = Site::new();
    let usage = testkit::run(&mut site.becalm(&["elf", "bind"]));
    assert_eq!(usage.code(), 2);
    assert!(usage.err().contains("<PATH>"), "{}", usage.err());
    let missing = site.at("missing");
    let (status, said) = site.fails(&["elf", "bind", &missing]);
    assert_eq!((status, said.contains(&missing)), (1, true), "{said}");
    assert!(site.is_untouched());
}

#[test]
fn where_there_is_nothing_to_bind_it_says_so() {
    let site = Site::new();
    assert_eq!(site.says(&["elf", "bind", &site.tree()]), "Nothing to bind\n");
    site.scene.file("tree/script", "#!/bin/sh\n", 0o755);
    site.scene.file("tree/libtext.so", "INPUT(-lc)\n", 0o644);
    assert_eq!(site.says(&["elf", "bind", &site.tree()]), "Nothing to bind\n");
    assert!(site.is_untouched());
}

/// What stat(2) and the extended attributes say of a file, but for what is new in a new file:
/// inode number, change time, birth time.
fn all_of(path: &str) -> String {
    let format = "%A %u:%g %s bytes in %b blocks, %h links, %.9X, %.9Y";
    let stat = run(Command::new("stat").args(["-c", format, path]));
    let names = ["-d", "-m", "-", "--absolute-names", "-e", "hex", path];
    let attributes = run(Command::new("getfattr").args(names));
    format!("{}{}", stat.out(), attributes.out())
}

#[test]
fn undone_a_file_has_its_bytes_its_times_and_its_holes() {
    let site = Site::new();
    let app = site.store(12, &[]);
    let files: Vec<String> =
        site.elf_files().iter().map(|path| path.to_str().unwrap().to_owned()).collect();
    for (number, file) in files.iter().enumerate() {
        // Holes where a linker left zeros, and one behind all of it.
        let holes = [vec!["fallocate", "--dig-holes", file], vec!["truncate", "-s", "200M", file]];
        for words in &holes[..number % 3] {
            assert_eq!(run(Command::new(words[0]).args(&words[1..])).code(), 0, "{words:?}");
        }
        let name = ["-n", "user.origin", "-v", "here", file];
        assert_eq!(run(Command::new("setfattr").args(name)).code(), 0);
        let times = ["-a", "-d", "1999-12-31 23:59:59.987654321", file];
        assert_eq!(run(Command::new("touch").args(times)).code(), 0);
        assert_eq!(run(Command::new("sync").arg(file)).code(), 0);
    }
    let all = || files.iter().map(|file| all_of(file)).collect::<Vec<_>>();
    let before = all();
    let planned = site.bind(&["--dry-run"]);
    assert_eq!(
        (all(), changed(&planned).len()),
        (before.clone(), files.len()),
        "a look leaves all"
    );
    site.bind(&[]);
    for (bound, before) in all().iter().zip(&before) {
        let blocks = |text: &str| -> u64 {
            text.split(' ').nth(5).unwrap().parse().unwrap_or_else(|_| panic!("{text}"))
        };
        assert!(blocks(bound) <= blocks(before) + 32, "{before}{bound}");
    }
    assert_eq!(start(&app, &[]).in_vain(), 0);
    // A start is an access, and becalm cannot tell that from others: undoing takes it back.
    site.undo();
    assert_eq!(all(), before);
}
