//! What comes in the way of `becalm elf bind` beside the files themselves.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use remedy::{Options, Plan, Step};
use testkit::bound::{Site, changed, reason, start};
use testkit::run;
use testkit::user::{is_root, scene_for_a_user};

use crate::BECALM;

/// A limit on processes that is reached: rayon's own pool would end the process.
#[test]
fn where_no_thread_may_be_started_one_does_all_of_it() {
    if !is_root() {
        return;
    }
    let (scene, _) = scene_for_a_user(&[]);
    let becalm = scene.at("becalm");
    let site = Site::of(scene);
    let app = site.store(12, &[]);
    // A user that no other test runs as: all processes of a user count.
    const ALONE: &str = "61183";
    let state = site.scene.subdirectory("state");
    let owner = format!("{ALONE}:{ALONE}");
    run(Command::new("chown").args(["-R", &owner, &site.tree(), &state]));
    // Below another user's directory, no state would be this one's own.
    run(Command::new("chown").arg(&owner).arg(site.scene.directory()));
    let mut limited = Command::new("prlimit");
    limited.args(["--nproc=1", "setpriv", "--reuid", ALONE, "--regid", ALONE, "--clear-groups"]);
    limited.args([&*becalm, "elf", "bind", &site.tree()]);
    let ran = run(limited.env("XDG_STATE_HOME", &state));
    assert!(ran.out().starts_with("Bound 13 files"), "{} {}", ran.out(), ran.err());
    assert_eq!(start(&app, &[]).in_vain(), 0);
}

/// The same directory by two mounts: two names of a file that has but one.
#[test]
fn a_file_that_lies_in_two_mounts_is_left_out_and_a_dry_run_says_so() {
    if !is_root() {
        return;
    }
    let site = Site::new();
    let x = site.part("x", "x", &[]);
    let list = site.rpath(&["n", "m", "x/lib"]);
    let twice = site.part("twice", "twice", &[&list, &x]);
    let app = site.ask("app", &[&list, &x]);
    fs::create_dir_all(site.at("beside")).unwrap();
    let within = |options: &[&str]| -> serde_json::Value {
        let script = "mount --bind \"$1\" \"$2\"; shift 2; exec \"$@\"";
        let mut command = Command::new("unshare");
        command.args([
            "--mount",
            "sh",
            "-ec",
            script,
            "sh",
            &site.at("twice/lib"),
            &site.at("beside"),
        ]);
        command.args([BECALM, "elf", "bind", "--json"]).args(options).arg(site.tree());
        let ran = run(command.env("XDG_STATE_HOME", site.scene.at("state")));
        serde_json::from_str(&ran.out()).unwrap()
    };
    let dry = within(&["--dry-run"]);
    let bound = within(&[]);
    for told in [&dry, &bound] {
        assert!(changed(told).contains(&app.as_str()), "the rest is bound: {told:#}");
        assert!(!changed(told).iter().any(|path| path.contains("twice")), "{told:#}");
        let other = site.at("beside/libtwice.so.1");
        let named = if Path::new(&other) < Path::new(&twice) { &other } else { &twice };
        let reason = reason(told, named);
        assert!(reason.contains("through another mount (a bind mount)"), "{reason}");
    }
    assert_eq!(start(&app, &[]).in_vain(), 0);
}

#[test]
fn a_plan_does_not_hold_once_a_library_that_it_names_is_another() {
    let site = Site::new();
    let app = site.store(6, &[]);
    let file = PathBuf::from(site.scene.at("plan"));
    for mode in ["closure", "needed", "farm"] {
        let mode = format!("--mode={mode}");
        site.bind(&[&mode, "--dry-run", "--plan", file.to_str().unwrap()]);
        let plan = Plan::read(&file).unwrap();
        let (mut patched, mut named) = (Vec::new(), Vec::new());
        for step in &plan.steps {
            match step {
                Step::Patch { path, .. } => patched.push(path.clone()),
                Step::Rely { path, .. } => named.push(path.clone()),
                _ => {}
            }
        }
        assert!(patched.contains(&PathBuf::from(&app)));
        let libraries = || site.elf_files().into_iter().filter(|path| *path != Path::new(&app));
        for library in libraries() {
            assert!(patched.contains(&library) != named.contains(&library), "{mode}: {plan:?}");
        }
        let options = Options::new(site.scene.at("state/becalm").into());
        remedy::check(&plan, &options).unwrap();
        let Some(one) = libraries().find(|library| named.contains(library)) else { continue };
        let copy = one.with_extension("copy");
        fs::copy(&one, &copy).unwrap();
        fs::rename(&copy, &one).unwrap();
        let failure = remedy::check(&plan, &options).unwrap_err().to_string();
        let expected = format!("{}: has changed since the plan was made", one.display());
        assert!(failure.starts_with(&expected), "{failure}");
    }
}
