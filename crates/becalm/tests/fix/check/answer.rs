//! The answer: its streams and status, its screen and JSON, and what its options change.

use super::*;

#[test]
fn the_commands_output_and_status_are_its_own_and_the_report_follows_on_standard_error() {
    let scene = Scene::new();
    let ran = run(&mut check(&scene, &[], &["sh", "-c", "echo out; echo err >&2; exit 7"]));
    assert_eq!((ran.code(), ran.out().as_str()), (7, "out\n"));
    let report = ran.err();
    let report = report.strip_prefix("err\n").unwrap_or_else(|| panic!("{report}"));
    assert!(report.starts_with("CALM  sh -c: "), "{report}");
    assert!(report.contains("\n! the command ended with status 7: "), "{report}");
    assert!(!report.contains('\x1b'), "no colour in a pipe: {report}");
}

#[test]
fn with_json_standard_output_is_one_object_and_the_commands_goes_to_standard_error() {
    let scene = Scene::new();
    let ran = run(&mut check(&scene, &["--json"], &["sh", "-c", "echo out; echo err >&2; exit 7"]));
    assert_eq!((ran.code(), ran.err().as_str()), (7, "out\nerr\n"));
    let object: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(object["schema"], "becalm.check/1");
    assert_eq!(object["totals"]["status"]["exited"], 7);
    assert_eq!(object["recording"], Value::Null);
}

#[test]
fn json_to_a_file_leaves_the_report_and_the_streams_as_they_are() {
    let scene = Scene::new();
    let file = scene.at("found.json");
    let ran = run(&mut check(&scene, &[&format!("--json={file}")], &["echo", "out"]));
    assert_eq!((ran.code(), ran.out().as_str()), (0, "out\n"));
    assert!(ran.err().starts_with("CALM  echo: "), "{}", ran.err());
    let object = testkit::answer::parse(std::fs::read(file).unwrap());
    assert_eq!(object["program"], "echo");
}

#[test]
fn a_recording_that_is_kept_shows_the_evidence_with_the_command_that_is_named() {
    let (scene, program) = (Scene::new(), store("rpath"));
    let rec = scene.at("it's kept.becalm");
    let ran = run(&mut check(&scene, &["-o", &rec], &[&program]));
    let report = ran.err();
    let more = more(&report);
    let shown = run(&mut pasted(&scene, more));
    assert_eq!(shown.code(), 0, "{}", shown.err());
    assert!(shown.out().contains("libc.so.6"), "{}", shown.out());
}

/// The command that shows more than a report.
#[track_caller]
fn more(report: &str) -> &str {
    report
        .lines()
        .find_map(|line| line.strip_prefix("More  "))
        .unwrap_or_else(|| panic!("{report}"))
}

/// What is printed, pasted where it was.
fn pasted(scene: &Scene, line: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &line.replace("becalm re", &format!("{BECALM} re"))]);
    shell.current_dir(scene.directory()).env_remove("XDG_STATE_HOME");
    shell.env("HOME", scene.directory());
    shell
}

#[test]
fn the_evidence_is_one_command_away_whether_or_not_the_recording_could_be_kept() {
    let (scene, program) = (Scene::new(), store("rpath"));
    for (state, expected) in [
        (scene.at(".local/state"), "becalm report last --by library"),
        ("/dev/null".to_owned(), "becalm record -o start.becalm -- "),
    ] {
        let mut command = check(&scene, &[], &[&program]);
        let report = run(command.env("XDG_STATE_HOME", state)).err();
        assert!(more(&report).starts_with(expected), "{report}");
        let shown = run(&mut pasted(&scene, more(&report)));
        assert!(shown.out().contains("libc.so.6"), "{report}{}{}", shown.out(), shown.err());
    }
}

/// A command to paste is never wrapped.
fn is_prose(line: &&str) -> bool {
    !["Fix   ", "More  ", "Next: ", "      becalm "].iter().any(|start| line.starts_with(start))
}

/// Rows that a text takes on a terminal of 80 columns.
fn rows(text: &str) -> usize {
    text.lines().map(|line| line.chars().count().div_ceil(80).max(1)).sum()
}

#[test]
fn the_usual_report_fits_a_screen_of_80_by_24() {
    let scene = Scene::new();
    scene.file("unpack.sh", "for i in $(seq 200); do x=$(dirname /a/b/$i); done\n", 0o755);
    let tree = tree(&scene, 200);
    let imports = "import asyncio, email, http.client, json, unittest";
    for words in [
        &["bash", "unpack.sh"][..],
        &["find", &tree, "-newer", "/etc/hostname"],
        &[PYTHON, "-c", imports],
        &["true"],
    ] {
        let report = run(&mut check(&scene, &[], words)).err();
        assert!(rows(&report) <= 24, "{} rows:\n{report}", rows(&report));
        for line in report.lines().filter(is_prose) {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}

#[test]
fn the_report_fits_the_width_it_is_given() {
    let (scene, program) = (Scene::new(), store("rpath"));
    for columns in [45, 60, 100, 200] {
        let mut command = check(&scene, &[], &[&program]);
        let report = run(command.env("COLUMNS", columns.to_string())).err();
        for line in report.lines().filter(is_prose) {
            assert!(line.chars().count() <= columns, "{columns}: {line}");
        }
    }
}

#[test]
fn paths_that_would_steer_a_terminal_are_spelt_out() {
    let scene = Scene::new();
    let script = r#"for i in {1..1000}; do [ -e $'/data/a\nb\e[2J\xff' ]; done; true"#;
    let options = ["--profile", &uncached(&scene)];
    let ran = run(&mut check(&scene, &options, &["bash", "-c", script]));
    let spelt = r"/data/a\x0ab\x1b[2J\xff was looked up 1,000 times";
    assert!(ran.err().contains(spelt), "{}", ran.err());
    assert!(!ran.stderr.iter().any(|byte| *byte == 0x1b || *byte == 0xff), "{}", ran.err());
    let findings = found_uncached(&scene, &["bash", "-c", script]);
    let name = source(storm(&findings, "repeat"), "repeated_path")["path"].as_str().unwrap();
    assert_eq!(name, r"/data/a\x0ab\x1b[2J\xff");
}

#[test]
fn ranks_change_the_estimate_and_nothing_else() {
    let (scene, program) = (Scene::new(), store("rpath"));
    let few = findings(&mut check(&scene, &["--json", "--ranks=1"], &[&program]));
    let many = findings(&mut check(&scene, &["--json", "--ranks=100000"], &[&program]));
    let all = |findings: &Value| findings["predicted_wait"]["all_ranks"].as_f64().unwrap();
    assert!(all(&many) > 10.0 * all(&few), "{} {}", all(&few), all(&many));
    assert_eq!(few["predicted_wait"]["rpcs"], many["predicted_wait"]["rpcs"]);
    assert_eq!(few["totals"]["metadata_ops"], many["totals"]["metadata_ops"]);
    assert_eq!(number(&many["model"]["nodes"]), 1563);
    let ran = run(&mut check(&scene, &["--ranks=24576"], &[&program]));
    assert!(ran.err().contains("24,576 ranks"), "{}", ran.err());
}

#[test]
fn a_daemon_does_not_hold_the_report_back() {
    let scene = Scene::new();
    let words = ["sh", "-c", "sleep 1000 >/dev/null 2>&1 </dev/null & echo $!"];
    // `run` gives up long before the daemon ends.
    let ran = run(&mut check(&scene, &[], &words));
    assert!(ran.err().contains("1 of its processes still runs"), "{}", ran.err());
    assert!(!ran.err().contains("cut"), "{}", ran.err());
    assert_eq!(run(Command::new("kill").arg(ran.out().trim())).code(), 0);
}

#[test]
fn what_cannot_be_checked_is_one_line_and_the_documented_status() {
    let scene = Scene::new();
    let script = scene.file("plain", "", 0o644);
    let full = ["-o", "/dev/full"];
    let tests: &[(&[&str], &[&str], i32)] = &[
        (&[], &["no-such-command"], 127),
        (&[], &[&script], 126),
        (&full, &["true"], 125),
        (&["-o", "/"], &["true"], 125),
        (&["--ranks=0"], &["true"], 2),
        (&["--ranks=many"], &["true"], 2),
        (&["--json=/"], &["sh", "-c", "exit 3"], 125),
        (&["--json=/dev/full"], &["sh", "-c", "exit 3"], 3),
        (&["--below", "/optt"], &["true"], 2),
        (&["--profile=beegfs"], &["true"], 2),
        (&["--rehearse=beegfs"], &["true"], 2),
    ];
    for (options, words, status) in tests {
        let ran: Ran = run(&mut check(&scene, options, words));
        assert_eq!(ran.code(), *status, "{options:?} {words:?}: {}", ran.err());
        assert_eq!(ran.out(), "");
        if *status != 2 {
            let lines: Vec<_> = ran.stderr.split(|byte| *byte == b'\n').collect();
            let said = lines.iter().filter(|line| line.starts_with(b"becalm: ")).count();
            assert_eq!(said, 1, "{options:?} {words:?}: {}", ran.err());
        }
    }
    assert_eq!(run(Command::new(BECALM).arg("check")).code(), 2);
}

#[test]
fn an_answer_that_finds_no_room_leaves_nothing_and_the_commands_status() {
    let scene = Scene::new();
    let line = format!("ulimit -f 2; {BECALM} check --json=q.json -- sh -c 'exit 3'");
    let ran = run(Command::new("sh").args(["-c", &line]).current_dir(scene.directory()));
    assert_eq!(ran.code(), 3, "{}", ran.err());
    // Nor does the recording find any: another line says that.
    assert_eq!(ran.err().matches("becalm: q.json: ").count(), 1, "{}", ran.err());
    assert_eq!(ran.err().lines().count(), 2, "{}", ran.err());
    assert_eq!(std::fs::read_dir(scene.directory()).unwrap().count(), 0);
}

/// A store of so many libraries in a directory that also has one, `sub`, and a link to itself, `link`.
fn linked_store(directory: &Path, libraries: u32) -> String {
    let make = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/store/make");
    let made =
        run(Command::new(make).arg(format!("--libs={libraries}")).arg(directory.join("opt")));
    assert_eq!(made.code(), 0, "{}", made.err());
    std::fs::create_dir(directory.join("sub")).unwrap();
    std::os::unix::fs::symlink(".", directory.join("link")).unwrap();
    made.out().trim_end().to_owned()
}

#[test]
fn what_below_names_is_the_directory_however_it_is_spelt() {
    let scene = Scene::new();
    let program = linked_store(&scene.directory(), 40);
    let wait = |below: &str| {
        let found = findings(&mut check(&scene, &["--json", "--below", below], &[&program]));
        found["predicted_wait"]["rpcs"].as_u64().unwrap()
    };
    let all = wait(&scene.at("."));
    assert!(all > 100, "{all}");
    for spelt in ["sub/..", "link", "./link/link", "link/sub/.."] {
        assert_eq!(wait(spelt), all, "{spelt}");
    }
    // As the program gives it, too.
    let by_link = program.replacen("/opt/", "/link/opt/", 1);
    let found = found_of(&scene, &["--below", "link"], &by_link);
    assert!(found["predicted_wait"]["rpcs"].as_u64().unwrap() > 0, "{found:#}");
    // One path an occurrence.
    let more = found_of(&scene, &["--below", "sub", "--below", "opt"], &program);
    assert!(more["predicted_wait"]["rpcs"].as_u64().unwrap() > 100, "{more:#}");
}

fn found_of(scene: &Scene, options: &[&str], program: &str) -> Value {
    findings(&mut check(scene, &[&["--json"], options].concat(), &[program]))
}

#[test]
fn a_directory_that_nothing_is_below_is_no_calm() {
    let scene = Scene::new();
    let program = linked_store(&scene.directory(), 40);
    let found = found_of(&scene, &["--below", "sub"], &program);
    assert_eq!(found["predicted_wait"], Value::Null);
    assert_eq!(found["warnings"][0]["kind"], "nothing_below", "{found:#}");
    let report = run(&mut check(&scene, &["--below", "sub"], &[&program])).err();
    assert!(report.starts_with("NOT KNOWN  ") && !report.contains("Predicted for"), "{report}");
    assert!(report.lines().take(4).any(|line| line.starts_with("! none of the ")), "{report}");
}

#[test]
fn what_is_left_out_as_it_is_in_memory_is_said_and_counts_as_is_pasted() {
    let in_memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let place = in_memory.path().join("it's here");
    std::fs::create_dir(&place).unwrap();
    let (scene, program) = (Scene::new(), linked_store(&place, 120));
    let report = run(&mut check(&scene, &[], &[&program])).err();
    let said = report.replace("\n  ", " ");
    assert!(said.contains("are in no predicted wait, as the kernel serves them"), "{report}");
    let next = report.lines().last().unwrap().strip_prefix("Next: becalm ").unwrap();
    assert!(next.contains(" --below "), "{next}");
    let pasted = run(Command::new("sh").args(["-c", &format!("{BECALM} {next}")])).err();
    assert!(pasted.starts_with("SLOW START  "), "{pasted}");
}

#[test]
fn a_wait_for_data_is_told_from_one_for_operations() {
    let scene = Scene::new();
    std::fs::File::create(scene.at("data")).unwrap().set_len(300 << 20).unwrap();
    let report = run(&mut check(
        &scene,
        &["--data", "--until", "exit"],
        &["dd", "if=data", "of=/dev/null", "bs=4M"],
    ))
    .err();
    let said = report.replace('\n', " ");
    assert!(said.contains(" of it for 300 MiB of data that is read."), "{report}");
    assert!(!report.contains(" for them on "), "{report}");
}

#[test]
fn a_command_that_changes_its_mounts_waits_for_what_it_then_sees() {
    let scene = Scene::new();
    let look = "for i in $(seq 400); do [ -e /mnt/$i ]; done; true";
    let words = |mount: &str| {
        ["unshare", "-rm", "sh", "-c", &format!("{mount}; {look}")].map(str::to_owned)
    };
    let found = |mount| {
        let words = words(mount);
        found(&scene, &words.each_ref().map(String::as_str))
    };
    let rpcs = |found: &Value| number(&found["predicted_wait"]["rpcs"]);
    let (in_memory, on_disk) = (found("mount -t tmpfs x /mnt"), found("true"));
    assert!(rpcs(&on_disk) > rpcs(&in_memory) + 350, "{on_disk:#} {in_memory:#}");
    let said = in_memory["warnings"].as_array().unwrap().iter().map(|said| &said["kind"]);
    assert_eq!(said.collect::<Vec<_>>(), ["left_out"], "and nothing of other mounts");
}

#[test]
fn a_terminal_gets_colour_unless_it_asks_for_none() {
    let scene = Scene::new();
    for (no_color, has_colour) in [(None, true), (Some("1"), false)] {
        let mut command = check(&scene, &[], &["true"]);
        command.env("TERM", "xterm");
        no_color.map(|value| command.env("NO_COLOR", value));
        let mut terminal = Terminal::start(&mut command);
        let screen = terminal.expect("lustre");
        assert_eq!(screen.contains("\x1b["), has_colour, "{screen:?}");
    }
}
