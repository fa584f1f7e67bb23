//! Every moment of a run: its system calls, one by one, and what strace does to it there.

#![allow(dead_code)] // Each test program uses a part of it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use remedy::Step;

use super::scene::*;

/// From here on a file is kept beside: of a scene, one.
const LARGE: u64 = 1 << 10;

/// A scene to whose plan is added: a new large file comes to be in an old one's place, another in
/// none's; with that plan beside.
pub fn scene_to_extend() -> EditedFiles {
    let scene = scene_with_plan();
    scene.file("image", vec![b'o'; LARGE as usize]);
    let taken = |name: &str| {
        let source = scene.file(format!(".{name}"), format!("new {name}"));
        Step::Take { path: scene.at(name), source, is_new: name == "second" }
    };
    let note = Step::Create { path: scene.at("farm/more"), mode: 0o644, content: vec![] };
    let more = plan(vec![taken("image"), taken("second"), note]);
    more.write(&mut fs::File::create(scene.root().join("more")).unwrap()).unwrap();
    let first = remedy::Plan::read(&scene.root().join("plan")).unwrap();
    remedy::apply(&first, &scene.options()).unwrap();
    scene
}

/// The same, extended.
pub fn extended_scene() -> EditedFiles {
    let scene = scene_to_extend();
    let more = remedy::Plan::read(&scene.root().join("more")).unwrap();
    let options = remedy::Options { large: recording::ByteUnits(LARGE), ..scene.options() };
    remedy::extend(&scene.entries()[0].id, &more, &options).unwrap();
    scene
}

/// Files of every kind, and a plan with every kind of step for them.
pub fn scene_with_plan() -> EditedFiles {
    let scene = EditedFiles::new();
    let (a, b, gone) =
        (scene.file("a", "old a"), scene.file("b", "old b"), scene.file("gone", "g"));
    let second = scene.file("sub/second", "");
    fs::remove_file(&second).unwrap();
    fs::hard_link(&b, &second).unwrap();
    std::os::unix::fs::symlink("a", scene.at("old-link")).unwrap();
    fs::create_dir(scene.at("empty")).unwrap();
    scene.file("cache", "an old cache");
    std::os::unix::fs::symlink("a", scene.at("other-link")).unwrap();
    let plan = plan(vec![
        Step::Directory { path: scene.at("farm"), mode: 0o755 },
        Step::Link { path: scene.at("farm/liba.so"), target: a.clone() },
        Step::Create { path: scene.at("farm/note"), mode: 0o640, content: b"note\n".to_vec() },
        patch(&a, "old", "new"),
        patch_all(&[&b, &second], "old b", "new b, longer"),
        Step::Replace { path: scene.at("cache"), mode: 0o640, content: b"new".to_vec() },
        Step::Replace { path: scene.at("other-link"), mode: 0o600, content: vec![] },
        Step::Remove { path: gone },
        Step::Remove { path: scene.at("old-link") },
        Step::Remove { path: scene.at("empty") },
    ]);
    plan.write(&mut fs::File::create(scene.root().join("plan")).unwrap()).unwrap();
    scene
}

/// The program on the scene, below strace with more options.
pub fn under_strace(scene: &EditedFiles, strace: &[&str], words: &[&str]) -> Output {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o"]).arg(scene.root().join("log")).args(strace);
    command.arg(apply_program()).args(words);
    command.current_dir(scene.root()).env("XDG_STATE_HOME", scene.state_home());
    command.env("APPLY_LARGE", LARGE.to_string());
    command.env("APPLY_THREADS", "1").output().expect("strace: setup/install-test-tools")
}

/// Writes a plan of these steps to where the program finds it.
pub fn write_plan(scene: &EditedFiles, steps: Vec<Step>) {
    plan(steps).write(&mut fs::File::create(scene.root().join("plan")).unwrap()).unwrap();
}

/// Runs the program, which stops once so many calls of this name are done. Then, as soon as there is what
/// `ready` looks for, `change` is given that, and the program goes on.
#[track_caller]
pub fn stopped_at<R>(
    scene: &EditedFiles,
    words: &[&str],
    (call, when): (&str, usize),
    ready: impl Fn() -> Option<R>,
    change: impl FnOnce(R),
) -> Output {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o"]).arg(scene.root().join("log"));
    strace.args(["-e", &format!("trace={call}"), "-e"]);
    strace.arg(format!("inject={call}:signal=STOP:when={when}")).arg(apply_program()).args(words);
    strace.current_dir(scene.root()).env("XDG_STATE_HOME", scene.state_home());
    strace.env("APPLY_THREADS", "1").stdout(Stdio::null()).stderr(Stdio::piped());
    let mut strace = strace.spawn().expect("strace: setup/install-test-tools");
    let mut change = Some(change);
    while strace.try_wait().unwrap().is_none() {
        if let Some(change) = ready().and_then(|found| Some((found, change.take()?))) {
            change.1(change.0);
        }
        if change.is_none() {
            let children = format!("/proc/{0}/task/{0}/children", strace.id());
            for child in fs::read_to_string(children).unwrap_or_default().split_whitespace() {
                let _ = Command::new("kill").args(["-CONT", child]).stderr(Stdio::null()).status();
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(change.is_none(), "it came to its end unchanged");
    strace.wait_with_output().unwrap()
}

/// How often a run makes each system call. Those before the program's own are the same in every
/// run, and of no interest; they are few.
fn calls(
    prepare: fn() -> EditedFiles,
    words: &dyn Fn(&EditedFiles) -> Vec<String>,
) -> Vec<(String, usize)> {
    let scene = prepare();
    let words = words(&scene);
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let output = under_strace(&scene, &[], &words);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let log = fs::read_to_string(scene.root().join("log")).unwrap();
    let mut calls = BTreeMap::<String, usize>::new();
    for line in log.lines() {
        let call = line.split_once(' ').unwrap().1.trim_start().split('(').next().unwrap();
        if call.chars().all(|char| char.is_ascii_alphanumeric() || char == '_') {
            *calls.entry(call.to_owned()).or_default() += 1;
        }
    }
    // The kernel answers brk(2) with where the memory ends, and never with an error. Whether a file is so new
    // that its time is waited for, differs from run to run.
    for call in ["brk", "clock_nanosleep", "execve", "exit_group"] {
        calls.remove(call);
    }
    calls.into_iter().collect()
}

/// Every moment: a call, and which of its kind.
fn moments(calls: Vec<(String, usize)>) -> Vec<(String, usize)> {
    let each = |(call, times): (String, usize)| (1..=times).map(move |at| (call.clone(), at));
    calls.into_iter().flat_map(each).collect()
}

/// Does something to a run at each of its system calls, on a scene of its own each, and sees how
/// it stands then. `what` is strace's word for it: `signal=KILL`. Gives how many moments there are.
pub fn at_each(
    what: &str,
    prepare: fn() -> EditedFiles,
    words: &(dyn Fn(&EditedFiles) -> Vec<String> + Sync),
    after: impl Fn(&EditedFiles, &str, &Output) + Sync,
) -> usize {
    let moments = moments(calls(prepare, words));
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some((call, at)) = moments.get(next.fetch_add(1, Ordering::Relaxed)) {
            let scene = prepare();
            let words = words(&scene);
            let words: Vec<_> = words.iter().map(String::as_str).collect();
            let inject = format!("inject={call}:{what}:when={at}");
            let trace = format!("trace={call}");
            let output = under_strace(&scene, &["-e", &trace, "-e", &inject], &words);
            let moment = format!("{what} at {call} number {at}");
            let seen = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                after(&scene, &moment, &output);
            }));
            failed.lock().unwrap().extend(seen.is_err().then_some(moment));
        }
    };
    std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(work))));
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{} of {}: {failed:#?}", failed.len(), moments.len());
    moments.len()
}

/// A picture without what tells one scene from another: where it is, times, sizes of directories.
fn relative(picture: Picture, root: &Path) -> Vec<String> {
    let root = root.to_str().unwrap();
    let line = |(path, what): (PathBuf, String)| {
        let is_time = |word: &&str| word.starts_with("(") || word.ends_with(")");
        let what: Vec<_> = what.split(" ").filter(|word| !is_time(word)).collect();
        format!("{} {}", path.display(), what.join(" ")).replace(root, "")
    };
    picture.into_iter().map(line).collect()
}

/// The same for a whole scene.
pub fn portrait(scene: &EditedFiles) -> Vec<String> {
    relative(scene.picture(), &scene.root())
}

/// The words that apply the plan.
pub fn apply_words(_: &EditedFiles) -> Vec<String> {
    vec!["plan".into()]
}

/// The same of files that were read before, and directories that are held since.
pub fn read_words(_: &EditedFiles) -> Vec<String> {
    vec!["--read".into(), "plan".into()]
}
