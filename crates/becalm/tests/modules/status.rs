//! `becalm modules status`: what is, what it costs, and what would help.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::scene::site::{Site, VERSIONS};

fn steps(answer: &Value) -> Vec<(&str, &str, Option<u64>)> {
    let steps = answer["steps"].as_array().unwrap().iter();
    steps
        .map(|step| {
            let calls = step["avail_calls"].as_u64();
            (step["step"].as_str().unwrap(), step["state"].as_str().unwrap(), calls)
        })
        .collect()
}

fn states<'a>(answer: &'a Value, of: &str) -> Vec<&'a str> {
    let paths = answer["modulepaths"].as_array().unwrap().iter();
    paths.map(|path| path[of]["state"].as_str().unwrap()).collect()
}

#[test]
fn a_site_is_asked_calmed_and_asked_again() {
    for version in VERSIONS {
        let site = Site::some_of_the_cookbook(version).of_a_user();
        let before = site.content();
        let (status, answer) = site.answer(&["status"]);
        assert_eq!(status, 1, "{version}");
        assert_eq!(site.content(), before, "{version}: it writes nothing");
        let audit = site.answer(&["audit"]).1;
        let avail = |answer: &Value| answer["costs"][0]["measured"]["calls"].clone();
        assert_eq!(avail(&answer), avail(&audit), "{version}");
        let each = answer["modulepaths"].as_array().unwrap().iter();
        let each: u64 = each.map(|path| path["avail_calls"].as_u64().unwrap()).sum();
        let measured = avail(&answer);
        let measured: u64 =
            measured.as_object().unwrap().values().map(|number| number.as_u64().unwrap()).sum();
        assert_eq!(each, measured, "{version}: the model is what the real command does");
        assert_eq!(states(&answer, "index"), ["absent", "absent"]);
        let told = steps(&answer);
        assert_eq!(told[0], ("extension_library", "done", Some(measured)), "{version}");
        let merged = told[1].2.unwrap_or(measured);
        // An ordinary user cannot hide from each just what each does not see.
        let unchecked = told[2].2.unwrap_or(merged);
        assert!(merged <= measured && unchecked <= merged, "{version}: {told:?}");
        assert_eq!((told[5].0, told[5].1), ("index", "helps"), "{version}");
        assert!(told[5].2.unwrap() < unchecked.min(merged), "{version}: {told:?}");
        let next = answer["next"].as_str().unwrap();
        assert_eq!(next, format!("becalm modules calm {}", site.paths.join(" ")));

        let (status, calmed) = site.answer(&["calm", "--apply"]);
        assert_eq!(status, 0, "{version}: {calmed:#}");
        let (status, answer) = site.answer(&["status"]);
        assert_eq!((status, &answer["calm"]), (0, &Value::Bool(true)), "{version}: {answer:#}");
        assert_eq!(states(&answer, "index"), ["true", "true"]);
        assert_eq!(answer["next"], "");

        fs::write(Path::new(&site.paths[0]).join("liba/9.0"), "#%Module\n").unwrap();
        let (status, answer) = site.answer(&["status"]);
        assert_eq!(status, 1, "{version}");
        assert_eq!(states(&answer, "index"), ["wrong", "true"]);
    }
}

#[test]
fn a_modules_without_its_library_is_told_to_have_it_first() {
    let site = Site::some_of_the_cookbook("newest");
    fs::remove_file(site.modulecmd.with_file_name("libtclenvmodules.so")).unwrap();
    let site = site.of_a_user();
    let (_, answer) = site.answer(&["status"]);
    let (step, state, with_it) = steps(&answer)[0];
    assert_eq!((step, state), ("extension_library", "helps"));
    let calls = answer["costs"][0]["measured"]["calls"].as_object().unwrap();
    let without: u64 = calls.values().map(|number| number.as_u64().unwrap()).sum();
    assert!(without > with_it.unwrap(), "{without}");
}

#[test]
fn a_modulepath_that_cannot_be_looked_at_is_named_and_the_rest_is_told() {
    let mut site = Site::empty("5.2");
    site.module("m/gcc/13");
    site.paths.push(site.scene.at("missing"));
    let said = site.of_a_user().becalm(&["modules", "status"]);
    assert_eq!((said.code(), said.err().as_str()), (1, ""));
    assert!(said.out().starts_with("1 modulefile in 1 modulepath: avail makes "), "{}", said.out());
    assert!(said.out().contains("missing: it is not there"), "{}", said.out());
    assert!(said.out().lines().count() < 30, "one screen: {}", said.out());
}

#[test]
fn a_wrong_cache_of_somebody_elses_is_told_and_is_not_calm() {
    let mut site = Site::empty("newest");
    site.module("m/gcc/13");
    fs::write(site.scene.at("m/.modulecache"), "#%Module5.3\nexec touch /tmp/x\n").unwrap();
    // An ordinary user looks at root's; without root, it is his own, and can be built anew.
    site.is_a_users = true;
    let (status, answer) = site.answer(&["status"]);
    assert_eq!((status, states(&answer, "cache")), (1, vec!["wrong"]), "{answer:#}");
}

#[test]
fn where_module_is_lmods_nothing_is_said_of_another_modules() {
    let mut site = Site::empty("5.2");
    site.module("m/gcc/13");
    for words in [&["status"][..], &["calm"], &["explain", "avail"]] {
        let becalm = site.scene.at("becalm");
        let mut command = site.command(&[&[becalm.as_str(), "modules"], words].concat());
        let ran = testkit::run(command.env_remove("MODULES_CMD").env("LMOD_CMD", "/opt/lmod"));
        assert_eq!(ran.code(), 1);
        assert!(ran.err().starts_with("becalm: module is Lmod's in this shell"), "{}", ran.err());
    }
}

#[test]
fn without_a_modulepath_it_is_wrong_usage() {
    for verb in ["status", "calm"] {
        let ran = Site::empty("5.2").becalm(&["modules", verb]);
        assert_eq!(ran.code(), 2);
        assert_eq!(ran.err(), "becalm: MODULEPATH is not set: name the modulepaths\n");
    }
}
