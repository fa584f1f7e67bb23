//! `becalm lab aslr campaign` behind wrappers: whose addresses are told, and whose layout is moved.

use std::fs;

use serde_json::Value;
use testkit::user::{as_a_user, is_root, scene_for_a_user};
use testkit::{Scene, run, trap};

use crate::aslr_campaign::{campaign, done, logged};

#[test]
fn behind_a_wrapper_the_addresses_are_those_of_the_program_that_took_the_time_or_none() {
    let scene = Scene::new();
    let program = trap("upper_halves");
    let wrapped = |words: &[&str]| {
        let _ = fs::remove_dir_all(scene.at("c"));
        done(&scene, &[&["--blocks", "1", "--arms", "on,off", "--"], words].concat());
        let all = logged(&scene);
        let has = |one: &Value, name: &str| one["maps"][name].is_string();
        let program = all.iter().all(|one| has(one, "upper_halves"));
        let wrapper = all.iter().any(|one| has(one, "env") || has(one, "dash") || has(one, "bash"));
        (program, wrapper, all.iter().all(|one| one["maps"].is_null()))
    };
    assert_eq!(wrapped(&[&program, "by-thread"]), (true, false, false));
    assert_eq!(wrapped(&["env", &program, "by-thread"]), (true, false, false));
    let exec = format!("exec {program} by-thread");
    assert_eq!(wrapped(&["bash", "-c", &exec]), (true, false, false));
    let busy = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
    let child = format!("bash -c '{busy}'; true");
    assert_eq!(wrapped(&["sh", "-c", &child]), (false, false, true));
}

/// What is started first is refused at once; behind a wrapper, only who traces it takes it its rights.
#[test]
fn a_program_that_lost_its_rights_is_no_rank_and_untraced_it_has_them() {
    if !is_root() {
        return;
    }
    let (scene, programs) = scene_for_a_user(&[&trap("identity")]);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o4755);
    fs::set_permissions(&programs[0], mode).unwrap();
    let exec = format!("exec {} >>ids", programs[0]);
    let campaign = |more: &[&str]| {
        let own = scene.at("becalm");
        let words = [&own, "lab", "aslr", "campaign", "--blocks", "1", "--arms", "on,off"];
        let words = [&words[..], more, &["--", "sh", "-c", &exec]].concat();
        run(as_a_user(&words).current_dir(scene.directory()).env("HOME", scene.directory()))
    };
    let ran = campaign(&["-o", "traced"]);
    assert_ne!(ran.code(), 0, "{}", ran.out());
    let why = "becalm: the command executed a program that gets privileges, which a traced process does not";
    assert!(ran.err().contains(why), "{}", ran.err());
    fs::remove_file(scene.at("ids")).unwrap();
    let ran = campaign(&["-o", "untraced", "--untraced"]);
    assert_eq!(ran.code(), 0, "{}", ran.err());
    let ids = fs::read_to_string(scene.at("ids")).unwrap();
    assert!(ids.contains("ids: 65534 0 65534 65534") && !ids.contains("ids: 65534 65534"), "{ids}");
}

#[test]
fn a_wrapper_is_refused_where_layouts_are_moved() {
    let scene = Scene::new();
    let program = trap("upper_halves");
    let words = ["--blocks", "1", "--arms", "job,off", "--", "env", &program, "by-thread"];
    let ran = run(&mut campaign(&scene, &words));
    assert_ne!(ran.code(), 0);
    assert!(ran.err().contains("env only starts the program that takes the time"), "{}", ran.err());
}
