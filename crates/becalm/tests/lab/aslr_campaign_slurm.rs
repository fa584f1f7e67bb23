//! A campaign's script on a real Slurm: four nodes on this machine, which setup/slurm-cluster
//! starts for this test program and stops when it has ended.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::BECALM;
use serde_json::Value;
use testkit::live::wait_until;
use testkit::{Scene, run, trap};

#[test]
fn the_script_runs_on_four_nodes_and_goes_on_when_it_is_submitted_again() {
    let scene = Scene::new();
    let until = std::process::id().to_string();
    let directory = std::env::temp_dir().join(format!("becalm-slurm-campaign-{until}"));
    let cluster = concat!(env!("CARGO_MANIFEST_DIR"), "/../../setup/slurm-cluster");
    let started = run(Command::new(cluster).args(["start", "--until", &until]).arg(&directory));
    assert_eq!(started.code(), 0, "{}", started.err());

    let size = ["--nodes", "4", "--tasks", "8", "--nbStep", "3", "--arms", "off,job"];
    // Taken by srun, also where a node has no such frequency and binds nothing.
    let bound = ["--cpu-freq=medium", "--cpu-bind=map_cpu:0,1"];
    for (blocks, jobs) in [("1", 2), ("3", 6)] {
        let mut becalm = Command::new(BECALM);
        becalm
            .args(["lab", "aslr", "campaign", "--batch", "run.sh", "--blocks", blocks])
            .args(size)
            .args(bound);
        let written = run(becalm.current_dir(scene.directory()));
        assert_eq!(written.code(), 0, "{}", written.err());
        run_batch(&scene, &directory.join("slurm.conf"), "run.sh");

        let text = fs::read_to_string(scene.at("aslr-campaign/campaign.jsonl")).unwrap();
        let all = text.lines().skip(1).map(|line| serde_json::from_str::<Value>(line).unwrap());
        let all: Vec<_> = all.collect();
        assert_eq!(all.len(), jobs * 8);
        let nodes: BTreeSet<_> = all.iter().map(|one| one["node"].as_str().unwrap()).collect();
        assert_eq!(nodes.len(), 4, "{nodes:?}");
        let place = |one: &Value| (one["job"].to_string(), one["maps"]["libm.so.6"].to_string());
        let of_jobs: BTreeSet<_> =
            all.iter().filter(|one| one["arm"] == "job").map(place).collect();
        let layouts: BTreeSet<_> = of_jobs.iter().map(|(_, place)| place).collect();
        assert_eq!((of_jobs.len(), layouts.len()), (jobs / 2, jobs / 2), "one a job, each its own");
    }

    // A command that knows nothing of campaigns.
    let mut becalm = Command::new(BECALM);
    becalm.args(["lab", "aslr", "campaign", "-o", "app", "--batch", "app.sh", "--blocks", "2"]);
    becalm.args(["--nodes", "4", "--tasks", "8", "--", &trap("upper_halves"), "dirty"]);
    let written = run(becalm.current_dir(scene.directory()));
    assert_eq!(written.code(), 0, "{}", written.err());
    run_batch(&scene, &directory.join("slurm.conf"), "app.sh");
    let text = fs::read_to_string(scene.at("app/campaign.jsonl")).unwrap();
    let all = text.lines().skip(1).map(|line| serde_json::from_str::<Value>(line).unwrap());
    let all: Vec<_> = all.collect();
    assert_eq!(all.len(), 2 * 3 * 8);
    let has_upper = fs::read_to_string("/proc/cpuinfo").unwrap().contains(" avx ");
    let is_told = |one: &Value| {
        one["cpu"].is_u64() && one["control"].is_f64() && (one["dirty_upper"] == true || !has_upper)
    };
    assert!(all.iter().all(is_told), "{all:#?}");
}

/// Submits a script, and waits until it has run. `sbatch --wait` asks only every few seconds.
fn run_batch(scene: &Scene, configuration: &Path, script: &str) {
    let slurm = |program: &str, words: &[&str]| {
        let mut command = Command::new(program);
        command.args(words).env("SLURM_CONF", configuration).current_dir(scene.directory());
        let ran = run(&mut command);
        assert_eq!(ran.code(), 0, "{}", ran.err());
        ran.out()
    };
    let job = slurm("sbatch", &["--parsable", "-o", "out", script]);
    let state = || slurm("scontrol", &["-o", "show", "job", job.trim()]);
    let goes_on = ["PENDING", "CONFIGURING", "RUNNING", "COMPLETING"];
    wait_until("the job has ended", || {
        std::thread::sleep(Duration::from_millis(100));
        let state = state();
        !goes_on.iter().any(|on| state.contains(&format!("JobState={on} ")))
    });
    let out = fs::read_to_string(scene.at("out")).unwrap();
    assert!(state().contains("JobState=COMPLETED "), "{}{out}", state());
}
