//! `becalm browse` as somebody at a terminal sees it.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use testkit::drawn::DrawnTerminal;
use testkit::{Scene, run};

use crate::BECALM;
use crate::sample::{becalm, json};

/// A real start, recorded into `start.becalm`, with what `check` says of it.
fn checked(scene: &Scene) -> (String, serde_json::Value) {
    let file = scene.at("start.becalm");
    let line = "ls / >/dev/null; python3 -c 'import json, email'";
    let words = ["check", "--json", "--until", "exit", "-o", &file, "--", "bash", "-c", line];
    let ran = run(Command::new(BECALM).args(words).env("XDG_STATE_HOME", scene.at("state")));
    assert_eq!(ran.code(), 0, "{}", ran.err());
    (file, serde_json::from_str(&ran.out()).unwrap())
}

fn browse(words: &[&str], size: (u16, u16)) -> DrawnTerminal {
    let mut command = Command::new(BECALM);
    command.arg("browse").args(words).env_remove("NO_COLOR");
    DrawnTerminal::start(&mut command, size)
}

/// The screen once all is worked out: it says what the start is called.
fn ready(browser: &mut DrawnTerminal) -> Vec<String> {
    const VERDICTS: [&str; 4] = ["SLOW START", "CALM", "NO STORM", "NOT KNOWN"];
    browser.wait(|lines| VERDICTS.iter().any(|verdict| lines[0].ends_with(verdict)))
}

fn number(word: &str) -> u64 {
    word.replace(',', "").parse().unwrap_or_else(|_| panic!("{word:?} is no number"))
}

/// The rows: operations, failed lookups, and what is written at their ends.
fn rows(lines: &[String]) -> Vec<(u64, u64, String)> {
    let rows = lines[3..lines.len() - 2].iter().filter(|line| !line.is_empty());
    rows.map(|line| {
        let mut words = line.split_whitespace();
        let (ops, failed) = (number(words.next().unwrap()), number(words.next().unwrap()));
        (ops, failed, line.clone())
    })
    .collect()
}

#[test]
fn each_view_shows_the_rows_of_report_and_check() {
    let scene = Scene::new();
    let (file, check) = checked(&scene);
    let mut browser = browse(&[&file], (200, 300));
    let first = ready(&mut browser);
    let report = |by: &str| json(&becalm(["report", &file, "--by", by, "--json"]));
    let total = &report("cause")["total"];
    let all = |row: &(u64, u64, String)| (row.0, row.1);
    let whole = |row: &serde_json::Value| {
        (row["metadata_ops"].as_u64().unwrap(), row["enoent"].as_u64().unwrap())
    };
    assert_eq!(all(&rows(&first)[0]), whole(total), "the first process and all below it");
    assert!(first[0].contains("bash -c"), "{}", first[0]);
    for (key, header, by) in [
        ("3", "cause▾", "cause"),
        ("5", "library", "library"),
        ("7", "line", "line"),
        ("8", "syscall", "syscall"),
    ] {
        let header = header.trim_end_matches('▾');
        let lines = browser.press(key, |lines| lines[2].ends_with(header));
        let told = report(by);
        let told = told["rows"].as_array().unwrap();
        let seen = rows(&lines);
        assert_eq!(seen.len(), told.len(), "{by}: {}", lines.join("\n"));
        for row in told {
            let key = row["key"].as_str().unwrap();
            let is_it = |seen: &&(u64, u64, String)| seen.2.ends_with(&format!("  {key}"));
            let found = seen.iter().find(is_it).unwrap_or_else(|| panic!("{by}: no {key}"));
            assert_eq!(all(found), whole(row), "{by}: {key}");
        }
    }
    let lines = browser.press("4", |lines| lines[2].ends_with("directory"));
    assert_eq!(all(&rows(&lines)[0]), {
        let below = json(&becalm(["report", &file, "--below", "/", "--json"]));
        whole(&below["below"])
    });
    let lines = browser.press("6", |lines| lines[2].ends_with("module"));
    let modules: u64 = rows(&lines).iter().map(|row| row.0).sum();
    assert!(modules >= whole(&report("module")["total"]).0, "{}", lines.join("\n"));
    assert!(lines.iter().any(|line| line.ends_with(" email")));
    let lines = browser.press("2-", |lines| lines[2].ends_with("storm"));
    let seen = rows(&lines);
    for storm in check["storms"].as_array().unwrap() {
        let title = storm["title"].as_str().unwrap();
        let found = seen.iter().find(|row| row.2.contains(title));
        assert_eq!(found.map(all), Some(whole(storm)), "{title}: {}", lines.join("\n"));
    }
    let ops: u64 = seen.iter().map(|row| row.0).sum();
    assert_eq!(ops, whole(total).0, "an operation is in one storm or in none");
    browser.terminal.send("q");
    assert_eq!(browser.end().code(), Some(0));
}

#[test]
fn calls_are_searched_sorted_and_filtered() {
    let scene = Scene::new();
    let (file, _) = checked(&scene);
    // So wide that no path is cut.
    let mut browser = browse(&[&file], (250, 30));
    ready(&mut browser);
    browser.press("ferrno=ENOENT cause=python\r", |lines| lines[28].contains("only errno"));
    let lines = browser.press("\r", |lines| lines[1].contains(" › "));
    assert!(lines[3..28].iter().all(|line| line.is_empty() || line.contains("ENOENT")));
    assert!(lines[3..28].iter().all(|line| line.is_empty() || line.contains("python import")));
    let lines = browser.press_for("S", "path▾");
    let path = |line: &String| line.split_whitespace().last().unwrap_or_default().to_owned();
    let paths: Vec<String> =
        lines[3..28].iter().filter(|line| !line.is_empty()).map(path).collect();
    assert!(paths.is_sorted(), "{paths:?}");
    browser.press_for("\x1bF", "no filter");
    browser.press_for("4/email\r", "email");
    let lines = browser.press_for("\r", "email: ");
    assert!(lines[3].contains("/email"), "{}", lines[3]);
    browser.press_for("/__init__\r", "__init__");
    browser.press_for("\r", "python3");
    browser.press_for("?", "another view");
    browser.terminal.send("qqq");
    assert_eq!(browser.end().code(), Some(0));
}

#[test]
fn it_fits_each_size_also_when_that_changes() {
    let scene = Scene::new();
    let (file, _) = checked(&scene);
    let mut browser = browse(&[&file], (80, 24));
    ready(&mut browser);
    for (columns, lines) in [(40, 10), (200, 50), (60, 24), (10, 3), (1, 1), (80, 24)] {
        let fits = |seen: &[String]| {
            let ends = seen.last().is_some_and(|line| line.contains("? help"));
            seen.len() == usize::from(lines) && (columns < 40 || ends)
        };
        browser.resize((columns, lines), fits);
        browser.settle();
        let seen = browser.lines();
        assert!(columns < 40 || seen[usize::from(lines) - 1].contains("? help"), "{seen:#?}");
    }
    browser.terminal.send("q");
    assert_eq!(browser.end().code(), Some(0));
}

#[test]
fn hostile_names_never_reach_the_terminal_and_no_color_is_none() {
    let scene = Scene::new();
    let file = scene.at("evil.becalm");
    let name = "\x1b]0;owned\x07\x1b[2J\u{202e}gpj\u{9b}31m";
    let mut record = Command::new(BECALM);
    record.args(["record", "-o", &file, "--", "sh", "-c", "cat \"$0\"", name]);
    run(&mut record);
    let mut command = Command::new(BECALM);
    command.args(["browse", &file]).env("NO_COLOR", "1");
    let mut browser = DrawnTerminal::start(&mut command, (250, 30));
    ready(&mut browser);
    for keys in ["\r", "/owned\r", "\r", "\x1b\x1b", "4*", "/owned\r", "2", "fowned\r"] {
        browser.terminal.send(keys);
        browser.settle();
    }
    let lines = browser.press_for("1\r", "\\x1b]0;owned");
    assert!(lines.iter().any(|line| line.contains("\\xe2\\x80\\xae")), "{}", lines.join("\n"));
    browser.terminal.send("q");
    assert_eq!(browser.end().code(), Some(0));
    let written = String::from_utf8(browser.written().to_vec()).unwrap();
    assert!(!written.contains("\x1b]") && !written.contains(['\u{9b}', '\u{202e}']));
    assert!(!written.contains(";31m") && !written.contains(";36m"), "a colour");
}

#[test]
fn the_terminal_is_given_back_whatever_ends_it() {
    let scene = Scene::new();
    let (file, _) = checked(&scene);
    for signal in [Signal::TERM, Signal::HUP, Signal::INT, Signal::QUIT, Signal::USR1, Signal::XCPU]
    {
        let mut browser = browse(&[&file], (80, 24));
        ready(&mut browser);
        assert!(!browser.is_given_back());
        browser.terminal.signal(signal);
        let status = browser.end();
        assert_eq!(status.signal(), Some(signal.as_raw()), "{status}");
        assert!(browser.is_given_back(), "{signal:?}");
    }
    let mut browser = browse(&[&file], (80, 24));
    ready(&mut browser);
    browser.terminal.send("\x03");
    assert_eq!(browser.end().code(), Some(0), "Ctrl-C");
    assert!(browser.is_given_back());
}

#[test]
fn ctrl_z_gives_the_terminal_to_the_shell_and_fg_goes_on() {
    let scene = Scene::new();
    let (file, _) = checked(&scene);
    let mut bash = Command::new("bash");
    bash.args(["--norc", "--noprofile", "--noediting", "-i"]).env("PS1", "ready: ");
    let mut shell = DrawnTerminal::start(&mut bash, (80, 24));
    shell.press_for("", "ready:");
    shell.press_for("a=$(stty -g); clear; echo said\n", "said");
    shell.terminal.send(&format!("{BECALM} browse {file}\n"));
    ready(&mut shell);
    shell.press_for("4", "directory");
    let lines = shell.press_for("\x1a", "Stopped");
    assert!(shell.is_given_back() && lines.iter().any(|line| line == "said"));
    // The shell may write its prompt when the line is typed already.
    let both = |said: &'static str, status: &'static str| {
        move |lines: &[String]| {
            lines.iter().any(|line| line == said) && lines.iter().any(|line| line.ends_with(status))
        }
    };
    let same = "echo status $?; [ \"$a\" = \"$(stty -g)\" ] && echo";
    shell.press(&format!("{same} same\n"), both("same", "status 148"));
    shell.press("fg\n", |lines| lines[2].ends_with("directory"));
    shell.press("q", |lines| lines.iter().any(|line| line == "said"));
    shell.press(&format!("{same} again\n"), both("again", "status 0"));
    assert!(shell.is_given_back());
}

#[test]
fn where_there_is_no_terminal_one_line_says_what_to_use() {
    let scene = Scene::new();
    let (file, _) = checked(&scene);
    let ran = run(Command::new(BECALM).args(["browse", &file]));
    assert_eq!(ran.code(), 2);
    assert_eq!(ran.err().lines().count(), 1, "{}", ran.err());
    assert!(ran.err().contains(&format!("use: becalm report {file}")), "{}", ran.err());
    let line = format!("TERM=dumb {BECALM} browse {file}");
    let mut dumb = DrawnTerminal::start(Command::new("bash").args(["-c", &line]), (80, 24));
    // The shell's TERM is that of its line.
    assert_eq!(dumb.end().code(), Some(2));
    let written = String::from_utf8_lossy(dumb.written()).into_owned();
    assert!(written.contains("use: becalm report") && !written.contains('\x1b'), "{written:?}");
}

#[test]
fn a_rank_is_chosen_and_the_last_recording_is_read_by_its_name() {
    let scene = Scene::new();
    let ranks = scene.at("all.becalm");
    let recorded = |rank: &str| {
        let file = scene.at(&format!("rank{rank}.becalm"));
        let mut becalm = Command::new(BECALM);
        becalm.args(["record", "-o", &file, "--", "cat", "/etc/hostname"]);
        becalm.env("OMPI_COMM_WORLD_RANK", rank).env("OMPI_COMM_WORLD_SIZE", "2");
        run(&mut becalm);
        let is_there = Path::new(&file).exists();
        if is_there { file } else { found(&scene, rank) }
    };
    let (one, two) = (recorded("0"), recorded("1"));
    let merged = run(Command::new(BECALM).args(["merge", "-o", &ranks, &one, &two]));
    assert_eq!(merged.code(), 0, "{}", merged.err());
    let mut which = browse(&[&ranks], (80, 24));
    assert_eq!(which.end().code(), Some(1));
    assert!(String::from_utf8_lossy(which.written()).contains("say which with --rank N"));
    let mut rank = browse(&[&ranks, "--rank", "1"], (80, 24));
    assert!(ready(&mut rank)[0].contains("cat /etc/hostname"));
    let (_, _) = checked(&scene);
    let mut check = Command::new(BECALM);
    check.args(["check", "--", "ls", "/usr"]).env("XDG_STATE_HOME", scene.at("state"));
    run(&mut check);
    let mut command = Command::new(BECALM);
    command.args(["browse", "last"]).env("XDG_STATE_HOME", scene.at("state"));
    let mut last = DrawnTerminal::start(&mut command, (80, 24));
    assert!(ready(&mut last)[0].starts_with("ls /usr"));
}

/// The recording of a rank, which says in its name which that is.
fn found(scene: &Scene, rank: &str) -> String {
    let files = fs::read_dir(scene.directory()).unwrap().map(|file| file.unwrap().path());
    let has = |file: &std::path::PathBuf| {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with(&format!("rank{rank}"))
    };
    let all: Vec<_> = files.filter(has).collect();
    assert_eq!(all.len(), 1, "{all:?}");
    all[0].to_str().unwrap().to_owned()
}
