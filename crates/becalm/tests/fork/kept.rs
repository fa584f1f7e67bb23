//! What `run --builtins` has found out about programs and shells is asked once on a node.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use testkit::live::run;

use crate::builtins::{Script, WITH};

const SCRIPT: &str = "mkdir made; sed -n 1p file; rmdir made";

/// Programs that are started for the script, becalm and bash included.
fn started(script: &Script) -> usize {
    let temporary = script.path().join("tmp");
    fs::create_dir_all(&temporary).unwrap();
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", "trace", "-e", "trace=execve", "-e", "status=successful"]);
    command.args(WITH).args(["bash", "script"]).current_dir(script.path());
    let bin = script.path().join("bin");
    command.env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
    command.env("TMPDIR", &temporary).env_remove("BASH_ENV").env_remove("XDG_RUNTIME_DIR");
    let ran = run(&mut command);
    assert_eq!((ran.code(), ran.out(), ran.err()), (0, "content\n".into(), String::new()));
    fs::read_to_string(script.path().join("trace")).unwrap().matches("execve(").count()
}

/// bash would execute what is in its name, and the loader split it.
#[test]
fn a_runtime_directory_of_an_odd_name_is_none() {
    let script = Script::new("mkdir made && rmdir made; sh -c 'mkdir made; rmdir made'; ls");
    for name in ["r`touch hacked`", "r$(touch hacked)", "a b", "a:b", "a\"b", "a\\b"] {
        let runtime = script.path().join("odd").join(name);
        fs::create_dir_all(&runtime).unwrap();
        let mut command = Command::new(WITH[0]);
        command.args(&WITH[1..]).args(["bash", "script"]).current_dir(script.path());
        command.env_remove("BASH_ENV").env("XDG_RUNTIME_DIR", &runtime).env("TMPDIR", &runtime);
        let ran = run(&mut command);
        let listed = (0, "file\nodd\nscript\n".to_owned(), String::new());
        assert_eq!((ran.code(), ran.out(), ran.err()), listed, "{name}");
        assert_eq!(fs::read_dir(&runtime).unwrap().count(), 0, "{name}");
    }
}

fn kept(script: &Script) -> PathBuf {
    let user = rustix::process::getuid().as_raw();
    let own = script.path().join(format!("tmp/becalm-{user}"));
    let mut all = fs::read_dir(own).unwrap().map(|entry| entry.unwrap().path());
    all.find(|path| path.join("found").exists()).unwrap()
}

#[test]
fn programs_and_shells_are_asked_once_and_anew_when_one_is_another() {
    let script = Script::new(SCRIPT);
    fs::create_dir(script.path().join("bin")).unwrap();
    let first = started(&script);
    assert!(first > 20, "{first}");
    assert_eq!([started(&script), started(&script)], [2, 2]);
    // A sed that stands before the other is none that is known: it is asked, and then started.
    let sed = script.path().join("bin/sed");
    fs::write(&sed, "#!/bin/bash\nexec /usr/bin/sed \"$@\"\n").unwrap();
    fs::set_permissions(&sed, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(started(&script) > 20);
    assert_eq!(started(&script), 4);
    fs::remove_file(&sed).unwrap();
    assert_eq!(started(&script), 2);
}

#[test]
fn what_is_kept_and_no_longer_whole_is_made_anew() {
    for lost in ["found", "programs", "bash_env", "becalm-builtins.so", "becalm-launcher.so"] {
        let script = Script::new(SCRIPT);
        started(&script);
        let file = kept(&script).join(lost);
        fs::remove_file(&file).unwrap();
        assert!(started(&script) > 20, "{lost}");
        assert_eq!(started(&script), 2, "{lost}");
        // As long as before.
        let library = kept(&script).join("becalm-builtins.so");
        let length = fs::metadata(&library).unwrap().len();
        fs::write(&library, vec![0; length as usize]).unwrap();
        assert!(started(&script) > 20, "{lost}");
    }
}

/// A program that cannot even load its libraries says no version.
#[test]
fn what_was_found_under_limits_is_asked_anew() {
    let script = Script::new(SCRIPT);
    let temporary = script.path().join("tmp");
    fs::create_dir_all(&temporary).unwrap();
    let mut command = Command::new("prlimit");
    command.args(["--nofile=16", "--"]).args(WITH).args(["bash", "script"]);
    command.current_dir(script.path()).env("TMPDIR", &temporary);
    command.env("PATH", format!("{}:/usr/bin:/bin", script.path().join("bin").display()));
    command.env_remove("BASH_ENV").env_remove("XDG_RUNTIME_DIR");
    assert_eq!(run(&mut command).out(), "content\n");
    assert!(started(&script) > 20);
    assert_eq!(started(&script), 2);
}
