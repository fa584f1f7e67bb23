//! `becalm report` on recordings whose every call is known.

use std::fs;
use std::process::Command;

use crate::sample::*;

const BY: [&str; 6] = ["cause", "prefix", "process", "syscall", "library", "module"];

#[test]
fn the_headline_says_how_many_operations_and_how_many_failed() {
    let directory = tempfile::tempdir().unwrap();
    let text =
        quiet_success(&becalm(["report".as_ref(), emacs_recording(directory.path()).as_os_str()]));
    let mut lines = text.lines();
    assert_eq!(
        lines.next(),
        Some("emacs --version: 9 metadata operations, 4 (44 %) of them failed lookups")
    );
    assert_eq!(lines.next(), Some("1 process, 10 system calls recorded in 1.00 ms on node17"));
}

#[test]
fn the_table_has_a_row_a_cause_and_their_sum() {
    let directory = tempfile::tempdir().unwrap();
    let file = emacs_recording(directory.path());
    let text = quiet_success(&becalm_in(200, ["report".as_ref(), file.as_os_str()]));
    let row = |key: &str| -> Vec<String> {
        let line = text.lines().find(|line| line.starts_with(key)).unwrap();
        line[key.len()..]
            .split("  ")
            .map(|cell| cell.trim().to_owned())
            .filter(|cell| !cell.is_empty())
            .collect()
    };
    assert_eq!(row("cause"), ["ops", "failed", "share", "paths", "calls", "errors", "time"]);
    assert_eq!(row("loader (start)"), ["4", "3", "44 %", "4", "4", "3", "40.0 µs"]);
    assert_eq!(row("program"), ["5", "1", "56 %", "5", "6", "1", "60.0 µs"]);
    assert_eq!(row("total"), ["9", "4", "100 %", "9", "10", "4", "100 µs"]);
}

#[test]
fn what_to_do_next_is_a_command_that_works_when_pasted() {
    let directory = tempfile::tempdir().unwrap();
    let odd = directory.path().join("it's a recording");
    fs::rename(emacs_recording(directory.path()), &odd).unwrap();
    for by in ["cause", "prefix", "process"] {
        let text = quiet_success(&becalm([
            "report".as_ref(),
            odd.as_os_str(),
            "--by".as_ref(),
            by.as_ref(),
        ]));
        let next = text.lines().last().unwrap().strip_prefix("Next: becalm ").unwrap();
        let shell = format!("'{}' {next}", env!("CARGO_BIN_EXE_becalm"));
        let said = Command::new("bash").args(["-c", &shell]).output().unwrap();
        assert!(quiet_success(&said).contains("emacs --version"), "{next}");
    }
}

#[test]
fn by_syscall_prints_straces_summary_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let file = emacs_recording(directory.path());
    let text = quiet_success(&becalm([
        "report".as_ref(),
        file.as_os_str(),
        "--by".as_ref(),
        "syscall".as_ref(),
    ]));
    assert_eq!(
        text,
        "% time     seconds  usecs/call     calls    errors syscall\n\
         ------ ----------- ----------- --------- --------- ----------------\n\
         \x2060.00    0.000060          10         6         2 openat\n\
         \x2030.00    0.000030          10         3         2 newfstatat\n\
         \x2010.00    0.000010          10         1           close\n\
         ------ ----------- ----------- --------- --------- ----------------\n\
         100.00    0.000100          10        10         4 total\n"
    );
    let answer = json(&becalm(["report", file.to_str().unwrap(), "--by", "syscall", "--json"]));
    let openat = &answer["rows"][2];
    assert_eq!((&openat["key"], &openat["us_per_call"]), (&"openat".into(), &10.into()));
    assert_eq!((&openat["time_percent"], &openat["time_ns"]), (&60.0.into(), &60_000.into()));
    assert_eq!(answer["total"]["time_percent"], 100.0);
}

#[test]
fn below_a_directory_it_counts_what_grep_finds_in_straces_log() {
    let directory = tempfile::tempdir().unwrap();
    let file = emacs_recording(directory.path());
    let below = |below: &str| {
        let args = ["report", file.to_str().unwrap(), "--by", "prefix", "--below", below, "--json"];
        let output = becalm(args);
        quiet_success(&output);
        json(&output)
    };
    let log = stdout(&becalm(["export", file.to_str().unwrap(), "--format", "strace"]));
    let grep = |directory: &str, call: &str, answer: &str| {
        log.lines()
            .filter(|line| {
                line.contains(&format!("{call}("))
                    && line.contains(directory)
                    && line.contains(answer)
            })
            .count() as u64
    };
    let nowhere = becalm(["report", file.to_str().unwrap(), "--below", "/nowhere/"]);
    assert_eq!((nowhere.status.code(), nowhere.stdout.len()), (Some(1), 0));
    let why = String::from_utf8_lossy(&nowhere.stderr).into_owned();
    assert!(why.contains("none of the 9 metadata operations was on /nowhere;"), "{why}");
    for (directory, opens) in [("/opt/", 3), ("/usr/share/emacs/", 1)] {
        let answer = below(directory);
        assert_eq!(answer["below"]["opens"], opens, "{directory}");
        assert_eq!(answer["below"]["opens"], grep(directory, "openat", ""), "{directory}");
        assert_eq!(
            answer["below"]["opens_enoent"],
            grep(directory, "openat", "ENOENT"),
            "{directory}"
        );
        assert_eq!(answer["below"]["stats"], grep(directory, "newfstatat", ""), "{directory}");
        assert_eq!(
            answer["below"]["stats_enoent"],
            grep(directory, "newfstatat", "ENOENT"),
            "{directory}"
        );
    }
    let text = quiet_success(&becalm([
        "report",
        file.to_str().unwrap(),
        "--by",
        "prefix",
        "--below",
        "/opt",
    ]));
    assert_eq!(text.lines().next(), Some("Below /opt: 3 opens (2 failed) and 1 stat (1 failed)"));
}

#[test]
fn below_a_directory_it_counts_what_grep_counts_in_straces_log_of_the_same_command() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    fs::create_dir(&data).unwrap();
    fs::write(data.join("a"), "").unwrap();
    let script = "cat $D/a $D/none; ls -l $D $D/a; stat $D/none; : <$D/a; [ -e $D/none ]";
    let run = |program: &str, before: &[&str]| {
        let mut command = Command::new(program);
        // Cargo's LD_LIBRARY_PATH is a loader storm of its own.
        command.args(before).args(["/bin/sh", "-c", script]).env_clear();
        command.env("PATH", "/usr/bin:/bin").env("D", &data).current_dir(directory.path());
        assert_eq!(command.output().unwrap().status.code(), Some(1));
    };
    run(env!("CARGO_BIN_EXE_becalm"), &["record", "-o", "run.becalm", "--"]);
    run("strace", &["-f", "-o", "log", "-e", "trace=%file"]);
    let grep = |what: &str| -> u64 {
        let pipe = format!("grep '{}' log | grep -E '{what}' | wc -l", data.display());
        let said = Command::new("sh").args(["-c", &pipe]).current_dir(directory.path()).output();
        stdout(&said.unwrap()).trim().parse().unwrap()
    };

    let output = command(["report", "run.becalm", "--json", "--below", "data"])
        .current_dir(directory.path())
        .output()
        .unwrap();
    quiet_success(&output);
    let answer = json(&output);
    let stats = " (new|l)?(fstatat|stat|statx|l?getxattr)[(]";
    assert_eq!(answer["below"]["opens"], grep(" open(at)?[(]"));
    assert_eq!(answer["below"]["opens_enoent"], grep(" open(at)?[(].*ENOENT"));
    assert_eq!(answer["below"]["stats"], grep(stats));
    assert_eq!(answer["below"]["stats_enoent"], grep(&format!("{stats}.*ENOENT")));
    assert!(grep(" open") > 3 && grep(stats) > 3 && grep("ENOENT") > 2);
}

#[test]
fn a_relative_directory_is_meant_from_where_one_is() {
    let directory = tempfile::tempdir().unwrap();
    let file = emacs_recording(directory.path());
    let output =
        command(["report".as_ref(), file.as_os_str(), "--below".as_ref(), "opt/../opt".as_ref()])
            .current_dir("/")
            .output()
            .unwrap();
    assert!(quiet_success(&output).starts_with("Below /opt: 3 opens"));
}

#[test]
fn json_is_as_its_schema_says_whatever_it_is_grouped_by() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("all");
    let mut sample = Sample::new(&file, "/usr/bin/python3.11", &["python3"]);
    emacs(&mut sample);
    sample.call("newfstatat", b"/usr/lib/python3.11/os.py", FOUND);
    sample.call("openat", b"/usr/lib/python3.11/os.py", FOUND).io_uring();
    sample.end();
    for by in BY {
        let output =
            becalm(["report", file.to_str().unwrap(), "--json", "--by", by, "--below", "/"]);
        let answer = json(&output);
        assert_eq!(answer["schema"], "becalm.report/1");
        assert_eq!(answer["by"], by);
    }
}

#[test]
fn the_schemas_example_is_what_becalm_says() {
    let directory = tempfile::tempdir().unwrap();
    emacs_recording(directory.path());
    let output = command(["report", "emacs.becalm", "--json"])
        .current_dir(directory.path())
        .output()
        .unwrap();
    assert_eq!(testkit::answer::example("becalm.report.md"), json(&output));
}

#[test]
fn no_line_is_wider_than_the_terminal_except_the_command_to_paste() {
    let long = std::str::from_utf8(LONG).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = emacs_recording(directory.path());
    for columns in [80, 40] {
        let questions = BY.iter().filter(|by| **by != "syscall");
        for (by, below) in questions.flat_map(|by| [(by, "/"), (by, long)]) {
            let text = quiet_success(&becalm_in(
                columns,
                ["report", file.to_str().unwrap(), "--by", by, "--below", below],
            ));
            for line in text.lines().filter(|line| !line.starts_with("Next: ")) {
                let width = term::width::of(line);
                assert!(width <= columns, "--by {by} in {columns}: {width} in {line:?}");
            }
        }
    }
}

#[test]
fn names_from_the_recording_cannot_steer_the_terminal() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("hostile");
    let mut sample = Sample::new(&file, "/bin/\x1b[31mred", &["\x1b]0;title\x07", "a\nb\u{9b}1m"]);
    emacs(&mut sample);
    sample.io_uring();
    sample.end();
    for by in BY {
        for json in [false, true] {
            let arguments = ["report", "hostile", "--all", "--by", by, "--json"];
            let arguments = &arguments[..arguments.len() - usize::from(!json)];
            let shown = on_a_terminal(200, directory.path(), &arguments.join(" "));
            let bare = without_colour(&shown);
            assert!(shown.contains("io_uring"), "{shown}");
            assert!(
                bare.chars().all(|char| char == '\n' || !char.is_control()),
                "--by {by}: {bare:?}"
            );
        }
    }
    let text = stdout(&becalm([
        "report",
        file.to_str().unwrap(),
        "--by",
        "prefix",
        "--below",
        "/data",
        "--all",
    ]));
    assert!(text.contains("/data"), "{text}");
}

#[test]
fn there_is_colour_on_a_terminal_and_none_in_a_pipe() {
    let directory = tempfile::tempdir().unwrap();
    let file = emacs_recording(directory.path());
    assert!(on_a_terminal(80, directory.path(), "report emacs.becalm").contains("\x1b[1m"));
    assert!(
        !on_a_terminal(80, directory.path(), "report emacs.becalm >out; cat out").contains('\x1b')
    );
    let piped = quiet_success(&becalm(["report", file.to_str().unwrap()]));
    assert!(!piped.contains('\x1b'));
}

#[test]
fn the_width_is_the_terminals() {
    let directory = tempfile::tempdir().unwrap();
    emacs_recording(directory.path());
    let widest = |columns: usize| {
        let shown = on_a_terminal(columns, directory.path(), "report emacs.becalm --by prefix");
        let shown = without_colour(&shown);
        let lines = shown.lines().filter(|line| !line.starts_with("Next: "));
        lines.map(term::width::of).max().unwrap()
    };
    assert!(widest(40) <= 40);
    assert!(widest(150) > 80);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let directory = tempfile::tempdir().unwrap();
    let file = emacs_recording(directory.path());
    let shell = format!(
        "set -o pipefail; '{}' report '{}' --by syscall | true",
        env!("CARGO_BIN_EXE_becalm"),
        file.display()
    );
    let output = Command::new("bash").args(["-c", &shell]).output().unwrap();
    assert!([Some(0), Some(141)].contains(&output.status.code()));
    assert_eq!(stderr(&output), "");
}

#[test]
fn loading_that_takes_long_is_shown_on_a_terminal_only() {
    let directory = tempfile::tempdir().unwrap();
    let file = emacs_recording(directory.path());
    let slow = "(head -c 300 emacs.becalm; sleep 1.2; tail -c +301 emacs.becalm) >slow & \
                becalm report slow";
    let shown = |command: &str| {
        let fifo = directory.path().join("slow");
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let shown = shell_on_a_terminal(80, directory.path(), command);
        fs::remove_file(fifo).unwrap();
        assert!(shown.contains("9 metadata operations"), "{shown}");
        shown
    };
    assert!(shown(slow).contains("reading slow: "));
    assert!(!shown(&format!("{slow} 2>log; cat log")).contains("reading"));
    let quick =
        format!("becalm report {}; cat emacs.becalm >slow & cat slow >/dev/null", file.display());
    assert!(!shown(&quick).contains("reading"));
}

#[test]
fn wrong_usage_is_status_two() {
    for arguments in
        [&["report"][..], &["report", "x", "--by", "colour"], &["report", "x", "--jsn"]]
    {
        assert_eq!(becalm(arguments).status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn help_ends_with_an_example() {
    for verb in ["report", "diff", "export"] {
        let help = quiet_success(&becalm([verb, "--help"]));
        let example = help.split("Examples:\n").nth(1).unwrap();
        assert!(example.trim_start().starts_with(&format!("becalm {verb} ")), "{help}");
    }
}

fn without_colour(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}
