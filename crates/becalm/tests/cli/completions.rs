//! Each shell, with the script that becalm prints for it, completes what is typed.

use std::process::Command;

use crate::BECALM;
use testkit::terminal::Terminal;
use testkit::{Scene, run};

/// What is typed before a Tab, and the words that becalm is then called with.
const TYPED: [(&str, &str); 6] = [
    ("che", "<check>"),
    ("elf tr", "<elf><tree>"),
    ("export --format js", "<export><--format><jsonl>"),
    ("report own-f", "<report><own-file>"),
    ("check -- basenam", "<check><--><basename>"),
    ("check -- cat own-f", "<check><--><cat><own-file>"),
];

fn script(shell: &str) -> Vec<u8> {
    let ran = run(Command::new(BECALM).args(["completions", shell]));
    assert_eq!((ran.code(), ran.err().as_str()), (0, ""), "{shell}");
    ran.stdout
}

/// A directory with a file to complete, the shell's script, and a `becalm` that says its words.
fn scene(shell: &str) -> Scene {
    let scene = Scene::new();
    scene.subdirectory("bin");
    scene.file("bin/becalm", "#!/bin/sh\nprintf '<%s>' \"$@\"\necho .\n", 0o755);
    scene.file("own-file", "", 0o644);
    scene.file("_becalm", script(shell), 0o644);
    scene
}

/// Types in an interactive shell that has read the script.
fn completes(words: &[&str], shell: &str, setup: &str) {
    let scene = scene(shell);
    let path = format!("{}:/usr/bin:/bin", scene.at("bin"));
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(scene.directory()).env("PATH", path);
    // On a terminal that can do nothing, tcsh does not complete.
    let mut terminal = Terminal::start(command.env("TERM", "xterm").env("HOME", scene.at(".")));
    terminal.send(&format!("{setup}; echo re''ady\n"));
    terminal.expect("ready");
    for (typed, called) in TYPED {
        terminal.send(&format!("becalm {typed}\t\n"));
        terminal.expect(&format!("{called}."));
    }
    // As it was called before; help hides it, and so does this.
    terminal.send("becalm asl\t\n");
    terminal.expect("<asl>.");
}

#[test]
fn bash_completes() {
    completes(&["bash", "--norc", "--noprofile", "-i"], "bash", "source ./_becalm");
}

#[test]
fn zsh_completes() {
    let setup = "fpath=($PWD $fpath); autoload -U compinit; compinit -u -D";
    completes(&["zsh", "-f", "-i"], "zsh", setup);
}

#[test]
fn tcsh_completes() {
    completes(&["tcsh", "-f"], "tcsh", "eval \"`cat _becalm`\"");
}

#[test]
fn fish_completes() {
    let scene = scene("fish");
    for (typed, called) in TYPED {
        let line = format!("source ./_becalm; complete -C 'becalm {typed}'");
        let ran =
            run(Command::new("fish").args(["-N", "-c", &line]).current_dir(scene.directory()));
        let word = called.rsplit('<').next().unwrap().trim_end_matches('>');
        let offers = ran.out();
        let mut offered = offers.lines().map(|line| line.split('\t').next().unwrap());
        assert!(offered.any(|offer| offer == word), "{typed}: {} {}", ran.out(), ran.err());
    }
}

#[test]
fn shells_without_a_test_get_the_same_verbs() {
    for shell in ["elvish", "powershell"] {
        let script = String::from_utf8(script(shell)).unwrap();
        assert!(script.contains("rehearse") && !script.contains("old-kernel"), "{shell}");
    }
}
