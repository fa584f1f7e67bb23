//! `becalm lab aslr explain` names the region that a program's time hangs on, and only that.

use std::process::Command;

use serde_json::Value;

use crate::BECALM;
use testkit::{Ran, Scene, answer, run};

/// Tells pages of its regions, or works three times as long where they are as wanted.
const MOODY: &str = r#"
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
static uint64_t of(const char *region) {
    if (!strcmp(region, "libc")) return (uintptr_t)printf >> 12;
    if (!strcmp(region, "libm")) return (uintptr_t)(double (*)(double))cbrt >> 12;
    if (!strcmp(region, "loader")) return getauxval(AT_BASE) >> 12;
    if (!strcmp(region, "stack")) return (uintptr_t)__builtin_frame_address(0) >> 4;
    if (!strcmp(region, "later"))
        return (uintptr_t)mmap(0, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) >> 12;
    if (!strcmp(region, "distance"))
        return ((uintptr_t)printf - (uintptr_t)(double (*)(double))cbrt) >> 12;
    return 0;
}
int main(int argc, char **argv) {
    int is_slow = argc > 2;
    for (int i = 1; i + 1 < argc; i += 2)
        is_slow &= of(argv[i]) % 32 == strtoull(argv[i + 1], 0, 10) % 32 &&
            (strcmp(argv[i], "distance") || of(argv[i]) == strtoull(argv[i + 1], 0, 10));
    const char *tells = getenv("TELLS");
    if (argc == 2 || (tells && *tells == 'y')) {
        printf("%llu\n", (unsigned long long)of(argv[1]));
        return 0;
    }
    volatile unsigned long sum = cbrt(argc);
    for (unsigned long i = 0; i < 8000000ul * (is_slow ? 3 : 1); i++) sum += i;
    printf("this is not for becalm's answer\n");
    return 0;
}
"#;

fn moody(scene: &Scene) -> String {
    let source = scene.file("moody.c", MOODY, 0o644);
    let program = scene.at("moody");
    let done =
        run(Command::new("gcc").args(["-O1", "-fno-builtin", &source, "-o", &program, "-lm"]));
    assert_eq!(done.code(), 0, "{}", done.err());
    program
}

fn explain(scene: &Scene, layout: &str, options: &[&str], command: &[&str]) -> Ran {
    let mut becalm = Command::new(BECALM);
    becalm.args(["lab", "aslr", "explain", layout]).args(options).arg("--").args(command);
    run(becalm.env("COLUMNS", "100").current_dir(scene.directory()))
}

/// What the program says of a region in a layout.
fn place(scene: &Scene, program: &str, layout: &str, region: &str) -> String {
    let mut becalm = Command::new(BECALM);
    becalm.args(["run", "--aslr", layout, "--", program, region]);
    let ran = run(becalm.current_dir(scene.directory()));
    assert_eq!(ran.code(), 0, "{}", ran.err());
    ran.out().trim().to_owned()
}

fn explained(scene: &Scene, layout: &str, command: &[&str]) -> Value {
    let ran = explain(scene, layout, &["--threshold", "60", "--json"], command);
    assert!(ran.code() < 2, "{}", ran.err());
    let value = answer::parse(ran.out());
    let is_named = !matches!(value["cause"].as_str(), Some("not_slow" | "unclear"));
    assert_eq!(ran.code(), i32::from(!is_named), "{value:#}");
    value
}

/// The names of those that matter.
fn named(value: &Value) -> Vec<&str> {
    let regions = value["regions"].as_array().unwrap();
    let matter = regions.iter().filter(|region| region["matters"] == true);
    matter.map(|region| region["name"].as_str().unwrap()).collect()
}

#[test]
fn the_region_that_a_programs_time_hangs_on_is_named_and_no_other() {
    let scene = Scene::new();
    let program = moody(&scene);
    let layout = "layout:0x2b";
    for (region, name) in [
        ("libc", "libc.so.6"),
        ("libm", "libm.so.6"),
        ("later", "mapped after the start"),
        ("loader", "loader and vdso"),
    ] {
        let page = place(&scene, &program, layout, region);
        let value = explained(&scene, layout, &[&program, region, &page]);
        assert_eq!(
            (value["cause"].as_str(), named(&value)),
            (Some("alone"), vec![name]),
            "{value:#}"
        );
        assert!(value["times_reference"].as_f64().unwrap() > 2.0, "{value:#}");
        let regions = value["regions"].as_array().unwrap();
        let matters = regions.iter().find(|region| region["matters"] == true).unwrap();
        assert!(matters["all_but"].as_f64().unwrap() < 1.6, "{value:#}");
        assert_ne!(matters["reference_at"], matters["layout_at"], "{value:#}");
    }
}

#[test]
fn the_stack_is_moved_alone() {
    let scene = Scene::new();
    let program = moody(&scene);
    let layout = "layout:0x2b+0x40";
    // The frame lies where it does with as many arguments and variables of the same lengths.
    let with = |tells: &str, line: &[&str], place: &str| {
        let mut becalm = Command::new(BECALM);
        becalm.args(line).args(["--", &program, "stack", place]).env("TELLS", tells);
        run(becalm.current_dir(scene.directory()))
    };
    let told = with("y", &["run", "--aslr", layout], "00");
    let place: u64 = told.out().trim().parse().unwrap();
    let place = format!("{:02}", place % 32);
    let explained =
        with("n", &["lab", "aslr", "explain", layout, "--threshold", "60", "--json"], &place);
    assert_eq!(explained.code(), 0, "{}", explained.err());
    let value = answer::parse(explained.out());
    assert_eq!(
        (value["cause"].as_str(), named(&value)),
        (Some("alone"), vec!["stack"]),
        "{value:#}"
    );
}

#[test]
fn regions_that_matter_only_together_are_named_together() {
    let scene = Scene::new();
    let program = moody(&scene);
    let layout = "layout:0x2b";
    let [libc, libm] = ["libc", "libm"].map(|region| place(&scene, &program, layout, region));
    let value = explained(&scene, layout, &[&program, "libc", &libc, "libm", &libm]);
    assert_eq!(value["cause"], "together", "{value:#}");
    let mut names = named(&value);
    names.sort_unstable();
    assert_eq!(names, ["libc.so.6", "libm.so.6"], "{value:#}");
}

#[test]
fn what_hangs_on_the_distance_of_two_libraries_is_said_to_do_so() {
    let scene = Scene::new();
    let program = moody(&scene);
    let layout = "layout:0x2b";
    let [libc, distance] =
        ["libc", "distance"].map(|region| place(&scene, &program, layout, region));
    let value = explained(&scene, layout, &[&program, "libc", &libc, "distance", &distance]);
    assert_eq!((value["cause"].as_str(), named(&value)), (Some("distance"), vec![]), "{value:#}");
}

#[test]
fn what_analyze_says_to_do_next_about_a_rank_that_is_slow_by_its_layout_explains_it() {
    let scene = Scene::new();
    let program = moody(&scene);
    let page = place(&scene, &program, "layout:0x2b", "libc");
    let mut log = format!(
        "{{\"schema\":\"becalm.aslr.log/1\",\"command\":[\"./moody\",\"libc\",\"{page}\"],\"by\":\"wall\"}}\n"
    );
    for job in 0..40 {
        let (arm, layout) =
            [("off", "off".to_owned()), ("job", format!("layout:{job:#x}"))][job % 2].clone();
        let (avg, layout, more) = match job {
            21 => {
                let again = r#"[{"changed":"nothing","avg":0.3},{"changed":"layout","avg":0.1}]"#;
                (0.3, "layout:0x2b".to_owned(), format!(",\"retests\":{again}"))
            }
            _ => (0.1, layout, String::new()),
        };
        log += &format!(
            "{{\"arm\":\"{arm}\",\"job\":{job},\"block\":{},\"rank\":0,\"min\":{avg},\"max\":{avg},\
             \"avg\":{avg},\"stddev\":0,\"control\":0.001,\"layout\":\"{layout}\"{more}}}\n",
            job / 2
        );
    }
    scene.file("campaign.jsonl", log, 0o644);
    let mut becalm = Command::new(BECALM);
    becalm.args(["lab", "aslr", "analyze", "campaign.jsonl"]).current_dir(scene.directory());
    let said = run(&mut becalm).out();
    let next = said.trim_end().rsplit("Next: ").next().unwrap();
    let line = format!("becalm lab aslr explain layout:0x2b --by wall -- ./moody libc {page}");
    assert_eq!(next, line, "{said}");
    let line = line.replace("becalm", BECALM);
    let ran = run(Command::new("sh").args(["-c", &line]).current_dir(scene.directory()));
    assert_eq!(ran.code(), 0, "{}", ran.err());
    assert!(ran.out().replace('\n', " ").contains("one region lies: libc.so.6."), "{}", ran.out());
}

#[test]
fn a_layout_that_is_not_slow_has_no_cause_and_is_counted_beside_the_reference() {
    let scene = Scene::new();
    let program = moody(&scene);
    let ran = explain(&scene, "layout:0x2b", &["--threshold", "60"], &[&program]);
    assert_eq!(ran.code(), 1, "{}", ran.err());
    assert!(ran.out().starts_with("layout:0x2b is not slow: "), "{}", ran.out());
    assert!(!ran.out().contains("this is not") && !ran.out().contains("Next:"), "{}", ran.out());
    let value = explained(&scene, "layout:0x2b", &[&program]);
    let counts = value["counted"]["counts"].as_array().unwrap();
    let faults = counts.iter().find(|count| count["name"] == "page faults");
    // The software's counters are there wherever perf is allowed at all.
    if testkit::user::is_root() {
        let faults = faults.unwrap();
        for side in ["reference", "layout"] {
            assert!(faults[side].as_f64().unwrap() > 3.0, "{value:#}");
        }
        let name = "pages in memory in the end";
        let pages = counts.iter().find(|count| count["name"] == name).unwrap();
        assert!(pages["layout"].as_f64().unwrap() > 50.0, "{value:#}");
    }
    // What is not counted is said, with why.
    let refused = value["counted"]["refused"].as_array().unwrap();
    for name in ["cycles", "ITLB misses"] {
        let is_counted = counts.iter().any(|count| count["name"] == name);
        let is_refused = refused.iter().any(|one| {
            one["names"].as_array().unwrap().iter().any(|other| other == name)
                && !one["why"].as_str().unwrap().is_empty()
        });
        assert!(is_counted != is_refused, "{name}: {value:#}");
    }
}

#[test]
fn what_cannot_be_explained_is_refused() {
    let scene = Scene::new();
    let program = moody(&scene);
    for (layout, command, status) in [
        ("layout:0x2b", &["no-such-command-here"][..], 127),
        ("layout:0x10000000", &["true"], 2),
        ("2b", &["true"], 2),
        ("layout:0x2b", &["false"], 125),
        ("layout:0x2b", &["env", &program], 125),
    ] {
        let ran = explain(&scene, layout, &["--by", "wall"], command);
        assert_eq!((ran.code(), ran.out().as_str()), (status, ""), "{command:?} {}", ran.err());
    }
}
