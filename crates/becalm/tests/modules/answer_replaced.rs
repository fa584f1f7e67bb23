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

/// What shows what is called around it, or changes what that does, without the name of anything of the prelude's.
const SHOWING: [&str; 9] = [
    "proc shows args {puts stderr $args}; proc main {} {info exists ::env(SITE_ONE)}\n\
     trace add execution main enterstep shows; main",
    "proc shows args {puts stderr $args}; trace add exec info {enter leave} shows; info exists env(SITE_ONE)",
    "proc shows args {puts stderr $args}; trace add execution ::set leave shows; set ::env(SITE_ONE)",
    "puts stderr [trace inf variable env]",
    "puts stderr [trace i command file]",
    "namespace ensemble configure string -map {length {::list L}}; array names env SITE_TWO",
    "proc of args {puts stderr $args; ::tcl::dict::exists {*}$args}\n\
     namespace ensemble configure dict -map [dict replace [namespace ensemble configure dict -map] exists ::of]\n\
     array names env SITE_TWO",
    "interp recursionlimit {} 5; puts stderr [catch {array names env SITE*} said]$said",
    "unset env; error mine",
];

#[test]
fn what_shows_the_calls_around_it_shows_the_tools_own() {
    let scene = Modulepath::new();
    for (at, line) in SHOWING.iter().enumerate() {
        scene.file(&format!("shows/{at}"), &format!("#%Module\n{line}\n"));
    }
    scene.file("asks/1", "#%Module\nputs stderr [info exists env(SITE_ONE)]\n");
    settle();
    for modules in &all() {
        for at in 0..SHOWING.len() {
            let module = format!("shows/{at}");
            for value in [None, Some("set")] {
                let mut asking = Asking::new(&scene, modules);
                if let Some(value) = value {
                    asking = asking.with("SITE_ONE", value);
                }
                asking.agree(&["load", &module, "asks"]);
                asking.agree(&["load", &module, "asks"]);
            }
        }
    }
}

#[test]
fn the_order_of_the_environment_decides_the_order_of_its_names() {
    let scene = Modulepath::new();
    scene.file(
        "all/1",
        "#%Module\nforeach name [array names env LIB_*] {append-path LIBS $env($name)}\n",
    );
    settle();
    for modules in &all() {
        let ask = |command: &[&str], libraries: [&str; 2]| {
            let mut env = scene.command("/usr/bin/env", modules);
            env.args(libraries).args(command).args(["bash", "load", "all"]);
            crate::answer::seen(&env.output().unwrap())
        };
        let tool = modules.command.to_str().unwrap();
        for _ in 0..2 {
            for libraries in [["LIB_HDF5=1", "LIB_FFTW=2"], ["LIB_FFTW=2", "LIB_HDF5=1"]] {
                let real = ask(&[tool], libraries);
                assert_eq!(
                    ask(&[crate::BECALM, "modules", "answer", "--tool", tool], libraries),
                    real
                );
            }
        }
    }
}

#[test]
fn what_lua_evaluates_first_is_asked_each_time() {
    for lmod in LMODS {
        let mut scene = LmodScene::new(lmod);
        let says = "io.stderr:write(tostring(os.getenv('SITE_ONE')))";
        scene.environment.insert("LUA_INIT".into(), says.into());
        std::thread::sleep(Duration::from_secs(3));
        for value in ["first", "second"] {
            scene.environment.insert("SITE_ONE".into(), value.into());
            let real = scene.real(&["bash", "list"]);
            assert!(real.2.starts_with(value), "{real:?}");
            assert_eq!(scene.asked(&["bash", "list"]), real);
            assert_eq!(scene.asked(&["bash", "list"]), real);
        }
    }
}
