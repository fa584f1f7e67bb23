//! Sources that were touched since they were packed, and are the same: what that costs, and that it is
//! said.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::Command;

use cure::{CalmFile, CalmImage};
use remedy::FileState;
use serde_json::Value;
use testkit::imaged::{As, Imaged, as_rank, ways};
use testkit::user::scene_for_a_user;
use testkit::{Live, Scene, run};

use crate::BECALM;

const FILES: u64 = 150;
const TOUCHED: &str = "were touched since";

/// An environment whose files lie deep, and its image, traced with a few of them or not.
fn environment(traced: bool) -> Imaged {
    let (scene, _) = scene_for_a_user(&[]);
    let directory = scene.subdirectory("env");
    let deep = Path::new(&directory).join("lib/python3/site-packages/a/b/c");
    fs::create_dir_all(&deep).unwrap();
    let mut noise = File::open("/dev/urandom").unwrap();
    for number in 0..FILES {
        let mut content = vec![0; 8 << 10];
        noise.read_exact(&mut content).unwrap();
        fs::write(deep.join(format!("m{number}.py")), content).unwrap();
    }
    let image = scene.at("env.sqsh");
    let mut build = Command::new(BECALM);
    build.args(["image", "build", "-o", &image, &directory]);
    if traced {
        build.args(["--", "cat"]).args([deep.join("m0.py"), deep.join("m1.py")]);
    }
    let built = run(&mut build);
    assert_eq!(built.code(), 0, "{}", built.err());
    Imaged { scene, directory, image }
}

/// Sets each mode to what it is: nothing changes but when that was done.
fn touch(directory: &str) {
    let done = Command::new("chmod").args(["-R", "u+r", directory]).status();
    assert!(done.unwrap().success());
}

/// How many files a start opens in the environment.
fn opens(env: &Imaged) -> u64 {
    let file = env.scene.at("rehearsed.json");
    let json = format!("--json={file}");
    let mut line = Command::new(BECALM);
    line.args(["rehearse", "--profile", "nfs", &json, &env.directory, "--", BECALM, "run"]);
    let ran = run(line.args(["--by", "fuse", "--image", &env.image, "--", "true"]));
    assert_eq!(ran.code(), 0, "{}{}", ran.out(), ran.err());
    let answer: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let kinds = answer["kinds"].as_array().unwrap().iter();
    kinds.filter(|kind| kind["kind"] == "open").map(|kind| kind["rpcs"].as_u64().unwrap()).sum()
}

#[test]
fn a_touched_file_is_read_once_however_many_directories_above_it_were_touched() {
    let env = environment(false);
    assert_eq!(opens(&env), 0);
    touch(&env.directory);
    assert_eq!(opens(&env), FILES);
}

#[test]
fn what_the_trace_did_not_open_is_not_read_before_it_is_looked_up() {
    let env = environment(true);
    touch(&env.directory);
    let opens = opens(&env);
    assert!((2..FILES / 2).contains(&opens), "{opens}");
}

/// What a run says of touched files on standard error.
fn said(command: &mut Command) -> String {
    let ran = run(command);
    assert_eq!(ran.code(), 0, "{}{}", ran.out(), ran.err());
    ran.err()
}

#[test]
fn many_touched_files_are_said_once_a_node_with_the_line_that_builds_the_image_again() {
    for who in ways() {
        let env = environment(false);
        assert_eq!(said(&mut env.run(who, &[], &["true"])), "");
        touch(&env.directory);
        let told = said(&mut env.run(who, &[], &["true"]));
        let expected = format!("{FILES} files that {} was made of {TOUCHED}", env.image);
        assert!(told.contains(&expected) && told.lines().count() == 1, "{who:?} {told}");
        let json = said(&mut env.run(who, &["--json"], &["true"]));
        let answer: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(answer["image"]["sources_read"], FILES, "{who:?} {answer}");

        let mut first = env.run(who, &[], &["sh", "-c", "echo ready; read line"]);
        let mut first = Live::start(as_rank(&mut first, 0));
        first.wait_for("ready");
        assert_eq!(said(as_rank(&mut env.run(who, &[], &["true"]), 1)), "", "{who:?}");
        assert!(first.end().err().contains(TOUCHED), "{who:?}");
        env.all_gone();

        let (_, line) = told.trim_end().split_once("until it is built again: becalm").unwrap();
        let pasted = run(Command::new("sh").args(["-c", &format!("'{BECALM}'{line}")]));
        assert_eq!(pasted.code(), 0, "{}", pasted.err());
        assert_eq!(said(&mut env.run(who, &[], &["true"])), "", "{who:?}");
    }
}

/// A line that becalm said, as a shell runs it in a directory.
fn pasted(line: &str, directory: &str) {
    let beside = Path::new(BECALM).parent().unwrap().display().to_string();
    let path = format!("{beside}:{}", std::env::var("PATH").unwrap());
    let ran = run(Command::new("sh").args(["-c", line]).env("PATH", path).current_dir(directory));
    assert_eq!(ran.code(), 0, "{line}: {}", ran.err());
}

#[test]
fn an_image_is_built_again_for_the_command_that_it_was_built_for() {
    let env = environment(false);
    let directory = env.scene.directory().display().to_string();
    let traced = ["env/lib/python3/site-packages/a/b/c/m7.py", "env/it's! here"];
    fs::write(env.scene.at(traced[1]), "x".repeat(100)).unwrap();
    let command = format!("cat {} 'env/it'\\''s! here'", traced[0]);
    pasted(&format!("becalm image build -o env.sqsh env -- {command}"), &directory);
    let manifest = || {
        let ran = run(Command::new(BECALM).args(["image", "inspect", "--json", &env.image]));
        serde_json::from_str::<Value>(&ran.out()).unwrap()["squashfs"]["manifest"].clone()
    };
    assert_eq!(manifest()["trace"], command);
    assert_eq!(manifest()["traced"], 2);
    let line = |directory: &str| {
        touch(&env.directory);
        let mut ran = env.run(As::User, &["--check=full"], &["true"]);
        let told = said(ran.current_dir(directory));
        told.trim_end().split_once("until it is built again: ").unwrap().1.to_owned()
    };
    let built = format!("becalm image build -o {} {}", env.image, env.directory);
    assert_eq!(line(&directory), format!("{built} -- {command}"));
    assert_eq!(line("/"), format!("cd {directory} && {built} -- {command}"));
    let before = manifest();
    pasted(&line("/"), "/");
    for same in ["trace", "traced_in", "traced", "command"] {
        assert_eq!(manifest()[same], before[same], "{same}");
    }
    assert_eq!(said(&mut env.run(As::User, &["--check=full"], &["true"])), "");

    pasted(&format!("becalm record -o it.becalm -- {command}"), &directory);
    pasted("becalm image build -o env.sqsh --trace it.becalm env", &directory);
    let by_recording = line(&directory);
    assert_eq!(by_recording, format!("{built} --trace it.becalm"));
    pasted(&by_recording, &directory);
    // A recording that is not there any more.
    assert_eq!(line("/"), format!("{built} -- CMD"));
}

#[test]
fn a_few_touched_files_are_not_worth_a_word() {
    let env = environment(false);
    let one = Path::new(&env.directory).join("lib/python3/site-packages/a/b/c/m0.py");
    touch(&one.display().to_string());
    assert_eq!(said(&mut env.run(As::User, &[], &["true"])), "");
}

#[test]
fn a_calm_file_says_how_many_sources_were_touched_and_how_it_is_written_again() {
    let env = environment(false);
    let scene: &Scene = &env.scene;
    let packed = FileState::of(Path::new(&env.image)).unwrap();
    let (bytes, digest, over) = (packed.bytes, packed.digest, vec![env.directory.clone().into()]);
    let calm = CalmFile {
        command: ["true"].map(Into::into).into(),
        directory: env.directory.clone().into(),
        image: Some(CalmImage { file: env.image.clone().into(), over, bytes, digest }),
        ..CalmFile::default()
    };
    let file = scene.at("app.calm");
    fs::write(&file, calm.to_text(&scene.directory()).unwrap()).unwrap();
    let checked = |more: &[&str]| {
        let ran = run(Command::new(BECALM).args(["calm", "check", &file]).args(more));
        assert_eq!(ran.code(), 0, "{}{}", ran.out(), ran.err());
        ran.out()
    };
    let number =
        || serde_json::from_str::<Value>(&checked(&["--json"])).unwrap()["sources_read"].clone();
    assert_eq!(number(), 0);
    assert!(!checked(&[]).contains(TOUCHED));
    touch(&env.directory);
    assert_eq!(number(), FILES);
    let again = format!("becalm fix --apply -o {file} -- true");
    let text = checked(&[]);
    assert!(
        text.contains("150 files that the image was made of were touched") && text.contains(&again),
        "{text}"
    );
    let told = said(Command::new(BECALM).args(["run", &file]));
    assert!(told.contains(TOUCHED) && told.contains(&again), "{told}");
}
