//! `becalm python scan` on real Pythons: every operation is counted once, for the import that
//! made it, and the hook's own are in no count.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use crate::BECALM;
use crate::scan_scene::{
    PYTHON, answer, counted_by_strace, exact, found, number, operations, package, position, scan,
};
use serde_json::Value;
use testkit::{Scene, run};

fn venv_python() -> String {
    let python = format!("{}/bin/python3", testkit::installed::venv().display());
    assert!(Path::new(&python).exists(), "{python}: run setup/install-test-tools first");
    python
}

#[test]
fn the_systems_python_is_counted_as_strace_counts_it_and_nested_as_importtime_nests_it() {
    let scene = Scene::new();
    let program = "import http.client, json, sqlite3";
    let exact = exact(&scene, &[PYTHON, "-c", program], "");
    let ours = pairs_of(&exact, "http.client");
    assert!(ours.len() > 20, "{ours:?}");
    let mut timed = Command::new(PYTHON);
    timed.args(["-X", "importtime", "-c", program]).env_clear().env("HOME", "/nonexistent");
    assert_eq!(ours, pairs_by_importtime(&run(&mut timed).err(), "http.client"));
}

#[test]
fn a_command_that_was_asked_to_end_is_not_started_a_second_time_for_its_times() {
    let scene = Scene::new();
    let program =
        "import os, signal; open('ran', 'a').write('x'); os.kill(os.getpid(), signal.SIGINT)";
    let mut scan = Command::new(BECALM);
    scan.args(["python", "scan", "--importtime", "--", PYTHON, "-c", program]);
    let ran = run(scan.current_dir(scene.directory()));
    assert_eq!(ran.status.signal(), Some(libc::SIGINT), "{}", ran.err());
    assert_eq!(fs::read_to_string(scene.at("ran")).unwrap(), "x");
}

#[test]
fn every_python_that_is_here_is_counted_exactly() {
    let scene = Scene::new();
    let pythons = pythons();
    assert!(!pythons.is_empty());
    for python in pythons {
        let exact = exact(&scene, &[&python, "-c", "import json, email.message"], "");
        let decoder = found(&exact["modules"], "module", "json.decoder");
        assert_eq!(decoder["parent"], position(&exact, "json"), "{python}");
    }
}

/// Debian's, and those that pyenv has: 3.9 and later.
fn pythons() -> Vec<String> {
    let home = std::env::var("HOME").unwrap_or_default();
    let installed = fs::read_dir(format!("{home}/.pyenv/versions")).into_iter().flatten();
    let is_new = |name: &str| {
        let minor = name.strip_prefix("3.").and_then(|rest| rest.split('.').next());
        minor.and_then(|minor| minor.parse::<u32>().ok()).is_some_and(|minor| minor >= 9)
    };
    let directories = installed.map(|entry| entry.unwrap().path());
    let new =
        directories.filter(|directory| is_new(directory.file_name().unwrap().to_str().unwrap()));
    let pythons = new.map(|directory| directory.join("bin/python3").to_str().unwrap().to_owned());
    [PYTHON.to_owned()].into_iter().chain(pythons).collect()
}

/// Each import below one, and what it was imported by.
fn pairs_of(answer: &Value, top: &str) -> BTreeSet<(String, String)> {
    let modules = answer["modules"].as_array().unwrap();
    let name = |at: usize| modules[at]["module"].as_str().unwrap().to_owned();
    let parent = |at: usize| modules[at]["parent"].as_u64().map(|parent| parent as usize);
    let is_below = |mut at: usize| loop {
        match parent(at) {
            Some(above) if name(above) == top => break true,
            Some(above) => at = above,
            None => break false,
        }
    };
    let below = (0..modules.len()).filter(|at| is_below(*at));
    below.map(|at| (name(at), name(parent(at).unwrap()))).collect()
}

/// The same from `-X importtime`: a line an import at its end, indented by two a level.
fn pairs_by_importtime(text: &str, top: &str) -> BTreeSet<(String, String)> {
    let names =
        text.lines().filter_map(|line| line.strip_prefix("import time:")?.split('|').nth(2));
    let mut lines: Vec<(usize, &str)> = names
        .map(|name| (name.len() - name.trim_start().len(), name.trim()))
        .filter(|(_, name)| *name != "imported package")
        .collect();
    lines.reverse();
    let mut above: Vec<(usize, &str)> = Vec::new();
    let mut pairs = BTreeSet::new();
    for (indent, name) in lines {
        above.retain(|(outer, _)| *outer < indent);
        if above.iter().any(|(_, name)| *name == top) {
            pairs.insert((name.to_owned(), above.last().unwrap().1.to_owned()));
        }
        above.push((indent, name));
    }
    pairs
}

#[test]
fn a_virtual_environment_is_counted_exactly_and_extension_modules_are_told_apart() {
    let (scene, python) = (Scene::new(), venv_python());
    let exact = exact(&scene, &[&python, "-c", "import numpy, scipy.linalg"], "");
    let numpy = found(&exact["packages"], "package", "numpy");
    assert!(operations(numpy) * 4 > operations(&exact["imports"]), "{numpy}");
    for (reason, least) in [("extension", 30), ("loader", 10), ("source", 300), ("bytecode", 150)] {
        let by = found(&exact["reasons"], "reason", reason);
        assert!(operations(by) >= least, "{by}");
    }
    let suffixes = found(&exact["reasons"], "reason", "suffix");
    assert_eq!(suffixes["metadata_ops"], suffixes["enoent"], "a probe that answers is none");
    let site = exact["sys_path"].as_array().unwrap().iter().max_by_key(|entry| operations(entry));
    assert!(site.unwrap()["path"].as_str().unwrap().ends_with("site-packages"), "{site:?}");
}

#[test]
fn one_entry_more_costs_what_the_slope_says() {
    let scene = Scene::new();
    let with = |entries: usize| {
        let list: Vec<_> = (0..entries).map(|number| scene.at(&format!("p{number}"))).collect();
        list.iter().for_each(|directory| fs::create_dir_all(directory).unwrap());
        exact(&scene, &[PYTHON, "-c", "import email.message, json"], &list.join(":"))
    };
    let (few, many) = (with(10), with(100));
    let slope = many["slope"]["metadata_ops_per_entry"].as_f64().unwrap();
    assert_eq!(
        (number(&many["slope"]["entries"]), &many["slope"]["of_pythonpath"]),
        (100, &true.into())
    );
    let grown = operations(&many["all"]) - operations(&few["all"]);
    assert_eq!(grown as f64, 90.0 * slope, "all of it is the entries' own");
    assert_eq!(few["slope"]["metadata_ops_per_entry"], many["slope"]["metadata_ops_per_entry"]);
    assert_eq!(few["all"]["enoent"], many["all"]["enoent"], "and none of it is a miss");
}

#[test]
fn what_an_entry_would_cost_is_foretold_by_a_run_without_one() {
    let scene = Scene::new();
    let words = [PYTHON, "-c", "import email.message, json"];
    let (none, one) =
        (exact(&scene, &words, ""), exact(&scene, &words, &scene.subdirectory("empty")));
    assert_eq!(none["slope"]["of_pythonpath"], false);
    let foretold = none["slope"]["metadata_ops_per_entry"].as_f64().unwrap();
    let grown = (operations(&one["all"]) - operations(&none["all"])) as f64;
    assert!((foretold - grown).abs() <= 2.0, "foretold {foretold}, grown {grown}");
}

#[test]
fn a_prefix_that_was_copied_elsewhere_is_counted_exactly() {
    let scene = Scene::new();
    // As conda lays it out: the interpreter, and its library beside it.
    let script = "set -e; mkdir -p P/bin P/lib; cp /usr/bin/python3 P/bin/python3
        cp -a --dereference /usr/lib/$(basename $(readlink -f /usr/bin/python3)) P/lib/";
    let mut shell = Command::new("sh");
    assert_eq!(run(shell.args(["-c", script]).current_dir(scene.directory())).code(), 0);
    let python = scene.at("P/bin/python3");
    let exact = exact(&scene, &[&python, "-c", "import json, decimal"], "");
    let top = exact["sys_path"].as_array().unwrap().iter().max_by_key(|entry| operations(entry));
    let top = top.unwrap()["path"].as_str().unwrap();
    assert!(top.starts_with(&scene.at("P/lib/python3")), "{top}");
}

#[test]
fn a_python_that_runs_no_hook_is_scanned_by_path_and_the_answer_says_so() {
    let scene = Scene::new();
    for option in ["-I", "-E", "-S"] {
        let words = [PYTHON, option, "-c", "import json, sys; print(sys.path)"];
        let ran = run(&mut scan(&[], &words));
        let answer: Value = serde_json::from_slice(&ran.stdout).unwrap();
        assert_eq!(answer["nesting"], "by_path", "{option}");
        assert_eq!(operations(&answer["all"]), counted_by_strace(&scene, &words, ""), "{option}");
        assert!(!ran.err().contains("becalm"), "the program sees no directory of becalm's");
        let decoder = found(&answer["modules"], "module", "json.decoder");
        assert_eq!(decoder["parent"], position(&answer, "json"), "below its package");
    }
    // Pythons that Python starts are not hooked, their parent is.
    let program = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import json'])";
    let answer = answer(&mut scan(&[], &[PYTHON, "-c", program]));
    assert_eq!(answer["nesting"], "mixed");
    let exact: Vec<_> =
        answer["pythons"].as_array().unwrap().iter().map(|python| &python["exact"]).collect();
    assert_eq!(exact, [true, false]);
}

#[test]
fn a_wrapper_that_puts_directories_before_the_hook_changes_no_count() {
    let scene = Scene::new();
    let script = scene.file(
        "wrapper",
        format!(
            "#!/bin/sh\nPYTHONPATH={0}/:/usr/share:$PYTHONPATH exec {PYTHON} -c 'import json'\n",
            scene.at("a")
        ),
        0o755,
    );
    scene.subdirectory("a");
    let count = |options: &[&str]| {
        let mut command = scan(options, &[&script]);
        answer(command.env("PYTHONPATH", "/usr/lib"))["all"].clone()
    };
    assert_eq!(count(&[]), count(&["--no-hook"]));
}

#[test]
fn times_of_a_run_that_is_not_recorded_stand_beside_the_counts() {
    let program = "import json, sys; print('once more', file=sys.stderr)";
    let mut command = scan(&["--importtime"], &[PYTHON, "-c", program]);
    let ran = run(&mut command);
    assert_eq!(ran.err().matches("once more").count(), 1, "the second run is not shown");
    let answer: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let time = &found(&answer["modules"], "module", "json")["time"];
    assert!(number(&time["cumulative_us"]) >= number(&time["own_us"]), "{time}");
    let mut command = scan(&["--importtime"], &[PYTHON, "-E", "-c", "import json"]);
    let answer = self::answer(&mut command);
    assert!(answer["no_times"].as_str().unwrap().contains("-E and -I"), "{answer:#}");
}

#[test]
fn output_status_and_a_kept_recording() {
    let scene = Scene::new();
    let mut command = Command::new(BECALM);
    command.args([
        "python",
        "scan",
        "--",
        PYTHON,
        "-c",
        "import json, sys; print('hi'); sys.exit(7)",
    ]);
    let ran = run(&mut command);
    assert_eq!((ran.code(), &ran.out()[..]), (7, "hi\n"));
    for word in ["metadata operations", "stat of .py", "sys.path", "Next: becalm python scan"] {
        assert!(ran.err().contains(word), "{word}: {}", ran.err());
    }
    assert!(ran.err().lines().all(|line| line.chars().count() <= 80 || line.starts_with("Next")));
    assert_eq!(run(&mut scene.record(&[PYTHON, "-c", "import json"])).code(), 0);
    let mut command = Command::new(BECALM);
    let ran = run(command.args(["python", "scan", &scene.rec()]));
    assert_eq!(ran.code(), 0);
    assert!(ran.out().contains("inferred from its path"), "{}", ran.out());
    let mut nothing = Command::new(BECALM);
    assert_eq!(run(nothing.args(["python", "scan"])).code(), 2);
    let ran = run(Command::new(BECALM).args(["python", "scan", "--", "true"]));
    assert_eq!((ran.code(), ran.err().contains("No Python ran")), (0, true), "{}", ran.err());
}

#[test]
fn whether_python_ran_is_not_known_of_a_recording_that_is_cut_before() {
    let scene = Scene::new();
    assert_eq!(run(&mut scene.record(&[PYTHON, "-c", "import json"])).code(), 0);
    let whole = fs::read(scene.rec()).unwrap();
    let cut = scene.file("cut", &whole[..whole.len() / 2], 0o644);
    let ran = run(Command::new(BECALM).args(["python", "scan", &cut]));
    assert!(ran.out().starts_with("Whether Python ran is not known"), "{}", ran.out());
}

#[test]
fn a_python_that_runs_no_hook_sees_nothing_of_it() {
    let scene = Scene::new();
    let program = "import os; print(os.environ.get('PYTHONPATH'))";
    for option in ["-I", "-E", "-S"] {
        for verb in [&["python", "scan"], &["fork", "lines"]] {
            let mut becalm = Command::new(BECALM);
            becalm.args(verb).args(["--", PYTHON, option, "-c", program]);
            let ran = run(becalm.current_dir(scene.directory()).env_remove("PYTHONPATH"));
            assert_eq!(ran.out(), "None\n", "{option}");
        }
    }
}

#[test]
fn nobody_else_can_make_what_a_program_that_runs_on_has_on_its_path() {
    let scene = Scene::new();
    let script = "setsid sh -c 'until [ -e go ]; do sleep 0.05; done; echo $PYTHONPATH > path' \
                  < /dev/null > /dev/null 2>&1 &";
    let script = scene.file("start", script, 0o644);
    let open = scene.directory().join("tmp");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o1777)).unwrap();
    let mut becalm = Command::new(BECALM);
    becalm.args(["python", "scan", "--", "sh", &script]).current_dir(scene.directory());
    let ran =
        run(becalm.env("TMPDIR", open).env_remove("PYTHONPATH").env_remove("XDG_RUNTIME_DIR"));
    assert!(ran.err().contains("1 of its processes still runs"), "{}", ran.err());
    fs::write(scene.at("go"), "").unwrap();
    testkit::live::wait_until("it is told", || {
        fs::read_to_string(scene.at("path")).is_ok_and(|path| path.ends_with('\n'))
    });
    let path = fs::read_to_string(scene.at("path")).unwrap();
    let hook = Path::new(path.trim_end());
    assert!(hook.is_absolute() && !hook.exists(), "{path}");
    let room = fs::metadata(hook.parent().unwrap()).unwrap();
    assert_eq!(room.mode() & 0o022, 0, "{path}");
}

#[test]
fn the_json_is_what_the_schema_says() {
    let scene = Scene::new();
    package(&scene.directory().join("lib"), "fresh", 1);
    let mut command = scan(&["--importtime"], &[PYTHON, "-c", "import fresh"]);
    assert_eq!(
        answer(command.env("PYTHONPATH", scene.at("lib")))["schema"],
        "becalm.python.scan/1"
    );
}
