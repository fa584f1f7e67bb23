//! One recorder a rank under Open MPI's mpirun, on one node; and what `becalm merge` refuses.

use std::fs;
use std::process::Command;

use recording::LetGoReason;

use crate::BECALM;
use testkit::live::wait_until;
use testkit::ranked::{assert_nothing_left, files, hello, ranks as ranks_of, report};
use testkit::scene::open;
use testkit::{Ran, Scene, run, trap};

/// Runs a script on so many ranks. In it, `$RECORD` records to start.becalm.
fn mpirun(scene: &Scene, ranks: u32, script: &str) -> Ran {
    run(&mut mpirun_command(scene, ranks, script))
}

fn mpirun_command(scene: &Scene, ranks: u32, script: &str) -> Command {
    let node = scene.at("node");
    fs::create_dir_all(&node).unwrap();
    let mut command = Command::new("mpirun");
    command
        .current_dir(scene.directory())
        .env("RECORD", format!("{BECALM} record --until exit -o start.becalm --node-dir {node} --"))
        .env("BECALM", BECALM)
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        .args([
            "--oversubscribe",
            "--bind-to",
            "none",
            "-n",
            &ranks.to_string(),
            "sh",
            "-c",
            script,
        ]);
    command
}

fn becalm(scene: &Scene, words: &[&str]) -> Ran {
    run(Command::new(BECALM).current_dir(scene.directory()).args(words))
}

/// Two ranks of one run, a file each.
fn two_files() -> Scene {
    let scene = Scene::new();
    let ran = mpirun(&scene, 2, "exec $BECALM record -o r%r.becalm -- true");
    assert_eq!(ran.code(), 0, "{}", ran.err());
    assert_eq!(files(&scene, ".becalm"), ["r0.becalm", "r1.becalm"]);
    scene
}

#[test]
fn a_job_on_one_node_leaves_the_file_that_was_asked_for() {
    let scene = Scene::new();
    let ran = mpirun(&scene, 4, &format!("exec $RECORD {}", hello(&scene)));
    assert_eq!(ran.code(), 0, "{}", ran.err());
    assert_eq!(ran.out().matches(" of 4: 6").count(), 4, "{}", ran.out());
    assert_eq!(files(&scene, ".becalm"), ["start.becalm"]);
    assert_eq!(ranks_of(&report(&scene.at("start.becalm"))), [0, 1, 2, 3]);
    assert_nothing_left(&scene.at("node"));
}

#[test]
fn the_slowest_rank_is_named_and_one_rank_can_be_asked_about() {
    let scene = Scene::new();
    let script = "exec $RECORD sh -c '[ $OMPI_COMM_WORLD_RANK != 2 ] || sleep 0.6'";
    assert_eq!(mpirun(&scene, 3, script).code(), 0);
    assert_eq!(report(&scene.at("start.becalm"))["slowest"], 2);
    let whole = becalm(&scene, &["report", "start.becalm"]);
    assert!(whole.out().contains("the slowest is rank 2 on "), "{}", whole.out());
    let one = becalm(&scene, &["report", "start.becalm", "--rank", "2", "--by", "prefix"]);
    assert_eq!(one.code(), 0, "{}", one.err());
    assert!(one.out().contains("start.becalm --rank 2"), "{}", one.out());
    let none = becalm(&scene, &["report", "start.becalm", "--rank", "3"]);
    assert!(none.code() == 1 && none.err().contains("rank 3 is not there"), "{}", none.err());
    let all = becalm(&scene, &["report", "start.becalm", "--by", "prefix"]);
    assert!(all.code() == 1 && all.err().contains("--rank N"), "{}", all.err());
}

#[test]
fn a_rank_that_was_let_go_of_is_never_behind_one_that_is_called_the_slowest() {
    let scene = Scene::new();
    let script = "exec $BECALM record -o start.becalm --node-dir $PWD/node -- \
                  sh -c '[ $OMPI_COMM_WORLD_RANK != 2 ] || sleep 2; dirname /a/b >/dev/null'";
    assert_eq!(mpirun(&scene, 3, script).code(), 0);
    let value = report(&scene.at("start.becalm"));
    assert!(value["slowest"].is_null() && value["ranks"][2]["ended"] == false, "{value:#}");
    assert_ne!(value["figures"]["took_ns"]["maximum_rank"], 2);
    let said = becalm(&scene, &["report", "start.becalm"]).out();
    let headline = said.split("\n\n").next().unwrap().replace('\n', " ");
    assert!(headline.contains(" on 1 node: rank 2 was let go of after "), "{said}");
    assert!(headline.contains("; the slowest of the 2 others is rank "), "{said}");
    assert!(said.ends_with("Next: becalm report start.becalm --rank 2\n"), "{said}");
}

#[test]
fn of_ranks_that_are_ended_because_one_failed_that_one_is_named_first() {
    let scene = Scene::new();
    let script =
        "exec $RECORD sh -c 'sleep 0.5; [ $OMPI_COMM_WORLD_RANK != 9 ] || exit 7; exec sleep 100'";
    assert_eq!(mpirun(&scene, 10, script).code(), 7);
    wait_until("the ranks are joined", || fs::exists(scene.at("start.becalm")).unwrap());
    let said = becalm(&scene, &["report", "start.becalm"]).out();
    let headline = said.split("\n\n").next().unwrap().replace('\n', " ");
    assert!(headline.contains("none of them ended with status 0; rank 9 failed after "), "{said}");
    let rows = said.split("rank  node").nth(1).unwrap();
    let first = rows.lines().nth(1).unwrap();
    assert!(first.trim_start().starts_with("9 ") && first.ends_with("status 7"), "{said}");
    assert!(said.contains("--rank 9\n"), "{said}");
}

#[test]
fn ranks_that_mpirun_kills_because_one_failed_are_recorded_until_then() {
    let scene = Scene::new();
    let script =
        "exec $RECORD sh -c 'sleep 0.5; [ $OMPI_COMM_WORLD_RANK != 1 ] || exit 7; exec sleep 100'";
    assert_eq!(mpirun(&scene, 3, script).code(), 7);
    // mpirun kills the recorders, too, right after its SIGTERM: they are joined a moment later.
    wait_until("the ranks are joined", || fs::exists(scene.at("start.becalm")).unwrap());
    let report = report(&scene.at("start.becalm"));
    assert_eq!(ranks_of(&report), [0, 1, 2]);
    let rows = report["ranks"].as_array().unwrap();
    assert_eq!(rows[1]["status"], 7);
    assert!(rows.iter().all(|row| row["calls"].as_u64().unwrap() > 0), "{rows:#?}");
    wait_until("the node's directory is empty", || {
        fs::read_dir(scene.at("node")).unwrap().next().is_none()
    });
}

#[test]
fn where_the_file_cannot_be_written_the_recordings_are_kept_on_the_node_and_can_be_joined() {
    let scene = Scene::new();
    scene.subdirectory("gone");
    let script = "exec $BECALM record -o gone/start.becalm --node-dir $PWD/node -- sh -c 'rm -rf gone; sleep 0.3'";
    let ran = mpirun(&scene, 2, script);
    assert_eq!(ran.code(), 125, "{}", ran.err());
    let kept = fs::read_dir(scene.at("node")).unwrap().next().unwrap().unwrap().path();
    assert!(
        ran.err().contains(&format!("becalm merge -o FILE {}", kept.display())),
        "{}",
        ran.err()
    );
    let merged = becalm(&scene, &["merge", "-o", "found.becalm", kept.to_str().unwrap()]);
    assert_eq!(merged.code(), 0, "{}", merged.err());
    assert_eq!(ranks_of(&report(&scene.at("found.becalm"))), [0, 1]);
}

#[test]
fn a_full_disk_of_the_node_cuts_the_recordings_and_says_so() {
    if !testkit::user::is_root() {
        return;
    }
    let scene = Scene::new();
    let node = scene.subdirectory("node");
    let calls = trap("many_calls");
    let ranks =
        mpirun_command(&scene, 2, &format!("exec $RECORD {calls} 100000 100000 </dev/null"));
    // The mount is in a namespace of its own: it goes with the shell.
    let script = format!("mount -t tmpfs -o size=128k none {node} || exit 99; exec \"$@\"");
    let mut command = Command::new("unshare");
    command.current_dir(scene.directory()).args(["--mount", "sh", "-c", &script, "sh", "mpirun"]);
    let environment = ranks.get_envs().filter_map(|(name, value)| Some((name, value?)));
    let ran = run(command.envs(environment).args(ranks.get_args()));
    assert_eq!(ran.code(), 0, "{}", ran.err());
    assert!(ran.err().contains("No space left"), "{}", ran.err());
    let report = report(&scene.at("start.becalm"));
    assert!(!ranks_of(&report).is_empty() && report["ranks"][0]["ended"] == false, "{report:#}");
    assert!(report["ranks"][0]["calls"].as_u64().unwrap() > 1000, "what fitted is readable");
}

#[test]
fn files_of_ranks_are_joined_and_taken_apart_byte_for_byte() {
    let scene = two_files();
    let merged = becalm(&scene, &["merge", "-o", "all", "r0.becalm", "r1.becalm"]);
    assert_eq!(merged.code(), 0, "{}", merged.err());
    let taken = becalm(&scene, &["merge", "--rank", "1", "-o", "one", "all"]);
    assert_eq!(taken.code(), 0, "{}", taken.err());
    assert_eq!(fs::read(scene.at("one")).unwrap(), fs::read(scene.at("r1.becalm")).unwrap());
}

#[test]
fn what_is_not_of_one_run_or_is_there_twice_is_not_joined() {
    let (scene, other) = (two_files(), two_files());
    let twice = becalm(&scene, &["merge", "-o", "all", "r0.becalm", "r0.becalm"]);
    assert!(twice.code() == 1 && twice.err().contains("rank 0 is in"), "{}", twice.err());
    let strange = becalm(&scene, &["merge", "-o", "all", "r0.becalm", &other.at("r1.becalm")]);
    assert!(strange.err().contains("not of one run"), "{}", strange.err());
    let over = becalm(&scene, &["merge", "-o", "r0.becalm", "r0.becalm", "r1.becalm"]);
    assert!(over.err().contains("one of the files to join"), "{}", over.err());
    scene.file("text", "precious, and more than sixteen bytes", 0o644);
    let text = becalm(&scene, &["merge", "-o", "text", "r0.becalm", "r1.becalm"]);
    assert!(text.err().contains("not a recording"), "{}", text.err());
    assert!(!fs::exists(scene.at("all")).unwrap());
}

#[test]
fn a_file_of_ranks_that_was_cut_or_changed_is_never_shown_as_whole() {
    let scene = two_files();
    assert_eq!(becalm(&scene, &["merge", "-o", "all", "r0.becalm", "r1.becalm"]).code(), 0);
    let bytes = fs::read(scene.at("all")).unwrap();
    for length in (0..bytes.len()).step_by(97) {
        scene.file("cut", &bytes[..length], 0o644);
        let ran = becalm(&scene, &["report", "--json", "cut"]);
        assert!(ran.code() == 1 || ran.out().contains("\"whole\": false"), "{length}");
    }
    for at in [0, 17, 20, 26, 34, 40] {
        let mut changed = bytes.clone();
        changed[at] ^= 0x55;
        scene.file("changed", &changed, 0o644);
        let ran = becalm(&scene, &["report", "changed"]);
        assert_eq!(ran.code(), 1, "{at}: {}", ran.out());
    }
}

#[test]
fn a_job_of_one_rank_is_recorded_as_without_a_launcher() {
    let scene = Scene::new();
    assert_eq!(mpirun(&scene, 1, "exec $RECORD true").code(), 0);
    let one = becalm(&scene, &["report", "start.becalm"]);
    assert!(one.out().starts_with("true: "), "{}", one.out());
}

#[test]
fn json_is_as_its_schemas_say() {
    let scene = two_files();
    let merged = becalm(&scene, &["merge", "--json", "-o", "all", "r0.becalm", "r1.becalm"]);
    assert_eq!(testkit::answer::parse(merged.out())["schema"], "becalm.merge/1");
    assert_eq!(report(&scene.at("all"))["schema"], "becalm.ranks/1");
}

#[test]
fn ranks_are_let_go_of_when_mpi_init_has_returned_from_all() {
    let scene = Scene::new();
    let script = format!("exec $BECALM record -o r%r.becalm -- {}", hello(&scene));
    let ran = mpirun(&scene, 3, &script);
    assert_eq!(ran.code(), 0, "{}", ran.err());
    assert_eq!(ran.out().matches(" of 3: 3").count(), 3, "{}", ran.out());
    for rank in 0..3 {
        let recording = open(&scene.at(&format!("r{rank}.becalm")));
        assert_eq!(recording.let_go().unwrap().why, LetGoReason::MpiInit);
    }
    let launcher =
        ["record", "-o", "all", "--until", "mpi-init", "--", "mpirun", "--oversubscribe"];
    let mut command = mpirun_command(&scene, 1, "");
    let inner: Vec<_> = command
        .get_envs()
        .map(|(name, value)| (name.to_owned(), value.unwrap().to_owned()))
        .collect();
    command = Command::new(BECALM);
    command.current_dir(scene.directory()).envs(inner).args(launcher);
    let ran = run(command.args(["-n", "2", &scene.at("hello")]));
    assert_eq!(ran.code(), 0, "{}", ran.err());
    assert_eq!(open(&scene.at("all")).let_go().unwrap().why, LetGoReason::MpiInit);
}
