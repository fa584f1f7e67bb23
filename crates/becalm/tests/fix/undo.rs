//! `becalm undo` on what `remedy` has applied.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use crate::BECALM;
use remedy::{Edit, Options, Plan, Seen, Step};
use serde_json::Value;
use testkit::Scene;

struct Applied {
    scene: Scene,
    id: String,
}

/// Two patched files and a link, in a directory of its own.
fn applied() -> Applied {
    let scene = Scene::new();
    let files = ["a", "b"].map(|name| PathBuf::from(scene.file(name, "old bytes", 0o640)));
    let mut steps: Vec<_> = files.iter().map(patch).collect();
    steps.push(Step::Directory { path: scene.at("farm").into(), mode: 0o755 });
    steps.push(Step::Link { path: scene.at("farm/a").into(), target: files[0].clone() });
    let id = apply(&scene, "elf bind app", steps);
    Applied { scene, id }
}

fn patch(path: &PathBuf) -> Step {
    let old = fs::read(path).unwrap();
    let edits = vec![Edit { offset: 0, new: vec![b'x'; old.len()], old }];
    Step::Patch {
        path: path.clone(),
        also: vec![],
        seen: Seen::of(path).unwrap(),
        edits: edits.into(),
    }
}

fn apply(scene: &Scene, title: &str, steps: Vec<Step>) -> String {
    let options = Options::new(PathBuf::from(scene.at("state/becalm")));
    let plan = Plan { title: title.into(), steps, ..Plan::default() };
    remedy::apply(&plan, &options).unwrap().id
}

impl Applied {
    fn undo(&self, words: &[&str]) -> Output {
        let mut command = Command::new(BECALM);
        command.arg("undo").args(words).env("XDG_STATE_HOME", self.scene.at("state"));
        command.env("COLUMNS", "100").output().unwrap()
    }

    #[track_caller]
    fn says(&self, words: &[&str]) -> String {
        let output = self.undo(words);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn json(&self, words: &[&str]) -> Value {
        testkit::answer::parse(self.says(words))
    }

    /// Undoes and must fail: the status, and what it says.
    fn fails(&self, words: &[&str]) -> (i32, String) {
        let output = self.undo(words);
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.scene.at(name)).unwrap()
    }
}

/// Whatever its title says.
#[test]
fn the_first_paths_are_named_and_how_many_more_there_are() {
    let scene = Scene::new();
    let name = |number: usize| format!("file-{number:02}");
    let files: Vec<_> = (0..12).map(|it| scene.file(&name(it), "old", 0o644).into()).collect();
    let id = apply(&scene, "elf bind app", files.iter().map(patch).collect());
    let applied = Applied { scene, id };
    let shown: String = files[..10].iter().map(|path| format!("  {}\n", path.display())).collect();
    let said = applied.says(&["--dry-run"]);
    assert!(said.contains(&format!(".\n{shown}  … and 2 more (--json shows all)\n")), "{said}");
    let paths = &applied.json(&["--dry-run", "--json"])["undone"]["paths"];
    let all: Vec<_> = files.iter().map(|path| path.to_str().unwrap()).collect();
    assert_eq!(*paths, serde_json::json!(all));
    let said = applied.says(&[]);
    assert!(said.ends_with(&format!(".\n{shown}  … and 2 more\n")), "{said}");
}

#[test]
fn without_an_id_the_last_is_undone_after_it_is_named() {
    let applied = applied();
    let said = applied.says(&[]);
    let id = &applied.id;
    let paths = ["a", "b", "farm", "farm/a"].map(|name| format!("  {}\n", applied.scene.at(name)));
    let paths = paths.concat();
    assert_eq!(
        said,
        format!(
            "The last is {id} (elf bind app).\n\
             Undid {id} (elf bind app): 2 files have their old bytes again, 1 link is gone, 1 directory is\n\
             gone.\n\
             {paths}\
             What was started before, and opens libraries by name, may look where the links were.\n"
        )
    );
    assert_eq!(applied.read("a"), "old bytes");
    assert!(!PathBuf::from(applied.scene.at("farm")).exists());
    assert_eq!(applied.fails(&[]), (1, "becalm: nothing to undo\n".into()));
    let again = applied.fails(&[id]);
    assert_eq!(again, (1, format!("becalm: {id} was undone already\n")));
}

#[test]
fn the_list_shows_the_newest_first_and_what_to_do_next() {
    let applied = applied();
    let c = PathBuf::from(applied.scene.file("c", "old bytes", 0o600));
    let second = apply(&applied.scene, "elf bind \x1b[31mother", vec![patch(&c)]);
    applied.says(&[&applied.id]);
    let list = applied.says(&["--list"]);
    let lines: Vec<_> = list.lines().collect();
    assert_eq!(lines[0], "1 change can be undone.");
    assert!(lines[3].starts_with(&second), "{list}");
    assert!(lines[3].ends_with("applied  elf bind \\x1b[31mother"), "{list}");
    assert!(lines[4].starts_with(&applied.id) && lines[4].contains("4  undone"), "{list}");
    assert_eq!(lines.last().unwrap(), &format!("Next: becalm undo {second}"));
}

#[test]
fn a_file_that_has_changed_since_is_named_and_nothing_is_undone() {
    let applied = applied();
    fs::write(applied.scene.at("b"), "by hand").unwrap();
    let (status, said) = applied.fails(&[&applied.id]);
    assert_eq!(status, 1);
    let b = applied.scene.at("b");
    assert_eq!(
        said,
        format!(
            "becalm: {b}: has changed since becalm patched it; nothing was undone; to restore the \
             others: becalm undo {} --skip-changed\n",
            applied.id
        )
    );
    assert_eq!(applied.read("a"), "xxxxxxxxx");
    let said = applied.says(&[&applied.id, "--skip-changed"]);
    assert!(said.contains(&format!("left as it is: {b}: has changed")), "{said}");
    assert_eq!((applied.read("a"), applied.read("b")), ("old bytes".into(), "by hand".into()));
    assert!(applied.says(&["--list"]).contains("partly undone"));
}

#[test]
fn what_was_interrupted_is_undone_as_far_as_it_can_be() {
    let applied = applied();
    // As if it had been killed before it could say that all is done.
    let journal = applied.scene.at(&format!("state/becalm/journals/{}/journal", applied.id));
    let lines = fs::read_to_string(&journal).unwrap();
    let end = lines.trim_end().rfind('\n').unwrap();
    fs::write(&journal, &lines[..=end]).unwrap();
    assert!(applied.says(&["--list"]).contains("interrupted"));
    fs::write(applied.scene.at("b"), "by hand").unwrap();
    let (b, farm) = (applied.scene.at("b"), applied.scene.at("farm"));
    for words in [&["--dry-run"][..], &[]] {
        let output = applied.undo(words);
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("1 file has its old bytes again."), "{said}");
        assert!(said.contains(&format!("left as it is: {b}: has changed since")), "{said}");
        let needed = format!("left as it is: {farm}: stays, since {b} stays changed and may need");
        assert!(said.contains(&needed), "{said}");
        assert!(said.ends_with(&format!("Next: becalm undo {}\n", applied.id)), "{said}");
    }
    assert_eq!((applied.read("a"), applied.read("b")), ("old bytes".into(), "by hand".into()));
    assert!(applied.says(&["--list"]).contains("partly undone"));
    applied.says(&["--skip-changed"]);
    assert!(!std::path::Path::new(&farm).exists());
}

#[test]
fn of_files_that_are_all_gone_nothing_is_said_to_be_as_before() {
    let applied = applied();
    for name in ["a", "b", "farm/a"] {
        fs::remove_file(applied.scene.at(name)).unwrap();
    }
    fs::remove_dir(applied.scene.at("farm")).unwrap();
    let said = applied.says(&["--skip-changed"]);
    assert!(said.contains(": nothing can be taken back.\n"), "{said}");
    assert!(!said.contains("as before"), "{said}");
    // Asked again, there is a way out, which is pasted.
    let again = applied.undo(&[]);
    assert_eq!(again.status.code(), Some(1));
    let again = String::from_utf8(again.stdout).unwrap();
    let forget = format!("becalm undo --forget {}", applied.id);
    assert!(again.contains(&format!("If all of it is to stay as it is: {forget}\n")), "{again}");
    applied.says(&["--forget", &applied.id]);
    assert!(applied.says(&["--list"]).contains("forgotten"));
}

#[test]
fn a_dry_run_says_it_and_does_nothing() {
    let applied = applied();
    let said = applied.says(&["--dry-run"]);
    assert!(said.contains("Would undo"), "{said}");
    assert!(said.ends_with(&format!("Next: becalm undo {}\n", applied.id)), "{said}");
    assert_eq!(applied.read("a"), "xxxxxxxxx");
    assert!(applied.says(&["--list"]).contains("applied"));
}

#[test]
fn an_unknown_id_is_wrong_usage_and_no_way_to_another_directory() {
    let applied = applied();
    for id in ["20200101-1", "../journals", "", "x"] {
        let (status, said) = applied.fails(&[id]);
        assert_eq!(status, 2, "{said}");
        assert!(said.contains("becalm undo --list"), "{said}");
    }
}

#[test]
fn its_json_is_what_the_schema_says() {
    let applied = applied();
    applied.json(&["--list", "--json"]);
    fs::write(applied.scene.at("b"), "by hand").unwrap();
    let words = [applied.id.as_str(), "--json", "--skip-changed"];
    let dry = applied.json(&[&words[..], &["--dry-run"]].concat());
    assert_eq!(dry["dry_run"], true);
    let undone = applied.json(&words);
    assert_eq!(undone["undone"]["restored"]["patched"], 1);
    assert_eq!(undone["undone"]["skipped"][0]["path"], applied.scene.at("b"));
}
