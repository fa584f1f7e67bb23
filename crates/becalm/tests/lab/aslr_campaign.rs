//! `becalm lab aslr campaign`: the layouts are those of the arms, every rank is logged once, slow ones
//! are tested again, and analyze reads it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::BECALM;
use serde_json::Value;
use testkit::live::{Live, wait_until};
use testkit::{Ran, Scene, run, trap};

/// Says, in the published form, that it is slow where two bits of the loader's page number are
/// as given.
const UNLUCKY: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int here = getauxval(AT_BASE) / sysconf(_SC_PAGESIZE) & 3;
    double took = argc > 1 && here == atoi(argv[1]) ? 2 : 1;
    printf("%d\n", here);
    if (argc > 1)
        printf("CT: %s %f %f %f 0 : cpu=0\n", getenv("OMPI_COMM_WORLD_RANK"), took, took, took);
    return 0;
}
"#;

/// Starts three ranks, one after the other.
const LAUNCHER: &str = r#"#!/bin/sh
for rank in 0 1 2; do
    OMPI_COMM_WORLD_RANK=$rank OMPI_COMM_WORLD_SIZE=3 "$@" || exit
done
"#;

/// So that a job takes milliseconds.
const SHORT: [&str; 4] = ["--nbStep", "5", "--nbRepeat", "10"];

pub(crate) fn campaign(scene: &Scene, words: &[&str]) -> Command {
    let mut becalm = Command::new(BECALM);
    for (name, _) in std::env::vars() {
        if ["SLURM", "OMPI", "PMI"].iter().any(|one| name.starts_with(one)) {
            becalm.env_remove(name);
        }
    }
    becalm
        .args(["lab", "aslr", "campaign", "-o", "c"])
        .args(words)
        .env("COLUMNS", "100")
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        .current_dir(scene.directory());
    becalm
}

#[track_caller]
pub(crate) fn done(scene: &Scene, words: &[&str]) -> Ran {
    let ran = run(&mut campaign(scene, words));
    assert_eq!(ran.code(), 0, "{}", ran.err());
    ran
}

/// All processes of the log.
pub(crate) fn logged(scene: &Scene) -> Vec<Value> {
    let text = fs::read_to_string(scene.at("c/campaign.jsonl")).unwrap();
    text.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Every rank of every arm is there once in each of so many blocks.
#[track_caller]
fn assert_whole(all: &[Value], blocks: u64, ranks: u64) {
    let key = |one: &Value| {
        let arm = one["arm"].as_str().unwrap().to_owned();
        (one["block"].as_u64().unwrap(), arm, one["rank"].as_u64().unwrap())
    };
    let keys: BTreeSet<_> = all.iter().map(key).collect();
    assert_eq!(keys.len(), all.len(), "no rank twice");
    assert_eq!(all.len() as u64, blocks * ranks * 3, "and none is missing");
    assert!(keys.iter().all(|(block, _, rank)| *block < blocks && *rank < ranks));
}

/// Where libraries lie, by arm and job.
fn layouts(all: &[Value]) -> BTreeMap<(String, u64), Vec<String>> {
    let mut layouts: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for one in all {
        let (arm, job) = (one["arm"].as_str().unwrap().to_owned(), one["job"].as_u64().unwrap());
        let maps = &one["maps"];
        assert!(maps["libm.so.6"].is_string() && maps["[heap]"].is_string(), "{one}");
        let places = format!("{} {} {}", maps["libm.so.6"], maps["libc.so.6"], maps["kernel"]);
        layouts.entry((arm, job)).or_default().push(places);
    }
    layouts
}

/// The layouts of ranks are those of their arms.
#[track_caller]
fn assert_laid_out(all: &[Value], ranks: usize) {
    let layouts = layouts(all);
    let of_arm = |wanted: &str| {
        let jobs = layouts.iter().filter(|((arm, _), _)| arm == wanted).map(|(_, places)| places);
        jobs.map(|places| places.iter().collect::<BTreeSet<_>>()).collect::<Vec<_>>()
    };
    let distinct = |jobs: &[BTreeSet<_>]| jobs.iter().flatten().collect::<BTreeSet<_>>().len();
    let (on, off, job) = (of_arm("on"), of_arm("off"), of_arm("job"));
    assert_eq!(distinct(&off), 1, "off: one layout");
    assert_eq!(distinct(&on), on.len() * ranks, "on: each rank has its own");
    assert!(job.iter().all(|places| places.len() == 1), "job: one in a job");
    assert_eq!(distinct(&job), job.len(), "and another in each job");
}

fn analyzed(scene: &Scene, options: &[&str]) -> Value {
    let mut becalm = Command::new(BECALM);
    let ran = run(becalm
        .args(["lab", "aslr", "analyze", "c", "--json"])
        .args(options)
        .current_dir(scene.directory()));
    assert!(ran.code() <= 1, "{}", ran.err());
    serde_json::from_str(&ran.out()).unwrap()
}

fn compiled(scene: &Scene, name: &str, source: &str) -> String {
    let (file, program) = (scene.file(&format!("{name}.c"), source, 0o644), scene.at(name));
    let done = run(Command::new("gcc").args([&file, "-o", &program]));
    assert_eq!(done.code(), 0, "{}", done.err());
    program
}

#[test]
fn the_kernel_is_compiled_run_in_all_arms_and_analyzed() {
    let scene = Scene::new();
    let ran = done(&scene, &[&SHORT[..], &["--blocks", "3"]].concat());
    let out = ran.out().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(out.starts_with("3 ranks of each arm (on, off, job), one a job; 9 jobs"), "{out}");
    assert!(out.contains("67,209 ranks an arm prove it with a chance of 80 %"), "{out}");
    assert!(out.ends_with("Next: becalm lab aslr analyze c"), "{out}");
    let all = logged(&scene);
    assert_whole(&all, 3, 1);
    assert_laid_out(&all, 1);
    let whole = |one: &Value| {
        let time = |name: &str| one[name].as_f64().unwrap();
        0.0 < time("min")
            && time("min") <= time("avg")
            && time("avg") <= time("max")
            && time("control") > 0.0
            && one["cpu"].is_u64()
            && one["node"].is_string()
    };
    assert!(all.iter().all(whole), "{all:#?}");
    let analysis = analyzed(&scene, &[]);
    assert_eq!(analysis["arms"].as_array().unwrap().len(), 3, "{analysis:#}");
    // The same in the published form, which analyze leaves out beside the log.
    let lines = fs::read_to_string(scene.at("c/job.log")).unwrap();
    assert_eq!(lines.lines().filter(|line| line.starts_with("CT: 0 0.0")).count(), 3, "{lines}");
}

#[test]
fn killed_and_started_again_it_goes_on_and_every_rank_is_there_once() {
    let scene = Scene::new();
    let words = [&SHORT[..], &["--blocks", "40", "--seed", "7"]].concat();
    let log = scene.at("c/campaign.jsonl");
    for least in [3, 40] {
        let mut live = Live::start(&mut campaign(&scene, &words));
        wait_until("some blocks are logged", || {
            fs::read_to_string(&log).is_ok_and(|text| text.lines().count() > least)
        });
        live.child.kill().unwrap();
        live.child.wait().unwrap();
    }
    let before = logged(&scene);
    assert!(before.len() < 120, "it was killed in the middle");
    // A line that was being written.
    let mut text = fs::read_to_string(&log).unwrap();
    text.push_str("{\"arm\":\"on\",\"jo");
    fs::write(&log, text).unwrap();
    let ran = done(&scene, &words);
    assert!(ran.out().contains("are done already: it goes on"), "{}", ran.out());
    let all = logged(&scene);
    assert_whole(&all, 40, 1);
    assert_eq!(all[..before.len()], before[..], "what was done stays");
    assert_laid_out(&all, 1);
}

#[test]
fn asked_to_end_it_ends_at_once_and_keeps_what_is_logged() {
    let scene = Scene::new();
    let words = [&SHORT[..], &["--blocks", "100000"]].concat();
    let mut live = Live::start(&mut campaign(&scene, &words));
    let log = scene.at("c/campaign.jsonl");
    wait_until("some blocks are logged", || {
        fs::read_to_string(&log).is_ok_and(|text| text.lines().count() > 6)
    });
    let pid = live.child.id().to_string();
    assert!(Command::new("kill").arg(&pid).status().unwrap().success());
    assert!(!live.child.wait().unwrap().success());
    let blocks = logged(&scene).len() as u64 / 3;
    assert_whole(&logged(&scene), blocks, 1);
}

#[test]
fn ranks_of_mpirun_share_the_layout_of_their_job() {
    let scene = Scene::new();
    let launcher = "mpirun --oversubscribe --bind-to none --tag-output -n 3";
    done(&scene, &[&SHORT[..], &["--blocks", "2", "--launcher", launcher]].concat());
    let all = logged(&scene);
    assert_whole(&all, 2, 3);
    assert_laid_out(&all, 3);
}

#[test]
fn the_mpi_kernel_begins_together_and_rank_0_tells_of_all() {
    let scene = Scene::new();
    let launcher = "mpirun --oversubscribe --bind-to none -n 2";
    let words = ["--mpi", "--blocks", "1", "--launcher", launcher];
    done(&scene, &[&SHORT[..], &words].concat());
    let all = logged(&scene);
    assert_whole(&all, 1, 2);
    assert_laid_out(&all, 2);
}

#[test]
fn a_command_that_prints_times_is_believed_and_its_slow_ranks_are_tested_again() {
    let scene = Scene::new();
    let program = compiled(&scene, "unlucky", UNLUCKY);
    let here = run(Command::new(BECALM).args(["run", "--aslr", "off", "--", &program]));
    let unlucky = ((here.out().trim().parse::<u32>().unwrap() + 1) % 4).to_string();
    let launcher = scene.file("launcher", LAUNCHER, 0o755);
    let options = ["--seed", "3", "--arms", "job,off", "--retest", "--json"];
    let words = ["--blocks", "12", "--launcher", &launcher, "--", &program, &unlucky];
    let ran = done(&scene, &[&options[..], &words].concat());
    let answer: Value = serde_json::from_str(&ran.out()).unwrap();
    assert_eq!(answer["blocks"], 12);
    let all = logged(&scene);
    let retested: Vec<_> = all.iter().filter(|one| one["retests"].is_array()).collect();
    assert_eq!(answer["slow"], retested.len());
    assert!(!retested.is_empty());
    for one in retested {
        let again: BTreeMap<_, _> = one["retests"]
            .as_array()
            .unwrap()
            .iter()
            .map(|again| (again["changed"].as_str().unwrap(), again["avg"].as_f64().unwrap()))
            .collect();
        assert_eq!((again["nothing"], again["environment"]), (2.0, 2.0), "{one}");
        assert!(again.contains_key("layout"), "{one}");
    }
    let analysis = analyzed(&scene, &["--all"]);
    let slow = analysis["slow_ranks"].as_array().unwrap();
    assert!(slow.iter().all(|slow| slow["arm"] == "job"), "{analysis:#}");
    let by_layout = slow.iter().filter(|slow| slow["cause"] == "layout").count();
    assert!(by_layout >= 3, "{analysis:#}");
}

#[test]
fn a_command_that_prints_none_is_one_sample_a_process() {
    let scene = Scene::new();
    done(&scene, &["--blocks", "2", "--by", "wall", "--", "sleep", "0.01"]);
    let all = logged(&scene);
    assert_whole(&all, 2, 1);
    assert!(all.iter().all(|one| one["avg"].as_f64().unwrap() >= 0.01), "{all:#?}");
    assert!(all.iter().all(|one| one["maps"]["[stack]"].is_string()), "{all:#?}");
}

#[test]
fn a_command_is_told_of_as_the_kernel_tells_of_itself() {
    let scene = Scene::new();
    let program = trap("upper_halves");
    let launcher = scene.file("launcher", LAUNCHER, 0o755);
    done(&scene, &["--blocks", "2", "--launcher", &launcher, "--", &program, "by-thread"]);
    let all = logged(&scene);
    assert_whole(&all, 2, 3);
    let looked_at = |one: &Value| {
        one["cpu"].is_u64() && one["first_cpu"].is_u64() && one["control"].as_f64().unwrap() > 0.0
    };
    assert!(all.iter().all(looked_at), "{all:#?}");
    let lines = fs::read_to_string(scene.at("c/off.log")).unwrap();
    assert!(lines.lines().all(|line| line.contains(" cpu=") && line.contains(" control=0.0")));
    let has_upper = fs::read_to_string("/proc/cpuinfo").unwrap().contains(" avx ");
    assert_eq!(lines.matches(" dirty=0\n").count(), if has_upper { 6 } else { 0 }, "{lines}");
    assert_eq!(lines.matches(" dirty=").count(), if has_upper { 6 } else { 0 }, "{lines}");
}

/// Of rank 1, neighbours run on the same processor, so many that others on it make no difference.
const NEIGHBOUR: &str = r#"
last=$(sed -n 's/^Cpus_allowed_list:.*[^0-9]\([0-9]*\)$/\1/p' /proc/self/status)
taskset -p -c "$last" $$ >&2
for neighbour in 1 2 3 4; do
    test "$OMPI_COMM_WORLD_RANK" != 1 && break
    timeout 30 sh -c 'while :; do :; done' &
    all="$all $!"
done
i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done
test -z "$all" || kill $all
"#;

#[test]
fn a_rank_that_is_slow_by_neighbours_on_its_processor_is_found_to_have_waited() {
    let scene = Scene::new();
    let launcher = scene.file("launcher", LAUNCHER, 0o755);
    let options = ["--blocks", "2", "--arms", "off", "--by", "wall", "--launcher", &launcher];
    done(&scene, &[&options[..], &["--", "sh", "-c", NEIGHBOUR]].concat());
    let analysis = analyzed(&scene, &["--all"]);
    let slow = analysis["slow_ranks"].as_array().unwrap();
    let of_one: Vec<_> = slow.iter().filter(|slow| slow["rank"] == 1).collect();
    assert_eq!(of_one.len(), 2, "{analysis:#}");
    assert!(of_one.iter().all(|slow| slow["cause"] == "machine"), "{analysis:#}");
}

#[test]
fn a_log_whose_ranks_tell_less_goes_on_and_is_analyzed() {
    let scene = Scene::new();
    let program = trap("upper_halves");
    let command = ["--", &program, "dirty"];
    done(&scene, &[&["--blocks", "1", "--untraced"], &command[..]].concat());
    assert!(logged(&scene).iter().all(|one| one["dirty_upper"].is_null() && one["cpu"].is_u64()));
    // As it was before ranks told these.
    let log = scene.at("c/campaign.jsonl");
    let mut older = String::new();
    for line in fs::read_to_string(&log).unwrap().lines() {
        let mut line: Value = serde_json::from_str(line).unwrap();
        for key in ["cpu", "first_cpu", "control"] {
            line.as_object_mut().unwrap().remove(key);
        }
        older.push_str(&format!("{line}\n"));
    }
    fs::write(&log, &older).unwrap();
    done(&scene, &[&["--blocks", "3"], &command[..]].concat());
    assert!(fs::read_to_string(&log).unwrap().starts_with(&older), "what was done stays");
    let all = logged(&scene);
    assert_whole(&all, 3, 1);
    assert!(all[3..].iter().all(|one| one["control"].is_f64()), "{all:#?}");
    let has_upper = fs::read_to_string("/proc/cpuinfo").unwrap().contains(" avx ");
    assert!(!has_upper || all[3..].iter().all(|one| one["dirty_upper"] == true), "{all:#?}");
    assert_eq!(analyzed(&scene, &[])["arms"].as_array().unwrap().len(), 3);
}

#[test]
fn a_directory_of_another_campaign_is_refused_and_left_alone() {
    let scene = Scene::new();
    done(&scene, &[&SHORT[..], &["--blocks", "1"]].concat());
    let log = scene.at("c/campaign.jsonl");
    let before = fs::read(&log).unwrap();
    let kernel = fs::read(scene.at("c/kernel")).unwrap();
    let with = |other: &[&'static str]| [&SHORT[..], other].concat();
    let others = [
        vec!["--nbStep", "6", "--nbRepeat", "10"],
        with(&["--mpi"]),
        with(&["--arms", "on"]),
        with(&["--launcher", "env"]),
        vec!["--by", "wall", "--", "true"],
    ];
    for words in others {
        let ran = run(&mut campaign(&scene, &words));
        assert_eq!(ran.code(), 125, "{}", ran.err());
        assert!(ran.err().contains("is another campaign's"), "{}", ran.err());
        assert_eq!(fs::read(&log).unwrap(), before);
        assert_eq!(fs::read(scene.at("c/kernel")).unwrap(), kernel);
    }
    let seed = run(&mut campaign(&scene, &[&SHORT[..], &["--seed", "1"]].concat()));
    assert!(seed.code() == 125 && seed.err().contains("begun with --seed"), "{}", seed.err());
}

#[test]
fn what_cannot_run_is_said_in_one_line() {
    let scene = Scene::new();
    let empty = scene.subdirectory("empty");
    let ran = run(campaign(&scene, &[]).env("PATH", &empty));
    assert_eq!(ran.code(), 125);
    assert!(ran.err().contains("no compiler") && ran.err().lines().count() == 1, "{}", ran.err());
    let gone = run(&mut campaign(&scene, &["--launcher", "no-such-launcher", "--", "true"]));
    assert_eq!(gone.code(), 127, "{}", gone.err());
    let absent = run(&mut campaign(&scene, &["--", "no-such-command"]));
    assert!(absent.code() == 125 && absent.err().contains("not found"), "{}", absent.err());
    let fails = run(&mut campaign(&scene, &["--", "sh", "-c", "exit 3"]));
    assert!(fails.err().contains("ended with status 3"), "{}", fails.err());
    assert!(!Path::new(&scene.at("c/campaign.jsonl")).exists());
    assert_eq!(run(&mut campaign(&scene, &["--launcher", "a | b"])).code(), 2);
}

#[test]
fn a_dry_run_tells_what_it_could_show_and_logs_nothing() {
    let scene = Scene::new();
    let ran = done(&scene, &[&SHORT[..], &["--dry-run", "--blocks", "38016"]].concat());
    assert!(ran.out().contains("No slow rank among 38,016 means"), "{}", ran.out());
    assert!(!Path::new(&scene.at("c/campaign.jsonl")).exists());
}

#[test]
fn the_script_for_slurm_runs_the_same_campaign() {
    let scene = Scene::new();
    let words = [
        "--batch",
        "run.sh",
        "--nodes",
        "2",
        "--tasks",
        "8",
        "--cpu-freq=2000000",
        "--cpu-bind",
        "map_cpu:0,2",
        "--retest",
        "--untraced",
        "--",
        "./a b",
    ];
    done(&scene, &words);
    let script = fs::read_to_string(scene.at("run.sh")).unwrap();
    assert!(script.contains("#SBATCH --nodes=2\n#SBATCH --ntasks=8\n"), "{script}");
    assert!(
        script.contains(" --untraced --retest ") && script.contains(" -- './a b'\n"),
        "{script}"
    );
    let launcher = "--ntasks=$SLURM_NTASKS --cpu-freq=2000000 --cpu-bind=map_cpu:0,2\" -- ";
    assert!(script.contains(launcher), "{script}");
    assert_eq!(run(Command::new("sh").args(["-n", &scene.at("run.sh")])).code(), 0);
    for value in ["", "map_cpu:0 2", "0\"; true", "$x"] {
        let bind = format!("--cpu-bind={value}");
        let words = ["lab", "aslr", "campaign", "--batch", "x.sh", "--tasks", "1", &bind];
        let ran = run(Command::new(BECALM).args(words).current_dir(scene.directory()));
        assert_eq!(ran.code(), 2, "{value}: {}", ran.err());
    }
}
