//! How much `becalm run --image` asks of the filesystem that an image's sources lie on, to see whether
//! they have changed: by the first rank of a node, by later ones, by many at once, and where every
//! file is compared before the command starts.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use testkit::imaged::{As, ways};
use testkit::rehearsal::assert_at_most;
use testkit::staged::NOWHERE;
use testkit::user::{as_a_user, is_root, scene_for_a_user};
use testkit::{Scene, run};

use crate::BECALM;

const PACKAGES: usize = 20;
/// Modules of each, and as many files of bytecode.
const MODULES: usize = 10;
/// What the trace imports: a package's own module, and this one of it.
const TRACED: &str = "import p0.m0";
/// The paths of the share, the image and the environment, and what is asked of the image's own file.
const AROUND: u64 = 12;
/// So many of `AROUND` each further one of several at once may ask too: all of them look while the
/// node has been told nothing yet. (Unchecked, eight ask 4 to 16.)
const AT_ONCE: u64 = 2;
/// So many more reads of an image are none of a comparison: threads cut them not alike each time.
const CUT: u64 = 6;

/// A node keeps what it is told; to wait for reads has all of them seen.
const PROFILE: &str = r#"
    name = "kept"
    [mds]
    round_trip = "10us"
    service = "1us"
    [data]
    round_trip = "10us"
    [cache]
    entries = "forever"
    negatives = "forever"
    open = "revalidated"
    list = "cached"
"#;

/// Packages and their image on a filesystem that is rehearsed.
struct SharedEnv {
    scene: Scene,
    share: String,
    env: String,
    image: String,
}

impl SharedEnv {
    /// With the order of a trace, or without.
    fn new(traced: bool) -> SharedEnv {
        let (scene, _) = scene_for_a_user(&[]);
        let share = scene.subdirectory("share");
        let env = scene.subdirectory("share/env");
        for package in 0..PACKAGES {
            let directory = Path::new(&env).join(format!("p{package}"));
            fs::create_dir(&directory).unwrap();
            for module in (0..MODULES).map(|module| format!("m{module}")) {
                let text = format!("V = '{}'\n", noise(package, &module));
                fs::write(directory.join(module).with_extension("py"), text).unwrap();
            }
            // What the trace did not open is not asked for, though it has no place in the image, or that
            // of a file that the trace opened.
            fs::write(directory.join("py.typed"), "").unwrap();
            fs::write(directory.join("copy"), format!("V = '{}'\n", noise(0, "m0"))).unwrap();
        }
        let compiled = run(Command::new("python3").args(["-m", "compileall", "-q", &env]));
        assert_eq!(compiled.code(), 0, "{}", compiled.err());
        let image = scene.at("share/env.sqsh");
        let mut build = Command::new(BECALM);
        build.env("PYTHONPATH", &env).args(["image", "build", "-o", &image, &env]);
        if traced {
            build.args(["--", "python3", "-B", "-c", TRACED]);
        }
        let built = run(&mut build);
        assert_eq!(built.code(), 0, "{}", built.err());
        SharedEnv { scene, share, env, image }
    }

    /// What the server is asked by a cold node: metadata operations and reads of several runs of a
    /// script, in which `inside` with a command runs that in the image.
    fn asked(&self, who: As, options: &[&str], script: &str) -> (Vec<u64>, Vec<u64>) {
        (0..3).map(|_| self.asked_once(who, options, script)).unzip()
    }

    fn asked_once(&self, who: As, options: &[&str], script: &str) -> (u64, u64) {
        let answer = self.scene.at("asked.json");
        let _ = fs::remove_file(&answer);
        let own = self.scene.at("becalm");
        let inside =
            format!("inside() {{ '{own}' run {} --image \"$0\" -- \"$@\"; }}\n", options.join(" "));
        let (json, script) = (format!("--json={answer}"), inside + script);
        let profile = self.scene.file("kept.toml", PROFILE, 0o644);
        let mut line =
            vec![own.as_str(), "rehearse", "--profile", &profile, &json, &self.share, "--"];
        if options.iter().any(|option| option.starts_with("--stage")) {
            line.extend(["unshare", "-U", "-c", "--keep-caps", "sh", "-c", NOWHERE, "sh"]);
        }
        line.extend(["sh", "-ec", &script, &self.image, &self.env]);
        let mut command = match who {
            As::User => as_a_user(&line),
            As::Root | As::RootByFuse => {
                let mut command = Command::new(line[0]);
                command.args(&line[1..]);
                command
            }
        };
        let ran = run(command.current_dir("/"));
        assert_eq!(ran.code(), 0, "{who:?} {options:?}: {}{}", ran.out(), ran.err());
        let answer: Value = serde_json::from_str(&fs::read_to_string(answer).unwrap()).unwrap();
        let kinds = answer["kinds"].as_array().unwrap();
        let reads = kinds.iter().filter(|kind| kind["kind"] == "read");
        let reads = reads.map(|kind| kind["rpcs"].as_u64().unwrap()).sum();
        let all = answer["rpcs"].as_u64().unwrap();
        println!("{who:?} {options:?}: {all} + {reads}");
        (all, reads)
    }

    /// One lookup for each directory that decides, and for each file that the trace used.
    fn quick(&self) -> u64 {
        (1 + PACKAGES + 2) as u64 + AROUND
    }

    /// One lookup for each directory, and for each file but bytecode.
    fn every_file(&self) -> u64 {
        (1 + 2 * PACKAGES + PACKAGES * (MODULES + 2)) as u64 + AROUND
    }
}

/// A text that nothing compresses, longer than what a request for a header would bring along.
fn noise(package: usize, module: &str) -> String {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let word = |number: u32| {
        let mut hash = DefaultHasher::new();
        (package, module, number).hash(&mut hash);
        format!("{:016x}", hash.finish())
    };
    (0..1500).map(word).collect()
}

/// To compare its sources takes no more reads of an image than to run it unchecked.
#[track_caller]
fn assert_as_many(reads: &[u64], unchecked: &[u64]) {
    let least = |all: &[u64]| *all.iter().min().unwrap();
    assert!(least(reads) <= least(unchecked) + CUT, "{reads:?}, unchecked {unchecked:?}");
}

const ONE: &str = "inside true";
/// A rank that stays while another comes.
const A_LATER_ONE: &str = r#"
    at=$(mktemp -d); mkfifo $at/here $at/end
    inside sh -c 'echo here > $0/here; read line < $0/end || :' $at &
    read line < $at/here
    inside true
    echo > $at/end; wait; rm -r $at"#;
const EIGHT_AT_ONCE: &str = "for rank in 1 2 3 4 5 6 7 8; do inside true & done; wait";

/// What eight cold ranks at once may look up beyond what one would.
fn at_once(script: &str) -> u64 {
    if script == EIGHT_AT_ONCE { 7 * AT_ONCE } else { 0 }
}

#[test]
fn a_first_rank_asks_for_what_decides_and_later_ones_and_many_at_once_for_nothing_more() {
    let env = SharedEnv::new(true);
    for who in ways().into_iter().filter(|who| *who != As::Root) {
        let by = if who == As::RootByFuse { &["--by", "fuse"][..] } else { &[] };
        let (_, unchecked) = env.asked(who, &[by, &["--check", "no"]].concat(), ONE);
        for script in [ONE, A_LATER_ONE, EIGHT_AT_ONCE] {
            let (metadata, reads) = env.asked(who, by, script);
            assert_at_most(&metadata, env.quick() + at_once(script));
            assert_as_many(&reads, &unchecked);
        }
    }
}

#[test]
fn where_every_file_is_compared_before_the_start_none_is_read() {
    if !is_root() {
        return;
    }
    let traced = SharedEnv::new(true);
    let kernel = ["--by", "kernel"];
    for script in [ONE, A_LATER_ONE, EIGHT_AT_ONCE] {
        let (_, unchecked) =
            traced.asked(As::Root, &[&kernel[..], &["--check", "no"]].concat(), script);
        let (metadata, reads) = traced.asked(As::Root, &kernel, script);
        assert_at_most(&metadata, traced.every_file() + at_once(script));
        assert_as_many(&reads, &unchecked);
    }
    // Without a trace, all that looks like code is.
    let untraced = SharedEnv::new(false);
    let (_, unchecked) = untraced.asked(As::User, &["--check", "no"], ONE);
    let (metadata, reads) = untraced.asked(As::User, &[], A_LATER_ONE);
    assert_at_most(&metadata, untraced.every_file());
    assert_as_many(&reads, &unchecked);
}

#[test]
fn what_is_staged_is_compared_once_for_all_and_read_once() {
    let env = SharedEnv::new(true);
    let memory = env.scene.subdirectory("memory");
    fs::set_permissions(&memory, std::os::unix::fs::PermissionsExt::from_mode(0o1777)).unwrap();
    let stage = format!("--stage={memory}");
    let (_, unchecked) = env.asked(As::User, &[&stage, "--check no"], ONE);
    for script in [ONE, A_LATER_ONE, EIGHT_AT_ONCE] {
        let (metadata, reads) = env.asked(As::User, &[&stage], script);
        assert_at_most(&metadata, env.every_file() + at_once(script));
        assert_as_many(&reads, &unchecked);
    }
}
