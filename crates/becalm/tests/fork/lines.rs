//! `becalm fork lines` on real scripts: bash, zsh, Perl, Python, dash and make are asked at each fork which
//! line they are in, and the counts are those of the script.

use std::collections::BTreeMap;
use std::process::Command;

use crate::BECALM;
use serde_json::Value;
use testkit::{Ran, Scene, run};

const PYTHON: &str = "/usr/bin/python3";

pub(crate) fn becalm(scene: &Scene, words: &[&str]) -> Command {
    let mut command = Command::new(BECALM);
    command.args(words).current_dir(scene.directory()).env_clear();
    command.env("PATH", "/usr/bin:/bin").env("HOME", scene.directory());
    command
}

#[track_caller]
pub(crate) fn answer(ran: &Ran) -> Value {
    let json = serde_json::from_slice(&ran.stdout);
    json.unwrap_or_else(|error| panic!("{error}: {}\n{}", ran.out(), ran.err()))
}

/// What each line started: by `file:line`, the programs (`-` for a subshell) and how many.
#[track_caller]
pub(crate) fn lines(scene: &Scene, words: &[&str]) -> BTreeMap<String, BTreeMap<String, u64>> {
    let ran = run(&mut becalm(scene, &[&["fork", "lines", "--json", "--"], words].concat()));
    let answer = answer(&ran);
    let mut lines = BTreeMap::new();
    for line in answer["lines"].as_array().unwrap() {
        let file = line["file"].as_str().unwrap_or("-");
        let key = format!("{}:{}", file.rsplit('/').next().unwrap(), line["line"]);
        let programs = line["programs"].as_array().unwrap().iter().map(|program| {
            let name = program["name"].as_str().unwrap_or("-").to_owned();
            (name, program["processes"].as_u64().unwrap())
        });
        assert!(lines.insert(key, programs.collect()).is_none(), "a line twice: {answer:#}");
    }
    lines
}

/// `[("a.sh:3", "dirname", 10)]` in that form.
pub(crate) fn expected(rows: &[(&str, &str, u64)]) -> BTreeMap<String, BTreeMap<String, u64>> {
    let mut lines: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    for (line, program, starts) in rows {
        lines.entry((*line).to_owned()).or_default().insert((*program).to_owned(), *starts);
    }
    lines
}

#[test]
fn a_line_has_what_it_started_in_pipes_substitutions_functions_and_sourced_files() {
    let scene = Scene::new();
    scene.file(
        "main.sh",
        "#!/bin/bash\n\
         . ./lib.sh\n\
         for i in 1 2 3 4 5; do\n\
         x=$(dirname /a/b$i)\n\
         y=$(echo a/b | sed s/a/b/ | tr a b)\n\
         z=`basename /a/b`\n\
         helper\n\
         v=$(storm)\n\
         ( cd /; /bin/true )\n\
         /bin/true && \\\n\
         /bin/false\n\
         while read -r line; do /bin/true; done < <(seq 2)\n\
         done\n",
        0o755,
    );
    scene.file(
        "lib.sh",
        "helper() {\n/bin/true\n}\nstorm() {\nfor j in 1 2 3; do /bin/true; x=$(dirname /a); done\n}\n",
        0o755,
    );
    let found = lines(&scene, &["bash", "main.sh"]);
    let wanted = expected(&[
        ("main.sh:4", "dirname", 5),
        ("main.sh:5", "-", 10),
        ("main.sh:5", "sed", 5),
        ("main.sh:5", "tr", 5),
        ("main.sh:6", "basename", 5),
        ("lib.sh:2", "true", 5),
        ("main.sh:8", "-", 5),
        ("lib.sh:5", "true", 15),
        ("lib.sh:5", "dirname", 15),
        ("main.sh:9", "true", 5),
        ("main.sh:10", "true", 5),
        ("main.sh:11", "false", 5),
        ("main.sh:12", "true", 10),
        // A loop's redirection is opened while bash is still at the loop around it.
        ("main.sh:3", "seq", 5),
    ]);
    assert_eq!(found, wanted);
}

#[test]
fn the_same_line_of_two_sourced_files_is_two_lines_wherever_they_are_sourced_from() {
    let scene = Scene::new();
    for directory in ["a", "b"] {
        std::fs::create_dir(scene.at(directory)).unwrap();
        scene.file(&format!("{directory}/env-{directory}.sh"), "\n\n/bin/true\n", 0o755);
        scene.file(&format!("{directory}/env.sh"), "\n\n\n/bin/true\n", 0o755);
    }
    scene.file(
        "main.sh",
        ". a/env-a.sh\n. b/env-b.sh\ncd a\n. ./env.sh\ncd ../b\n. ./env.sh\n",
        0o755,
    );
    let ran = run(&mut becalm(&scene, &["fork", "lines", "--json", "--", "bash", "main.sh"]));
    let answer = answer(&ran);
    let mut places: Vec<_> = answer["lines"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| format!("{}:{}", line["file"].as_str().unwrap(), line["line"]))
        .collect();
    places.sort();
    let at = |name: &str| scene.at(name);
    assert_eq!(
        places,
        [at("a/env-a.sh:3"), at("a/env.sh:4"), at("b/env-b.sh:3"), at("b/env.sh:4"),]
    );
    let line = &answer["lines"][0];
    assert!(line["called_from"][0].as_str().unwrap().contains("/main.sh:"), "{line:#}");
}

#[test]
fn exec_trap_and_set_e_leave_the_lines_and_the_scripts_own_end_as_they_are() {
    let scene = Scene::new();
    scene.file(
        "main.sh",
        "set -e\n\
         trap '/bin/true trapped' EXIT\n\
         trap '/bin/echo usr1' USR1\n\
         /bin/true\n\
         kill -USR1 $$\n\
         if ! /bin/false; then /bin/true; fi\n\
         ( exec /bin/true )\n\
         bash -c 'exit 3'\n\
         /bin/true never\n",
        0o755,
    );
    let ran =
        run(&mut becalm(&scene, &["fork", "lines", "--json=lines.json", "--", "bash", "main.sh"]));
    assert_eq!(ran.code(), 3, "{}", ran.err());
    assert_eq!(ran.out(), "usr1\n");
    let found = lines(&scene, &["bash", "main.sh"]);
    let starts = |line: &str| found.get(line).map_or(0, |programs| programs.values().sum());
    assert_eq!([4, 6, 7, 8, 9].map(|line| starts(&format!("main.sh:{line}"))), [1, 2, 1, 1, 0]);
    let last = lines(&scene, &["bash", "-c", "/bin/true\n/bin/true; exec /bin/true"]);
    assert_eq!(last, expected(&[("-:1", "true", 1), ("-:2", "true", 1)]));
}

#[test]
fn ten_thousand_forks_are_counted_to_the_last() {
    let scene = Scene::new();
    scene.file("main.sh", "for ((i = 0; i < 5000; i++)); do\n( : )\nx=$( : )\ndone\n", 0o755);
    let found = lines(&scene, &["bash", "main.sh"]);
    assert_eq!(found, expected(&[("main.sh:2", "-", 5000), ("main.sh:3", "-", 5000)]));
}

#[test]
fn python_tells_its_lines_and_sees_nothing_of_the_hook() {
    let scene = Scene::new();
    scene.file(
        "main.py",
        "import os, subprocess, sys\n\
         def twice():\n\
         \x20   subprocess.run(['/bin/true'])\n\
         \x20   os.system('/bin/true')\n\
         for i in range(3):\n\
         \x20   twice()\n\
         if os.fork() == 0:\n\
         \x20   os._exit(0)\n\
         os.wait()\n\
         print(os.environ.get('PYTHONPATH'), [p for p in sys.path if 'becalm' in p])\n\
         print('sitecustomize' in sys.modules and sys.modules['sitecustomize'].__file__)\n",
        0o755,
    );
    let words = ["fork", "lines", "--json=lines.json", "--", PYTHON, "main.py"];
    let with = run(&mut becalm(&scene, &words));
    let without = run(Command::new(PYTHON)
        .arg("main.py")
        .current_dir(scene.directory())
        .env_clear()
        .env("PATH", "/usr/bin:/bin"));
    assert_eq!((with.out(), with.code()), (without.out(), without.code()), "{}", with.err());
    let found = lines(&scene, &[PYTHON, "main.py"]);
    let starts = |line: &str, program: &str| found.get(line).and_then(|line| line.get(program));
    assert_eq!(starts("main.py:3", "true"), Some(&3), "{found:#?}");
    assert_eq!(starts("main.py:4", "sh"), Some(&3), "{found:#?}");
    assert_eq!(starts("main.py:7", "-"), Some(&1), "{found:#?}");
}

/// With nothing in it, the last entry is empty, which is the working directory.
#[test]
fn a_directory_put_before_what_pythonpath_holds_leaves_an_entry_where_it_held_nothing() {
    let scene = Scene::new();
    scene.file("here.py", "", 0o644);
    let sub = scene.subdirectory("sub");
    scene.file(
        "sub/main.py",
        "import here, os, sys; print(sys.path, os.environ['PYTHONPATH'])",
        0o644,
    );
    for list in ["/mine:$PYTHONPATH", "$PYTHONPATH:/mine"] {
        let script = format!("export PYTHONPATH={list}; {PYTHON} {sub}/main.py");
        for given in [None, Some(""), Some("/given:")] {
            let both = [&[BECALM, "fork", "lines", "--"][..], &[]].map(|before| {
                let mut command = Command::new("env");
                command.args(["-u", "PYTHONPATH"]);
                command.args(given.map(|given| format!("PYTHONPATH={given}")));
                command.args(before).args(["bash", "-c", &script]);
                run(command.current_dir(scene.directory()))
            });
            let said = |ran: &testkit::Ran| ran.out().lines().next().unwrap_or_default().to_owned();
            assert!(both[1].code() == 0 && said(&both[1]).contains("/mine"), "{}", both[1].err());
            assert_eq!(said(&both[0]), said(&both[1]), "{given:?} {list}");
        }
    }
}

#[test]
fn zsh_is_asked_for_its_lines_in_functions_sourced_files_and_evals() {
    let scene = Scene::new();
    scene.file(
        "main.zsh",
        "#!/usr/bin/zsh\n\
         source ./lib.zsh\n\
         for i in 1 2 3; do\n\
         x=$(dirname /a/b$i)\n\
         echo a/b | sed s/a/b/ >/dev/null\n\
         helper\n\
         ( cd /; /bin/true )\n\
         eval 'y=$(basename /a/b)'\n\
         done\n\
         /bin/false || exec /bin/true\n",
        0o755,
    );
    scene.file(
        "lib.zsh",
        "# A function, and what a sourced file itself starts.\n\
         \n\
         helper() {\n\
         local v\n\
         v=$(expr 1 + 1)\n\
         inner\n\
         }\n\
         function inner {\n\
         tr a b </dev/null\n\
         }\n\
         seq 1 >/dev/null\n",
        0o644,
    );
    let wanted = expected(&[
        ("lib.zsh:11", "seq", 1),
        ("main.zsh:4", "dirname", 3),
        ("main.zsh:5", "sed", 3),
        ("lib.zsh:5", "expr", 3),
        ("lib.zsh:9", "tr", 3),
        ("main.zsh:7", "true", 3),
        ("main.zsh:8", "basename", 3),
        ("main.zsh:10", "false", 1),
    ]);
    let found = lines(&scene, &["./main.zsh"]);
    let named = |lines: &BTreeMap<String, BTreeMap<String, u64>>| {
        let mut lines = lines.clone();
        lines.values_mut().for_each(|programs| programs.retain(|name, _| name != "-"));
        lines
    };
    assert_eq!(named(&found), wanted);
    // A name with a byte that zsh keeps as two, and zsh's own options.
    scene.file("\u{e3}.zsh", "setopt xtrace\n\n/bin/true; /bin/true\n", 0o644);
    let found = lines(&scene, &["zsh", "-f", "\u{e3}.zsh"]);
    assert_eq!(named(&found), expected(&[("\u{e3}.zsh:3", "true", 2)]));
}

/// A subshell that becomes its last command has run the text before.
#[test]
fn a_line_of_a_text_is_one_whatever_its_subshells_become() {
    let scene = Scene::new();
    let text = "for a in 1 2 3; do ( /bin/date >/dev/null; /bin/true ) | cat; done; :";
    for shell in ["bash", "zsh"] {
        let found = lines(&scene, &[shell, "-c", text]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found["-:1"]["date"], 3, "{found:?}");
    }
}

#[test]
fn make_is_asked_for_its_recipes_lines_and_for_those_it_reads() {
    let scene = Scene::new();
    scene.file(
        "Makefile",
        "A := $(shell dirname /a/b)\n\
         include rules.mk\n\
         all: one two\n\
         \t/bin/true all\n\
         one:\n\
         \t@/bin/true one\n\
         \t@basename /a/b; dirname /a/b\n",
        0o644,
    );
    scene.file("rules.mk", "\n\ntwo:\n\t@dirname $(shell basename /x/y)\n", 0o644);
    for jobs in ["-j1", "-j4"] {
        let found = lines(&scene, &["make", jobs, "all"]);
        let wanted = expected(&[
            ("Makefile:1", "dirname", 1),
            ("Makefile:4", "true", 1),
            ("Makefile:6", "true", 1),
            ("Makefile:7", "sh", 1),
            ("Makefile:7", "basename", 1),
            ("Makefile:7", "dirname", 1),
            ("rules.mk:4", "dirname", 1),
            ("rules.mk:4", "basename", 1),
        ]);
        assert_eq!(found, wanted, "{jobs}");
    }
}

#[test]
fn what_tells_no_line_is_said_and_counted_by_program() {
    let scene = Scene::new();
    scene.file("main.sh", "for i in 1 2 3; do x=$(dirname /a/b); done\n", 0o755);
    let ran = run(&mut becalm(&scene, &["fork", "lines", "--", "dash", "main.sh"]));
    assert!(ran.err().contains("no line of a script is known"), "{}", ran.err());
    assert!(ran.err().contains("dash tells none"), "{}", ran.err());
    let posix = lines(&scene, &["bash", "--posix", "main.sh"]);
    assert_eq!(posix, expected(&[("main.sh:1", "dirname", 3)]));
}

#[test]
fn misses_on_path_shims_and_the_parents_size_are_said() {
    let scene = Scene::new();
    scene.file("shim", "#!/bin/bash\n/bin/true\nexec /usr/bin/env dirname \"$@\"\n", 0o755);
    scene.file(
        "main.sh",
        "v=$(head -c 40000000 /dev/zero | tr '\\0' x)\nfor i in 1 2 3; do\n./shim /a/b\ndone\n",
        0o755,
    );
    let mut command = becalm(&scene, &["fork", "lines", "--json", "--", "bash", "main.sh"]);
    let answer = answer(&run(command.env("PATH", "/nowhere/a:/nowhere/b:/usr/bin:/bin")));
    let all = answer["lines"].as_array().unwrap();
    let line = |number: u64| all.iter().find(|line| line["line"] == number).unwrap();
    let started = line(3);
    assert!(started["parent_rss_bytes"].as_u64().unwrap() > 40_000_000, "{started:#}");
    assert_eq!(started["enoent"], 6, "env tries each directory by execve");
    let shim = &answer["shims"][0];
    assert!(shim["path"].as_str().unwrap().ends_with("/shim"), "{shim:#}");
    assert_eq!((shim["times"].as_u64(), shim["processes"].as_u64()), (Some(3), Some(3)));
    assert_eq!(shim["runs"], "/usr/bin/dirname");
}

/// What a program did before is not always for the one that it executes in the end.
#[test]
fn a_script_that_ends_in_exec_hands_over_and_does_not_only_start() {
    let scene = Scene::new();
    scene.file("script", "#!/bin/bash\ndirname /a/b\nsleep 0.1\nexec true\n", 0o755);
    let ran = run(becalm(&scene, &["fork", "lines", "--", "./script"]).env("COLUMNS", "500"));
    let handed =
        ran.err().lines().find(|line| line.contains("/script hands over")).unwrap().to_owned();
    assert!(handed.contains("hands over to /usr/bin/true (exec): "), "{handed}");
    assert!(handed.ends_with(" a time until then, 1 time, 2 processes on the way."), "{handed}");
}

#[test]
fn a_text_is_said_to_be_of_an_option_only_where_one_gave_it() {
    let scene = Scene::new();
    let text = "f() { /bin/true; :; }\nf\n/bin/false\n:\n";
    for shell in ["bash", "zsh"] {
        let said = |words: &str| {
            let line = format!("\"$0\" fork lines --all -- {words} 2>&1");
            let mut command = Command::new("bash");
            command.args(["-c", &line, BECALM, text]).env("COLUMNS", "120");
            run(command.current_dir(scene.directory())).out()
        };
        let given = said(&format!("{shell} -c \"$1\""));
        assert!(given.contains(&format!("\n{shell} -c, line 3 ")), "{given}");
        let read = said(&format!("{shell} <<<\"$1\""));
        assert!(read.contains(&format!("\n{shell}, line 3 ")), "{read}");
        assert!(read.contains(&format!("\n{shell}, line 1 f() ")), "{read}");
    }
}

#[test]
fn a_line_keeps_its_number_in_a_narrow_terminal() {
    let scene = Scene::new();
    let name = "a_script_with_a_name_of_which_no_terminal_has_seen_the_end.sh";
    let text = "function_of_a_name_as_long_as_that() {\nx=$(/bin/date); y=$(/bin/true); z=$(/bin/uname)\n}\n\
                function_of_a_name_as_long_as_that\n";
    scene.file(name, text, 0o755);
    for columns in ["80", "60"] {
        let ran =
            run(becalm(&scene, &["fork", "lines", "--", "bash", name]).env("COLUMNS", columns));
        let said = ran.err();
        let row = said.lines().skip_while(|line| !line.starts_with("line ")).nth(1).unwrap();
        assert!(row.split_whitespace().next().unwrap().ends_with("sh:2"), "{columns}: {row}");
    }
}

/// The start of each process is what it took without what it waited for: all that is left of the
/// line's time is the second that another slept.
#[test]
fn what_a_subshell_waits_for_before_it_executes_is_no_start() {
    for waiting in [
        "x=$(sleep 1; basename /a/b)",
        "(sleep 1; exec basename /a/b)",
        "x=$(sleep 1 & wait; basename /)",
    ] {
        let scene = Scene::new();
        scene.file("main.sh", format!("{waiting}\n"), 0o755);
        let ran = run(&mut becalm(&scene, &["fork", "lines", "--json", "--", "bash", "main.sh"]));
        let answer = answer(&ran);
        let line = &answer["lines"][0];
        let number = |name: &str| line[name].as_u64().unwrap();
        let parts = ["fork_ns", "setup_ns", "exec_ns", "loader_ns", "locale_ns"];
        let start: u64 = parts.into_iter().map(number).sum();
        assert!(start + 1_000_000_000 <= number("time_ns"), "{waiting}: {line:#}");
        assert!(start > 0, "{waiting}: {line:#}");
    }
}

#[test]
fn what_a_function_in_a_substitution_executes_is_on_its_own_line_with_its_own_advice() {
    let scene = Scene::new();
    scene.file("VERSION", "1.0\n", 0o644);
    scene.file("lib.sh", "g() {\n:\ncat VERSION\n}\n", 0o755);
    let script = ". ./lib.sh\n\
        f() {\n\
        echo \"$(cat VERSION)\" > /dev/null\n\
        basename /a/b\n\
        }\n\
        x=$(f)\n\
        y=$(f; :)\n\
        z=$(g)\n\
        command=dirname\n\
        v=$($command /a)\n\
        w=$(\n\
        dirname /b)\n";
    scene.file("main.sh", script, 0o755);
    let ran = run(&mut becalm(&scene, &["fork", "lines", "--json", "--", "bash", "main.sh"]));
    let answer = answer(&ran);
    let found = lines(&scene, &["bash", "main.sh"]);
    assert_eq!(found["main.sh:4"], BTreeMap::from([("basename".to_owned(), 2)]), "{found:#?}");
    assert_eq!(found["main.sh:3"], BTreeMap::from([("cat".to_owned(), 2)]), "{found:#?}");
    assert_eq!(found["lib.sh:3"], BTreeMap::from([("cat".to_owned(), 1)]), "{found:#?}");
    assert_eq!(found["main.sh:7"], BTreeMap::from([("-".to_owned(), 1)]), "{found:#?}");
    assert!(!found.contains_key("main.sh:6") && !found.contains_key("main.sh:8"), "{found:#?}");
    for line in answer["lines"].as_array().unwrap() {
        let text = line["text"].as_str().unwrap();
        for advice in line["advice"].as_array().unwrap() {
            let program = advice["program"].as_str().unwrap();
            assert!(text.contains(program) && !text.contains("command"), "{line:#}");
            if let Some(of) = advice["instead_of"].as_str() {
                assert!(text.contains(of), "{line:#}");
            }
        }
    }
    let line = |number: u64| {
        answer["lines"].as_array().unwrap().iter().find(|line| line["line"] == number)
    };
    let of_f = line(4).unwrap();
    assert!(!of_f["advice"].as_array().unwrap().is_empty(), "{of_f:#}");
    assert!(of_f["called_from"][0].as_str().unwrap().contains("/main.sh:"), "{of_f:#}");
}

#[test]
fn the_time_of_a_start_is_split_and_no_part_is_missing() {
    let scene = Scene::new();
    scene.file("main.sh", "for ((i = 0; i < 50; i++)); do x=$(dirname /a/b); done\n", 0o755);
    let mut command =
        becalm(&scene, &["fork", "lines", "--locale", "--json", "--", "bash", "main.sh"]);
    let answer = answer(&run(command.env("LC_ALL", "C.UTF-8")));
    let line = &answer["lines"][0];
    for phase in ["fork_ns", "setup_ns", "exec_ns", "loader_ns", "locale_ns", "work_ns"] {
        assert!(line[phase].as_u64().unwrap() > 0, "{phase}: {line:#}");
    }
}

#[test]
fn the_object_has_the_documented_fields() {
    let scene = Scene::new();
    scene.file(
        "main.sh",
        "for i in 1 2; do path=/a/b; x=$(dirname \"$path\"); dash -c :; done\n",
        0o755,
    );
    scene.file("shim", "#!/bin/bash\n/bin/true\nexec dirname /a\n", 0o755);
    let words =
        ["fork", "lines", "--json", "--", "bash", "-c", ". ./main.sh; ./shim; sh -c 'true | true'"];
    answer(&run(&mut becalm(&scene, &words)));
}

#[test]
fn a_recording_keeps_the_lines_and_report_counts_by_them() {
    let scene = Scene::new();
    scene.file("VERSION", "1.0\n", 0o644);
    scene.file("main.sh", "for ((i = 0; i < 60; i++)); do\nx=$(cat VERSION)\ndone\n", 0o755);
    let record = ["record", "--until", "exit", "-o", "run.becalm", "--", "bash", "main.sh"];
    let ran = run(&mut becalm(&scene, &record));
    assert_eq!(ran.code(), 0, "{}", ran.err());
    let ran = run(&mut becalm(&scene, &["report", "run.becalm", "--by", "line", "--json"]));
    let answer = answer(&ran);
    let row = answer["rows"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["key"] == scene.at("main.sh:2").as_str());
    let row = row.unwrap_or_else(|| panic!("{answer:#}"));
    assert_eq!(row["programs"]["processes"], 60);
    assert!(row["metadata_ops"].as_u64().unwrap() >= 60 * 3);
    let check = ["check", "--until", "exit", "--json", "--", "bash", "main.sh"];
    let ran = run(&mut becalm(&scene, &check));
    let answer: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let storm = &answer["storms"][0];
    let line = storm["sources"].as_array().unwrap().iter().find(|one| one["kind"] == "line");
    let line = line.unwrap();
    assert_eq!((&line["file"], &line["line"]), (&scene.at("main.sh").into(), &2.into()));
    let cures = answer["cures"].as_array().unwrap().iter();
    let texts: Vec<_> = cures.map(|cure| cure["text"].as_str().unwrap()).collect();
    // The script stays as it is; or the line is edited.
    let builtins =
        "Have bash do itself what it runs up to 60 programs for; the script stays as it is";
    let edit = "In main.sh:2: write `$(<VERSION)` instead of `$(cat VERSION)`";
    assert_eq!(texts, [builtins, edit]);
}

/// Backquotes around backquotes would not tell which are to go.
#[test]
fn a_line_with_backquotes_is_told_without_more_of_them() {
    let scene = Scene::new();
    scene.file("VERSION", "1.0\n", 0o644);
    scene.file("main.sh", "for ((i = 0; i < 60; i++)); do\nx=`cat VERSION`\ndone\n", 0o755);
    let ran = run(&mut becalm(&scene, &["check", "--json", "--", "bash", "main.sh"]));
    let answer: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let cures = answer["cures"].as_array().unwrap().iter();
    let texts: Vec<_> = cures.map(|cure| cure["text"].as_str().unwrap()).collect();
    let edit = "In main.sh:2: write $(<VERSION) instead of `cat VERSION`";
    assert!(texts.contains(&edit), "{texts:?}");
}
