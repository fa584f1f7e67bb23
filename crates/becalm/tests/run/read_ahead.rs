//! `becalm run --read-ahead`: what is known to be read is in memory before it is asked for.

use std::os::unix::fs::MetadataExt;
use std::process::Command;

use testkit::{Ran, Scene, run};

use crate::BECALM;

const MIB: u64 = 1 << 20;

/// A file of so many MiB that is not in the page cache.
fn cold(scene: &Scene, name: &str, mib: u64) -> String {
    let file = scene.file(name, "", 0o644);
    let make = format!(
        "head -c {mib}M /dev/urandom > {file} && sync {file} && dd if={file} iflag=nocache count=0"
    );
    assert_eq!(run(Command::new("sh").args(["-c", &make])).code(), 0);
    assert_eq!(cached(&file), 0, "{file}: cannot be dropped from the cache here");
    file
}

/// How many bytes of a file are in the page cache.
fn cached(file: &str) -> u64 {
    let asked = run(Command::new("fincore").args(["-b", "-n", "-r", "-o", "RES", file]));
    asked.out().trim().parse().unwrap()
}

/// A calm file that reads these parts of files ahead: the file's number, offset, bytes.
fn calm(scene: &Scene, files: &[&str], parts: &str) -> String {
    let files: String = files
        .iter()
        .map(|file| {
            let about = std::fs::metadata(file).unwrap();
            let mtime = about.mtime() * 1_000_000_000 + about.mtime_nsec();
            format!(
                "[[read_ahead.files]]\npath = '{file}'\nbytes = {}\nmtime_ns = {mtime}\n",
                about.len()
            )
        })
        .collect();
    let text = format!(
        "schema = 'becalm.calm/1'\ncommand = ['true']\ndirectory = '/'\n\
         [read_ahead]\nparts = [{parts}]\n{files}"
    );
    scene.file("ahead.calm", text, 0o644)
}

/// A command that waits until so many bytes of a file are in the page cache, 10 s at most.
fn until_cached(file: &str, bytes: u64) -> String {
    format!(
        "for i in $(seq 200); do [ $(fincore -b -n -r -o RES {file}) -ge {bytes} ] && exit 0; sleep \
         0.05; done; exit 1"
    )
}

fn becalm_run(words: &[&str], command: &str) -> Ran {
    run(Command::new(BECALM).arg("run").args(words).args(["--", "sh", "-c", command]))
}

#[test]
fn parts_of_files_are_in_memory_before_they_are_asked_for_and_others_are_not() {
    let scene = Scene::new();
    let (first, other) = (cold(&scene, "first", 16), cold(&scene, "other", 4));
    let calm = calm(&scene, &[&first, &other], &format!("[0, {}, {}]", 8 * MIB, 2 * MIB));
    let ran = becalm_run(&[&calm, "--json"], &until_cached(&first, 2 * MIB));
    assert_eq!(ran.code(), 0, "{}", ran.err());
    let about: serde_json::Value = serde_json::from_str(&ran.err()).unwrap();
    assert_eq!(
        (&about["read_ahead"]["bytes"], &about["read_ahead"]["files"]),
        (&(2 * MIB).into(), &2.into())
    );
    // What the kernel reads ahead by itself is beside it.
    assert!(cached(&first) < 4 * MIB, "{}", cached(&first));
    assert_eq!(cached(&other), 0);
}

#[test]
fn it_is_bounded_and_only_one_rank_of_a_node_reads() {
    let scene = Scene::new();
    let file = cold(&scene, "data", 32);
    let calm = calm(&scene, &[&file], &format!("[0, 0, {}]", 32 * MIB));
    let ran = becalm_run(
        &["--read-ahead", &calm, "--read-ahead-most", "4M"],
        &until_cached(&file, 4 * MIB),
    );
    assert_eq!(ran.code(), 0, "{}", ran.err());
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(cached(&file) < 8 * MIB, "{}", cached(&file));
    let file = cold(&scene, "data2", 4);
    let calm = self::calm(&scene, &[&file], &format!("[0, 0, {}]", 4 * MIB));
    let mut second = Command::new(BECALM);
    second.args(["run", &calm, "--json", "--", "sleep", "0.5"]);
    second.envs([("OMPI_COMM_WORLD_RANK", "5"), ("OMPI_COMM_WORLD_LOCAL_RANK", "1")]);
    let ran = run(&mut second);
    let about: serde_json::Value = serde_json::from_str(&ran.err()).unwrap();
    assert_eq!(about["read_ahead"]["by_another_rank"], true);
    assert_eq!(cached(&file), 0);
}

#[test]
fn who_reads_ends_with_the_command_and_is_not_its_child() {
    let scene = Scene::new();
    let files: Vec<String> = (0..40).map(|number| cold(&scene, &format!("f{number}"), 1)).collect();
    let names: Vec<&str> = files.iter().map(String::as_str).collect();
    let parts: Vec<String> = (0..40).map(|number| format!("[{number}, 0, {MIB}]")).collect();
    let calm = calm(&scene, &names, &parts.join(", "));
    // A command that waits for all of its children, and has none.
    let ran = becalm_run(&[&calm], "wait; read -r all </proc/$$/task/$$/children; echo $all");
    assert_eq!((ran.code(), ran.out().trim()), (0, ""), "{}", ran.err());
    let gone = "for i in $(seq 100); do pgrep -x becalm-ahead >/dev/null || exit 0; sleep 0.05; done; exit 1";
    assert_eq!(run(Command::new("sh").args(["-c", gone])).code(), 0);
}

#[test]
fn a_file_that_has_changed_is_said_by_check_and_stops_no_start() {
    let scene = Scene::new();
    let file = cold(&scene, "data", 1);
    let calm = calm(&scene, &[&file], &format!("[0, 0, {MIB}]"));
    let show = run(Command::new(BECALM).args(["calm", "show", &calm]));
    assert!(
        show.out().contains("reads 1.00 MiB of 1 file ahead while the command starts"),
        "{}",
        show.out()
    );
    assert_eq!(run(Command::new(BECALM).args(["calm", "check", &calm])).code(), 0);
    std::fs::write(&file, "another").unwrap();
    let check = run(Command::new(BECALM).args(["calm", "check", &calm]));
    assert_eq!(check.code(), 1);
    assert!(check.out().contains(&file) && check.out().contains("has changed"), "{}", check.out());
    assert_eq!(becalm_run(&[&calm], "exit 7").code(), 7);
}

#[test]
fn a_file_that_a_start_reads_by_two_names_is_read_ahead_once() {
    let scene = Scene::new();
    let file = scene.at("real/data");
    std::fs::create_dir(scene.at("real")).unwrap();
    std::fs::write(&file, vec![1; MIB as usize]).unwrap();
    std::os::unix::fs::symlink("real", scene.at("link")).unwrap();
    let ahead = |names: &[&str]| {
        let words: Vec<&str> = std::iter::once("cat").chain(names.iter().copied()).collect();
        run(&mut scene.record(&words));
        let ran = becalm_run(&["--read-ahead", &scene.rec(), "--json"], "exit 0");
        let about: serde_json::Value = serde_json::from_str(&ran.err()).unwrap();
        (about["read_ahead"]["files"].clone(), about["read_ahead"]["bytes"].clone())
    };
    let once = ahead(&[&file]);
    assert!(once.1.as_u64() >= Some(MIB), "{once:?}");
    assert_eq!(ahead(&[&file, &scene.at("link/data")]), once);
}

#[test]
fn what_says_nothing_of_data_is_refused() {
    let scene = Scene::new();
    let calm = calm(&scene, &[], "");
    let ran = becalm_run(&["--read-ahead", &calm], "exit 0");
    assert_eq!(ran.code(), 125);
    assert!(ran.err().contains("does not say what is read"), "{}", ran.err());
}

/// How many reads of file data a rehearsed NFS server is sent by a command, and how many bytes.
fn sent(tree: &str, words: &[&str]) -> (u64, u64) {
    let mut rehearsal = Command::new(BECALM);
    rehearsal.args(["rehearse", "--profile", "nfs", "--json", tree, "--"]).args(words);
    let ran = run(&mut rehearsal);
    let answer = serde_json::from_str::<serde_json::Value>(&ran.out());
    let answer = answer.unwrap_or_else(|_| panic!("{}", ran.err()));
    let kinds = answer["kinds"].as_array().unwrap();
    let read = kinds.iter().find(|kind| kind["kind"] == "read").unwrap();
    (read["rpcs"].as_u64().unwrap(), read["bytes"].as_u64().unwrap())
}

#[test]
fn a_server_is_asked_for_the_same_bytes_in_fewer_requests() {
    let scene = Scene::new();
    let tree = scene.subdirectory("tree");
    let file = cold(&scene, "tree/data", 8);
    let calm = calm(&scene, &[&file], &format!("[0, 0, {}]", 8 * MIB));
    // What a start does that jumps about in its files, after some time for other work.
    let touch = "import mmap, random, sys, time\n\
                 time.sleep(1.5)\n\
                 file = open(sys.argv[1], 'rb')\n\
                 data = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)\n\
                 data.madvise(mmap.MADV_RANDOM)\n\
                 pages = list(range(0, len(data), 4096))\n\
                 random.Random(1).shuffle(pages)\n\
                 print(sum(data[at] for at in pages))";
    let python = ["/usr/bin/python3", "-c", touch, &file];
    let before = sent(&tree, &python);
    let launched = [&[BECALM, "run", &calm, "--"], &python[..]].concat();
    let after = sent(&tree, &launched);
    assert!(before.0 >= 1024 && after.0 * 8 < before.0, "{before:?} {after:?}");
    assert!(before.1 >= 8 * MIB && after.1 <= before.1 + MIB, "{before:?} {after:?}");
}
