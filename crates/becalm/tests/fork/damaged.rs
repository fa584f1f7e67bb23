//! `becalm run --builtins` where files change under it: programs that it knows, and its own.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::live::{Ran, run};

use crate::BECALM;
use crate::builtins::Script;

/// A script with a temporary directory and a directory of programs of its own.
fn scene(script: &str) -> Script {
    let script = Script::new(script);
    fs::create_dir_all(script.path().join("tmp")).unwrap();
    fs::create_dir_all(script.path().join("bin")).unwrap();
    fs::copy("/usr/bin/dirname", script.path().join("bin/dirname")).unwrap();
    script
}

fn ran(script: &Script, with: &[&str], shell: &str) -> Ran {
    let words = [with, &[shell, "script"]].concat();
    let bin = script.path().join("bin");
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(script.path());
    command.env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
    command.env("TMPDIR", script.path().join("tmp"));
    command.env_remove("BASH_ENV").env_remove("XDG_RUNTIME_DIR");
    run(&mut command)
}

const WITH: [&str; 4] = [BECALM, "run", "--builtins", "--"];
const COUNTED: [&str; 5] = [BECALM, "run", "--builtins", "--count", "--"];

/// As long as the program, and as old.
const REPLACED: &str = "dirname a/b\n\
    cp -p bin/dirname kept; printf '#!/bin/sh\\necho another\\n' > other\n\
    truncate -s \"$(stat -c %s kept)\" other; cat other > bin/dirname; touch -r kept bin/dirname\n\
    dirname a/b; bin/dirname a/b; $PWD/bin/dirname a/b; x=$(dirname a/b); echo $x\n";

#[test]
fn a_program_that_is_replaced_in_place_with_its_size_and_time_is_noticed_at_once() {
    for shell in ["bash", "dash"] {
        let script = scene(REPLACED);
        let seen = ran(&script, &COUNTED, shell);
        let said = "a\nanother\nanother\nanother\nanother\n";
        assert_eq!((seen.code(), seen.out()), (0, said.into()), "{shell}: {}", seen.err());
        // The next start finds it replaced.
        let seen = ran(&script, &WITH, shell);
        assert_eq!((seen.code(), seen.out()), (0, said.replace("a\n", "another\n")), "{shell}");
    }
}

#[test]
fn a_program_that_may_no_longer_be_executed_is_refused_as_without() {
    let text = "dirname a/b; chmod 644 bin/dirname; dirname a/b; echo $?; bin/dirname a/b; echo $?\n\
        PATH=$PWD/bin; dirname a/b; echo $?; x=$(dirname a/b); echo $?\n";
    for shell in ["bash", "dash"] {
        let alone = ran(&scene(text), &["env"], shell);
        let script = scene(text);
        let with = ran(&script, &WITH, shell);
        assert!(alone.out().contains("126"), "{shell}: {}", alone.out());
        let same = |ran: &Ran| (ran.code(), ran.out(), without_place(&ran.err()));
        assert_eq!(same(&with), same(&alone), "{shell}");
    }
}

/// Each script has a directory of its own.
fn without_place(text: &str) -> String {
    let words = text.split('/').filter(|word| !word.starts_with(".tmp"));
    words.collect::<Vec<_>>().join("/")
}

/// It needs root, who mounts; a mode says nothing of it.
#[test]
fn a_program_on_a_mount_that_forbids_execution_is_refused_as_without() {
    if !testkit::user::is_root() {
        return;
    }
    let text = "basename a/b; mount -o remount,noexec $PWD/bin\n\
        PATH=$PWD/bin:/usr/bin:/bin; bin/dirname a/b; echo $?; umount $PWD/bin\n";
    let mounted =
        "mkdir -p bin; mount -t tmpfs none bin && cp -p /usr/bin/dirname bin && exec \"$@\"";
    let unshared = ["unshare", "-m", "bash", "-c", mounted, "bash"];
    for shell in ["bash", "dash"] {
        let alone = ran(&scene(text), &unshared, shell);
        assert!(alone.out().contains("126"), "{shell}: {} {}", alone.out(), alone.err());
        let with = ran(&scene(text), &[&unshared[..], &WITH].concat(), shell);
        let same = |ran: &Ran| (ran.code(), ran.out(), without_place(&ran.err()));
        assert_eq!(same(&with), same(&alone), "{shell}");
    }
}

fn kept(script: &Script) -> PathBuf {
    let own = fs::read_dir(script.path().join("tmp")).unwrap().next().unwrap().unwrap().path();
    let mut all = fs::read_dir(own).unwrap().map(|entry| entry.unwrap().path());
    all.find(|path| path.join("found").exists()).unwrap()
}

/// What can become of a file, and how.
type Damage = (&'static str, fn(&Path));

const DAMAGES: [Damage; 7] = [
    ("empty", |file| fs::write(file, b"").unwrap()),
    ("cut short", |file| {
        let content = fs::read(file).unwrap();
        fs::write(file, &content[..content.len() / 2]).unwrap();
    }),
    ("garbled", |file| {
        let mut content = fs::read(file).unwrap();
        let at = content.len() / 2;
        content[at] ^= 1;
        fs::write(file, content).unwrap();
    }),
    ("a FIFO", |file| {
        fs::remove_file(file).unwrap();
        run(Command::new("mkfifo").arg(file));
    }),
    ("a directory", |file| {
        fs::remove_file(file).unwrap();
        fs::create_dir_all(file.join("of/somebody")).unwrap();
    }),
    ("a link", |file| {
        let elsewhere = file.with_extension("elsewhere");
        fs::rename(file, &elsewhere).unwrap();
        symlink(elsewhere, file).unwrap();
    }),
    ("another's to write", |file| {
        fs::set_permissions(file, fs::Permissions::from_mode(0o666)).unwrap();
    }),
];

const KEPT: [&str; 6] =
    ["found", "programs", "bash_env", "becalm-builtins.so", "becalm-dash.so", "becalm-launcher.so"];

const SCRIPT: &str =
    "mkdir made; bash -c 'rmdir made'; dash -c 'dirname a/b'; env bash -c 'basename c/d'";

#[test]
fn what_is_kept_and_damaged_is_made_anew_or_left_out_and_never_waited_for() {
    for file in KEPT {
        for (how, damage) in DAMAGES {
            let script = scene(SCRIPT);
            ran(&script, &WITH, "bash");
            damage(&kept(&script).join(file));
            for round in ["first", "second"] {
                let seen = ran(&script, &COUNTED, "bash");
                assert_eq!((seen.code(), seen.out()), (0, "a\nd\n".into()), "{file} {how} {round}");
                // In a directory that holds something of somebody's, another place is taken.
                assert!(
                    seen.err().contains("4 of 7 starts avoided"),
                    "{file} {how} {round}: {}",
                    seen.err()
                );
            }
        }
    }
}

/// The libraries that running shells have mapped are left as they are: whoever cuts those short ends them,
/// as any program whose file is cut short. What is left of the file that BASH_ENV names, bash reads.
#[test]
fn what_is_damaged_while_a_script_runs_is_left_out_by_the_shells_that_it_starts() {
    for (how, damage) in DAMAGES {
        for file in KEPT.into_iter().filter(|file| *file != "bash_env") {
            let wait = "until [ -e damaged ]; do /bin/sleep 0.01; done; rm damaged\n";
            let script = scene(&format!(
                "exec 3< script; touch begun; {wait}{SCRIPT}; sh -c 'mkdir x; rmdir x'"
            ));
            fs::write(script.path().join("damaged"), b"").unwrap();
            ran(&script, &WITH, "bash");
            // Nobody's library is cut short in place: the new one takes its name.
            let of_kept = kept(&script).join(file);
            let anew = of_kept.with_extension("anew");
            fs::copy(&of_kept, &anew).unwrap();
            fs::remove_file(script.path().join("begun")).unwrap();
            let damaged = script.path().join("damaged");
            let begun = script.path().join("begun");
            let damaging = std::thread::spawn(move || {
                testkit::live::wait_until("the script runs", || begun.exists());
                fs::rename(&anew, &of_kept).unwrap();
                damage(&of_kept);
                fs::write(damaged, b"").unwrap();
            });
            let seen = ran(&script, &WITH, "bash");
            damaging.join().unwrap();
            let said = (seen.code(), seen.out(), seen.err());
            assert_eq!(said, (0, "a\nd\n".into(), String::new()), "{file} {how}");
        }
    }
}
