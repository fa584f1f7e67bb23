//! Real programs say the same on a rehearsed filesystem as without, under each profile.

use std::process::Command;

use testkit::rehearsal::{Rehearser, each_rehearser};
use testkit::run;

const PROFILES: [&str; 4] = ["local", "gpfs", "lustre", "nfs"];

#[track_caller]
fn says_the_same(user: &Rehearser, paths: &[&str], words: &[&str]) {
    let plain = run(user.command(words).current_dir("/"));
    assert_eq!(plain.code(), 0, "{}", plain.err());
    for profile in PROFILES {
        let all = [&["--profile", profile], paths, &["--"], words].concat();
        let ran = run(&mut user.becalm(&all));
        assert_eq!((ran.code(), ran.out()), (0, plain.out()), "{profile}: {}", ran.err());
        assert!(ran.err().contains(&format!("sent {profile} ")), "{}", ran.err());
        assert!(!ran.err().contains(&format!("sent {profile} no RPC")), "{}", ran.err());
    }
}

#[test]
fn python_imports_the_same_modules() {
    for user in each_rehearser() {
        let script = "import json, sqlite3, ssl; print(json.__file__, ssl.OPENSSL_VERSION)";
        says_the_same(&user, &["/usr/lib", "/usr/bin"], &["/usr/bin/python3", "-c", script]);
    }
}

#[test]
fn emacs_starts() {
    for user in each_rehearser() {
        let words = ["emacs", "--batch", "--eval", "(princ (emacs-version))"];
        says_the_same(&user, &["/usr"], &words);
    }
}

#[test]
fn git_finds_its_repository_clean() {
    for user in each_rehearser() {
        let tree = user.tree("repository");
        let git = |words: &[&str]| {
            let all = [
                &[
                    "git",
                    "-C",
                    &tree,
                    "-c",
                    "safe.directory=*",
                    "-c",
                    "user.name=a",
                    "-c",
                    "user.email=a@b",
                ],
                words,
            ]
            .concat();
            assert_eq!(run(&mut user.command(&all)).code(), 0);
        };
        git(&["init", "-q", "-b", "main"]);
        git(&["add", "file"]);
        git(&["commit", "-q", "-m", "first"]);
        let words = ["git", "-c", "safe.directory=*", "-C", &tree, "--no-optional-locks", "status"];
        says_the_same(&user, &[&tree], &words);
        let words = ["git", "-c", "safe.directory=*", "-C", &tree, "log", "--oneline", "-p"];
        says_the_same(&user, &[&tree], &words);
    }
}

#[test]
fn a_program_with_many_libraries_loads_them() {
    for user in each_rehearser() {
        let store = user.scene.subdirectory("store");
        let make = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/store/make");
        let made = run(Command::new(make).args(["--libs", "12", &store]));
        assert_eq!(made.code(), 0, "{}", made.err());
        let app = made.out().trim().to_owned();
        says_the_same(&user, &[&store], &[&app, "--version"]);
    }
}
