//! The names that the laboratory's verbs had before: they say the same, and no help lists them.

use std::process::Command;

use crate::BECALM;
use testkit::{Ran, Scene, run};

fn becalm(scene: &Scene, words: &[&str]) -> Ran {
    run(Command::new(BECALM).args(words).env("COLUMNS", "100").current_dir(scene.directory()))
}

#[test]
fn an_older_name_answers_as_the_name_in_the_laboratory_does() {
    let scene = Scene::new();
    scene.file("on.txt", "1\n2\n3\n", 0o644);
    scene.file("off.txt", "4\n5\n6\n", 0o644);
    let cases: [&[&str]; 4] = [
        &["aslr", "analyze", "--ministat", "on.txt", "off.txt"],
        &["aslr", "verify", "on.txt"],
        &["fork", "collapse", "1", "--rounds"],
        &["profile", "--starts", "count", "--json", "-o", "no/profile.svg", "--", "true"],
    ];
    for words in cases {
        let (old, new) = (becalm(&scene, words), becalm(&scene, &[&["lab"], words].concat()));
        assert_eq!(old.code(), new.code(), "{words:?}");
        assert_eq!(old.out(), new.out(), "{words:?}");
        let said = |ran: &Ran| ran.err().replace("becalm lab ", "becalm ");
        assert_eq!(said(&old), said(&new), "{words:?}");
    }
}

#[test]
fn help_lists_the_laboratory_and_no_older_name() {
    let scene = Scene::new();
    let lists = |help: &str, verb: &str| {
        help.lines().any(|line| line.split_whitespace().next() == Some(verb))
    };
    let all = becalm(&scene, &["--help"]).out();
    assert!(all.contains("lab"), "{all}");
    assert!(!lists(&all, "aslr") && !lists(&all, "profile"), "{all}");
    let fork = becalm(&scene, &["fork", "--help"]).out();
    assert!(!lists(&fork, "bench") && !lists(&fork, "collapse"), "{fork}");
}
