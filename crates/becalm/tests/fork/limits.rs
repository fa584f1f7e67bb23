//! `becalm run --builtins` where a limit or a umask leaves it no room: the script runs as without.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use testkit::live::{Ran, run};
use testkit::user::{as_a_user, scene_for_a_user};

use crate::BECALM;
use crate::builtins::{Script, same_with};

const SCRIPT: &str = "mkdir made; dirname a/b; rmdir made; exit 3";

/// A first start with a directory of its own for what is kept, behind `limit` in the shell.
fn started(scene: &Path, limit: &str, option: &str) -> Ran {
    let places = "unset XDG_RUNTIME_DIR BASH_ENV; export TMPDIR=$PWD/tmp; mkdir -p tmp";
    let script = format!("{places}; {limit}; exec \"$0\" run --builtins {option} -- bash script");
    run(Command::new("bash").args(["-c", &script, BECALM]).current_dir(scene))
}

#[test]
fn a_first_start_under_a_limit_runs_the_script_as_without() {
    // Of memory, this becalm, not stripped, needs more than one that is shipped; and with Arm's C library each
    // program takes 2 MiB at a time.
    let is_arm = cfg!(target_arch = "aarch64");
    let data = if is_arm { ["-d 4500", "-d 6000"] } else { ["-d 1500", "-d 3000"] };
    let others = ["-f 0", "-f 20", "-n 8", "-n 5", "-v 42000", "-t 5"];
    for limit in data.iter().chain(&others) {
        for option in ["", "--count"] {
            let script = Script::new(SCRIPT);
            let ran = started(script.path(), &format!("ulimit {limit}"), option);
            assert_eq!(
                (ran.code(), ran.out()),
                (3, "a\n".into()),
                "{limit} {option}: {}",
                ran.err()
            );
            let said: Vec<String> = ran
                .err()
                .lines()
                .filter(|line| line.contains("is not done"))
                .map(Into::into)
                .collect();
            assert!(said.len() <= 1, "{limit} {option}: {said:?}");
            let silent = option.is_empty() && said.is_empty();
            assert!(!silent || ran.err().is_empty(), "{limit}: {}", ran.err());
        }
    }
    let script = Script::new(SCRIPT);
    let ran = started(script.path(), &format!("ulimit {}", data[0]), "");
    assert!(ran.err().contains("becalm has too little memory"), "{}", ran.err());
    let ran = started(script.path(), "ulimit -n 8", "--count");
    assert!(ran.err().contains("--count is not done"), "{}", ran.err());
}

/// A user who is not root cannot enter what the umask has closed.
#[test]
fn a_first_start_with_a_umask_that_takes_all_leaves_what_the_next_can_use() {
    let (scene, _) = scene_for_a_user(&[]);
    scene.file("script", SCRIPT, 0o755);
    let script = "unset XDG_RUNTIME_DIR BASH_ENV; export TMPDIR=$PWD; cd \"$PWD\"; umask $1\n\
        mkdir -m 777 in; cd in; exec ../becalm run --builtins --count -- bash ../script";
    for umask in ["777", "577", "77"] {
        let mut command = as_a_user(&["bash", "-c", script, "bash", umask]);
        let ran = run(command.current_dir(scene.directory()));
        // Only root can make a file in what `mkdir made` has made, but that is empty.
        assert_eq!((ran.code(), ran.out()), (3, "a\n".into()), "{umask}: {}", ran.err());
        assert!(ran.err().contains("3 of 3 starts avoided"), "{umask}: {}", ran.err());
        fs::remove_dir(scene.at("in")).unwrap();
        let own = scene.path("becalm-65534");
        assert!(own.is_dir());
        // One that was left as it must not be, before becalm saw to it.
        fs::set_permissions(own, fs::Permissions::from_mode(0o000)).unwrap();
    }
}

/// The shell's own code cannot be made writable once more then.
#[test]
fn a_limit_of_data_in_the_script_does_not_end_its_shell() {
    for limit in ["-d 1000", "-Sd 1600", "-d 2000"] {
        let line =
            format!("ulimit {limit}; type dirname; x=$(echo a); /bin/true; ls -d /; echo $x");
        same_with(&line, &["bash", "script"], &[]);
    }
}

/// `ulimit -s` in KiB. A debug build needs some 70 of them for its command line alone.
#[test]
fn becalm_needs_no_more_stack_than_the_command() {
    for limit in [24, 64, 300] {
        let script =
            Script::new("x=$(dirname a/b); mkdir made; bash -c 'dirname c/d; :'; ulimit -s");
        for verb in
            ["run --builtins", "run --builtins --count", "fork lines", "check", "run --aslr off"]
        {
            let line = format!("ulimit -s {limit}; exec \"$0\" {verb} -- bash script");
            let mut command = Command::new("bash");
            command.args(["-c", &line, BECALM]).current_dir(script.path());
            let ran = run(command.env("XDG_STATE_HOME", script.path()).env_remove("BASH_ENV"));
            let wanted = format!("c\n{limit}\n");
            assert_eq!((ran.code(), ran.out()), (0, wanted), "{limit} {verb}: {}", ran.err());
            fs::remove_dir(script.path().join("made")).unwrap();
        }
    }
}

/// A shell further down may have less than the one that started it.
#[test]
fn a_shell_with_little_stack_goes_without_builtins() {
    for inner in ["bash -c", "sh -c", "env bash -c"] {
        let script =
            Script::new(&format!("ulimit -s 24; {inner} 'mkdir made; dirname a/b; :'; echo $?"));
        let ran = run(Command::new(BECALM)
            .args(["run", "--builtins", "--", "bash", "script"])
            .current_dir(script.path()));
        assert_eq!((ran.out().as_str(), ran.err().as_str()), ("a\n0\n", ""), "{inner}");
    }
}

/// There is no file that could stay behind, nor one that somebody could cut short.
#[test]
fn what_is_counted_leaves_no_file_when_becalm_is_killed() {
    let script = Script::new("mkdir made; kill -9 $PPID; sleep 5");
    let ran = started(script.path(), ":", "--count");
    assert_eq!(ran.status.code(), None, "{}", ran.err());
    let own = fs::read_dir(script.path().join("tmp")).unwrap().next().unwrap().unwrap().path();
    let names: Vec<_> =
        fs::read_dir(own).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 1, "{names:?}");
    assert!(names[0].to_string_lossy().starts_with("builtins-"), "{names:?}");
}
