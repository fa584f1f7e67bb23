//! `becalm calibrate DIR -- srun …`: nodes with caches of their own, in front of one server.

use std::fs;
use std::process::Command;

use crate::BECALM;
use crate::slurm::cluster;
use testkit::{Scene, run};

/// Nodes that see a directory through rehearsals of their own share one queue: a server of 20 ms
/// that does 250 a second, whose clients cache no negative dentries.
fn profile(scene: &Scene, name: &str) -> String {
    let text = format!(
        "name = 'crew-{name}-{}'\n[mds]\nround_trip = '16ms'\nservice = '4ms'\n\
         [data]\nround_trip = '30ms'\n\
         [cache]\nentries = 'forever'\nnegatives = '0'\nopen = 'revalidated'\nlist = 'cached'",
        std::process::id()
    );
    scene.file("slow.toml", text, 0o644)
}

#[test]
fn four_nodes_of_slurm_measure_in_step_and_see_files_that_none_of_them_has_made() {
    let scene = Scene::new();
    let shared = scene.subdirectory("shared");
    let slow = profile(&scene, "slurm");
    let mut becalm = Command::new(BECALM);
    becalm.env("SLURM_CONF", cluster()).current_dir(scene.directory());
    becalm.args(["calibrate", &shared, "--json", "-o", "out.toml", "--seconds", "20", "--"]);
    becalm.args(["srun", "-N4", "-n4", "--ntasks-per-node=1", "--mpi=none"]);
    becalm.args([BECALM, "rehearse", "--writable", "--profile", &slow, &shared, "--"]);
    let ran = run(&mut becalm);
    assert_eq!(ran.code(), 0, "{}", ran.err());
    testkit::answer::check(&ran.stdout);
    let answer = testkit::answer::parse(&ran.stdout);
    println!("{}", ran.out());
    let measured = &answer["measured"];
    assert_eq!((&measured["nodes"], &measured["ranks"]), (&4.into(), &4.into()));
    assert_eq!(measured["is_made_elsewhere"], true);
    // A file that another node has made costs what a name costs that is not there.
    for series in ["absent", "there"] {
        let took = measured["alone"][series]["p50_ns"].as_f64().unwrap() / 1e6;
        assert!((18.0..24.0).contains(&took), "{series}: {took} ms");
    }
    let rate = answer["ops_per_second"].as_f64().unwrap();
    assert!((190.0..300.0).contains(&rate), "{rate}");
    // One thread a rank, and then eight.
    let clients: Vec<_> =
        measured["loads"].as_array().unwrap().iter().map(|load| &load["clients"]).collect();
    assert_eq!(clients, [4, 32]);
    assert_eq!(measured["transfers"]["readers"], 4);
    assert_eq!(measured["transfers"]["bytes"].as_u64().unwrap() % 4, 0);
    let cache = &answer["profile"]["cache"];
    assert_eq!((&cache["negatives"], &cache["open"]), (&"0".into(), &"revalidated".into()));
    assert_eq!(fs::read_dir(&shared).unwrap().count(), 0);
}

#[test]
fn ranks_of_mpirun_measure_and_a_directory_that_a_node_does_not_see_is_named() {
    let scene = Scene::new();
    let shared = scene.subdirectory("shared");
    let mpirun = |words: &[&str]| {
        let mut becalm = Command::new(BECALM);
        becalm.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        becalm.args(["calibrate", &shared, "-o", "out.toml", "--"]);
        becalm.args(["mpirun", "--oversubscribe", "--bind-to", "none", "-n", "4"]);
        run(becalm.current_dir(scene.directory()).args(words))
    };
    let ran = mpirun(&[]);
    assert_eq!(ran.code(), 0, "{}", ran.err());
    assert!(ran.out().contains("from 1 node."), "{}", ran.out());
    // In each rank's own mounts, something else lies over it.
    let hides = format!("mount -t tmpfs none {shared} && exec \"$@\"");
    let ran = mpirun(&["unshare", "-rm", "sh", "-c", &hides, "sh"]);
    assert_eq!((ran.code(), ran.err().lines().count()), (1, 1), "{}", ran.err());
    assert!(ran.err().contains("that all nodes share?"), "{}", ran.err());
    assert_eq!(fs::read_dir(&shared).unwrap().count(), 0);
}

#[test]
fn a_rank_of_many_that_calibrates_by_itself_is_told_how() {
    let scene = Scene::new();
    let mut mpirun = Command::new("mpirun");
    mpirun.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    mpirun.args(["--oversubscribe", "-n", "2", BECALM, "calibrate", "."]);
    let ran = run(mpirun.current_dir(scene.directory()));
    assert_eq!(ran.code(), 2, "{}", ran.err());
    assert!(ran.err().contains("becalm calibrate DIR -- srun"), "{}", ran.err());
    assert_eq!(fs::read_dir(scene.directory()).unwrap().count(), 0);
}
