//! `becalm elf tree`: what it shows is what the real loader does.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use testkit::bound::{LoaderCall, Site, asked, asked_until, loads, reason, start, sum};
use testkit::run;

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
fn probes(tree: &Value) -> Vec<LoaderCall> {
    let probe = |probe: &Value| {
        let call = match probe["call"].as_str().unwrap() {
            "open" => "open",
            "stat" => "stat",
            _ => return None,
        };
        let answer = probe["answer"].as_str().unwrap();
        let error = (answer.starts_with('E')).then(|| answer.to_owned());
        Some(LoaderCall { call, path: probe["path"].as_str().unwrap().to_owned(), error })
    };
    tree["probes"].as_array().unwrap().iter().filter_map(probe).collect()
}

#[test]
fn the_probes_are_those_that_strace_sees_one_by_one() {
    for kind in [&[][..], &["--runpath"], &["--no-rpath"]] {
        let site = Site::new();
        let app = site.store(40, kind);
        let directories = Path::new(&app).ancestors().nth(3).unwrap().read_dir().unwrap();
        let directories = directories.map(|directory| directory.unwrap().path().join("lib"));
        let list = std::env::join_paths(directories).unwrap().into_string().unwrap();
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
    assert!(headline.contains("none of which failed"), "{headline}");
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
    assert_eq!(value["not_found"][0]["name"], "libx.so.1");
    let ran = run(&mut site.becalm(&["elf", "tree", &app]));
    assert_eq!((ran.code(), ran.err()), (1, String::new()));
    let said = ran.out();
    assert!(said.lines().next().unwrap().contains("1 is not found"), "{said}");
    assert!(said.contains("libx.so.1: not found"), "{said}");
}

/// ld.so gives up at the first library that it does not find; ldd goes on, and so does the tree.
#[test]
fn the_probes_of_a_start_that_fails_are_those_that_strace_sees() {
    let site = Site::new();
    let app = site.store(12, &[]);
    let parts = site.elf_files().into_iter().filter(|path| path.to_str().unwrap().contains(".so"));
    for part in parts.step_by(4) {
        let aside = part.with_extension("aside");
        fs::rename(&part, &aside).unwrap();
        let (status, tree) = tree(&site, &[&app]);
        let mut real = asked_until(127, &app, &[], &[]);
        real.retain(|asked| asked.call != "mmap");
        assert_eq!((status, probes(&tree)), (1, real.clone()), "{}", part.display());
        assert_eq!(tree["ends_after_probe"], tree["probes"].as_array().unwrap().len());
        assert_eq!(tree["searches"], sum(&real).to_json());
        let ran = run(&mut site.becalm(&["elf", "tree", "--probes", &app]));
        assert_eq!(ran.out().lines().count(), tree["probes"].as_array().unwrap().len());
        assert!(ran.err().contains("the start ends here: libpart"), "{}", ran.err());
        let without: Value =
            serde_json::from_str(&run(&mut site.becalm(&["elf", "tree", "--json", &app])).out())
                .unwrap();
        assert_eq!(without["ends_after_probe"], tree["ends_after_probe"]);
        let bound = site.bind(&[]);
        let told = |side: &str| bound["programs"][0][side].clone();
        assert_eq!(told("before"), sum(&real).to_json(), "{}", part.display());
        assert_eq!(told("after"), sum(&asked_until(127, &app, &[], &[])).to_json());
        site.undo();
        fs::rename(&aside, &part).unwrap();
    }
}

/// An ELF file of a machine, without code, that names `/lib/ld-linux.so.2`: so do those of
/// SPARC and SuperH.
fn made_for(machine: u16, wide: bool, big: bool) -> Vec<u8> {
    let interpreter = b"/lib/ld-linux.so.2\0";
    let number = |value: u64, size: usize| match big {
        true => value.to_be_bytes()[8 - size..].to_vec(),
        false => value.to_le_bytes()[..size].to_vec(),
    };
    let (word, header, entry) = if wide { (8, 64, 56) } else { (4, 52, 32) };
    let (at, dynamic) = (header + 3 * entry, header + 3 * entry + 32);
    let mut file = vec![0x7f, b'E', b'L', b'F', 1 + u8::from(wide), 1 + u8::from(big), 1];
    file.resize(16, 0);
    let field = |file: &mut Vec<u8>, value: usize, size| file.extend(number(value as u64, size));
    // e_type … e_shstrndx
    for (value, size) in [(3, 2), (machine.into(), 2), (1, 4), (0, word), (header, word), (0, word)]
        .into_iter()
        .chain([(0, 4), (header, 2), (entry, 2), (3, 2), (0, 2), (0, 2), (0, 2)])
    {
        field(&mut file, value, size);
    }
    for (kind, from, size) in
        [(3, at, interpreter.len()), (1, 0, dynamic + 2 * word), (2, dynamic, 2 * word)]
    {
        field(&mut file, kind, 4);
        if wide {
            field(&mut file, 4, 4);
        }
        [from, from, from, size, size].iter().for_each(|value| field(&mut file, *value, word));
        if !wide {
            field(&mut file, 4, 4);
        }
        field(&mut file, 4096, word);
    }
    file.extend(interpreter);
    file.resize(dynamic + 2 * word, 0);
    file
}

/// `/lib/ld-linux.so.2` is the loader of i386 here, and of other machines elsewhere.
#[test]
fn a_file_for_another_machine_is_never_simulated_by_our_loaders_rules() {
    let mut machines = vec![
        (2, false, true, "32-bit SPARC"),
        (18, false, true, "32-bit SPARC"),
        (43, true, true, "64-bit SPARC"),
        (42, false, false, "SuperH"),
        (0x9026, true, false, "Alpha"),
        (15, false, true, "HP PA-RISC"),
        (4, false, true, "m68k"),
        (8, false, true, "mips"),
        (8, true, false, "mips64el"),
        (20, false, true, "32-bit PowerPC"),
        (21, true, false, "ppc64le"),
        (22, true, true, "s390x"),
        (243, true, false, "64-bit RISC-V"),
        (40, false, false, "32-bit ARM"),
        (258, true, false, "LoongArch"),
        (62, false, false, "x32"),
        (62, true, true, "x86-64 in big-endian byte order"),
        (3, true, false, "i386 with an impossible header"),
        (999, true, false, "another machine (e_machine 999)"),
    ];
    // Whose loaders are simulated otherwise, where that file is there.
    if cfg!(target_arch = "x86_64") {
        machines.push((183, true, false, "AArch64"));
        machines.push((62, true, false, "/lib/ld-linux.so.2 is a loader for i386"));
    }
    let site = Site::new();
    let of = |(machine, wide, big, name)| {
        let made = made_for(machine, wide, big);
        let file = format!("tree/for-{machine}-{wide}-{big}");
        let path = site.scene.file(&file, &made, 0o755);
        let (status, said) = site.fails(&["elf", "tree", "--probes", &path]);
        assert!(status == 1 && said.contains(name), "{name}: {said}");
        for length in [4, 16, 20, 52, 64, 120, made.len() - 1] {
            let cut = site.scene.file("cut", &made[..length], 0o755);
            assert_eq!(site.fails(&["elf", "tree", &cut]).0, 1, "{name}, cut at {length}");
        }
        (path, name)
    };
    let paths: Vec<_> = machines.into_iter().map(of).collect();
    let (before, app) = (site.snapshot(), made_for(3, false, false));
    let bound = site.bind(&[]);
    for (path, name) in &paths {
        let name = name.rsplit(' ').next().unwrap();
        assert!(reason(&bound, path).contains(name), "{name}: {}", reason(&bound, path));
    }
    assert!(site.snapshot() == before && site.is_untouched());
    if cfg!(target_arch = "x86_64") {
        let path = site.scene.file("tree/ours", &app, 0o755);
        assert_eq!(tree(&site, &[&path]).0, 0, "of our own machines, it is simulated");
    }
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
    let directory = site.tree();
    let missing = site.at("missing");
    for path in [&text, &cut, &directory, &missing] {
        let (status, said) = site.fails(&["elf", "tree", path]);
        assert_eq!(status, 1, "{said}");
        assert!(said.contains(path.as_str()), "{said}");
    }
    assert_eq!(run(&mut site.becalm(&["elf", "tree"])).code(), 2);
}

#[test]
fn its_json_is_what_the_schema_says() {
    let site = Site::new();
    let x = site.part("x", "x", &[]);
    let app = site.ask("app", &[&site.rpath(&["n", "x/lib"]), &x]);
    let whole = tree(&site, &[&app]).1;
    assert_eq!(whole["ends_after_probe"], Value::Null);
    let without: Value =
        serde_json::from_str(&site.says(&["elf", "tree", "--json", &app])).unwrap();
    assert_eq!(without.get("probes"), None);
    fs::remove_file(&x).unwrap();
    let (_, broken) = tree(&site, &[&app]);
    assert!(broken["ends_after_probe"].is_u64());
}
