//! What a start in an image still asks of the server: as many RPCs as `becalm fix` said. And a command that
//! starts in an image already, by a calm file, is not told to build one.

use crate::BECALM;
use crate::place::{Place, steps_of};
use serde_json::Value;
use testkit::run;

/// An environment with a package of which so many modules are imported, and its Python.
fn environment(place: &Place, imported: u32) -> String {
    place.said("python3 -m venv --without-pip venv");
    place.said("ln -s venv/lib/python3*/site-packages site");
    modules(place, "site/many", imported);
    place.said("venv/bin/python -c 'import many'");
    place.at("venv/bin/python")
}

/// A package, of which so many modules are imported, and as many not; beside each lies an empty file.
fn modules(place: &Place, package: &str, imported: u32) {
    let all = 2 * imported;
    place.said(&format!(
        "mkdir -p {package} && cd {package} && \
         for i in {{1..{all}}}; do echo \"x = $i\" > m$i.py; : > m$i.pyi; done; \
         for i in {{1..{imported}}}; do echo \"from . import m$i\"; done > __init__.py"
    ));
    // What is edited just now is not packed.
    place.said("find -L . -exec touch -h -d '3 days ago' {} +");
}

fn json(place: &Place, words: &[&str]) -> Value {
    let ran = run(&mut place.command(BECALM, words));
    serde_json::from_slice(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}", ran.err()))
}

/// Has the command's calm file written, with an image.
fn apply(place: &Place, words: &[&str]) -> Value {
    let fix = ["fix", "--apply", "--json", "--runs=1", "-o", "t.calm", "--below"];
    let fixed = json(place, &[&fix[..], &[&place.directory, "--"], words].concat());
    assert_eq!(fixed["image"]["file"], "t.sqsh", "{fixed:#}");
    assert_eq!(fixed["taken_back"], false, "{fixed:#}");
    fixed
}

/// Within a twentieth.
#[track_caller]
fn assert_as_predicted(place: &Place, words: &[&str]) {
    let fixed = apply(place, words);
    let predicted = fixed["predicted"]["after"]["wait"]["rpcs"].as_u64().unwrap();
    let rehearse = ["rehearse", "--json", "--profile", "nfs", &place.directory, "--"];
    let rehearsed = json(place, &[&rehearse[..], &[BECALM, "run", "t.calm"]].concat());
    let reached = rehearsed["rpcs"].as_u64().unwrap();
    assert!(
        reached.abs_diff(predicted) * 20 <= reached,
        "{predicted} were predicted, and {reached} reached the server: {rehearsed:#}"
    );
}

#[test]
fn as_many_rpcs_are_left_in_an_image_of_an_environment_as_were_predicted() {
    let place = Place::new();
    let python = environment(&place, 150);
    assert_as_predicted(&place, &[&python, "-c", "import many; print(many.m7.x)"]);
}

#[test]
fn as_many_rpcs_are_left_in_an_image_of_pythonpath_as_were_predicted() {
    let mut place = Place::new();
    for name in ["first", "second"] {
        modules(&place, &format!("{name}/{name}_pkg"), 150);
        place.said(&format!("mkdir {name}/{name}.dist-info"));
    }
    place.set("PYTHONPATH", ["first", "second"].map(|name| place.at(name)).join(":"));
    let words = ["/usr/bin/python3", "-c", "import first_pkg, second_pkg; print(first_pkg.m7.x)"];
    place.said(&term::shell_line(&words));
    assert_as_predicted(&place, &words);
}

#[test]
fn as_many_rpcs_are_left_in_an_image_of_a_library_path_as_were_predicted() {
    let mut place = Place::new();
    place.said(
        "mkdir -p dirs/{1..100} && for i in {1..100}; do echo $i > dirs/$i/README; done && \
         cp -L /usr/lib/*/libz.so.1 dirs/100/ && find dirs -exec touch -d '3 days ago' {} +",
    );
    let named: Vec<String> = (1..=100).map(|number| place.at(&format!("dirs/{number}"))).collect();
    place.set("LD_LIBRARY_PATH", named.join(":"));
    let words = ["/usr/bin/python3", "-c", "import bz2, ctypes, lzma, ssl, zlib; print(7)"];
    assert_as_predicted(&place, &words);
}

#[test]
fn a_command_that_a_calm_file_starts_in_an_image_is_not_told_to_build_one() {
    let place = Place::new();
    let python = environment(&place, 1);
    // Of each package four names are looked up that are not there.
    let packages = "for i in {1..200}; do mkdir p$i && echo \"x = $i\" > p$i/__init__.py; done";
    place.said(&format!("cd site && {packages}"));
    let imports = "for i in range(1, 201): __import__(f'p{i}')";
    let words = [&*python, "-c", imports];
    place.said(&term::shell_line(&words));
    apply(&place, &words);
    for launch in [&["becalm", "run", "t.calm"][..], &["becalm", "run", "--hugepages", "t.calm"]] {
        let found = place.found(launch);
        let says = format!("becalm ran the command in the image {}", place.at("t.sqsh"));
        let steps = steps_of(&found, "python");
        let text = steps.first().and_then(|step| step["text"].as_str()).unwrap_or_default();
        assert!(text.starts_with("Nothing to build") && text.contains(&says), "{found:#}");
        let cures = found["cures"].as_array().unwrap();
        assert!(cures.iter().all(|cure| cure["change"]["kind"] != "mount_image"), "{found:#}");
        let planned =
            json(&place, &[&["fix", "--json", "-o", "other.calm", "--"][..], launch].concat());
        assert_eq!(planned["image"], Value::Null, "{planned:#}");
    }
}
