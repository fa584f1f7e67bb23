//! `becalm calibrate` measures of a rehearsed directory what was put in, and leaves nothing behind,
//! however it ends.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::BECALM;
use serde_json::Value;
use testkit::live::{Live, wait_until};
use testkit::rehearsal::{Rehearser, each_rehearser};
use testkit::user::{as_a_user, is_root, scene_for_a_user};
use testkit::{Ran, Scene, run};

/// A server of 20 ms that does 200 a second, 5 ms each; data after 40 ms, 20 MB/s.
fn profile(cache: &str) -> String {
    let name = format!("calibrated-{}-{}", std::process::id(), cache.len());
    format!(
        "name = '{name}'\n[mds]\nround_trip = '15ms'\nservice = '5ms'\n\
         [data]\nround_trip = '40ms'\nbandwidth = '20MB/s'\n[cache]\n{cache}"
    )
}

/// What is measured of a directory that is rehearsed so, in so many seconds.
fn measured(user: &Rehearser, cache: &str, seconds: &str) -> (Value, Value) {
    let tree = user.tree("shared");
    let slow = user.scene.file("slow.toml", profile(cache), 0o644);
    let (out, json) = (user.scene.at("out.toml"), user.scene.at("rehearsed.json"));
    let calibrate = ["calibrate", &tree, "--json", "--seconds", seconds, "-o", &out];
    let words = ["--profile", &slow, "--writable", &format!("--json={json}"), &tree, "--"];
    let words = [&words[..], &[user.program()], &calibrate].concat();
    let ran = run(&mut user.becalm(&words));
    assert_eq!(ran.code(), 0, "{}", ran.err());
    testkit::answer::check(&ran.stdout);
    assert_eq!(fs::read_dir(&tree).unwrap().count(), 1, "only the file is left");
    // What was written is a profile that becalm reads.
    let shown = run(&mut user.becalm(&["--show", &out]));
    assert_eq!(shown.code(), 0, "{}", shown.err());
    let answer = testkit::answer::parse(&ran.stdout);
    (answer, testkit::answer::parse(fs::read(json).unwrap()))
}

#[track_caller]
fn near(number: f64, wanted: f64, part: f64) {
    assert!((number / wanted - 1.0).abs() < part, "{number}, and {wanted} was put in");
}

/// `15ms` in milliseconds.
fn ms(answer: &Value, of: &str) -> f64 {
    let text = answer.pointer(&format!("/profile/{of}")).unwrap().as_str().unwrap();
    let digits = text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let number: f64 = digits.parse().unwrap();
    match &text[digits.len()..] {
        "ms" => number,
        "us" => number / 1e3,
        "s" => number * 1e3,
        other => panic!("{other}"),
    }
}

#[test]
fn what_is_measured_of_a_rehearsed_directory_is_what_was_put_in() {
    let caches = [
        (
            "entries = 'forever'\nnegatives = 'forever'\nopen = 'revalidated'\nlist = 'cached'",
            ["watched", "watched", "revalidated", "cached"],
        ),
        (
            "entries = 'forever'\nnegatives = '0'\nopen = 'cached'\nlist = 'revalidated'",
            ["watched", "0", "cached", "revalidated"],
        ),
    ];
    for (user, (cache, found)) in each_rehearser().iter().zip(caches) {
        let (answer, rehearsed) = measured(user, cache, "20");
        println!("{}", serde_json::to_string(&answer).unwrap());
        // What was cached to the end was so for at least as long as there was time to watch: what the
        // 20 s leave beside the rest.
        let checks = answer["measured"]["lifetimes"]["checks"].as_array().unwrap();
        let last = checks.last().unwrap()["after_seconds"].as_u64().unwrap();
        assert!((4..20).contains(&last), "{answer}");
        let watched = format!("{last}s");
        let found = found.map(|value| if value == "watched" { &watched } else { value });
        let fields = ["entries", "negatives", "open", "list"];
        assert_eq!(fields.map(|field| answer["profile"]["cache"][field].as_str().unwrap()), found);
        assert_eq!(answer["is_entries_least"], true);
        assert_eq!(answer["is_negatives_least"], found[1] != "0");
        near(ms(&answer, "mds/round_trip") + ms(&answer, "mds/service"), 20.0, 0.15);
        near(answer["ops_per_second"].as_f64().unwrap(), 200.0, 0.25);
        assert_eq!(answer["is_saturated"], true);
        near(ms(&answer, "data/round_trip"), 40.0, 0.15);
        assert_eq!(
            (&answer["measured"]["nodes"], &answer["measured"]["kind"]),
            (&1.into(), &"fuse.becalm".into())
        );
        // As bounded as is promised: files and lookups.
        let sent = |kind: &str| {
            let kinds = rehearsed["kinds"].as_array().unwrap();
            let rpcs = kinds.iter().filter(|it| it["kind"] == kind).map(|it| &it["rpcs"]);
            rpcs.map(|rpcs| rpcs.as_u64().unwrap()).sum::<u64>()
        };
        assert!(sent("change") <= 2 * 203 + 20 && sent("change") > 0, "{rehearsed}");
        assert!(answer["seconds"].as_f64().unwrap() < 30.0, "{answer}");
        user.assert_tidy();
    }
}

#[test]
fn a_negative_dentry_that_is_trusted_for_a_while_is_found_out() {
    let user = &each_rehearser()[0];
    let cache = "entries = 'forever'\nnegatives = '2500ms'\nopen = 'cached'\nlist = 'cached'";
    let (answer, _) = measured(user, cache, "20");
    assert_eq!(answer["profile"]["cache"]["negatives"], "2s", "{answer}");
    assert_eq!(answer["is_negatives_least"], false);
}

#[test]
fn forever_is_said_only_of_what_was_still_cached_after_half_a_minute() {
    let user = each_rehearser().pop().unwrap();
    let cache = "entries = '25s'\nnegatives = 'forever'\nopen = 'cached'\nlist = 'cached'";
    let (answer, _) = measured(&user, cache, "55");
    let found = ["entries", "negatives"].map(|field| &answer["profile"]["cache"][field]);
    assert_eq!(found, ["20s", "forever"], "{answer}");
    let least = ["is_entries_least", "is_negatives_least"].map(|field| &answer[field]);
    assert_eq!(least, [false, false]);
}

#[test]
fn what_was_still_cached_when_the_time_was_over_is_a_lower_bound_and_says_so() {
    let user = &each_rehearser()[0];
    let tree = user.tree("shared");
    let cache = "entries = '30s'\nnegatives = '30s'\nopen = 'cached'\nlist = 'cached'";
    let slow = user.scene.file("slow.toml", profile(cache), 0o644);
    let out = user.scene.at("out.toml");
    let calibrate = [user.program(), "calibrate", &tree, "--seconds", "20", "-o", &out];
    let words = ["--profile", &slow, "--writable", &tree, "--"];
    let ran = run(&mut user.becalm(&[&words[..], &calibrate].concat()));
    assert_eq!(ran.code(), 0, "{}", ran.err());
    let text = fs::read_to_string(&out).unwrap();
    let said = |what: &str| {
        let line = text.lines().find(|line| line.starts_with(&format!("{what} = ")));
        let value = line.unwrap().split('"').nth(1).unwrap().to_owned();
        let seconds: u64 = value.strip_suffix('s').unwrap().parse().unwrap();
        let why = format!("# {what}: still cached after {value}, when watching ended");
        assert!(text.contains(&why), "{text}");
        seconds
    };
    let (entries, negatives) = (said("entries"), said("negatives"));
    assert_eq!(entries, negatives);
    assert!((4..20).contains(&entries), "{text}");
    let shown = ran.out().split_whitespace().collect::<Vec<_>>().join(" ");
    let least = format!("are cached, for {entries} s at least");
    assert_eq!(shown.matches(&least).count(), 2, "{shown}");
}

/// `becalm calibrate` by root or by nobody, with a home of its own.
fn calibrate(scene: &Scene, words: &[&str]) -> Ran {
    let mut becalm = Command::new(BECALM);
    becalm.arg("calibrate").args(words).env("HOME", scene.at("home"));
    run(becalm.env_remove("XDG_CONFIG_HOME").current_dir(scene.directory()))
}

#[test]
fn a_local_filesystem_is_said_to_be_local_and_its_profile_is_found_by_its_name() {
    let scene = Scene::new();
    let ran = calibrate(&scene, &[".", "--name", "here"]);
    assert_eq!(ran.code(), 0, "{}", ran.err());
    assert!(ran.out().contains("which is local: no server is asked"), "{}", ran.out());
    assert!(ran.out().contains("becalm check --profile here -- CMD"), "{}", ran.out());
    let own = scene.at("home/.config/becalm/profiles/here.toml");
    assert!(fs::read_to_string(&own).unwrap().starts_with("# Measured by becalm calibrate"));
    let mut scale = Command::new(BECALM);
    assert_eq!(run(&mut scene.record(&["true"])).code(), 0);
    scale.args(["scale", &scene.rec(), "--profile", "here"]).env("HOME", scene.at("home"));
    let ran = run(scale.env_remove("XDG_CONFIG_HOME"));
    assert_eq!(ran.code(), 0, "{}", ran.err());
    assert!(ran.out().contains("(here)"), "{}", ran.out());
    assert_eq!(ran.err(), "");
    let ran = calibrate(&scene, &[".", "--name", "nfs"]);
    assert!(ran.err().contains("nfs is a profile of becalm's"), "{}", ran.err());
    // The next one takes its place, and no other file's.
    assert_eq!(calibrate(&scene, &[".", "--name", "here"]).code(), 0);
    let foreign = scene.file("mine.toml", "name = 'mine'\n", 0o644);
    let ran = calibrate(&scene, &[".", "-o", "mine.toml"]);
    assert_eq!((ran.code(), ran.err().lines().count()), (1, 1), "{}", ran.err());
    assert!(ran.err().contains("choose another name or remove it"), "{}", ran.err());
    assert_eq!(fs::read_to_string(foreign).unwrap(), "name = 'mine'\n");
    // Nor is an empty one.
    let empty = scene.file("empty.toml", "", 0o644);
    let ran = calibrate(&scene, &[".", "-o", "empty.toml"]);
    assert_eq!((ran.code(), ran.err().lines().count()), (1, 1), "{}", ran.err());
    assert!(ran.err().contains("choose another name or remove it"), "{}", ran.err());
    assert_eq!(fs::read(empty).unwrap(), b"");
    assert!(left(&scene.directory().to_string_lossy()).is_empty());
}

/// What calibrations have left in a directory.
fn left(directory: &str) -> Vec<String> {
    let names = fs::read_dir(directory).unwrap().flatten();
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(".becalm-")).collect()
}

#[test]
fn a_directory_that_cannot_be_measured_in_is_one_line_and_a_status() {
    let scene = Scene::new();
    scene.file("file", "", 0o644);
    for (words, status, said) in [
        (&[][..], 2, "no directory is given"),
        (&["gone"], 2, "gone: there is no such directory"),
        (&["file"], 2, "file: it is no directory"),
        (&["/proc"], 1, "/proc: cannot measure here"),
        (&[".", "-o", "gone/out.toml"], 1, "cannot write the profile to gone/out.toml"),
        (&[".", "--seconds", "3"], 2, "3 is not in 20..=55"),
        (&[".", "--name", "a/b"], 2, "use letters, digits"),
        (&[".", "--", "sh", "-c", "echo no such partition >&2; exit 3"], 1, "no such partition"),
        (&[".", "--", "/no/such/launcher"], 1, "/no/such/launcher: cannot start it"),
        (&[".", "--", "true"], 1, "true: ended before its ranks had measured"),
    ] {
        let ran = calibrate(&scene, words);
        assert_eq!(ran.code(), status, "{words:?}: {}", ran.err());
        let err = ran.err();
        assert!(err.contains(said) && ran.out().is_empty(), "{words:?}: {err}");
        assert!(status == 2 || err.lines().count() == 1, "{words:?}: {err}");
        assert!(left(&scene.directory().to_string_lossy()).is_empty(), "{words:?}");
    }
}

#[test]
fn a_full_and_a_read_only_filesystem_and_another_users_directory_are_one_line() {
    if !is_root() {
        return;
    }
    let (scene, _) = scene_for_a_user(&[]);
    let own = scene.at("becalm");
    let script = "mount -t tmpfs -o size=4M,mode=777 small \"$1\" && cd \"$1\" && shift && \
                  { [ \"$1\" = rw ] || mount -o remount,ro small; } && shift && exec \"$@\"";
    for (mode, said) in [("rw", "no room for the 16 MiB"), ("ro", "a read-only filesystem")] {
        let mount = scene.subdirectory(mode);
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script, "sh", &mount, mode]);
        let nobody = as_a_user(&[own.as_str(), "calibrate", ".", "-o", "/dev/null"]);
        let ran = run(command.arg(nobody.get_program()).args(nobody.get_args()));
        assert_eq!((ran.code(), ran.err().lines().count()), (1, 1), "{}", ran.err());
        assert!(ran.err().contains(said), "{}", ran.err());
    }
    let roots = Scene::new();
    fs::create_dir(roots.at("closed")).unwrap();
    let closed = roots.at("closed");
    let ran = run(&mut as_a_user(&[own.as_str(), "calibrate", &closed, "-o", "/dev/null"]));
    assert_eq!((ran.code(), ran.err().lines().count()), (1, 1), "{}", ran.err());
    assert!(ran.err().contains("you may not make files here") || ran.err().contains("ermission"));
}

#[test]
fn whoever_ends_it_finds_nothing_of_it_left() {
    for (signal, status) in [(libc::SIGINT, 130), (libc::SIGTERM, 143)] {
        let launchers: [&[&str]; 2] = [&[], &["--", "sh", "-c", "echo started; exec sleep 100"]];
        for launcher in launchers {
            let user = &each_rehearser()[0];
            let tree = user.tree("shared");
            let cache = "entries = '0'\nnegatives = '0'\nopen = 'cached'\nlist = 'cached'";
            let slow = user.scene.file("slow.toml", profile(cache), 0o644);
            let out = user.scene.at("out");
            // Without jobs of its own (set -m), a shell has what runs beside it ignore Ctrl-C.
            let script = "set -m; \"$0\" calibrate \"$@\" & echo $!; wait $!; echo status $?";
            let words = ["--profile", &slow, "--writable", &tree, "--", "bash", "-c", script];
            let words = [&words[..], &[user.program(), &tree, "-o", &out], launcher].concat();
            let mut live = Live::start(&mut user.becalm(&words));
            let pid: i32 = live.line().parse().unwrap();
            wait_until("it has begun", || !left(&tree).is_empty());
            std::thread::sleep(Duration::from_millis(1500));
            let asked = Instant::now();
            // SAFETY: passes numbers.
            unsafe { libc::kill(pid, signal) };
            live.wait_for(&format!("status {status}"));
            assert!(asked.elapsed() < Duration::from_secs(30), "{:?}", asked.elapsed());
            assert!(left(&tree).is_empty(), "{:?}", left(&tree));
            assert!(!user.scene.path("out").exists(), "nothing is written");
        }
    }
}
