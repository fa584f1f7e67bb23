//! What `becalm scale` projects is what `becalm rehearse` measures: real clients, each in a
//! rehearsal of its own, all in front of one server, start a real program at the same moment.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::BECALM;
use serde_json::Value;
use testkit::live::wait_until;
use testkit::{Scene, run};

/// A program with many libraries, in a store that is rehearsed; and its recording.
struct Truth {
    scene: Scene,
    store: String,
    program: String,
    recording: String,
}

impl Truth {
    fn new() -> Truth {
        let scene = Scene::new();
        let store = scene.subdirectory("store");
        let make = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/store/make");
        let made = run(Command::new(make).args(["--libs", "30", &store]));
        assert_eq!(made.code(), 0, "{}", made.err());
        let program = made.out().trim().to_owned();
        assert_eq!(run(&mut scene.record(&[&program])).code(), 0);
        let recording = scene.rec();
        Truth { scene, store, program, recording }
    }

    /// A filesystem so slow that what the machine does beside is small. Its name is its own: so is
    /// its queue.
    fn profile(&self, name: &str, cache: &str) -> String {
        let text = format!(
            "name = 'scale-truth-{}-{name}'\n[mds]\nround_trip = '3ms'\nservice = '1ms'\n\
             [cache]\nentries = 'forever'\n{cache}",
            std::process::id()
        );
        self.scene.file(&format!("{name}.toml"), text, 0o644)
    }

    fn projected(&self, profile: &str, ranks: usize, nodes: usize) -> (f64, u64) {
        let mut becalm = Command::new(BECALM);
        becalm.args(["scale", &self.recording, "--json", "--profile", profile]);
        becalm.args(["--ranks", &ranks.to_string(), "--nodes", &nodes.to_string()]);
        let ran = run(becalm.args(["--below", &self.store]));
        assert_eq!(ran.code(), 0, "{}", ran.err());
        let answer: Value = serde_json::from_slice(&ran.stdout).unwrap();
        let job = &answer["before"]["job"];
        (job["seconds"].as_f64().unwrap(), job["rpcs"].as_u64().unwrap())
    }

    /// Seconds from the moment at which all may start until the last has ended; operations at the
    /// server; and for how many seconds it had somebody wait.
    fn measured(&self, profile: &str, ranks: usize, nodes: usize) -> (f64, u64, f64) {
        let marks = tempfile::tempdir_in(self.scene.directory()).unwrap();
        let mark = |name: &str| marks.path().join(name).into_os_string().into_string().unwrap();
        let script = "cd $0; for rank in $(seq $2); do { : >ready.$1.$rank; \
            while [ ! -e go ]; do sleep 0.002; done; $3 >/dev/null; date +%s%N >end.$1.$rank; } & \
            done; wait";
        let on_a_node = (ranks / nodes).to_string();
        let clients: Vec<_> = (0..nodes)
            .map(|node| {
                let mut becalm = Command::new(BECALM);
                let json = format!("--json={}", mark(&format!("json.{node}")));
                becalm.args(["rehearse", "--profile", profile, &json, &self.store, "--"]);
                becalm.args(["sh", "-c", script, marks.path().to_str().unwrap()]);
                becalm.args([&node.to_string(), &on_a_node, &self.program]);
                becalm.stderr(std::process::Stdio::null()).spawn().unwrap()
            })
            .collect();
        let there = |kind: &str| {
            let names = fs::read_dir(marks.path()).unwrap();
            names
                .filter(|name| {
                    name.as_ref().unwrap().file_name().to_str().unwrap().starts_with(kind)
                })
                .count()
        };
        wait_until("all are ready", || there("ready.") == ranks);
        let go = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
        fs::write(mark("go"), "").unwrap();
        for mut client in clients {
            assert!(client.wait().unwrap().success());
        }
        let mut last = 0;
        let (mut operations, mut waited) = (0, 0);
        for node in 0..nodes {
            for rank in 1..=ranks / nodes {
                let end = fs::read_to_string(mark(&format!("end.{node}.{rank}"))).unwrap();
                last = last.max(end.trim().parse::<u128>().unwrap());
            }
            let json = fs::read_to_string(mark(&format!("json.{node}"))).unwrap();
            let report: Value = serde_json::from_str(&json).unwrap();
            operations += report["rpcs"].as_u64().unwrap();
            waited += report["waited_ns"].as_u64().unwrap();
        }
        ((last - go) as f64 / 1e9, operations, waited as f64 / 1e9)
    }

    /// The model's operations are exact to `more` that are asked beyond them, its time is to this
    /// part. A machine that is busy beside adds to what is measured, and takes nothing away; what
    /// the server has a single client wait does not depend on it at all.
    #[track_caller]
    fn compare(&self, profile: &str, ranks: usize, nodes: usize, more: f64, part: f64) {
        let (seconds, operations) = self.projected(profile, ranks, nodes);
        let (measured, asked, waited) = self.measured(profile, ranks, nodes);
        println!(
            "{ranks} on {nodes}: {seconds:.3} s projected, {measured:.3} measured ({:+.1} %), \
             {operations} operations projected, {asked} measured",
            (seconds / measured - 1.0) * 100.0
        );
        let ratio = asked as f64 / operations as f64;
        assert!((0.99..=1.01 + more).contains(&ratio), "{operations} and {asked}");
        assert!(measured >= seconds * (1.0 - part), "{seconds} s projected, {measured} s measured");
        if ranks == 1 {
            assert!(
                (seconds / waited - 1.0).abs() <= part,
                "{seconds} s projected, {waited} waited"
            );
        }
    }
}

#[test]
fn one_to_eight_clients_take_as_long_as_projected() {
    let truth = Truth::new();
    let keeps =
        truth.profile("keeps", "negatives = 'forever'\nopen = 'revalidated'\nlist = 'revalidated'");
    for clients in [1, 2, 4, 8] {
        truth.compare(&keeps, clients, clients, 0.0, 0.1);
    }
    let forgets = truth.profile("forgets", "negatives = '0'\nopen = 'cached'\nlist = 'cached'");
    for clients in [1, 4] {
        truth.compare(&forgets, clients, clients, 0.0, 0.1);
    }
}

#[test]
fn ranks_of_one_node_share_what_it_keeps_as_projected() {
    let truth = Truth::new();
    let keeps = truth
        .profile("shares", "negatives = 'forever'\nopen = 'revalidated'\nlist = 'revalidated'");
    for nodes in [1, 2] {
        truth.compare(&keeps, 8, nodes, 0.3, 0.2);
    }
}

#[test]
fn a_start_in_an_image_reads_the_images_file_as_projected() {
    let scene = Scene::new();
    let shared = scene.subdirectory("shared");
    let files = scene.subdirectory("shared/env");
    for number in 0..80u32 {
        // What no compression makes smaller.
        let bytes = (0..12_500u32).flat_map(|at| {
            let mixed = (at + number * 12_500).wrapping_mul(2_654_435_761);
            (mixed ^ mixed >> 15).wrapping_mul(2_246_822_519).to_le_bytes()
        });
        fs::write(format!("{files}/f{number}"), bytes.collect::<Vec<u8>>()).unwrap();
    }
    let image = format!("{shared}/env.sqsh");
    let start = ["sh", "-c", "cat \"$0\"/f* >/dev/null", &files];
    let becalm = |words: &[&str]| {
        let ran = run(Command::new(BECALM).args(words));
        assert_eq!(ran.code(), 0, "{}", ran.err());
        ran
    };
    becalm(&[&["image", "build", "-o", &image, &files, "--"], &start[..]].concat());
    let launch = [&[BECALM, "run", "--image", &image, "--"], &start[..]].concat();
    let rec = scene.rec();
    becalm(&[&["record", "-o", &rec, "--"], &launch[..]].concat());
    let text = format!(
        "name = 'image-truth-{}'\n[mds]\nround_trip = '2ms'\nservice = '1ms'\n\
         [data]\nround_trip = '3ms'\n[cache]\nentries = 'forever'\nnegatives = 'forever'\n\
         open = 'revalidated'\nlist = 'cached'",
        std::process::id()
    );
    let profile = scene.file("image.toml", text, 0o644);
    let scaled = ["scale", &rec, "--json", "--profile", &profile, "--below", &shared];
    let scaled = testkit::answer::parse(&becalm(&scaled).stdout);
    let json = scene.at("rehearsed.json");
    let to = format!("--json={json}");
    let rehearse = ["rehearse", "--profile", &profile, &to, &shared, "--"];
    becalm(&[&rehearse[..], &launch].concat());
    let rehearsed = testkit::answer::parse(fs::read(json).unwrap());
    let before = &scaled["before"];
    let near = |projected: f64, measured: f64, what: &str| {
        assert!((projected / measured - 1.0).abs() < 0.05, "{what}: {projected}, {measured}");
    };
    let rpcs = before["rpcs"]["total"].as_f64().unwrap();
    near(rpcs, rehearsed["rpcs"].as_f64().unwrap(), "metadata RPCs");
    let kinds = rehearsed["kinds"].as_array().unwrap();
    let read = kinds.iter().find(|kind| kind["kind"] == "read").unwrap();
    let bytes = before["predicted_wait"]["bytes_read"].as_f64().unwrap();
    near(bytes, read["bytes"].as_f64().unwrap(), "bytes");
    // Transfers of up to 1 MiB, and not one for each of the 80 files: 4 at best, and some more
    // where the command runs ahead of what is fetched (12 seen on a busy machine).
    assert!(read["rpcs"].as_u64().unwrap() <= 20, "{read}");
    let spread = &before["spread"];
    assert_eq!(spread["bytes"].as_f64(), Some(4_000_000.0), "{spread}");
    // What no image has to be read for, nobody waits for.
    let warm = ["scale", &rec, "--json", "--warm", "--profile", &profile, "--below", &shared];
    let warm = testkit::answer::parse(&becalm(&warm).stdout);
    assert_eq!(warm["before"]["predicted_wait"]["bytes_read"], 0);
    assert_eq!(warm["before"]["spread"], Value::Null);
}
