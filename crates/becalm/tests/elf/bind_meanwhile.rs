//! Somebody else changes files while `becalm elf bind` or `undo` is under way.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};
use testkit::bound::{Site, shown};
use testkit::live::Live;

use crate::BECALM;

/// A becalm that has planned, and waits for another to end: whoever drops the file.
struct Waiting {
    becalm: Live,
    other: File,
}

impl Waiting {
    fn start(site: &Site, words: &[&str]) -> Waiting {
        let state = site.scene.at("state/becalm");
        fs::create_dir_all(&state).unwrap();
        let other = File::create(format!("{state}/lock")).unwrap();
        flock(&other, FlockOperation::LockExclusive).unwrap();
        let mut all_it_says = Command::new("sh");
        all_it_says.args(["-c", "exec \"$@\" 2>&1", "sh", BECALM]).args(words);
        all_it_says.env_clear().env("XDG_STATE_HOME", site.scene.at("state"));
        let mut becalm = Live::start(all_it_says.current_dir(site.scene.directory()));
        becalm.wait_for(&format!(
            "becalm: another becalm is at work ({state}): waiting until it has ended"
        ));
        Waiting { becalm, other }
    }

    /// What it says once the other has ended.
    #[track_caller]
    fn says(self) -> String {
        drop(self.other);
        let ran = self.becalm.end();
        assert_eq!(ran.code(), 0, "{}", ran.out());
        ran.out()
    }
}

/// As the hooks of installations beside each other.
#[test]
fn what_another_has_bound_meanwhile_stays_and_the_rest_is_bound() {
    let site = Site::new();
    let program = site.store(20, &[]);
    let before = site.snapshot();
    let needs = || shown(&program, &[]).says;
    let said = needs();
    let tree = site.tree();
    let elsewhere = |words: &[&str]| {
        let mut becalm = site.becalm(words);
        testkit::run(becalm.env("XDG_STATE_HOME", site.scene.at("elsewhere")))
    };

    let waiting = Waiting::start(&site, &["elf", "bind", &tree]);
    assert!(elsewhere(&["elf", "bind", &tree]).out().starts_with("Bound 21 files"));
    let bound = site.snapshot();
    let answer = waiting.says();
    let is_told = ["changed while becalm was at work: planned once more\n", "Nothing to bind"];
    assert!(is_told.iter().all(|words| answer.contains(words)), "{answer}");
    site.snapshot().assert_is(&bound);
    assert_eq!(elsewhere(&["undo"]).code(), 0);
    site.snapshot().assert_is(&before);

    // One library is another, by an installation.
    let waiting = Waiting::start(&site, &["elf", "bind", &tree]);
    let library = &site.elf_files()[3];
    let content = [fs::read(library).unwrap(), b"more".to_vec()].concat();
    fs::remove_file(library).unwrap();
    fs::write(library, content).unwrap();
    Command::new("chmod").arg("755").arg(library).status().unwrap();
    let before = site.snapshot();
    let answer = waiting.says();
    assert!(answer.contains("planned once more\n"), "{answer}");
    assert!(answer.contains("\nBound 21 files"), "{answer}");
    assert_eq!(needs(), said);
    site.undo();
    site.snapshot().assert_is(&before);
}

#[test]
fn who_waits_can_be_asked_to_end() {
    let site = Site::new();
    site.store(5, &[]);
    let (tree, before) = (site.tree(), site.snapshot());
    let ends = |words: &[&str]| {
        let waiting = Waiting::start(&site, words);
        kill_process(Pid::from_raw(waiting.becalm.pid()).unwrap(), Signal::INT).unwrap();
        let ran = waiting.becalm.end();
        assert_eq!(ran.status.signal(), Some(2), "{}", ran.out());
        assert_eq!(ran.out(), "becalm: asked to end; every file is as it was\n");
    };
    ends(&["elf", "bind", &tree]);
    site.snapshot().assert_is(&before);
    site.bind(&[]);
    let bound = site.snapshot();
    let id = &site.says(&["undo", "--list", "--json"]);
    let id: serde_json::Value = serde_json::from_str(id).unwrap();
    let id = id["applied"][0]["id"].as_str().unwrap();
    ends(&["undo", id]);
    site.snapshot().assert_is(&bound);
    assert!(Waiting::start(&site, &["undo", id]).says().contains("6 files"));
    site.snapshot().assert_is(&before);
}

/// What fails for another reason is not planned again and again.
#[test]
fn what_cannot_be_applied_is_not_tried_again() {
    let site = Site::new();
    site.store(5, &[]);
    fs::create_dir_all(site.scene.at("state/becalm")).unwrap();
    fs::write(site.scene.at("state/becalm/journals"), "no directory").unwrap();
    let (status, why) = site.fails(&["elf", "bind", &site.tree()]);
    assert_eq!(status, 1);
    assert!(!why.contains("once more"), "{why}");
}
