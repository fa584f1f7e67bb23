//! Ranks in time: who waited for whom at MPI_Init, in a report and in other programs' formats.

use std::fs;
use std::process::Command;

use serde_json::Value;
use testkit::ranked::hello;
use testkit::{Ran, Scene, answer, run};

use crate::BECALM;

/// A recording of four ranks, of which rank 2 calls MPI_Init late.
fn recorded(scene: &Scene) {
    recorded_until(scene, "mpi-init");
}

fn recorded_until(scene: &Scene, until: &str) {
    let script =
        format!("#!/bin/sh\n[ $OMPI_COMM_WORLD_RANK = 2 ] && sleep 3\nexec {}\n", hello(scene));
    let script = scene.file("late.sh", script, 0o755);
    let mut mpirun = Command::new("mpirun");
    mpirun.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    mpirun.args(["--oversubscribe", "--bind-to", "none", "-n", "4", BECALM, "record"]);
    mpirun.args(["-o", "all.becalm", "--until", until, "--", &script]);
    let ran = run(mpirun.current_dir(scene.directory()));
    assert_eq!(ran.code(), 0, "{}", ran.err());
}

fn becalm(scene: &Scene, words: &[&str]) -> Ran {
    let mut becalm = Command::new(BECALM);
    run(becalm.env("COLUMNS", "100").current_dir(scene.directory()).args(words))
}

#[test]
fn the_rank_that_calls_mpi_init_last_is_first_and_the_others_waited_for_it() {
    let scene = Scene::new();
    recorded(&scene);
    let value = answer::parse(becalm(&scene, &["report", "all.becalm", "--json"]).out());
    let starts = value["starts"].as_array().unwrap();
    assert_eq!(starts.len(), 4);
    assert_eq!((starts[0]["rank"].as_u64(), starts[0]["waited_ns"].as_u64()), (Some(2), Some(0)));
    let last = starts[0]["mpi_init_ns"].as_u64().unwrap();
    for start in starts {
        let number = |field: &str| start[field].as_u64().unwrap();
        assert_eq!(number("mpi_init_ns") + number("waited_ns"), last, "{value:#}");
        // Nobody gets out before all are in.
        assert!(number("began_ns") < number("mpi_init_ns"), "{value:#}");
        assert!(number("returned_ns") > last, "{value:#}");
        if start["rank"] != 2 {
            assert!(number("waited_ns") > 300_000_000, "{value:#}");
        }
    }
    let said = becalm(&scene, &["report", "all.becalm"]).out();
    let one_line = said.replace('\n', " ");
    assert!(
        one_line.contains("Rank 2 on ") && one_line.contains(" called MPI_Init last, "),
        "{said}"
    );
    assert!(one_line.contains("; the 3 others waited "), "{said}");
    assert!(said.contains("= start  - waits for rank 2  . MPI_Init\n"), "{said}");
}

#[test]
fn whoever_ends_last_is_not_called_slow_where_ranks_wait_for_each_other() {
    let scene = Scene::new();
    recorded_until(&scene, "exit");
    let said = becalm(&scene, &["report", "all.becalm"]).out();
    let one_line = said.replace('\n', " ");
    assert!(one_line.contains("4 ranks on 1 node: the last to end is rank "), "{said}");
    assert!(one_line.contains("is seen by becalm record --until mpi-init."), "{said}");
}

#[test]
fn starts_are_exported_a_track_or_a_row_a_rank() {
    let scene = Scene::new();
    recorded(&scene);
    let json =
        becalm(&scene, &["export", "all.becalm", "--format", "chrome", "-o", "t.json", "--json"]);
    assert_eq!(answer::parse(json.out())["type"], "written_ranks");
    let trace: Value =
        serde_json::from_str(&fs::read_to_string(scene.at("t.json")).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let of = |name: &str, rank: u64| {
        events.iter().find(|event| event["name"] == name && event["pid"] == rank)
    };
    for rank in 0..4 {
        assert!(of("start", rank).is_some() && of("MPI_Init", rank).is_some(), "{trace:#}");
        assert_eq!(of("waits for rank 2", rank).is_some(), rank != 2, "{trace:#}");
    }
    let (waits, last) = (of("waits for rank 2", 0).unwrap(), of("start", 2).unwrap());
    let end = |event: &Value| event["ts"].as_f64().unwrap() + event["dur"].as_f64().unwrap();
    assert!((end(waits) - end(last)).abs() < 1.0, "they are there once it is: {trace:#}");
    assert_eq!(of("process_sort_index", 2).unwrap()["args"]["sort_index"], 0);

    let csv = becalm(&scene, &["export", "all.becalm", "--format", "csv"]).out();
    let rows: Vec<_> = csv.lines().collect();
    assert_eq!(rows[0], "rank,node,began_ns,mpi_init_ns,waited_ns,returned_ns,watched_ns");
    assert!(rows.len() == 5 && rows[1].starts_with("2,"), "{csv}");
    let refused = becalm(&scene, &["export", "all.becalm", "--format", "parquet"]);
    assert_eq!((refused.code(), refused.out().as_str()), (2, ""));
    assert!(refused.err().contains("becalm merge --rank N"), "{}", refused.err());
}

#[test]
fn where_no_mpi_init_was_seen_nobody_is_said_to_have_waited() {
    let scene = Scene::new();
    let mut mpirun = Command::new("mpirun");
    mpirun.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    mpirun.args(["--oversubscribe", "-n", "2", BECALM, "record", "-o", "all.becalm", "--", "true"]);
    assert_eq!(run(mpirun.current_dir(scene.directory())).code(), 0);
    let ran = becalm(&scene, &["report", "all.becalm"]);
    assert!(!ran.out().contains("MPI_Init"), "{}", ran.out());
    let csv = becalm(&scene, &["export", "all.becalm", "--format", "csv"]).out();
    assert!(csv.lines().skip(1).all(|row| row.contains(",,,")), "{csv}");
}
