//! `becalm modules answer`, where a modulefile has a command of its own by the name of one of Tcl's: it is
//! called by whom it is called without becalm, and by nobody else.

use std::time::Duration;

use crate::answer::{Asking, settle};
use crate::scene::lmod::{LMODS, LmodScene};
use crate::scene::{Modulepath, all};

/// Ways in which a command goes, or another takes its place.
const WAYS: [(&str, &str); 5] = [
    ("renamed", "rename NAME my_NAME"),
    ("printing", "proc NAME {args} {puts stderr \"called: $args\"; return 0}"),
    (
        "wrapped",
        "rename NAME my_NAME; proc NAME {args} {puts stderr wrapped; uplevel 1 my_NAME $args}",
    ),
    ("alias", "interp alias {} NAME {} puts stderr"),
    ("hidden", "interp hide {} NAME"),
];

const NAMES: [&str; 6] = ["info", "file", "string", "lsort", "split", "return"];

/// A modulefile that reads a variable before, another one later, and asks for one that is not set.
fn modulefile(name: &str, way: &str) -> String {
    let replaces = way.replace("NAME", name);
    format!(
        "#%Module\nsetenv ONE $env(SITE_ONE)\n{replaces}\nsetenv TWO $::env(SITE_TWO)\n\
         catch {{set ::env(SITE_NONE)}} said\nsetenv SAID $said\nsetenv ALL [array get ::env SITE*]\n"
    )
}

#[test]
fn a_command_that_a_modulefile_replaces_is_called_by_it_alone() {
    let scene = Modulepath::new();
    for name in NAMES {
        for (how, way) in WAYS {
            scene.file(&format!("{how}/{name}"), &modulefile(name, way));
        }
    }
    settle();
    for (at, modules) in all().iter().enumerate() {
        // Each release by one way, and one of them by all.
        for (how, _) in WAYS.iter().skip(at % WAYS.len()).take(if at == 0 { WAYS.len() } else { 1 })
        {
            for name in NAMES {
                let module = format!("{how}/{name}");
                for value in ["first", "second"] {
                    let asking = Asking::new(&scene, modules);
                    let asking = asking.with("SITE_ONE", value).with("SITE_TWO", value);
                    asking.agree(&["load", &module]);
                    asking.agree(&["load", &module]);
                    let why = asking.why(&["load", &module]);
                    assert!(
                        why.starts_with("never remembered: it replaces a command"),
                        "{module}: {why}"
                    );
                }
            }
        }
    }
}

#[test]
fn lmods_modulefiles_in_tcl_may_replace_commands_too() {
    for lmod in LMODS {
        let mut scene = LmodScene::new(lmod);
        for (at, (how, way)) in WAYS.into_iter().enumerate() {
            scene.file(&format!("tcl/{how}/1"), &modulefile(NAMES[at], way));
        }
        let path = scene.at("tcl").to_str().unwrap().to_owned();
        scene.environment.insert("MODULEPATH".into(), path);
        std::thread::sleep(Duration::from_secs(3));
        for (how, _) in WAYS {
            let words = ["bash", "load", how];
            for value in ["first", "second"] {
                for name in ["SITE_ONE", "SITE_TWO"] {
                    scene.environment.insert(name.into(), value.into());
                }
                let real = scene.real(&words);
                assert_eq!(scene.asked(&words), real, "{}: {how}", lmod.name);
                assert_eq!(scene.asked(&words), real, "{}: {how}, again", lmod.name);
                let why = scene.why(&words).1;
                assert!(why.contains("it replaces a command"), "{}: {how}: {why}", lmod.name);
            }
        }
    }
}
