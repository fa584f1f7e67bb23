//! `becalm run --builtins --count`: how many starts were avoided; and what is said of the shells.

use std::fs;
use std::process::Command;

use testkit::Scene;
use testkit::live::run;

use crate::BECALM;
use crate::builtins::{Script, WITH};

pub fn counted(script: &str, words: &[&str]) -> serde_json::Value {
    let with = [BECALM, "run", "--builtins", "--count", "--json", "--"];
    let ran = Script::new(script).run(&[&with, words].concat(), &[]);
    let object = ran.err().find("{\n").map(|at| ran.err()[at..].to_owned()).unwrap();
    serde_json::from_str(&object).unwrap()
}

/// Each program of the script is one of the numbers, whichever way it was started.
#[test]
fn every_start_is_counted_once_as_avoided_or_with_what_was_in_the_way() {
    let script = "mkdir x; rmdir x; (mkdir x; rmdir x); y=$(basename a/b); command mkdir x\n\
        bash -c 'touch q; rm q'\n\
        type mkdir; command -v mkdir; hash -t mkdir; id -u\n\
        cmp file file; sort file\n\
        mkdir x; rm -r x\n\
        LC_ALL=C mkdir x; for i in 1 2; do y=1 z=2 cmp file file; done; cat < file\n\
        trap : CHLD; mkdir z; rmdir z | cat; trap - CHLD\n\
        export _POSIX2_VERSION=199209; basename a; unset _POSIX2_VERSION\n\
        set -o posix; mkdir p; export POSIXLY_CORRECT; rmdir p; unset POSIXLY_CORRECT\n\
        PATH=$PWD:$PATH; ln -s /bin/echo mv; mv a b\n";
    let said = counted(script, &["bash", "script"]);
    let mut numbers = said["builtins"]["counted"].clone();
    let programs = numbers.as_object_mut().unwrap().remove("programs").unwrap();
    // id is no program of ours; of bash itself there is one more.
    let wanted = serde_json::json!({
        "shells": 2, "others": 2, "avoided": 12, "only_started": 1, "request": 2, "shell": 7,
        "variables": 1, "unknown": 1
    });
    assert_eq!(numbers, wanted, "{said:#}");
    let all = |name: &str| {
        let programs = programs.as_array().unwrap().iter();
        let sums = programs.map(|one| one[name].as_u64().unwrap());
        sums.sum::<u64>()
    };
    assert_eq!((all("avoided"), all("shell"), all("request")), (12, 7, 2), "{said:#}");
    assert!(programs.as_array().unwrap().iter().any(|one| one["name"] == "mkdir"), "{said:#}");
}

#[test]
fn a_shell_that_takes_no_builtins_is_said_and_nothing_is_listed_for_it() {
    let script = "#!/bin/ksh\nmkdir x; rmdir x\n";
    let cases = [
        (&["bash", "-p", "script"][..], ("NOTHING", "")),
        (&["bash", "--posix", "-p", "script"], ("NOTHING", "")),
        (&["sh", "script"], ("LD_AUDIT", "")),
        (&["bash", "--posix", "script"], ("LD_PRELOAD", "")),
    ];
    for (words, variable) in cases {
        let ran = Script::new(script).run(&[WITH, words].concat(), &[variable]);
        assert!(ran.err().contains("--builtins avoids nothing in"), "{words:?}: {}", ran.err());
        let with = [BECALM, "run", "--builtins", "--count", "--json", "--"];
        let ran = Script::new(script).run(&[&with, words].concat(), &[variable]);
        let object = ran.err().find("{\n").map(|at| ran.err()[at..].to_owned()).unwrap();
        let said: serde_json::Value = serde_json::from_str(&object).unwrap();
        let builtins = &said["builtins"];
        assert_eq!(builtins["inside"], serde_json::json!([]), "{words:?}: {said:#}");
        assert!(builtins["without_effect"].is_string(), "{words:?}: {said:#}");
        assert_eq!(builtins["counted"]["avoided"], 0, "{words:?}: {said:#}");
    }
    // What becalm cannot see before is in the numbers.
    let ran = Script::new("python3 -c 'import os; os.system(\"mkdir x\")'")
        .run(&[BECALM, "run", "--builtins", "--count", "--", "python3", "-c", "0"], &[]);
    assert!(ran.err().contains("no start was avoided"), "{}", ran.err());
    let said = counted("mkdir x; rmdir x; mkdir file", &["bash", "script"]);
    assert_eq!(said["builtins"]["counted"]["avoided"], 2, "{said:#}");
    let ran = Script::new("mkdir x; exit 7")
        .run(&[BECALM, "run", "--builtins", "--count", "--", "bash", "script"], &[]);
    assert_eq!(ran.code(), 7);
    assert!(ran.err().contains("1 of 1 start"), "{}", ran.err());
}

#[test]
fn json_says_what_is_done_in_bash_itself() {
    let scene = Script::new("true");
    let ran = scene.run(&[BECALM, "run", "--builtins", "--json", "--", "true"], &[]);
    let said: serde_json::Value = serde_json::from_slice(&ran.stderr).unwrap();
    let inside = said["builtins"]["inside"].as_array().unwrap();
    assert!(inside.iter().any(|one| one["name"] == "mkdir"), "{said:#}");
    assert_eq!(said["builtins"]["only_started"], serde_json::json!([]));
}

/// Each bash would look for a relative file where it then is, and read what somebody else put there.
#[test]
fn where_temporary_files_lie_is_never_relative() {
    for place in ["", "relative"] {
        let scene = Scene::new();
        fs::create_dir(scene.at("relative")).unwrap();
        let mut becalm = Command::new(BECALM);
        becalm.args([
            "run",
            "--builtins",
            "--",
            "bash",
            "-c",
            "cd /; bash -c 'echo \"$BASH_ENV\"'",
        ]);
        becalm.current_dir(scene.directory()).env("TMPDIR", place).env_remove("XDG_RUNTIME_DIR");
        let ran = run(&mut becalm);
        assert_eq!(ran.code(), 0, "{}", ran.err());
        assert!(ran.out().starts_with('/'), "{}", ran.out());
        assert_eq!(fs::read_dir(scene.at("relative")).unwrap().count(), 0);
        assert_eq!(fs::read_dir(scene.directory()).unwrap().count(), 1);
    }
}
