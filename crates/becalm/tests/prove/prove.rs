//! `becalm prove` on real commands: what changed is counted as strace counts it, what did not
//! change is not claimed, and a command that hangs, fails or floods does becalm no harm.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::BECALM;
use serde_json::Value;
use testkit::live::{LIMIT, wait_until};
use testkit::terminal::Terminal;
use testkit::{Ran, Scene, run, strace};

/// `becalm prove arguments…` in the scene's directory.
fn becalm(scene: &Scene, arguments: &[&str]) -> Command {
    let mut command = Command::new(BECALM);
    command.arg("prove").args(arguments).current_dir(scene.directory()).env("COLUMNS", "80");
    command
}

/// Proves with so few runs that times say nothing: what is tested must not depend on a quiet
/// machine.
fn prove(scene: &Scene, before: &str, after: &str, more: &[&str]) -> Ran {
    let arguments = [&["--runs", "2", "--before", before, "--after", after], more].concat();
    run(&mut becalm(scene, &arguments))
}

#[track_caller]
fn json(ran: &Ran) -> Value {
    serde_json::from_slice(&ran.stdout).unwrap_or_else(|_| panic!("{}\n{}", ran.out(), ran.err()))
}

/// A long text on one line.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Two programs that do the same: one looks for its libraries along a list of 30 prefixes, the
/// other finds all in one directory. Gives both, and the directory.
fn stores(scene: &Scene) -> (String, String) {
    let make = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/store/make");
    let built = |options: &[&str], name: &str| {
        let out = scene.at(name);
        let ran = run(Command::new(&make).args(options).args(["--libs", "30", &out]));
        assert_eq!(ran.code(), 0, "{}", ran.err());
        ran.out().trim_end().to_owned()
    };
    let (listed, bare) = (built(&[], "listed"), built(&["--no-rpath"], "bare"));
    let farm = scene.subdirectory("farm");
    let script = format!("find bare/store -name '*.so.*' -exec ln -s $PWD/{{}} {farm}/ \\;");
    let linked = run(Command::new("sh").args(["-c", &script]).current_dir(scene.directory()));
    assert_eq!(linked.code(), 0, "{}", linked.err());
    (listed, format!("LD_LIBRARY_PATH={farm} {bare}"))
}

#[test]
fn a_calmed_search_is_proven_with_straces_counts() {
    let scene = Scene::new();
    let (before, after) = stores(&scene);
    let ran = prove(&scene, &before, &after, &["--json"]);
    assert_eq!(ran.code(), 0, "{}{}", ran.out(), ran.err());
    let proof = json(&ran);
    assert_eq!(proof["behaviour"]["kind"], "same");
    assert_eq!(proof["counts"]["change"], "fewer");
    let (farm, bare) = after.split_once(' ').unwrap();
    let openat =
        [("before", vec![&*before]), ("after", vec!["-E", farm, bare])].map(|(side, words)| {
            let to = scene.at("strace");
            let mut strace = Command::new("strace");
            strace.args(["-f", "-c", "-U", "calls,errors,name", "-e", "trace=openat", "-o", &to]);
            assert_eq!(run(strace.args(words)).code(), 0);
            let table = std::fs::read_to_string(to).unwrap();
            let row = table.lines().find(|line| line.ends_with(" openat")).unwrap();
            let cells: Vec<_> = row.split_whitespace().collect();
            let ours = &proof[side]["counted"][0]["by_call"]["openat"];
            assert_eq!(
                [&ours["calls"].to_string(), &ours["errors"].to_string()],
                [cells[0], cells[1]]
            );
            cells[0].parse::<u64>().unwrap()
        });
    let sentence = proof["verdict"]["sentence"].as_str().unwrap();
    assert!(sentence.starts_with("metadata operations "), "{sentence}");
    let most =
        format!(" (openat {} to {}), same output, same status; on this ", openat[0], openat[1]);
    assert!(sentence.contains(&most), "{sentence}");
    assert!(openat[0] > 3 * openat[1], "{openat:?}");
}

#[test]
fn counts_are_those_of_strace_call_by_call() {
    let scene = Scene::new();
    let words = ["ls", "/usr/bin", "/etc"];
    let proof = json(&prove(&scene, &words.join(" "), "true", &["--json"]));
    let table = strace::table(&scene, false, &words);
    let calls = proof["before"]["counted"][0]["by_call"].as_object().unwrap();
    let mut compared = 0;
    for (name, counts) in table.lines().filter_map(|line| line.split_once(": ")) {
        let (number, errors) = counts.split_once(' ').unwrap();
        if name != "total" {
            assert_eq!(calls[name]["calls"], number.parse::<u64>().unwrap(), "{name}");
            assert_eq!(calls[name]["errors"], errors.parse().unwrap_or(0), "{name}");
            compared += 1;
        }
    }
    assert_eq!(compared, calls.len(), "{table}");
}

#[test]
fn the_verdict_is_a_sentence_and_the_answer_fits_a_screen() {
    let scene = Scene::new();
    let many = "sh -c 'for i in 1 2 3 4 5 6 7 8 9; do test -e /nowhere/$i; done; :'";
    let ran = prove(&scene, many, "sh -c ':'", &[]);
    assert_eq!(ran.code(), 0, "{}", ran.err());
    let text = ran.out();
    let begin = "Proven: metadata operations ";
    assert!(text.starts_with(begin), "{text}");
    assert!(flat(&text).contains(", same output, same status; on this warm "), "{text}");
    assert!(text.lines().count() <= 24, "{text}");
    assert!(
        text.lines().all(|line| line.starts_with("Next: ") || line.chars().count() <= 80),
        "{text}"
    );
    assert!(text.contains("Next: becalm prove --keep proof --"), "{text}");
    assert!(text.lines().last().unwrap().contains(" --before "), "{text}");
}

#[test]
fn the_same_command_twice_is_not_proven_to_be_better() {
    let scene = Scene::new();
    let ran = prove(&scene, "ls /usr", "ls /usr", &[]);
    assert_eq!(ran.code(), 1, "{}", ran.out());
    let text = flat(&ran.out());
    assert!(text.starts_with("Not proven: as many metadata operations ("), "{text}");
    assert!(text.contains("same output, same status"), "{text}");
    assert!(text.contains("no difference shown"), "{text}");
}

#[test]
fn what_takes_a_tenth_of_the_time_is_faster_and_the_other_way_round_slower() {
    let scene = Scene::new();
    let runs = ["--runs", "7", "--json"];
    let proof = json(&prove_with(&scene, "sleep 2", "sleep 0.05", &runs));
    assert_eq!(proof["times"]["speed"], "faster", "{proof:#}");
    assert_eq!(proof["verdict"]["proven"], true);
    let sentence = proof["verdict"]["sentence"].as_str().unwrap();
    assert!(
        sentence.contains(") no slower, ") && sentence.contains(" times faster (95 % "),
        "{sentence}"
    );
    assert!(proof["before"]["runs"].as_array().unwrap().len() == 7);
    let ran = prove_with(&scene, "sleep 0.05", "sleep 0.5", &runs);
    assert_eq!(ran.code(), 1);
    assert_eq!(json(&ran)["times"]["speed"], "slower");
}

fn prove_with(scene: &Scene, before: &str, after: &str, more: &[&str]) -> Ran {
    let arguments = [&["--before", before, "--after", after], more].concat();
    run(&mut becalm(scene, &arguments))
}

#[test]
fn output_that_differs_is_no_proof_and_the_first_difference_is_shown() {
    let scene = Scene::new();
    for redirect in ["", " >&2"] {
        let before = format!("sh -c 'ls /nowhere 2>/dev/null; printf \"a\\nb\\n\"{redirect}'");
        let after = format!("sh -c 'printf \"a\\nc\\n\"{redirect}'");
        let ran = prove(&scene, &before, &after, &[]);
        assert_eq!(ran.code(), 1, "{}", ran.out());
        let stream = if redirect.is_empty() { "output" } else { "error" };
        let said = flat(&ran.out());
        assert!(said.contains(&format!("but not the same standard {stream}")), "{said}");
        assert!(said.contains("differs: line 2: before 'b', after 'c'"), "{said}");
        let ignored = prove(&scene, &before, &after, &["--ignore-output"]);
        assert_eq!(ignored.code(), 0, "{}", ignored.out());
        assert!(flat(&ignored.out()).contains("same status, output not compared"));
    }
}

#[test]
fn a_status_that_differs_is_no_proof_whatever_is_ignored() {
    let scene = Scene::new();
    let ran = prove(&scene, "sh -c 'exit 3'", "true", &["--ignore-output"]);
    assert_eq!(ran.code(), 1, "{}", ran.out());
    assert!(flat(&ran.out()).contains("status differs: before status 3, after status 0"));
    let ran = prove(&scene, "sh -c 'kill -9 $$'", "sh -c 'exit 137'", &[]);
    assert!(
        flat(&ran.out()).contains("before killed by signal 9, after status 137"),
        "{}",
        ran.out()
    );
    let ran = prove(&scene, "sh -c 'ls /nowhere 2>/dev/null; exit 3'", "sh -c 'exit 3'", &[]);
    assert_eq!(ran.code(), 0, "{}", ran.out());
    assert!(flat(&ran.out()).contains("Note: both commands failed: status 3"), "{}", ran.out());
}

#[test]
fn output_that_varies_from_run_to_run_cannot_be_compared() {
    let scene = Scene::new();
    let ran = prove(&scene, "true", "sh -c 'echo $$'", &[]);
    assert_eq!(ran.code(), 1);
    let said = flat(&ran.out());
    assert!(
        said.contains(
            "the standard output of after differs from run to run, so it cannot be compared"
        ),
        "{said}"
    );
    assert!(said.contains("Next: becalm prove --ignore-output --"), "{said}");
    let ignored =
        prove(&scene, "sh -c 'ls / >/dev/null; echo $$'", "sh -c 'echo $$'", &["--ignore-output"]);
    assert_eq!(ignored.code(), 0, "{}", ignored.out());
}

#[test]
fn counts_that_vary_are_said_to() {
    let scene = Scene::new();
    // Every run leaves one more file, which the next looks at.
    let grows = "sh -c 'for i in *.seen; do test -e $i; done; : >$$.seen'";
    let ran = prove(&scene, grows, "true", &[]);
    let said = flat(&ran.out());
    assert!(said.contains("counts of before vary from run to run: "), "{said}");
}

#[test]
fn processes_left_behind_are_not_waited_for_and_said_to_be() {
    let scene = Scene::new();
    // `run` gives up long before a dozen of them have ended.
    let ran = prove(&scene, "sh -c 'sleep 30 >/dev/null 2>&1 &'", "true", &[]);
    assert!(flat(&ran.out()).contains("Note: before left processes running"), "{}", ran.out());
}

#[test]
fn variables_before_a_command_are_its_environment_in_every_run() {
    let scene = Scene::new();
    let script = "sh -c 'test \"$MODE\" = fast || ls / >/dev/null; echo $OTHER'";
    let ran = prove(
        &scene,
        &format!("OTHER=x {script}"),
        &format!("MODE=fast OTHER=x {script}"),
        &["--json"],
    );
    assert_eq!(ran.code(), 0, "{}", ran.out());
    let proof = json(&ran);
    assert_eq!(
        proof["after"]["environment"],
        serde_json::json!([["MODE", "fast"], ["OTHER", "x"]])
    );
    assert_eq!(proof["after"]["stdout"]["bytes"], 2);
    assert_eq!(proof["before"]["counted"][0]["processes"], 2);
    assert_eq!(proof["after"]["counted"][0]["processes"], 1);
}

#[test]
fn a_command_that_needs_a_shell_or_is_none_is_wrong_usage() {
    let scene = Scene::new();
    for line in ["ls | wc", "ls > f", "echo $HOME", "", "A=1", "echo 'open"] {
        let ran = prove(&scene, line, "true", &[]);
        assert_eq!((ran.code(), ran.out().as_str()), (2, ""), "{line}");
        assert!(ran.err().starts_with("becalm: --before '"), "{}", ran.err());
        assert_eq!(ran.err().lines().count(), 1, "{}", ran.err());
    }
    assert!(!Path::new(&scene.at("f")).exists());
}

#[test]
fn a_command_that_cannot_start_ends_it_as_env_would() {
    let scene = Scene::new();
    let script = scene.file("script", "#!/no/such/interpreter\n", 0o755);
    let plain = scene.file("plain", "text", 0o644);
    for (command, status) in [("no-such-command-here", 127), (&*script, 127), (&*plain, 126)] {
        for (before, after) in [(command, "true"), ("true", command)] {
            let ran = prove(&scene, before, after, &[]);
            assert_eq!((ran.code(), ran.out().as_str()), (status, ""), "{}", ran.err());
            assert!(ran.err().contains(command), "{}", ran.err());
        }
    }
}

#[test]
fn a_run_that_takes_too_long_is_ended_with_all_that_it_started() {
    let scene = Scene::new();
    let hangs = "sh -c 'trap \"\" TERM; sleep 4713.5; :'";
    let ran = prove(&scene, "true", hangs, &["--timeout", "0.5"]);
    assert_eq!(ran.code(), 124, "{}", ran.err());
    assert!(ran.err().contains("it was not done after 0.5 s"), "{}", ran.err());
    assert!(!is_running("sleep 4713[.]5"));
    // The first run is quick, the recorded one hangs.
    let once = "sh -c 'test -e ran && exec sleep 4714.5; : >ran'";
    let ran = prove(&scene, once, "true", &["--timeout", "0.5"]);
    assert_eq!(ran.code(), 124, "{}", ran.err());
    assert!(!is_running("sleep 4714[.]5"));
}

fn is_running(mark: &str) -> bool {
    run(Command::new("pgrep").args(["-f", mark])).code() == 0
}

#[test]
fn ctrl_c_ends_the_command_and_becalm() {
    let scene = Scene::new();
    let mut shell = Terminal::start(Command::new("bash").args(["--norc", "-i"]));
    let line = format!(
        "{BECALM} prove --before 'sh -c \"echo >{0}; exec sleep 4715.5\"' --after true; echo and on\n",
        scene.at("started")
    );
    shell.send(&line);
    let deadline = Instant::now() + LIMIT;
    while !Path::new(&scene.at("started")).exists() {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(10));
    }
    shell.send("\x03");
    shell.expect("interrupted");
    // becalm dies of it, so that what the shell was to do next is not done.
    shell.send("echo status=$?\n");
    shell.expect("status=130");
    assert!(!is_running("sleep 4715[.]5"));
}

#[test]
fn whoever_kills_a_proof_kills_the_command_with_it() {
    let scene = Scene::new();
    let mark = "4242.7171";
    let side = format!("sleep {mark}");
    let mut proving = becalm(&scene, &["--before", &side, "--after", &side]).spawn().unwrap();
    wait_until("the command runs", || is_running(mark));
    proving.kill().unwrap();
    proving.wait().unwrap();
    wait_until("the command has ended", || !is_running(mark));
}

#[test]
fn a_terminal_sees_how_far_it_is_and_a_pipe_does_not() {
    let slow = ["--runs", "8", "--before", "sleep 0.1", "--after", "sleep 0.1"];
    let mut shell =
        Terminal::start(Command::new(BECALM).arg("prove").args(slow).env("TERM", "xterm"));
    shell.expect("running ");
    shell.expect(" of 22");
    // Proven or not: of equal times one in twenty is called otherwise.
    shell.expect("roven: ");
    let ran = run(Command::new(BECALM).arg("prove").args(slow));
    assert_eq!(ran.err(), "");
}

#[test]
fn a_flood_of_output_takes_no_memory() {
    let flood = "head -c 1000000000 /dev/zero";
    let arguments = ["--runs", "1", "--before", flood, "--after", flood, "--json"];
    // becalm, and all that it starts, may have this much address space each (in KiB).
    let mut limited = Command::new("bash");
    limited.args(["-c", "ulimit -v 200000; \"$@\"", "bash", BECALM, "prove"]).args(arguments);
    let proof = json(&run(&mut limited));
    assert_eq!(proof["before"]["stdout"]["bytes"], 1_000_000_000);
    assert_eq!(proof["behaviour"]["kind"], "same");
}

#[test]
fn a_command_reads_nothing_or_the_file_it_is_given_from_its_start_each_time() {
    let scene = Scene::new();
    let ran = prove(&scene, "cat", "true", &["--json"]);
    assert_eq!(json(&ran)["before"]["stdout"]["bytes"], 0);
    let input = scene.file("input", "twelve bytes", 0o644);
    let ran = prove(&scene, "cat", "cat", &["--json", "--input", &input]);
    let proof = json(&ran);
    assert_eq!(proof["before"]["stdout"]["bytes"], 12);
    assert_eq!(proof["behaviour"]["kind"], "same");
    // Nobody writes to the pipe: opening it would wait for ever.
    run(Command::new("mkfifo").arg(scene.at("pipe")));
    for input in ["none", "pipe", "."] {
        let ran = prove(&scene, "cat", "cat", &["--input", input]);
        assert_eq!((ran.code(), ran.out().as_str()), (125, ""), "{input}: {}", ran.err());
    }
}

#[test]
fn a_file_that_cannot_be_written_is_found_out_before_any_run() {
    let scene = Scene::new();
    let marks = format!("sh -c 'echo >{}'", scene.at("ran"));
    scene.file("notes.txt", "not a recording", 0o644);
    scene.subdirectory("kept");
    scene.file("kept/before.becalm", "not a recording", 0o644);
    for option in [
        ["--export-json", "/no/such/directory/file"],
        ["--export-csv", "kept"],
        ["--export-markdown", "/proc/new-file"],
        ["--keep", "notes.txt"],
        ["--keep", "kept"],
    ] {
        let ran = prove(&scene, &marks, "true", &option);
        assert_eq!((ran.code(), ran.out().as_str()), (125, ""), "{option:?}: {}", ran.err());
        assert_eq!(ran.err().lines().count(), 1, "{}", ran.err());
    }
    assert!(!Path::new(&scene.at("ran")).exists());
    assert_eq!(std::fs::read(scene.at("kept/before.becalm")).unwrap(), b"not a recording");
}

#[test]
fn what_prepares_a_run_comes_before_each_and_must_succeed() {
    let scene = Scene::new();
    let options = [
        "--prepare",
        "sh -c 'echo both >>log'",
        "--prepare-after",
        "sh -c 'echo after >>log'",
        "--warmup",
        "2",
    ];
    let ran = prove(&scene, "true", "true", &options);
    assert!(flat(&ran.out()).contains("prepared before each run"), "{}", ran.out());
    let log = std::fs::read_to_string(scene.at("log")).unwrap();
    // Two warm-ups, two recordings, two timed runs of each.
    assert_eq!(log.lines().filter(|line| *line == "both").count(), 12);
    assert_eq!(log.lines().filter(|line| *line == "after").count(), 6);
    let ran = prove(&scene, "true", "true", &["--prepare", "false"]);
    assert_eq!(ran.code(), 125);
    assert!(
        ran.err().contains("false: it was to prepare a run and failed (status 1)"),
        "{}",
        ran.err()
    );
}

#[test]
fn recordings_that_are_kept_can_be_compared() {
    let scene = Scene::new();
    let ran = prove(
        &scene,
        "ls /usr /etc",
        "ls /usr",
        &["--keep", "proof/kept", "--ignore-output", "--json"],
    );
    let proof = json(&ran);
    for (side, counted) in [("before", &proof["before"]), ("after", &proof["after"])] {
        let file = format!("proof/kept/{side}.becalm");
        let report = run(Command::new(BECALM)
            .args(["report", "--json", &file])
            .current_dir(scene.directory()));
        assert_eq!(json(&report)["total"]["metadata_ops"], counted["counted"][0]["metadata_ops"]);
        assert_eq!(json(&report)["total"]["enoent"], counted["counted"][0]["enoent"]);
        assert_eq!(json(&report)["processes"], counted["counted"][0]["processes"]);
    }
    // A second proof replaces them.
    let again = prove(&scene, "ls /usr /etc", "ls /usr", &["--keep", "proof/kept"]);
    let next = "Next: becalm diff proof/kept/before.becalm proof/kept/after.becalm --paths\n";
    assert!(again.out().ends_with(next), "{}", again.out());
}

/// Two that fail alike are the same, and that they failed is no less to be read where it is pasted.
#[test]
fn what_is_noted_is_in_the_markdown_too() {
    let scene = Scene::new();
    let options = ["--runs", "6", "--json", "--export-markdown", "p.md"];
    let ran = prove_with(&scene, "sh -c 'exit 2'", "sh -c 'true; exit 2'", &options);
    let proof = json(&ran);
    let notes = proof["notes"].as_array().unwrap();
    assert!(!notes.is_empty(), "{proof:#}");
    let text = std::fs::read_to_string(scene.at("p.md")).unwrap();
    assert_eq!(text.lines().filter(|line| line.starts_with("- ")).count(), notes.len(), "{text}");
    assert!(text.contains("failed: status 2"), "{text}");
}

#[test]
fn the_exports_hold_the_numbers_of_the_json() {
    let scene = Scene::new();
    let options = [
        "--runs",
        "6",
        "--json",
        "--export-json",
        "p.json",
        "--export-csv",
        "p.csv",
        "--export-markdown",
        "p.md",
    ];
    let ran = prove_with(&scene, "sh -c 'ls / >/dev/null; echo \"a, b\"'", "echo 'a, b'", &options);
    let proof = json(&ran);
    let read = |name: &str| std::fs::read_to_string(scene.at(name)).unwrap();
    assert_eq!(read("p.json"), ran.out());
    let script =
        "import csv, json; print(json.dumps(list(csv.DictReader(open('p.csv', newline='')))))";
    let rows = run(Command::new("python3").args(["-c", script]).current_dir(scene.directory()));
    let rows = json(&rows);
    for (row, side) in [(0, "before"), (1, "after")] {
        let row = &rows[row];
        assert_eq!(row["command"], proof[side]["command"]);
        assert_eq!(row["side"], side);
        let number = |name: &str| row[name].as_str().unwrap().parse::<f64>().unwrap();
        for name in ["mean", "stddev", "median", "min", "max", "lower_quartile"] {
            let field = if name == "stddev" { "standard_deviation" } else { name };
            let exact = proof["times"][side][field].as_f64().unwrap();
            // serde_json reads the last of 17 digits as it comes.
            assert!((number(name) - exact).abs() <= exact * 1e-12, "{name}");
        }
        assert_eq!(
            number("metadata_ops"),
            proof[side]["counted"][0]["metadata_ops"].as_f64().unwrap()
        );
        assert_eq!(number("status"), 0.0);
    }
    let verdict =
        if proof["verdict"]["proven"] == true { "**Proven:** " } else { "**Not proven:** " };
    assert!(read("p.md").starts_with(verdict), "{}", read("p.md"));
    let table: Vec<Vec<String>> = read("p.md")
        .lines()
        .filter(|line| line.starts_with('|'))
        .map(|line| line.split('|').map(|cell| cell.trim().to_owned()).collect())
        .collect();
    assert_eq!(table.len(), 4);
    assert!(table.iter().all(|row| row.len() == table[0].len()), "{table:?}");
    assert_eq!(table[3][2], "`echo 'a, b'`");
    assert_eq!(table[3][3], proof["after"]["counted"][0]["metadata_ops"].to_string());
}

#[test]
fn json_is_as_its_schema_says() {
    let scene = Scene::new();
    // What is run is held against it.
    for (before, after) in [
        ("echo a", "echo b"),
        ("sh -c 'echo $$'", "true"),
        ("true", "true"),
        ("sh -c 'kill $$'", "sh -c 'kill $$'"),
        ("X=1 true", "true"),
    ] {
        json(&prove_with(&scene, before, after, &["--runs", "6", "--json"]));
    }
}

#[test]
fn the_same_seed_gives_the_same_order() {
    let scene = Scene::new();
    let order = |seed: &str| {
        let log = format!("log{seed}");
        let side = |name: &str| format!("sh -c 'echo {name} >>{log}'");
        let _ = std::fs::remove_file(scene.at(&log));
        prove_with(&scene, &side("before"), &side("after"), &["--runs", "12", "--seed", seed]);
        std::fs::read_to_string(scene.at(&log)).unwrap()
    };
    let first = order("7");
    assert_eq!(first, order("7"));
    assert_ne!(first, order("8"));
    assert_eq!(first.lines().filter(|line| *line == "after").count(), 1 + 2 + 12);
}
