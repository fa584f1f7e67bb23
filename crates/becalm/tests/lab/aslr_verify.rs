//! `becalm lab aslr verify`: one layout or several, and why.

use std::process::Command;

use crate::BECALM;
use testkit::live::run_with_input;
use testkit::{Ran, Scene, run};

fn becalm(words: &[&str]) -> Command {
    let mut command = Command::new(BECALM);
    command.args(["lab", "aslr", "verify"]).args(words).env("COLUMNS", "100");
    command
}

fn line(options: &[&str], variables: &[(&str, &str)]) -> String {
    let mut rank = becalm(options);
    rank.args(["--", "ls", "/nowhere"]).envs(variables.iter().copied());
    let ran = run(&mut rank);
    assert_eq!(ran.code(), 0, "{}", ran.err());
    ran.out()
}

fn compared(lines: &str, options: &[&str]) -> Ran {
    run_with_input(becalm(&["-"]).args(options), lines.as_bytes())
}

#[test]
fn sixteen_ranks_of_mpirun_have_one_layout_under_job_and_sixteen_without() {
    let ranks = |options: &[&str]| {
        let mut mpirun = Command::new("mpirun");
        mpirun.args([
            "--allow-run-as-root",
            "--oversubscribe",
            "-n",
            "16",
            BECALM,
            "lab",
            "aslr",
            "verify",
        ]);
        mpirun.args(options).args(["--", "ls"]).env("XDG_STATE_HOME", Scene::new().at("state"));
        run(&mut mpirun).out()
    };
    let one = compared(&ranks(&["--aslr", "job"]), &[]);
    assert!(one.out().starts_with("One layout: the same in 16 of 16 ranks."), "{}", one.out());
    assert_eq!(one.code(), 0);
    let many = compared(&ranks(&[]), &[]);
    assert!(many.out().starts_with("16 layouts"), "{}", many.out());
    assert!(many.out().contains("at random"), "{}", many.out());
    assert_eq!(many.code(), 1);
}

#[test]
fn what_the_loader_maps_is_seen_and_nothing_of_the_program_has_run() {
    // `ls /nowhere` would complain.
    let told: serde_json::Value = serde_json::from_str(&line(&["--aslr", "off"], &[])).unwrap();
    let at = |name: &str| {
        let place = told["maps"][name].as_str().unwrap().strip_prefix("0x").unwrap();
        u64::from_str_radix(place, 16).unwrap()
    };
    // The stack ends where addresses do, whose bits are 39, 47 or 48; libraries lie near.
    let stack = at("[stack]");
    assert!(stack.next_power_of_two() - stack < 1 << 20, "{told}");
    assert!(stack - at("libc.so.6") < 1 << 30, "{told}");
    assert_eq!(told["facts"]["personality"], "00040000");
}

#[test]
fn what_makes_ranks_differ_is_named() {
    let off = ["--aslr", "off"];
    let plain = line(&off, &[]);
    for (name, value, what) in [
        ("LONGER", "0123456789012345678901234567890123456789", "environment"),
        ("LD_PRELOAD", "libm.so.6", "LD_PRELOAD"),
    ] {
        let ran = compared(&(plain.clone() + &line(&off, &[(name, value)])), &[]);
        assert_eq!(ran.code(), 1);
        assert!(ran.out().contains(what), "{}", ran.out());
    }
    let mut unlimited = Command::new("sh");
    unlimited.args([
        "-c",
        "ulimit -s unlimited; exec \"$@\"",
        "sh",
        BECALM,
        "lab",
        "aslr",
        "verify",
    ]);
    let unlimited = run(unlimited.args(["--aslr", "off", "--", "ls", "/nowhere"])).out();
    let ran = compared(&(plain + &unlimited), &[]);
    assert!(ran.out().contains("stack limit"), "{}", ran.out());
}

#[test]
fn lines_behind_labels_are_read_and_cut_ones_are_told() {
    let whole = line(&["--aslr", "off"], &[]);
    let cut = &whole[..whole.len() / 2];
    let ran = compared(&format!("hello\n[1,3]<stdout>:{whole}7: {cut}\n"), &["--json"]);
    assert_eq!(ran.code(), 1);
    let value: serde_json::Value = serde_json::from_str(&ran.out()).unwrap();
    assert_eq!((&value["ranks"], &value["unreadable"]), (&1.into(), &1.into()));
    let longer = line(&["--aslr", "off"], &[("LONGER", "0123456789012345")]);
    let several = compared(&(whole + &longer), &["--json"]).out();
    assert!(several.contains("\"differences\""), "{several}");
    assert_eq!(compared("", &[]).out(), "No rank told of its layout.\n");
    assert_eq!(run(&mut becalm(&["/nowhere"])).code(), 1);
    assert_eq!(run(becalm(&["--", "no-such-command-here"]).env("PATH", "/bin")).code(), 127);
}

#[test]
fn whose_addresses_they_are_is_said_of_a_wrapper() {
    let err = |words: &[&str]| run(becalm(&[]).arg("--").args(words)).err();
    assert!(err(&["env", "ls"]).contains("the addresses of env, and not"));
    assert!(err(&["/bin/sh", "-c", "ls"]).contains("the addresses of sh, and not"));
    assert_eq!(err(&["ls", "/nowhere"]), "");
}
