//! What Modules and Lmod show through a pager, in a terminal: from memory the pager is the user's own,
//! as it is then.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::BECALM;
use crate::answer::{settle, tree};
use crate::scene::lmod::{LMODS, LmodScene};
use crate::scene::{Modulepath, Modules, all};

/// What a terminal of many rows shows of a command, and what the command writes for its shell.
fn shown(mut script: Command, words: &str, out: &std::path::Path) -> (String, String) {
    let command = format!("stty cols 100 rows 900; exec {words} >{}", out.display());
    let ran = script.args(["-q", "-e", "-c", &command, "/dev/null"]).output().unwrap();
    let terminal = String::from_utf8_lossy(&ran.stdout).into_owned();
    (terminal, fs::read_to_string(out).unwrap())
}

struct Paging<'a> {
    scene: &'a Modulepath,
    modules: &'a Modules,
    pager: String,
    mark: &'a str,
}

impl Paging<'_> {
    fn shown(&self, words: &str) -> (String, String) {
        let mut script = self.scene.command("/usr/bin/script", self.modules);
        script.env("TERM", "xterm").env("MODULES_PAGER", &self.pager).env("MARK", self.mark);
        shown(script, words, &self.scene.at("out"))
    }

    fn real(&self, words: &str) -> (String, String) {
        self.shown(&format!("{} bash {words}", self.modules.command.display()))
    }

    fn becalm(&self, words: &str) -> (String, String) {
        self.shown(&format!("{BECALM} modules answer bash {words}"))
    }

    /// What a terminal shows of all that is written, in its order.
    fn together(&self, command: &str) -> String {
        let mut script = self.scene.command("/usr/bin/script", self.modules);
        script.env("TERM", "xterm").env("MODULES_PAGER", &self.pager);
        let command = format!("stty cols 100 rows 900; exec {command}");
        let ran = script.args(["-q", "-e", "-c", &command, "/dev/null"]).output().unwrap();
        String::from_utf8_lossy(&ran.stdout).into_owned()
    }

    fn why(&self, words: &str) -> String {
        let why = format!("{BECALM} modules answer --why bash {words}");
        self.shown(&why).1
    }
}

/// A pager that marks each line by a variable.
fn marking(scene: &Modulepath) -> String {
    let pager = scene.at("pager");
    testkit::write_program(&pager, "#!/bin/sh\nsed \"s/^/$MARK: /\"\n");
    fs::set_permissions(&pager, fs::Permissions::from_mode(0o755)).unwrap();
    pager.display().to_string()
}

#[test]
fn what_modules_shows_in_a_pager_is_shown_in_it_from_memory() {
    for modules in &all() {
        let scene = tree();
        let pagers = ["/usr/bin/less -eFKRX".to_owned(), marking(&scene)];
        settle();
        for pager in pagers {
            let paging = Paging { scene: &scene, modules, pager, mark: "a" };
            for words in ["avail -t", "whatis", "list", "help gcc", "load nosuch"] {
                let real = paging.real(words);
                assert_eq!(paging.becalm(words), real, "{words}");
                let why = paging.why(words);
                assert!(why.starts_with("remembered"), "{words}: {why}");
                assert_eq!(paging.becalm(words), real, "{words} from memory");
            }
        }
    }
}

#[test]
fn the_pager_sees_the_environment_of_now() {
    for modules in &all() {
        let scene = tree();
        let pager = marking(&scene);
        settle();
        for mark in ["a", "b"] {
            let paging = Paging { scene: &scene, modules, pager: pager.clone(), mark };
            let answer = paging.becalm("list");
            assert!(answer.0.contains(&format!("{mark}: ")), "{answer:?}");
            assert_eq!(answer, paging.real("list"));
            assert!(paging.why("list").starts_with("remembered"));
        }
    }
}

#[test]
fn what_is_written_beside_a_slow_pager_is_written_when_modules_writes_it() {
    for modules in &all() {
        let scene = tree();
        let pager = scene.at("pager");
        testkit::write_program(&pager, "#!/bin/sh\nsleep 0.5; cat; echo end\n");
        fs::set_permissions(&pager, fs::Permissions::from_mode(0o755)).unwrap();
        settle();
        let pager = pager.display().to_string();
        let paging = Paging { scene: &scene, modules, pager, mark: "" };
        let real = paging.together(&format!("{} bash load nosuch", modules.command.display()));
        for _ in 0..3 {
            let asked = format!("{BECALM} modules answer bash load nosuch");
            assert_eq!(paging.together(&asked), real);
        }
        assert!(paging.why("load nosuch").starts_with("remembered"));
    }
}

#[test]
fn a_pager_that_is_left_early_or_is_not_there_is_as_without_becalm() {
    for modules in &all() {
        let scene = tree();
        settle();
        for pager in ["/usr/bin/head -1", "/usr/bin/nosuch", "head -2", "/usr/bin/env X=1 cat"] {
            let paging = Paging { scene: &scene, modules, pager: pager.to_owned(), mark: "" };
            let real = paging.real("avail -t");
            for _ in 0..3 {
                assert_eq!(paging.becalm("avail -t"), real, "{pager}");
            }
        }
    }
}

#[test]
fn a_pager_in_an_environment_that_was_changed_is_not_remembered() {
    for modules in &all() {
        let scene = tree();
        scene.file("says/1", "#%Module\nset env(MARK) changed\nputs stderr said\n");
        let pager = marking(&scene);
        settle();
        let paging = Paging { scene: &scene, modules, pager, mark: "a" };
        for _ in 0..2 {
            assert_eq!(paging.becalm("load says"), paging.real("load says"));
        }
        let why = paging.why("load says");
        assert!(!why.starts_with("remembered"), "{why}");
    }
}

#[test]
fn what_lmod_shows_in_a_pager_is_shown_in_it_from_memory() {
    for lmod in LMODS {
        let mut scene = LmodScene::new(lmod);
        let pager = scene.at("pager");
        testkit::write_program(&pager, "#!/bin/sh\necho $LESS $LMOD_VERSION $ModuleTool; cat\n");
        fs::set_permissions(&pager, fs::Permissions::from_mode(0o755)).unwrap();
        scene.environment.insert("LMOD_PAGER".into(), pager.display().to_string());
        scene.environment.insert("SHELL".into(), "/bin/sh".into());
        scene.environment.insert("TERM".into(), "xterm".into());
        let out = scene.at("out");
        let ask = |words: &str| shown(scene.command("/usr/bin/script"), words, &out);
        let script = lmod.script().display().to_string();
        settle();
        for words in ["avail", "spider", "list", "whatis gcc", "keyword gcc", "overview"] {
            // Its table of modules says how long it took.
            let real = ask(&format!("{script} bash {words}")).0;
            let asked = format!("{BECALM} modules answer --tool {script} bash {words}");
            assert_eq!(ask(&asked).0, real, "{words}");
            let why = format!("{BECALM} modules answer --tool {script} --why bash {words}");
            // What seems disturbed while it is asked is asked anew.
            let mut why_not = ask(&why).1;
            for _ in 0..10 {
                if !why_not.starts_with("not remembered this time") {
                    break;
                }
                assert_eq!(ask(&asked).0, real, "{words}");
                why_not = ask(&why).1;
            }
            assert!(why_not.starts_with("remembered"), "{words}: {why_not}");
            assert_eq!(ask(&asked).0, real, "{words} from memory");
        }
    }
}
