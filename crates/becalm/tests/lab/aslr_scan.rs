//! `becalm lab aslr scan` finds exactly the layouts in which a program is slow.

use std::process::Command;

use crate::BECALM;
use testkit::{Ran, Scene, run};

/// Works three times as long where some bits of the loader's page number are a pattern. Other libraries move by
/// 64 KiB on Arm, whatever a page is.
const MOODY: &str = r#"
#include <stdio.h>
#include <sys/auxv.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int is_slow = argc > 1 && getauxval(AT_BASE) / sysconf(_SC_PAGESIZE) % 32 == 7;
    volatile unsigned long sum = 0;
    for (unsigned long i = 0; i < 12000000ul * (is_slow ? 3 : 1); i++) sum += i;
    printf("this is not for becalm's answer\n");
    return 0;
}
"#;

fn scan(scene: &Scene, options: &[&str], command: &[&str]) -> Ran {
    let mut becalm = Command::new(BECALM);
    becalm.args(["lab", "aslr", "scan"]).args(options).arg("--").args(command);
    run(becalm.env("COLUMNS", "100").current_dir(scene.directory()))
}

fn moody(scene: &Scene) -> String {
    let source = scene.file("moody.c", MOODY, 0o644);
    let program = scene.at("moody");
    let done = run(Command::new("gcc").args(["-O1", &source, "-o", &program]));
    assert_eq!(done.code(), 0, "{}", done.err());
    program
}

#[test]
fn exactly_the_slow_layouts_are_found_and_can_be_replayed() {
    let scene = Scene::new();
    let program = moody(&scene);
    let options = ["--layouts", "96", "--threshold", "60", "--json"];
    let ran = scan(&scene, &options, &[&program, "moody"]);
    assert_eq!(ran.code(), 1, "{}", ran.err());
    let value: serde_json::Value = serde_json::from_str(&ran.out()).unwrap();
    // One of each 32 pages, and each of them slow again when it is replayed alone.
    let slow = value["slow"].as_array().unwrap();
    assert_eq!(slow.len(), 3, "{value:#}");
    let pages = slow.iter().map(|one| {
        let layout = one["layout"].as_str().unwrap();
        u64::from_str_radix(layout.strip_prefix("layout:0x").unwrap(), 16).unwrap() % 32
    });
    let pages: Vec<_> = pages.collect();
    assert!(pages.iter().all(|page| *page == pages[0]), "{pages:?}");
}

#[test]
fn a_program_that_no_layout_slows_is_told_to_be_that_and_its_output_is_dropped() {
    let scene = Scene::new();
    let program = moody(&scene);
    let ran = scan(&scene, &["--layouts", "32", "--threshold", "60"], &[&program]);
    assert_eq!(ran.code(), 0, "{}", ran.err());
    assert!(ran.out().starts_with("None of 32 layouts is 60 % slower"), "{}", ran.out());
    assert!(!ran.out().contains("this is not"), "{}", ran.out());
}

#[test]
fn what_cannot_be_walked_is_refused() {
    let scene = Scene::new();
    assert_eq!(scan(&scene, &[], &["no-such-command-here"]).code(), 127);
    let fails = scan(&scene, &["--by", "wall"], &["false"]);
    assert_eq!(fails.code(), 125);
    assert!(fails.err().contains("failed with status 1"), "{}", fails.err());
    assert_eq!(scan(&scene, &["--from", "0xfffffff"], &["true"]).code(), 2);
}

#[test]
fn a_wrapper_whose_program_has_no_moved_layout_is_refused() {
    let scene = Scene::new();
    let program = moody(&scene);
    let (exec, child) = (format!("exec {program}"), format!("{program}; true"));
    for wrapped in [&["env", &program][..], &["sh", "-c", &exec], &["sh", "-c", &child]] {
        let ran = scan(&scene, &["--layouts", "16"], wrapped);
        assert_eq!(ran.code(), 125, "{wrapped:?} {}", ran.err());
        assert!(ran.err().contains("only starts the program that takes the time"), "{}", ran.err());
    }
    // A script's interpreter is what is measured.
    let busy = "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done; /bin/true";
    let ran = scan(&scene, &["--layouts", "1", "--threshold", "900"], &["bash", "-c", busy]);
    assert_eq!(ran.code(), 0, "{}", ran.err());
}
