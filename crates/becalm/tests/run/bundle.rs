//! `becalm run --bundle`: a command's Pythons import from the bundle, alone and in an image.

use std::fs;
use std::process::Command;

use crate::BECALM;
use testkit::schema::Schema;
use testkit::{Ran, Scene, run};

const PYTHON: &str = "/usr/bin/python3";
/// What a loader of the bundle's is, is told by its class.
const LOOK: &str = "import own; print(own.__file__, type(own.__loader__).__module__)";

/// A directory with a module, and a bundle of it in another.
fn bundled() -> (Scene, String, String) {
    let scene = Scene::new();
    let (env, out) = (scene.subdirectory("env"), scene.subdirectory("out"));
    fs::write(format!("{env}/own.py"), "").unwrap();
    let bundle = format!("{out}/b.pybundle");
    let mut pack = Command::new(BECALM);
    pack.args(["python", "bundle", "-o", &bundle, "--", PYTHON, "-c", "import own"]);
    let packed = run(pack.env("PYTHONPATH", &env));
    assert_eq!(packed.code(), 0, "{}", packed.err());
    (scene, env, bundle)
}

fn becalm(env: &str, options: &[&str]) -> Ran {
    let mut command = Command::new(BECALM);
    command.arg("run").args(options).args(["--", PYTHON, "-c", LOOK]);
    run(command.env("PYTHONPATH", env))
}

#[test]
fn imports_come_from_the_bundle_and_modules_keep_their_places() {
    let (_scene, env, bundle) = bundled();
    let ran = becalm(&env, &["--bundle", &bundle]);
    assert_eq!((ran.code(), ran.err().as_str()), (0, ""));
    let without = run(Command::new(PYTHON).args(["-c", LOOK]).env("PYTHONPATH", &env));
    assert_eq!(without.out(), format!("{env}/own.py _frozen_importlib_external\n"));
    assert!(ran.out().starts_with(&format!("{env}/own.py ")), "{}", ran.out());
    assert_ne!(ran.out(), without.out(), "another loader");
    // As `becalm python bundle run` has it.
    let mut words = Command::new(BECALM);
    words.args(["python", "bundle", "run", &bundle, "--", PYTHON, "-c", LOOK]);
    assert_eq!(run(words.env("PYTHONPATH", &env)), ran);
}

#[test]
fn json_says_which_bundle_and_that_no_image_is_used() {
    let (_scene, env, bundle) = bundled();
    let schema = Schema::of(include_str!("../../../../docs/schema/becalm.run.md"));
    let ran = becalm(&env, &["--bundle", &bundle, "--json"]);
    let told: serde_json::Value = serde_json::from_str(&ran.err()).unwrap();
    schema.holds(&told, "a bundle");
    assert_eq!(told["bundle"]["file"], bundle.as_str());
    assert!(told["image"].is_null());
}

#[test]
fn an_image_and_a_bundle_that_was_made_in_it_go_together() {
    let (scene, env, bundle) = bundled();
    let image = scene.at("out/env.sqsh");
    let built = run(Command::new(BECALM).args(["image", "build", "-o", &image, &env]));
    assert_eq!(built.code(), 0, "{}", built.err());
    // An image keeps whole seconds, so all looks changed to a bundle that was made outside.
    let outside = becalm(&env, &["--image", &image, "--bundle", &bundle]);
    assert_eq!(outside.out(), format!("{env}/own.py _frozen_importlib_external\n"));
    let mut pack = Command::new(BECALM);
    pack.args(["run", "--image", &image, "--", BECALM, "python", "bundle", "-o", &bundle, "--"]);
    let packed = run(pack.args([PYTHON, "-c", "import own"]).env("PYTHONPATH", &env));
    assert_eq!(packed.code(), 0, "{}", packed.err());
    let ran = becalm(&env, &["--image", &image, "--bundle", &bundle, "--check", "full"]);
    assert_eq!((ran.code(), ran.err().as_str()), (0, ""));
    assert!(ran.out().starts_with(&format!("{env}/own.py ")), "{}", ran.out());
    assert!(!ran.out().contains("_frozen_importlib_external"), "{}", ran.out());
}

#[test]
fn what_is_no_bundle_or_not_ones_own_is_refused_and_nothing_runs() {
    let (scene, env, bundle) = bundled();
    let text = scene.file("text", "no bundle", 0o644);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    fs::set_permissions(&bundle, mode).unwrap();
    for (path, why) in [(&text, "is no bundle"), (&bundle, "others may write to it")] {
        let ran = becalm(&env, &["--bundle", path]);
        assert_eq!((ran.code(), ran.out().as_str()), (125, ""));
        assert!(ran.err().contains(why), "{}", ran.err());
    }
    assert_eq!(becalm(&env, &["--check", "full"]).code(), 2, "nothing is asked for");
}
