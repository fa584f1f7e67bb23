//! A line that becalm does not understand is answered with the line to type.

use std::collections::BTreeSet;
use std::process::Command;

use crate::BECALM;
use testkit::{Ran, Scene, run};

/// Of every verb that takes a command: a line without its `--`, and where that belongs. `DIR` is a
/// directory that is made for it.
const LINES: [(&str, &str); 18] = [
    ("check ls -l", "check -- ls -l"),
    ("fix ls -l", "fix -- ls -l"),
    ("run --aslr off ls", "run --aslr off -- ls"),
    ("record -o DIR/x.becalm ls -l", "record -o DIR/x.becalm -- ls -l"),
    ("rehearse --profile local DIR ls -l", "rehearse --profile local DIR -- ls -l"),
    ("python scan python3 -c pass", "python scan -- python3 -c pass"),
    ("fork lines sh -c true", "fork lines -- sh -c true"),
    ("elf bind --dry-run --run ls -l", "elf bind --dry-run --run -- ls -l"),
    ("image build -o DIR/x.sqsh DIR ls -l", "image build -o DIR/x.sqsh DIR -- ls -l"),
    ("lab profile -o DIR/x.svg ls -l", "lab profile -o DIR/x.svg -- ls -l"),
    ("profile -o DIR/y.svg ls -l", "profile -o DIR/y.svg -- ls -l"),
    ("lab aslr scan --layouts 1 true", "lab aslr scan --layouts 1 -- true"),
    ("lab aslr explain layout:0x1 true", "lab aslr explain layout:0x1 -- true"),
    ("lab aslr verify ls -l", "lab aslr verify -- ls -l"),
    ("lab aslr rank --layout off true", "lab aslr rank --layout off -- true"),
    ("lab aslr campaign -o DIR/c --blocks 1 true", "lab aslr campaign -o DIR/c --blocks 1 -- true"),
    ("aslr verify ls -l", "aslr verify -- ls -l"),
    ("aslr scan --layouts 1 true", "aslr scan --layouts 1 -- true"),
];

fn becalm(line: &str) -> Ran {
    run(Command::new(BECALM).args(line.split(' ')).env("COLUMNS", "80"))
}

/// The verbs of a help text, with the words before them.
fn verbs(words: &str) -> Vec<String> {
    let help = becalm(format!("{words} --help").trim_start()).out();
    let list = help.split("Commands:\n").nth(1).unwrap_or_default();
    let list = list.lines().take_while(|line| !line.is_empty());
    let verbs = list.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let verbs = verbs.filter_map(|line| line.split_whitespace().next());
    verbs.filter(|verb| *verb != "help").map(|verb| format!("{words} {verb}")).collect()
}

/// The verbs that `becalm --help` lists, group by group.
fn groups() -> Vec<String> {
    let help = run(Command::new(BECALM).arg("--help").env("COLUMNS", "80")).out();
    let list = help.split("Options:\n").next().unwrap().split("\n\n").skip(2);
    let lines = list.flat_map(str::lines).filter(|line| !line.starts_with("   "));
    let verbs = lines.filter_map(|line| line.strip_prefix("  "));
    verbs.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

fn takes_a_command(verb: &str) -> bool {
    becalm(&format!("{verb} --help")).out().contains("-- <CMD>")
}

#[test]
fn help_groups_the_verbs_and_begins_with_check() {
    let help = run(Command::new(BECALM).arg("--help").env("COLUMNS", "80")).out();
    let at = |text: &str| help.find(text).unwrap_or_else(|| panic!("no {text:?} in {help}"));
    let headings = ["Start here:", "Recordings:", "What if:", "By storm:", "Laboratory:"].map(at);
    assert!(headings.is_sorted(), "{help}");
    assert_eq!(groups()[0], "check");
    assert!(help.lines().all(|line| line.chars().count() <= 80), "{help}");
}

#[test]
fn the_lines_are_of_all_verbs_that_take_a_command() {
    let mut found = BTreeSet::new();
    for verb in groups() {
        let below = verbs(&verb);
        let leaves = below.iter().flat_map(|verb| match verbs(verb) {
            below if below.is_empty() => vec![verb.clone()],
            below => below,
        });
        let leaves = if below.is_empty() { vec![verb.clone()] } else { leaves.collect() };
        found.extend(leaves.into_iter().filter(|verb| takes_a_command(verb)));
    }
    assert!(found.len() >= 9, "{found:?}");
    for verb in found {
        let is_there = LINES.iter().any(|(line, _)| line.starts_with(&format!("{verb} ")));
        assert!(is_there, "no line of {verb}");
    }
}

#[test]
fn a_missing_dash_dash_is_answered_with_the_line_to_type_and_that_line_works() {
    for (typed, meant) in LINES {
        let scene = Scene::new();
        let directory = scene.subdirectory("tree");
        let line = |text: &str| text.replace("DIR", &directory);
        let said = becalm(&line(typed));
        let expected = format!("type: becalm {}\n", line(meant));
        assert_eq!((said.code(), said.out().as_str()), (2, ""), "{typed}: {}", said.err());
        assert_eq!(said.err().lines().count(), 1, "{typed}: {}", said.err());
        assert!(said.err().starts_with("becalm: '--' is missing"), "{typed}: {}", said.err());
        assert!(said.err().ends_with(&expected), "{typed}: {}", said.err());
        // This one is there for x86-64 alone, and says so.
        if cfg!(target_arch = "x86_64") || !meant.starts_with("lab aslr explain ") {
            assert_works(&expected["type: ".len()..]);
        }
    }
}

/// Pastes a line into a shell: becalm must understand it, and run the command.
#[track_caller]
fn assert_works(line: &str) {
    let directory = std::path::Path::new(BECALM).parent().unwrap().display();
    let path = format!("{directory}:{}", std::env::var("PATH").unwrap());
    let pasted = run(Command::new("sh").args(["-c", line]).env("PATH", path));
    // 1 is a verb's own answer: nothing to gain.
    assert!(matches!(pasted.code(), 0 | 1), "{line}: {} {}", pasted.code(), pasted.err());
    assert!(!pasted.err().contains("type: becalm"), "{line}: {}", pasted.err());
}

#[test]
fn what_is_pasted_is_quoted_as_a_shell_takes_it() {
    let words = ["check", "sh", "-c", "echo 'two  words'"];
    let said = run(Command::new(BECALM).args(words)).err();
    let line = said.split("type: ").nth(1).unwrap().trim_end();
    assert_eq!(line, r"becalm check -- sh -c 'echo '\''two  words'\'''");
    assert_works(line);
}

#[test]
fn what_an_editor_makes_of_dash_dash_is_taken_for_it() {
    for typed in ["–", "—", "-", "---"] {
        let said = becalm(&format!("check {typed} ls -l"));
        assert_eq!(said.code(), 2);
        assert!(said.err().starts_with(&format!("becalm: '{typed}' is not")), "{}", said.err());
        assert!(said.err().ends_with("type: becalm check -- ls -l\n"), "{}", said.err());
    }
}

#[test]
fn a_recordings_name_and_a_packed_program_are_no_commands() {
    let scene = Scene::new();
    let program = scene.file("program", "#!/bin/sh\n", 0o755);
    let tree = scene.subdirectory("tree");
    let image = scene.at("x.sqsh");
    let built = becalm(&format!("image build -o {image} {tree} {program}"));
    assert_eq!(built.code(), 0, "{}", built.err());
    let recording = scene.at("x.becalm");
    assert_eq!(becalm(&format!("record -o {recording} -- true")).code(), 0);
    std::fs::set_permissions(&recording, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    let lines = becalm(&format!("fork lines {recording}"));
    assert_eq!(lines.code(), 0, "{}", lines.err());
    let missing = becalm("fork lines no-such.becalm");
    assert!(!missing.err().contains("'--'"), "{}", missing.err());
}

#[test]
fn a_mistyped_verb_is_answered_with_the_nearest_and_that_line_works() {
    let scene = Scene::new();
    let recording = scene.at("x.becalm");
    assert_eq!(becalm(&format!("record -o {recording} -- true")).code(), 0);
    for (typed, meant) in [
        ("chekc -- ls -l", "check -- ls -l"),
        ("chekc ls -l", "check -- ls -l"),
        ("reprot REC", "report REC"),
        ("elf tre /bin/ls", "elf tree /bin/ls"),
        // A verb of a group, without the group.
        ("tree /bin/ls", "elf tree /bin/ls"),
    ] {
        let said = becalm(&typed.replace("REC", &recording));
        let meant = meant.replace("REC", &recording);
        assert_eq!((said.code(), said.out().as_str()), (2, ""));
        assert_eq!(said.err().lines().count(), 1, "{}", said.err());
        assert!(said.err().ends_with(&format!("type: becalm {meant}\n")), "{}", said.err());
        assert_works(&format!("becalm {meant}"));
    }
}

/// What is advised may change files: it is not guessed.
#[test]
fn a_word_that_is_like_no_verb_is_told_where_verbs_are_listed() {
    for (typed, said) in [
        ("xyzzy", "there is no verb 'xyzzy'; becalm --help lists them"),
        ("strace ls", "there is no verb 'strace'; becalm --help lists them"),
        ("time ls", "there is no verb 'time'; becalm --help lists them"),
        ("elf /bin/ls", "there is no verb 'elf /bin/ls'; becalm elf --help lists them"),
        ("/bin/ls", "there is no verb '/bin/ls'; becalm --help lists them"),
        (
            "chekc --no-such -- ls",
            "there is no verb 'chekc'; becalm check --help tells of the one that is like it",
        ),
        (
            "scan x",
            "there is no verb 'scan'; there are becalm lab aslr scan and becalm python scan",
        ),
    ] {
        let ran = becalm(typed);
        assert_eq!((ran.code(), ran.out().as_str()), (2, ""), "{typed}");
        assert_eq!(ran.err(), format!("becalm: {said}\n"));
    }
}

#[test]
fn a_value_that_must_be_joined_to_its_option_is_shown_joined() {
    let scene = Scene::new();
    let file = scene.at("out.json");
    for (typed, meant) in [
        ("check --json FILE -- true", "check --json=FILE -- true"),
        ("check --json FILE true", "check --json=FILE -- true"),
    ] {
        let ran = becalm(&typed.replace("FILE", &file));
        let meant = meant.replace("FILE", &file);
        assert_eq!((ran.code(), ran.out().as_str()), (2, ""), "{typed}");
        assert!(ran.err().ends_with(&format!("type: becalm {meant}\n")), "{}", ran.err());
        assert_works(&format!("becalm {meant}"));
    }
    // This one is a command's name.
    assert!(becalm("check --json ls").err().ends_with("type: becalm check --json -- ls\n"));
}

#[test]
fn no_dash_dash_is_missing_where_there_is_one() {
    let ran = becalm("check --rehearse nfs /opt -- true");
    assert_eq!(ran.code(), 2);
    assert!(ran.err().contains("unexpected argument '/opt'"), "{}", ran.err());
    assert!(!ran.err().contains("type:"), "{}", ran.err());
}

#[test]
fn a_number_below_nothing_is_a_wrong_value_not_an_option() {
    for line in ["scale x --ranks -1", "scale x --compute -1"] {
        let ran = becalm(line);
        assert_eq!(ran.code(), 2);
        assert!(ran.err().contains("invalid value '-1'"), "{}", ran.err());
    }
    let ran = becalm("check -j -- true");
    assert!(ran.err().contains("unexpected argument '-j'"), "{}", ran.err());
    assert!(!ran.err().contains("'-- -j'"), "{}", ran.err());
}
