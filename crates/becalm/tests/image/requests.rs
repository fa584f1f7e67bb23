//! What `becalm image build` asks of the filesystem that the files lie on: no more than mksquashfs.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use testkit::installed;
use testkit::rehearsal::{Rehearser, each_rehearser};
use testkit::run;
use testkit::uncached::uncached;

/// Fifteen hundred files of numpy, where Python would look for them: bytecode is looked at, too.
fn environment(who: &Rehearser) -> String {
    let env = who.scene.at("env/lib/python3.11/site-packages");
    std::fs::create_dir_all(&env).unwrap();
    let lib = std::fs::read_dir(installed::venv().join("lib")).unwrap().flatten().next().unwrap();
    let numpy = lib.path().join("site-packages/numpy");
    let mut copy = Command::new("cp");
    copy.args(["-r", "--preserve=mode,timestamps"]).arg(numpy).arg(&env);
    assert!(copy.status().unwrap().success());
    let whole = who.scene.at("env");
    assert!(Command::new("chmod").args(["-R", "a+rX", &whole]).status().unwrap().success());
    // What has just changed is looked at again once its second is over.
    std::thread::sleep(Duration::from_millis(1100));
    whole
}

fn libraries(env: &str) -> u64 {
    let found = run(Command::new("find").args([env, "-name", "*.so"]));
    found.out().lines().count() as u64
}

/// What a command asked of a directory on a filesystem like this.
fn asked(who: &Rehearser, profile: &str, env: &str, words: &[&str]) -> Value {
    let file = who.scene.at("asked.json");
    // As root first, the user's file would be root's.
    let _ = std::fs::remove_file(&file);
    let json = format!("--json={file}");
    let all = [&["--profile", profile, &json, env, "--"], words].concat();
    let ran = run(&mut who.becalm(&all));
    assert_eq!(ran.code(), 0, "{words:?}: {}", ran.err());
    serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap()
}

#[test]
fn building_asks_no_more_than_mksquashfs_and_waits_for_a_fraction_of_its_time() {
    for who in each_rehearser() {
        let env = environment(&who);
        let out = |name: &str| who.scene.at(name);
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(who.scene.directory(), open).unwrap();
        let uncached = uncached(&who.scene);
        for profile in ["nfs", &uncached] {
            let theirs = out("theirs.sqsh");
            let _ = std::fs::remove_file(&theirs);
            let level = ["-comp", "zstd", "-Xcompression-level", "3", "-quiet", "-no-progress"];
            let theirs = [&["mksquashfs", &env, &theirs], &level[..]].concat();
            let theirs = asked(&who, profile, &env, &theirs);
            let build = |more: &[&str]| {
                let words = [who.program(), "image", "build", "-o", &out("ours.sqsh"), &env];
                asked(&who, profile, &env, &[&words, more].concat())
            };
            let (ours, healed) = (build(&["--as-is"]), build(&[]));
            let of = |answer: &Value, name: &str| answer[name].as_u64().unwrap();
            let kind = |answer: &Value, kind: &str| {
                let kinds = answer["kinds"].as_array().unwrap();
                let found = kinds.iter().find(|one| one["kind"] == kind);
                found.map_or(0, |one| of(one, "rpcs"))
            };
            let said = format!("{profile}: {} {}", ours["kinds"], theirs["kinds"]);
            assert!(of(&ours, "rpcs") <= of(&theirs, "rpcs"), "{said}");
            for one in ["open", "list", "read", "xattr"] {
                assert!(kind(&ours, one) <= kind(&theirs, one), "{one} {said}");
            }
            // What a network filesystem keeps is not asked for either: an attribute, an ACL a file.
            let kept = |answer: &Value| of(answer, "uncharged");
            let files = 1500;
            assert!(kept(&ours) < kept(&theirs) + files / 2, "{} {}", kept(&ours), kept(&theirs));
            assert!(of(&ours, "waiting_ns") * 2 < of(&theirs, "waiting_ns"), "{said}");
            // Modules are read once, to be healed and to be packed; of a library the binder asks what
            // it needs, where that is, and of what it is made.
            let most = of(&theirs, "rpcs") + 8 * libraries(&env);
            assert!(of(&healed, "rpcs") <= most, "{} {said}", healed["kinds"]);
            assert!(of(&healed, "waiting_ns") * 2 < of(&theirs, "waiting_ns"), "{healed}");
        }
        assert!(Path::new(&out("ours.sqsh")).exists());
    }
}
