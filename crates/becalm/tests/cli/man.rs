//! Pages for man: of every verb, well-formed, all or none.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::BECALM;
use testkit::{Ran, Scene, run};

fn man(words: &[&str]) -> Ran {
    run(Command::new(BECALM).arg("man").args(words))
}

#[test]
fn all_pages_are_written_and_groff_has_nothing_to_warn_of() {
    let scene = Scene::new();
    let directory = scene.path("share/man1");
    let ran = man(&["--dir", directory.to_str().unwrap()]);
    assert_eq!((ran.code(), ran.err().as_str()), (0, ""));
    let pages: Vec<_> =
        fs::read_dir(&directory).unwrap().map(|page| page.unwrap().path()).collect();
    assert!(pages.len() > 40 && directory.join("becalm-elf-tree.1").exists(), "{pages:?}");
    assert!(!directory.join("becalm-profile.1").exists(), "it is hidden");
    let ran = run(Command::new("groff").args(["-ww", "-man", "-z", "-Tutf8"]).args(&pages));
    assert_eq!((ran.code(), ran.err().as_str()), (0, ""));
}

#[test]
fn a_page_shows_usage_options_examples_and_exit_statuses() {
    let scene = Scene::new();
    let page = scene.file("check.1", man(&["check"]).stdout, 0o644);
    let shown =
        run(Command::new("man").args(["-l", &page]).env("MANWIDTH", "200").env("LC_ALL", "C"));
    let shown = shown.out();
    for text in [
        "becalm check [OPTIONS] -- <CMD>...",
        "--profile <PROFILE>",
        "becalm check -- python3 -c 'import numpy'",
        "127    the command, or the interpreter that it names, was not found.",
        "becalm(1)",
        concat!("\nbecalm ", env!("CARGO_PKG_VERSION"), "  "),
    ] {
        assert!(shown.contains(text), "{text:?} is not in\n{shown}");
    }
}

/// The verbs of the heading of docs/exit-status.md.
#[test]
fn the_verbs_that_pass_a_status_on_are_those_of_the_documentation() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/exit-status.md");
    let page = fs::read_to_string(page).unwrap();
    let heading =
        page.lines().find(|line| line.starts_with("## Verbs that run a command")).unwrap();
    let verbs: Vec<&str> = heading.split('`').skip(1).step_by(2).collect();
    assert!(verbs.len() > 5, "{heading}");
    for verb in verbs {
        let words: Vec<&str> = verb.split(' ').collect();
        assert!(man(&words).out().contains("the command\\*(Aqs"), "{verb}: {}", man(&words).out());
    }
}

#[test]
fn what_is_no_verb_has_no_page() {
    for words in [&["chek"][..], &["elf", "tee"], &["aslr"]] {
        let ran = man(words);
        assert_eq!((ran.code(), ran.stdout.len()), (2, 0), "{words:?}");
        assert!(ran.err().starts_with("becalm: there is no verb"), "{}", ran.err());
    }
}

#[test]
fn where_one_page_cannot_be_written_none_is() {
    let scene = Scene::new();
    scene.subdirectory("man1");
    scene.subdirectory("man1/becalm-undo.1");
    let ran = man(&["--dir", &scene.at("man1")]);
    assert_eq!(ran.code(), 1);
    assert!(ran.err().contains("becalm-undo.1 is a directory"), "{}", ran.err());
    assert_eq!(fs::read_dir(scene.path("man1")).unwrap().count(), 1);
}
