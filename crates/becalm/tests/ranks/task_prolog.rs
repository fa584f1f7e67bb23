//! The hook for Slurm, hooks/slurm/task-prolog, as the task prolog of a real Slurm
//! (setup/slurm-cluster).

use std::fs;
use std::path::Path;
use std::process::Command;

use recording::Recording;
use testkit::live::wait_until;
use testkit::ranked::files;
use testkit::scene::open;
use testkit::user::{as_a_user, is_root, scene_for_a_user};
use testkit::{Ran, Scene, run};

use crate::BECALM;
use crate::slurm::cluster;

/// A job whose user asks for recordings in `starts`.
fn asking(scene: &Scene, becalm: &str, mut command: Command) -> Command {
    command.env("SLURM_CONF", cluster()).env("BECALM_STARTS", scene.at("starts"));
    command.env("BECALM_DIRECTORY", Path::new(becalm).parent().unwrap());
    command.current_dir(scene.directory());
    command
}

/// The one recording that is kept, once it is whole.
fn kept(scene: &Scene) -> String {
    let names = || {
        let entries = fs::read_dir(scene.at("starts")).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().into_string().unwrap());
        names.filter(|name| name.ends_with(".becalm")).collect::<Vec<_>>()
    };
    let is_whole = |name: &String| {
        let recording = Recording::open(&Path::new(&scene.at("starts")).join(name));
        recording.is_ok_and(|recording| recording.cut.is_none())
    };
    wait_until("becalm has ended", || names().iter().any(is_whole));
    let [name] = &names()[..] else { panic!("{:?}", names()) };
    name.clone()
}

/// Python, which imports json in a while.
fn json_import(job: &mut Command) -> Ran {
    let script = "import time; time.sleep(0.3); import json; print('ran')";
    run(job.args(["/usr/bin/python3", "-S", "-c", script]))
}

fn asked_for(scene: &Scene, recording: &str, name: &str) -> bool {
    let recording = open(&scene.at(&format!("starts/{recording}")));
    recording.paths().any(|path| path.ends_with(name.as_bytes()))
}

#[test]
fn the_start_of_the_rank_that_is_asked_for_is_recorded_and_of_no_other() {
    let scene = Scene::new();
    let mut srun = asking(&scene, BECALM, Command::new("srun"));
    let ran = json_import(srun.args(["-N1", "-n4"]).env("BECALM_RANK", "2"));
    assert_eq!((ran.code(), ran.out().as_str()), (0, "ran\nran\nran\nran\n"), "{}", ran.err());
    let name = kept(&scene);
    assert!(name.ends_with(".0-rank2.becalm"), "{name}");
    // From its loader on: a task of the step daemon's own user is watched before its exec.
    assert!(["/libc.so.6", "/json/__init__.py"].iter().all(|it| asked_for(&scene, &name, it)));
}

#[test]
fn an_ordinary_users_task_which_may_not_be_watched_before_its_exec_is_recorded_from_then_on() {
    if !is_root() {
        return;
    }
    let (scene, _) = scene_for_a_user(&[]);
    let mut srun = asking(&scene, &scene.at("becalm"), as_a_user(&["srun"]));
    let ran = json_import(srun.args(["-N1", "-n1"]));
    assert_eq!((ran.code(), ran.out().as_str()), (0, "ran\n"), "{}", ran.err());
    assert!(asked_for(&scene, &kept(&scene), "/json/__init__.py"));
}

#[test]
fn a_batch_script_is_no_rank_but_its_steps_are() {
    let scene = Scene::new();
    let script = scene.file("job.sh", "#!/bin/sh\nsrun -n1 true\n", 0o755);
    let mut sbatch = asking(&scene, BECALM, Command::new("sbatch"));
    let ran = run(sbatch.args(["--wait", "-N1", "-n1", "-o", "out", &script]));
    assert_eq!(ran.code(), 0, "{}", ran.err());
    let name = kept(&scene);
    assert!(name.ends_with(".0-rank0.becalm"), "{name}");
}

#[test]
fn a_task_runs_where_becalm_is_missing_and_where_nothing_can_be_written() {
    let scene = Scene::new();
    for (starts, becalm) in [("starts", "/nowhere/becalm"), ("/proc/none", BECALM)] {
        let mut srun = asking(&scene, becalm, Command::new("srun"));
        let ran = json_import(srun.args(["-N1", "-n1"]).env("BECALM_STARTS", starts));
        assert_eq!((ran.code(), ran.out().as_str()), (0, "ran\n"), "{}", ran.err());
    }
    assert_eq!(files(&scene, ".becalm"), [""; 0]);
}
