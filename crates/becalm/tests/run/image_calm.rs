//! What `becalm run --image` calms is called calm: by a check of the whole, by one inside it, and by
//! what scale says of recordings.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use testkit::imaged::{As, Imaged, ways};
use testkit::run;
use testkit::scene::becalm;
use testkit::user::{as_a_user, scene_for_a_user};

/// A store of so many libraries, packed, and its program.
fn store() -> (Imaged, String) {
    let (scene, _) = scene_for_a_user(&[]);
    let directory = scene.subdirectory("store");
    let make = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/store/make");
    let made = run(Command::new(make).args(["--libs=80", &directory]));
    assert_eq!(made.code(), 0, "{}", made.err());
    assert_eq!(run(Command::new("chmod").args(["-R", "a+rX", &directory])).code(), 0);
    let env = Imaged::pack(scene, directory);
    // With its storm, which the image serves: healed, it would have none.
    let words = ["image", "build", "--as-is", "-o", &env.image, &env.directory];
    let built = run(Command::new(becalm()).args(words));
    assert_eq!(built.code(), 0, "{}", built.err());
    (env, made.out().trim_end().to_owned())
}

/// `becalm words…` as this user, whose state is in the scene.
fn told(env: &Imaged, who: As, words: &[&str]) -> String {
    let own = env.scene.at("becalm");
    let mut command = match who {
        As::User => as_a_user(&[&[own.as_str()], words].concat()),
        As::Root | As::RootByFuse => {
            let mut command = Command::new(becalm());
            command.args(words);
            command
        }
    };
    let state = env.scene.path(format!("state {who:?}"));
    fs::create_dir_all(&state).unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    fs::set_permissions(&state, open).unwrap();
    command.env("XDG_STATE_HOME", state.join("mine")).current_dir(&state);
    let ran = run(&mut command);
    assert_eq!(ran.code(), 0, "{who:?} {words:?}: {}{}", ran.out(), ran.err());
    ran.out()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The words that run a command in the image.
fn in_image<'w>(env: &'w Imaged, who: As, becalm: &'w str) -> Vec<&'w str> {
    let mut words = vec![becalm, "run", "--image", &env.image];
    if who == As::RootByFuse {
        words.extend(["--by", "fuse"]);
    }
    words.push("--");
    words
}

#[test]
fn a_start_in_an_image_is_calm_whoever_looks_and_scale_shows_the_gain() {
    let (env, app) = store();
    for who in ways() {
        let own = if who == As::User { env.scene.at("becalm") } else { becalm().to_owned() };
        let before = json(&told(&env, who, &["check", "--json", "-o", "before", "--", &app]));
        assert_eq!(before["verdict"], "slow_start", "{who:?}");
        let image = in_image(&env, who, &own);

        let whole = [&["check", "--json", "-o", "after", "--"], &image[..], &[&app]].concat();
        let whole = json(&told(&env, who, &whole));
        assert_eq!(whole["verdict"], "calm", "{who:?} {whole:#}");
        // Who serves the image ends once nobody uses it: whether that is seen is a matter of moments.
        let warnings = whole["warnings"].as_array().unwrap();
        assert!(warnings.iter().all(|warning| warning["kind"] == "running"), "{who:?} {whole:#}");
        assert!(whole["totals"]["in_memory"].as_u64() > Some(2000), "{who:?} {whole:#}");

        let inside = [&image[1..], &[&own, "check", "--json", "--", &app]].concat();
        let inside = json(&told(&env, who, &inside));
        assert_eq!(inside["verdict"], "calm", "{who:?} {inside:#}");

        let words = ["scale", "before", "--vs", "after", "--ranks", "1000", "--json"];
        let scale = json(&told(&env, who, &words));
        let wait = |side: &str| scale[side]["predicted_wait"]["all_ranks"].as_f64().unwrap();
        assert!(wait("after") * 4.0 < wait("before"), "{who:?} {scale:#}");
    }
    env.all_gone();
}

#[test]
fn a_command_that_joins_an_image_or_changes_its_mounts_twice_is_counted_by_what_it_sees() {
    let (env, app) = store();
    for who in ways() {
        let own = if who == As::User { env.scene.at("becalm") } else { becalm().to_owned() };
        // The second command joins the mounts of the first, which is not recorded.
        let image = in_image(&env, who, &own);
        let line = format!("\"$@\" {app} && exec {app}", app = term::quoted(&app));
        let shell = [&["check", "--json", "--", "sh", "-c", &line, "sh"], &image[..]].concat();
        let both = json(&told(&env, who, &shell));
        // Once in the image, and once beside it.
        let alone = json(&told(&env, who, &["check", "--json", "--", &app]));
        let operations = |of: &Value| of["predicted_wait"]["rpcs"].as_f64().unwrap();
        let ratio = operations(&both) / operations(&alone);
        assert!((0.9..1.5).contains(&ratio), "{who:?}: {ratio}");
        assert_eq!(both["verdict"], "slow_start", "{who:?}");
    }
    env.all_gone();
}
