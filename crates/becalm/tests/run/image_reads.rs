//! What is read of an image's file by another program than the one that its order comes from.

use std::fs;
use std::process::Command;

use serde_json::Value;
use testkit::scene::becalm;
use testkit::user::is_root;
use testkit::{Scene, installed, run};

/// Bytes that a command read, and in how many requests, of a directory on a slow filesystem, none of which was cached.
fn read_below(scene: &Scene, directory: &str, words: &[&str]) -> (u64, u64) {
    let file = scene.at("read.json");
    let json = format!("--json={file}");
    let mut line = Command::new(becalm());
    line.args(["rehearse", "--profile", "nfs", &json, directory, "--"]).args(words);
    let ran = run(&mut line);
    assert_eq!(ran.code(), 0, "{words:?}: {}{}", ran.out(), ran.err());
    let answer: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let kinds = answer["kinds"].as_array().unwrap();
    let read = kinds.iter().find(|kind| kind["kind"] == "read").unwrap();
    (read["bytes"].as_u64().unwrap(), read["rpcs"].as_u64().unwrap())
}

/// squashfuse beside it is mounted by root.
#[test]
fn another_program_than_the_traced_one_reads_no_more_than_from_an_image_of_mksquashfs() {
    if !is_root() {
        return;
    }
    let scene = Scene::new();
    let env = scene.subdirectory("env");
    let lib = fs::read_dir(installed::venv().join("lib")).unwrap().flatten().next().unwrap();
    for name in ["numpy", "numpy.libs", "scipy", "scipy.libs"] {
        let from = lib.path().join("site-packages").join(name);
        assert!(Command::new("cp").arg("-a").arg(from).arg(&env).status().unwrap().success());
    }
    let images = scene.subdirectory("images");
    let (ours, theirs) = (format!("{images}/ours.sqsh"), format!("{images}/theirs.sqsh"));
    let python = |what: &'static str| ["/usr/bin/env", "python3", "-c", what];
    let traced = python("import scipy.stats, scipy.optimize, scipy.signal, scipy.interpolate");
    let mut build = Command::new(becalm());
    build.env("PYTHONPATH", &env).args(["image", "build", "-o", &ours, &env, "--"]).args(traced);
    let built = run(&mut build);
    assert_eq!(built.code(), 0, "{}", built.err());
    let mut pack = Command::new("mksquashfs");
    pack.args([&env, &theirs, "-comp", "zstd", "-Xcompression-level", "3", "-quiet"]);
    assert_eq!(run(&mut pack).code(), 0);
    let others = [
        "import numpy",
        "import numpy.f2py, numpy.testing",
        "import scipy.io, scipy.ndimage",
        "import os, sys; [open(f'{at}/{name}', 'rb').read() for at, _, names in os.walk(sys.path[1]) \
         for name in sorted(names)[::7]]",
    ];
    let read = |what: &str| {
        let words = ["env", &format!("PYTHONPATH={env}"), "python3", "-c", what];
        let run_in = [becalm(), "run", "--check", "no", "--by", "fuse", "--image", &ours, "--"];
        let mount = format!(
            "squashfuse_ll '{theirs}' '{env}' && \"$@\"; status=$?; umount -l '{env}'; exit $status"
        );
        let mounted = [&["sh", "-c", &mount, "sh"], &words[..]].concat();
        let ours = read_below(&scene, &images, &[&run_in[..], &words].concat());
        let theirs = read_below(&scene, &images, &mounted);
        println!("{what}: {ours:?} {theirs:?}");
        (ours, theirs)
    };
    // What was traced takes few requests, and not many more bytes.
    let (ours, theirs) = read(traced[3]);
    assert!(ours.1 * 6 < theirs.1, "{ours:?} of ours, {theirs:?} of squashfuse");
    assert!(ours.0 <= theirs.0 + theirs.0 / 10, "{ours:?} of ours, {theirs:?} of squashfuse");
    // The same files lie in another order, and so do the ends of what the kernel reads ahead; and which
    // of two reads comes first decides whether a window of 2 MiB is fetched at the end of a stretch.
    let mut all = (0, 0);
    for other in others {
        let ((ours, requests), (theirs, of_theirs)) = read(other);
        assert!(requests < of_theirs, "{other}: {requests} of ours, {of_theirs} of squashfuse");
        assert!(ours <= theirs + (2 << 20), "{other}: {ours} of ours, {theirs} of squashfuse");
        all = (all.0 + ours, all.1 + theirs);
    }
    assert!(all.0 <= all.1 + all.1 / 20, "{all:?} of ours and of squashfuse");
}
