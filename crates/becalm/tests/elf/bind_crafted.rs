//! `becalm elf bind` where binding could change what is loaded: each test builds the case and
//! asks the program before and after.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use serde_json::json;
use testkit::bound::{Site, asked, changed, hosting, loads, says, says_with, shown, start};
use testkit::run;

/// The program finds x in its own list first; y, alone, would find another.
#[test]
fn of_two_files_with_one_soname_the_one_that_the_process_uses_stays() {
    for mode in ["needed", "farm", "closure"] {
        let site = Site::new();
        let x = site.part("first", "x", &[]);
        site.part("second", "x", &[]);
        let y = site.part("y", "y", &[&site.rpath(&["n", "m", "second/lib"]), &x]);
        let list = site.rpath(&["n", "m", "first/lib", "y/lib"]);
        let app = site.ask("app", &[&list, &x, &y]);
        let (before, y_before) = (shown(&app, &["x", "y"]), loads(&y, &[]));
        assert!(before.says.ends_with("x: x of first\ny: y of y\n"), "{}", before.says);
        site.bind(&["--mode", mode]);
        assert_eq!(shown(&app, &["x", "y"]), before, "{mode}");
        let of_x = |path: &&std::path::PathBuf| path.ends_with("libx.so.1");
        assert_eq!(loads(&app, &[]).iter().filter(of_x).count(), 1);
        assert_eq!(loads(&y, &[]), y_before, "what another program would get of y, with {mode}");
    }
}

/// What the middle needs is found through the list of the program that loads it.
#[test]
fn what_two_programs_find_in_two_places_stays_a_name_and_is_reported() {
    for mode in ["needed", "farm"] {
        let site = Site::new();
        let leaves = ["one", "two"].map(|prefix| site.part(prefix, "leaf", &[]));
        let middle = site.part("middle", "middle", &[&leaves[0]]);
        let ask = |prefix: &str| {
            let list = site.rpath(&["n", "m", "middle/lib", &format!("{prefix}/lib")]);
            site.ask(&format!("app-{prefix}"), &[&list, &middle])
        };
        let apps = ["one", "two"].map(ask);
        let all = || apps.each_ref().map(|app| shown(app, &["leaf", "middle"]));
        let before = all();
        let bound = site.bind(&["--mode", mode]);
        assert_eq!(all(), before, "{mode}");
        let side = |number: usize| json!({ "program": apps[number], "finds": leaves[number] });
        let conflict = json!({
            "file": middle,
            "name": "libleaf.so.1",
            "sides": [side(0), side(1)],
        });
        assert_eq!(bound["conflicts"], json!([conflict]), "{mode}");
        let again = site.bind(&["--mode", mode]);
        assert_eq!(changed(&again), Vec::<&str>::new(), "{mode}");
        let said = site.says(&["elf", "bind", "--mode", mode, &site.tree()]);
        assert!(said.contains("libleaf.so.1"), "{said}");
    }
}

/// Where a plugin is found, and who opens it by name.
const OPENERS: [&str; 4] =
    ["the program", "a library by its RPATH", "a library by its RUNPATH", "by the program's RPATH"];

/// A program that gets `plugin` by `dlopen("libplugin.so.1")`. Something else in the lists is
/// needed, so that there is something to bind.
fn program_with_plugin(site: &Site, opener: &str) -> String {
    let x = site.part("x", "x", &[]);
    let list = ["n", "m", "x/lib", "host/lib", "plugin/lib"];
    site.part("plugin", "plugin", &[&site.rpath(&["n", "m", "x/lib"]), &x]);
    let without = site.rpath(&list[..4]);
    let host = |words: &[&str]| site.host("host", "host", "plugin", words);
    match opener {
        "the program" => {
            let hosts = hosting("host", "plugin");
            let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
            site.ask("app", &[&hosts[..], &["-rdynamic", &site.rpath(&list), &x]].concat())
        }
        "a library by its RPATH" => {
            let host = host(&[&site.rpath(&["n", "m", "plugin/lib"])]);
            site.ask("app", &[&without, &host, &x])
        }
        "a library by its RUNPATH" => {
            let host = host(&[&site.runpath(&["n", "m", "plugin/lib"])]);
            site.ask("app", &[&without, &host, &x])
        }
        _ => {
            let host = host(&[]);
            site.ask("app", &[&site.rpath(&list), &host, &x])
        }
    }
}

#[test]
fn a_library_that_is_opened_by_name_is_still_found() {
    for opener in OPENERS {
        let overridable: &[&str] = &["--mode=farm", "--overridable"];
        let others = [&[][..], &["--keep-rpath=all"], &["--mode=farm"], &["--mode=closure"]];
        for options in others.into_iter().chain([overridable]) {
            let site = Site::new();
            let app = program_with_plugin(&site, opener);
            let before = shown(&app, &["host"]);
            assert!(before.says.ends_with("host: plugin of plugin\n"), "{opener}: {}", before.says);
            let bound = site.bind(options);
            assert!(changed(&bound).contains(&app.as_str()), "{opener}, {options:?}: {bound:#}");
            assert_eq!(shown(&app, &["host"]), before, "{opener}, {options:?}");
            let searched_less = options == ["--keep-rpath=all"] || start(&app, &[]).in_vain() <= 37;
            assert!(searched_less, "{opener}, {options:?}");
            let again = site.bind(options);
            assert_eq!(changed(&again), Vec::<&str>::new(), "{opener}, {options:?}, again");
        }
    }
}

#[test]
fn without_any_list_what_is_opened_by_name_is_lost_and_the_risk_is_told() {
    let site = Site::new();
    let app = program_with_plugin(&site, "the program");
    let bound = site.bind(&["--keep-rpath=none"]);
    assert_eq!(start(&app, &[]).in_vain(), 0);
    assert!(says(&app, &["host"]).contains("libplugin.so.1: cannot open shared object file"));
    let risks = bound["risks"].as_array().unwrap();
    assert!(risks.iter().any(|risk| risk.as_str().unwrap().contains("dlopen")), "{risks:?}");
}

/// `LD_DEBUG=versions` of a start that works.
fn versions(app: &str) -> String {
    let mut command = Command::new(app);
    let ran = run(command.env_clear().env("LD_DEBUG", "versions").env("LD_BIND_NOW", "1"));
    assert_eq!(ran.code(), 0, "{}", ran.err());
    ran.err()
}

#[test]
fn needed_versions_of_a_library_and_of_libc_are_still_found() {
    for mode in ["needed", "farm", "closure"] {
        let site = Site::new();
        let script = site.scene.file("map", "X_1 { global: x; local: *; };\n", 0o644);
        let x = site.part("x", "x", &[&format!("-Wl,--version-script={script}")]);
        let list = site.rpath(&["n", "m", "x/lib"]);
        let y = site.part("y", "y", &[&list, &x]);
        let app = site.ask("app", &["-DREFERS=x", &site.rpath(&["n", "x/lib", "y/lib"]), &x, &y]);
        let (before, checked) = (shown(&app, &["y"]), versions(&app).lines().count());
        let bound = site.bind(&["--mode", mode]);
        assert!(changed(&bound).contains(&app.as_str()), "{mode}: {bound:#}");
        assert_eq!(shown(&app, &["y"]), before, "{mode}");
        let said = versions(&app);
        assert!(!said.contains("error"), "{mode}: {said}");
        for version in ["`X_1' in file ", "`GLIBC_2"] {
            assert!(said.contains(version), "{mode}: no {version} in {said}");
        }
        assert!(said.lines().count() >= checked, "{mode}: fewer versions are checked: {said}");
    }
}

#[test]
fn a_program_that_relies_on_ld_library_path_still_does() {
    for kind in ["rpath", "runpath"] {
        for mode in ["needed", "farm", "closure"] {
            let site = Site::new();
            let list = |directories: &[&str]| match kind {
                "rpath" => site.rpath(directories),
                _ => site.runpath(directories),
            };
            let x = site.part("x", "x", &[]);
            let elsewhere = site.part("elsewhere", "elsewhere", &[]);
            let app = site.ask("app", &[&list(&["n", "m", "x/lib"]), &x, &elsewhere]);
            let variable = [("LD_LIBRARY_PATH", &*site.at("elsewhere/lib"))];
            let both = || (says_with(&app, &["x", "elsewhere"], &variable), loads(&app, &variable));
            let before = both();
            let missing = loads(&app, &[]);
            assert!(missing.contains(&"libelsewhere.so.1 => not found".into()), "{missing:?}");
            site.bind(&["--mode", mode]);
            assert_eq!(both(), before, "{kind}, {mode}");
            assert_eq!(loads(&app, &[]), missing, "{kind}, {mode}");
        }
    }
}

#[test]
fn a_store_that_only_ld_library_path_serves_is_left_alone() {
    let site = Site::new();
    let app = site.store(20, &["--no-rpath"]);
    let untouched = site.snapshot();
    let directories = Path::new(&app).ancestors().nth(3).unwrap().read_dir().unwrap();
    let directories = directories.map(|directory| directory.unwrap().path().join("lib"));
    let list = std::env::join_paths(directories).unwrap().into_string().unwrap();
    let variable = [("LD_LIBRARY_PATH", list.as_str())];
    let before = says_with(&app, &[], &variable);
    site.bind(&[]);
    site.snapshot().assert_is(&untouched);
    assert_eq!(says_with(&app, &[], &variable), before);
}

/// What one user's environment leads to is not what others get.
#[test]
fn ld_library_path_of_who_binds_does_not_count() {
    let site = Site::new();
    let x = site.part("x", "x", &[]);
    site.part("other", "x", &[]);
    let app = site.ask("app", &[&site.runpath(&["n", "m", "x/lib"]), &x]);
    let words = ["elf", "bind", &site.tree()];
    let ran = run(site.becalm(&words).env("LD_LIBRARY_PATH", site.at("other/lib")));
    assert_eq!((ran.code(), ran.err()), (0, String::new()));
    assert!(says(&app, &["x"]).ends_with("x: x of x\n"));
    assert_eq!(start(&app, &[]).in_vain(), 0);
}

/// An object without code that the process loads on top: its symbols come first.
#[test]
fn a_preloaded_library_still_comes_first() {
    for mode in ["needed", "farm", "closure"] {
        let site = Site::new();
        let x = site.part("x", "x", &["-DALSO=both"]);
        let app = site.ask("app", &[&site.rpath(&["n", "m", "x/lib"]), &x]);
        let on_top = site.part("top", "top", &["-DALSO=both"]);
        let preload = [("LD_PRELOAD", on_top.as_str())];
        let before = says_with(&app, &["both"], &preload);
        assert!(before.ends_with("both: top of top\n"));
        site.bind(&["--mode", mode]);
        assert_eq!(says_with(&app, &["both"], &preload), before, "{mode}");
    }
}

/// What is not edited still starts: what it loads of the tree must not change under it.
#[test]
fn a_program_that_is_left_out_loads_what_it_did() {
    for reason in ["setuid", "a name elsewhere"] {
        let site = Site::new();
        let leaves = ["one", "two"].map(|prefix| site.part(prefix, "leaf", &[]));
        let middle = site.part("middle", "middle", &[&leaves[0]]);
        let ask = |prefix: &str| {
            let list = site.rpath(&["n", "m", "middle/lib", &format!("{prefix}/lib")]);
            site.ask(&format!("app-{prefix}"), &[&list, &middle])
        };
        let apps = ["one", "two"].map(ask);
        match reason {
            "setuid" => fs::set_permissions(&apps[1], Permissions::from_mode(0o4755)).unwrap(),
            _ => fs::hard_link(&apps[1], site.scene.at("elsewhere")).unwrap(),
        }
        let all = || apps.each_ref().map(|app| shown(app, &["leaf", "middle"]));
        let before = all();
        assert!(before[1].says.contains("leaf: leaf of two\n"), "{}", before[1].says);
        site.bind(&[]);
        assert_eq!(all(), before, "{reason}");
    }
}

/// A node of another kind takes another variant: a path would fix the choice of this machine.
#[cfg(target_arch = "x86_64")] // glibc has no such directories for other processors.
#[test]
fn what_the_loader_chooses_by_the_processor_stays_its_choice() {
    let site = Site::new();
    let plain = site.part("plain", "x", &[]);
    let variant = site.part("variant", "x", &[]);
    let directory = site.at("plain/lib/glibc-hwcaps/x86-64-v2");
    fs::create_dir_all(&directory).unwrap();
    let variant_there = format!("{directory}/libx.so.1");
    fs::rename(variant, &variant_there).unwrap();
    let app = site.ask("app", &[&site.rpath(&["n", "m", "plain/lib"]), &plain]);
    let before = shown(&app, &["x"]);
    assert!(before.says.contains("x: x of variant\n"), "this machine is too old: {}", before.says);
    site.bind(&[]);
    assert_eq!(shown(&app, &["x"]), before);
    // As on a machine that has no such variant.
    fs::remove_file(variant_there).unwrap();
    assert!(says(&app, &["x"]).ends_with("x: x of plain\n"));
}

#[test]
fn what_is_found_through_the_platform_s_name_stays_a_name() {
    let site = Site::new();
    let x = site.part("x", "x", &[]);
    let machine = asked(&site.ask("probe", &[&site.rpath(&["$PLATFORM"]), &x]), &[], LIBRARY_ONLY);
    let directory = machine.iter().find_map(|asked| {
        let rest = asked.path.strip_prefix(&format!("{}/", site.tree()))?;
        let directory = rest.split('/').next()?;
        (directory != "x").then(|| directory.to_owned())
    });
    let directory = directory.unwrap();
    site.part(&directory, "y", &[]);
    let there = format!("{directory}/lib/liby.so.1");
    let app = site.ask("app", &[&site.rpath(&["n", "m", "x/lib", "$PLATFORM/lib"]), &x, &there]);
    let before = shown(&app, &["x", "y"]);
    let bound = site.bind(&[]);
    assert_eq!(shown(&app, &["x", "y"]), before);
    let names = bound["changes"].as_array().unwrap().iter().flat_map(|change| {
        change["needed"].as_array().unwrap().iter().map(|needed| needed["old"].as_str().unwrap())
    });
    assert!(names.clone().all(|name| name != "liby.so.1"), "{bound:#}");
    assert!(names.clone().any(|name| name == "libx.so.1"), "{bound:#}");
}

#[test]
fn a_dollar_in_a_directory_s_name_is_told_as_what_it_is() {
    let site = Site::new();
    let x = site.part("$x", "x", &[]);
    let app = site.ask("app", &[&site.rpath(&["n", "m", "$x/lib"]), &x]);
    let before = shown(&app, &["x"]);
    let bound = site.bind(&[]);
    assert_eq!(shown(&app, &["x"]), before);
    let mut left = bound["names_left"].as_array().unwrap().iter();
    let x = left.find(|left| left["name"] == "libx.so.1").unwrap();
    assert_eq!(x["reason"], "found in a directory with a $ in its name");
}

/// Only listed, so that a library that is missing is no failure.
const LIBRARY_ONLY: &[(&str, &str)] = &[("LD_TRACE_LOADED_OBJECTS", "1")];

/// DT_FILTER and DT_AUXILIARY name libraries that answer in another one's place; they are
/// searched, too.
#[test]
fn a_library_that_stands_for_another_still_finds_it() {
    for (option, kind) in [("-F", "filter"), ("-f", "auxiliary")] {
        for mode in ["needed", "farm", "closure"] {
            let site = Site::new();
            let real = site.part("real", "real", &["-DALSO=both"]);
            let x = site.part("x", "x", &[]);
            let stands = format!("-Wl,{option},libreal.so.1");
            let list = site.rpath(&["n", "m", "real/lib", "x/lib"]);
            let filter = site.part("filter", "filter", &["-DALSO=both", &stands, &list, &x]);
            let list = site.rpath(&["n", "m", "filter/lib", "x/lib"]);
            let app = site.ask("app", &["-DREFERS=both", &list, &filter, &x]);
            let before = shown(&app, &["both", "x"]);
            assert!(before.loads.contains(&real.into()), "{kind}: {before:?}");
            site.bind(&["--mode", mode]);
            assert_eq!(shown(&app, &["both", "x"]), before, "{kind}, {mode}");
        }
    }
}

/// libx.so and libx.so.1 lead to libx.so.1.2, as packages install them; one user names one, one
/// the other.
#[test]
fn a_library_behind_two_names_is_loaded_once() {
    for mode in ["needed", "farm", "closure"] {
        let site = Site::new();
        let x = site.part("x", "x", &["-Wl,-soname,libx.so.1.2"]);
        let other = x.replace("libx.so.1", "libx.so");
        fs::rename(&x, format!("{x}.2")).unwrap();
        for link in [&x, &other] {
            symlink("libx.so.1.2", link).unwrap();
        }
        let list = site.rpath(&["n", "m", "x/lib", "y/lib"]);
        // Linked against files without a SONAME, so that the names are those of the links.
        let nameless = |name: &str| {
            site.build(
                &format!("stub/{name}"),
                &["part.c", "-shared", "-fPIC", "-DPART=x", "-DSAYS=\"\""],
            )
        };
        nameless("libx.so.1");
        nameless("libx.so");
        let y = site.part("y", "y", &[&list, "-Lstub", "-l:libx.so"]);
        let app = site.ask("app", &[&list, "-Lstub", "-l:libx.so.1", &y]);
        let before = shown(&app, &["x", "y"]);
        let in_vain = start(&app, &[]).in_vain();
        site.bind(&["--mode", mode]);
        assert_eq!(shown(&app, &["x", "y"]), before, "{mode}");
        // Its DT_SONAME is neither name: named by a path, it would not be found by them.
        let most = [("needed", in_vain), ("farm", 37), ("closure", in_vain)];
        let most = most.iter().find(|(name, _)| *name == mode).unwrap().1;
        assert!(start(&app, &[]).in_vain() <= most, "{mode}");
    }
}
