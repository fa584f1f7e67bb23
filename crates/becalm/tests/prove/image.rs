//! `becalm prove --rehearse` of a Python start: plain, and under `becalm run --image`.

use std::process::Command;

use serde_json::Value;
use testkit::imaged::{As, ways};
use testkit::rehearsal::assert_at_most;
use testkit::user::{as_a_user, scene_for_a_user};
use testkit::{Scene, run};

/// What the start imports beside the environment's own packages.
const IMPORT: &str = "import json, asyncio, package_0, package_39; print(package_39.name)";

/// A virtual environment with 40 packages of a module each, on what is to be the shared
/// filesystem, and an image of it there, in the order of the start.
fn environment(scene: &Scene) -> (String, String) {
    let share = scene.subdirectory("share");
    let (env, image) = (format!("{share}/env"), format!("{share}/env.sqsh"));
    let made = run(Command::new("/usr/bin/python3").args(["-m", "venv", "--without-pip", &env]));
    assert_eq!(made.code(), 0, "{}", made.err());
    let python = format!("{env}/bin/python3");
    let fill = run(Command::new(&python).args(["-c", FILL]));
    assert_eq!(fill.code(), 0, "{}", fill.err());
    let built = run(Command::new(crate::BECALM)
        .args(["image", "build", "-o", &image, &env, "--", &python, "-c", IMPORT]));
    assert_eq!(built.code(), 0, "{}", built.err());
    (python, image)
}

/// Packages that import one another, with their bytecode.
const FILL: &str = "
import compileall, pathlib, sysconfig
site = pathlib.Path(sysconfig.get_path('purelib'))
for number in range(40):
    package = site / f'package_{number}'
    package.mkdir()
    next = f'import package_{number - 1}' if number else ''
    (package / '__init__.py').write_text(f'{next}\\nfrom .inner import name\\n')
    (package / 'inner.py').write_text(f'name = {number}\\n')
compileall.compile_dir(site, quiet=2)
";

fn prove(who: As, scene: &Scene, python: &str, image: &str, check: &str) -> Value {
    let becalm = scene.at("becalm");
    let by = if who == As::RootByFuse { "--by fuse " } else { "" };
    let before = format!("{python} -c '{IMPORT}'");
    let after = format!("{becalm} run {by}--image {image} --check {check} -- {before}");
    let share = scene.at("share");
    let line = [
        &becalm,
        "prove",
        "--json",
        "--runs",
        "3",
        "--rehearse",
        "nfs",
        "--rehearse-path",
        &share,
        "--before",
        &before,
        "--after",
        &after,
    ];
    let mut command = match who {
        As::User => as_a_user(&line),
        As::Root | As::RootByFuse => {
            let mut command = Command::new(line[0]);
            command.args(&line[1..]);
            command
        }
    };
    let ran = run(&mut command);
    serde_json::from_str(&ran.out()).unwrap_or_else(|error| panic!("{error}: {}", ran.err()))
}

#[test]
fn an_image_answers_what_the_server_was_asked_all_but_the_way_to_the_image() {
    let (scene, _) = scene_for_a_user(&[]);
    let (python, image) = environment(&scene);
    let checked = checked(&scene.at("share/env"));
    for who in ways() {
        for (check, looks) in [("no", 0), ("quick", checked)] {
            let proof = prove(who, &scene, &python, &image, check);
            assert_eq!(proof["behaviour"]["kind"], "same", "{who:?}: {proof:#}");
            let asked = |side: &str| -> Vec<u64> {
                let runs = proof[side]["runs"].as_array().unwrap().iter();
                runs.map(|run| run["served"]["rpcs"].as_u64().unwrap()).collect()
            };
            // The image's name and its open, and the directory that it is mounted over; what says
            // whether the image is stale, once each. A loop device asks for the filesystem's size.
            let most = looks + if who == As::Root { 4 } else { 3 };
            let (before, after) = (asked("before"), asked("after"));
            assert!(before.iter().all(|one| *one > 200), "{who:?} {before:?}");
            assert_at_most(&after, most);
        }
    }
}

/// The directories and files of an environment, without what bytecode there is: what the quick check
/// asks for at most.
fn checked(env: &str) -> u64 {
    let words =
        [env, "-name", "__pycache__", "-print", "-prune", "-o", "-not", "-type", "l", "-print"];
    run(Command::new("find").args(words)).out().lines().count() as u64
}
