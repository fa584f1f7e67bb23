//! `becalm check` on real programs: each storm is found and its sources named, what is calm is
//! called calm, and the command is left alone.

use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, OnceLock};

use crate::BECALM;
use serde_json::Value;
use testkit::schema::Schema;
use testkit::terminal::Terminal;
use testkit::{Ran, Scene, run, uncached};

/// `becalm check … -- words…` in a directory, with a plain environment.
fn check(scene: &Scene, options: &[&str], words: &[&str]) -> Command {
    let mut command = Command::new(BECALM);
    command.arg("check").args(options).arg("--").args(words);
    command.current_dir(scene.directory()).env_clear();
    command.env("PATH", "/usr/bin:/bin").env("HOME", scene.directory()).env("LC_ALL", "C");
    command
}

/// The findings of a command, from `--json`.
#[track_caller]
fn findings(command: &mut Command) -> Value {
    let ran = run(command);
    let json = serde_json::from_slice(&ran.stdout);
    json.unwrap_or_else(|error| panic!("{error}: {}\n{}", ran.out(), ran.err()))
}

#[track_caller]
fn found(scene: &Scene, words: &[&str]) -> Value {
    findings(&mut check(scene, &["--json"], words))
}

/// The findings where whatever is repeated is waited for each time.
#[track_caller]
fn found_uncached(scene: &Scene, words: &[&str]) -> Value {
    findings(&mut check(scene, &["--json", "--profile", &uncached(scene)], words))
}

/// The storm of that name, in findings that are documented: whatever its sources and cures are.
#[track_caller]
fn storm<'f>(findings: &'f Value, name: &str) -> &'f Value {
    schema().holds(findings, "any storm");
    let storms = findings["storms"].as_array().unwrap();
    let storm = storms.iter().find(|storm| storm["storm"] == name);
    storm.unwrap_or_else(|| panic!("no {name} storm in {findings:#}"))
}

fn schema() -> Schema {
    Schema::of(include_str!("../../../../docs/schema/becalm.check.md"))
}

#[track_caller]
fn source<'f>(storm: &'f Value, kind: &str) -> &'f Value {
    let sources = storm["sources"].as_array().unwrap();
    let source = sources.iter().find(|source| source["kind"] == kind);
    source.unwrap_or_else(|| panic!("no {kind} in {storm:#}"))
}

#[track_caller]
fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// The first command of a storm's cures and looks that has this in it.
#[track_caller]
fn step<'f>(findings: &'f Value, storm: &str, part: &str) -> &'f str {
    let of = |list: &str| findings[list].as_array().unwrap().iter();
    let steps = of("cures").chain(of("looks")).filter(|step| step["storm"] == storm);
    let mut commands = steps.filter_map(|step| step["command"].as_str());
    let command = commands.find(|command| command.contains(part));
    command.unwrap_or_else(|| panic!("no step with {part} in {findings:#}"))
}

#[track_caller]
fn assert_calm(findings: &Value) {
    assert_eq!(findings["storms"], serde_json::json!([]), "{findings:#}");
    let waits = findings["predicted_wait"]["one_rank"].as_f64().unwrap();
    let of = |field: &str| findings["totals"][field].as_u64().unwrap();
    let is_calm = waits < 0.1 || waits <= 1.0 && of("enoent") * 4 <= of("metadata_ops");
    assert_eq!(findings["verdict"] == "calm", is_calm, "{findings:#}");
}

/// Python as the distribution built it: a version manager's would add a shell's operations.
const PYTHON: &str = "/usr/bin/python3";

/// The program of a store of 120 libraries, built once for each kind.
fn store(kind: &'static str) -> String {
    static BUILT: OnceLock<Mutex<()>> = OnceLock::new();
    let _one_at_a_time = BUILT.get_or_init(Mutex::default).lock().unwrap();
    let make = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/store/make");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("store-{kind}"));
    let mut command = Command::new(make);
    command.arg("--libs=120").arg(out);
    if kind != "rpath" {
        command.arg(format!("--{kind}"));
    }
    let ran = run(&mut command);
    assert_eq!(ran.code(), 0, "{}", ran.err());
    ran.out().trim_end().to_owned()
}

/// The directory of every library of that store, in a list.
fn library_directories(program: &str) -> Vec<String> {
    let store = Path::new(program).ancestors().nth(3).unwrap();
    let packages = store.read_dir().unwrap().map(|entry| entry.unwrap().path().join("lib"));
    let mut directories: Vec<_> = packages
        .filter(|directory| directory.is_dir())
        .map(|directory| directory.into_os_string().into_string().unwrap())
        .collect();
    directories.sort();
    directories
}

/// The calls of strace's `%file` that failed, from `strace -c`.
fn failed_by_strace(scene: &Scene, words: &[&str]) -> u64 {
    let log = scene.at("strace");
    let mut command = Command::new("strace");
    command.args(["-f", "-c", "-U", "errors,name", "-e", "trace=%file", "-o", &log]).args(words);
    command.env_clear().env("PATH", "/usr/bin:/bin").current_dir(scene.directory());
    assert_eq!(run(&mut command).code(), 0);
    let log = std::fs::read_to_string(log).unwrap();
    let total = log.lines().find(|line| line.trim_end().ends_with("total")).unwrap();
    total.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn a_store_of_hashed_prefixes_is_a_loader_storm_and_the_rpath_is_named() {
    let (scene, program) = (Scene::new(), store("rpath"));
    let findings = found(&scene, &[&program]);
    assert_eq!(findings["storms"][0]["storm"], "loader");
    let storm = storm(&findings, "loader");
    let rpath = source(storm, "rpath");
    assert_eq!(rpath["file"], program.as_str());
    assert_eq!(number(&rpath["directories"]), 121, "120 libraries and the program's own");
    let title = "121 libraries were searched over RPATHs of up to 121 directories";
    assert_eq!(storm["title"], title, "120 of the store, and the C library");
    // Every failed lookup of the run is the loader's, and strace counts as many.
    assert_eq!(storm["enoent"], findings["totals"]["enoent"]);
    assert_eq!(number(&storm["enoent"]), failed_by_strace(&scene, &[&program]));
    assert!(number(&storm["enoent"]) > 2000);
}

#[test]
fn what_is_advised_against_a_long_rpath_calms_it() {
    let scene = Scene::new();
    let make = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/store/make");
    let program = run(Command::new(make).arg("--libs=60").arg(scene.directory()));
    let program = program.out().trim_end().to_owned();
    let findings = found(&scene, &[&program]);
    let advised = step(&findings, "loader", "becalm fix").replacen("becalm", BECALM, 1);
    let mut shell = Command::new("sh");
    shell.args(["-c", &advised]).env("XDG_STATE_HOME", scene.at("state"));
    assert_eq!(run(&mut shell).code(), 0);
    let bound = found(&scene, &[&program]);
    assert_calm(&bound);
    assert!(number(&bound["totals"]["enoent"]) < 10, "{bound:#}");
}

#[test]
fn a_runpath_is_told_from_an_rpath() {
    let (scene, program) = (Scene::new(), store("runpath"));
    let findings = found(&scene, &[&program]);
    let runpath = source(storm(&findings, "loader"), "runpath");
    assert_eq!(
        (&runpath["file"], number(&runpath["directories"])),
        (&Value::from(program.as_str()), 121)
    );
}

#[test]
fn a_library_path_is_a_source() {
    let (scene, program) = (Scene::new(), store("no-rpath"));
    let mut directories = library_directories(&program);
    directories.extend((0..20).map(|number| scene.subdirectory(&format!("empty{number}"))));
    let list = directories.join(":");
    let findings = findings(check(&scene, &["--json"], &[&program]).env("LD_LIBRARY_PATH", &list));
    let storm = storm(&findings, "loader");
    let list = source(storm, "ld_library_path");
    assert_eq!((number(&list["directories"]), number(&list["useless"])), (140, 20));
}

#[test]
fn libraries_that_a_running_program_opens_are_a_dlopen_storm() {
    let (scene, program) = (Scene::new(), store("runpath"));
    let libraries: Vec<_> = library_directories(&program)
        .iter()
        .flat_map(|directory| Path::new(directory).read_dir().unwrap())
        .map(|entry| entry.unwrap().path().into_os_string().into_string().unwrap())
        .collect();
    let load = "import ctypes, sys\nfor name in sys.argv[1:]: ctypes.CDLL(name)";
    let words = [&[PYTHON, "-c", load], &libraries.each_str()[..]].concat();
    let findings = found(&scene, &words);
    let storm = storm(&findings, "dlopen");
    assert!(number(&source(storm, "runpath")["directories"]) > 10);
    assert_eq!(source(storm, "opened_by")["program"], "python3 -c");
    assert_eq!(storm["inferred"], 0, "who called is observed");
}

trait EachStr {
    fn each_str(&self) -> Vec<&str>;
}

impl EachStr for Vec<String> {
    fn each_str(&self) -> Vec<&str> {
        self.iter().map(String::as_str).collect()
    }
}

#[test]
fn an_import_of_many_modules_is_a_python_storm() {
    let scene = Scene::new();
    let imports = "import asyncio, email, http.client, json, sqlite3, unittest, xml.dom.minidom";
    let findings = found(&scene, &[PYTHON, "-c", imports]);
    let storm = storm(&findings, "python");
    assert!(storm["share"].as_f64().unwrap() > 0.5, "{storm:#}");
    let directory = source(storm, "sys_path_entry")["directory"].as_str().unwrap();
    assert!(directory.starts_with("/usr/lib/python3"), "{directory}");
    assert!(number(&source(storm, "importer")["files"]) > 50);
}

#[test]
fn every_directory_of_pythonpath_costs_what_the_next_one_does() {
    let scene = Scene::new();
    let import = [PYTHON, "-c", "import email, http.client, json"];
    let with = |directories: usize| {
        let list: Vec<_> = (0..directories)
            .map(|number| scene.at(&format!("p{number}")))
            .inspect(|directory| std::fs::create_dir_all(directory).unwrap())
            .collect();
        findings(check(&scene, &["--json"], &import).env("PYTHONPATH", list.join(":")))
    };
    let (few, many) = (with(10), with(60));
    let storm = storm(&many, "python");
    let path = source(storm, "pythonpath");
    assert_eq!(number(&path["named"]), 60);
    // The slope between the two runs is what the finding says of one run alone.
    let operations = |findings: &Value| number(&findings["totals"]["metadata_ops"]);
    let slope = (operations(&many) - operations(&few)) as f64 / 50.0;
    let told = number(&path["metadata_ops_each"]) as f64;
    assert!((slope - told).abs() <= slope / 10.0 + 2.0, "slope {slope}, told {told}");
}

#[test]
fn a_numerical_library_is_a_storm_of_imports() {
    let scene = Scene::new();
    let venv = testkit::installed::venv().display().to_string();
    let python = format!("{venv}/bin/python3");
    assert!(Path::new(&python).exists(), "{python}: run setup/install-test-tools first");
    let findings = found(&scene, &[&python, "-c", "import numpy, scipy.linalg"]);
    let storm = storm(&findings, "python");
    let packages = source(storm, "sys_path_entry")["directory"].as_str().unwrap();
    assert!(packages.starts_with(&format!("{venv}/lib")), "{packages}");
    assert!(
        step(&findings, "python", "becalm image build").contains(&format!(" {venv} -- ")),
        "{storm:#}"
    );
}

#[test]
fn module_avail_walks_its_tree_and_the_modulepath_is_named() {
    let scene = Scene::new();
    let tree = scene.subdirectory("modulefiles");
    for package in 0..29 {
        std::fs::create_dir(format!("{tree}/p{package}")).unwrap();
        for version in 1..5 {
            scene.file(&format!("modulefiles/p{package}/{version}.0"), "#%Module\n", 0o644);
        }
    }
    let avail = format!("unset MODULEPATH; module use {tree}; module avail");
    let findings = found(&scene, &["bash", "-lc", &avail]);
    let storm = storm(&findings, "modules");
    assert_eq!(storm["title"], "`module avail` opened 116 modulefiles in 30 directories");
    assert_eq!(source(storm, "modulepath")["directory"], tree.as_str());
    assert_eq!(step(&findings, "modules", "audit"), format!("becalm modules audit {tree}"));
}

#[test]
fn a_script_that_starts_dirname_two_thousand_times_is_a_fork_storm() {
    let scene = Scene::new();
    let script = "for i in $(seq 2000); do x=$(dirname /a/b/$i); done\n";
    scene.file("unpack.sh", script, 0o755);
    let findings = found(&scene, &["bash", "unpack.sh"]);
    let storm = storm(&findings, "fork");
    assert_eq!(storm["title"], "dirname was run 2,000 times by unpack.sh (bash)");
    let forks = source(storm, "forks");
    assert_eq!(number(&forks["processes"]), 2000);
    assert!(number(&forks["cpu_us"]) > 0);
    assert!(findings["totals"]["processes_per_second"].as_f64().unwrap() > 10.0);
    assert_eq!(findings["cures"][0]["command"], "becalm run --builtins -- bash unpack.sh");
    assert_eq!(step(&findings, "fork", "fork lines"), "becalm fork lines -- bash unpack.sh");
}

#[test]
fn find_that_executes_a_program_for_each_file_is_its_parent() {
    let scene = Scene::new();
    (0..60).for_each(|number| drop(scene.file(&format!("f{number}"), "", 0o644)));
    let find = ["find", ".", "-name", "f*", "-exec", "basename", "{}", ";"];
    let findings = found(&scene, &find);
    let storm = storm(&findings, "fork");
    assert_eq!(storm["title"], "basename was run 60 times by find");
}

#[test]
fn a_locale_that_is_not_installed_is_a_storm_of_its_own() {
    let scene = Scene::new();
    let tools = "ls id date uname cat sort head tail wc cut tr uniq stat touch mv cp rm ln chmod";
    let script: String =
        tools.split(' ').map(|tool| format!("{tool} --help; {tool} --version\n")).collect();
    scene.file("tools.sh", script, 0o755);
    let options = ["--json", "--profile", &uncached(&scene)];
    let mut command = check(&scene, &options, &["bash", "tools.sh"]);
    let findings = findings(command.env_remove("LC_ALL").env("LANG", "tlh_QO.UTF-8"));
    let storm = storm(&findings, "locale");
    assert_eq!(source(storm, "locale_variable")["setting"], "LANG=tlh_QO.UTF-8");
    assert_eq!(source(storm, "locale")["locale"], "tlh_QO.utf8");
    assert_calm(&found(&scene, &["bash", "tools.sh"]));
}

#[test]
fn commands_that_are_searched_in_many_directories_are_a_path_storm() {
    let scene = Scene::new();
    let directories: Vec<_> =
        (0..12).map(|number| scene.subdirectory(&format!("bin{number}"))).collect();
    scene.file("probe.sh", "for i in $(seq 100); do command -v tool$i; done; true", 0o755);
    let path = format!("{}:/usr/bin", directories.join(":"));
    let findings = findings(check(&scene, &["--json"], &["bash", "probe.sh"]).env("PATH", path));
    let storm = storm(&findings, "path");
    assert_eq!(storm["title"], "programs were searched in up to 13 directories of PATH");
    assert!(number(&storm["avoidable"]) >= 1300, "{storm:#}");
}

#[test]
fn a_program_that_looks_the_same_path_up_a_thousand_times_is_told_so() {
    let scene = Scene::new();
    let file = scene.file("input", "", 0o644);
    scene.file("poll.sh", format!("for i in {{1..1000}}; do [ -e {file} ]; done"), 0o755);
    let calm = found(&scene, &["bash", "poll.sh"]);
    assert_calm(&calm); // What the client has looked up once, it knows.
    let findings = found_uncached(&scene, &["bash", "poll.sh"]);
    let storm = storm(&findings, "repeat");
    assert_eq!(storm["title"], format!("{file} was looked up 1,000 times"));
    assert_eq!(number(&storm["avoidable"]), 999);
    assert_eq!(source(storm, "repeated_path")["program"], "poll.sh (bash)");
}

/// A tree of so many directories with a file in each.
fn tree(scene: &Scene, directories: usize) -> String {
    let tree = scene.subdirectory("tree");
    for number in 0..directories {
        scene.subdirectory(&format!("tree/d{number}"));
        scene.file(&format!("tree/d{number}/file"), "", 0o644);
    }
    tree
}

#[test]
fn a_find_over_many_directories_is_a_walk() {
    let scene = Scene::new();
    let tree = tree(&scene, 200);
    let findings = found(&scene, &["find", &tree, "-newer", "/etc/hostname"]);
    let storm = storm(&findings, "walk");
    assert_eq!(storm["title"], "find listed 201 directories");
    assert_eq!(source(storm, "walked_tree")["directory"], tree.as_str());
}

#[test]
fn git_status_on_a_large_tree_is_a_walk_and_on_a_small_one_calm() {
    let scene = Scene::new();
    for (name, directories) in [("small", 3), ("large", 300)] {
        let at = scene.subdirectory(name);
        for number in 0..directories {
            scene.subdirectory(&format!("{name}/d{number}"));
            scene.file(&format!("{name}/d{number}/file"), "", 0o644);
        }
        let git = "git init -q && git add . && git -c user.name=me -c user.email=me commit -qm x";
        assert_eq!(run(Command::new("sh").args(["-c", git]).current_dir(at)).code(), 0);
    }
    assert_calm(&found(&scene, &["git", "-C", "small", "status"]));
    let large = found(&scene, &["git", "-C", "large", "status"]);
    let storm = storm(&large, "walk");
    assert_eq!(source(storm, "walked_tree")["directory"], scene.at("large").as_str());
}

#[test]
fn what_is_calm_is_called_calm() {
    let scene = Scene::new();
    let calm: &[&[&str]] = &[
        &["true"],
        &["echo", "x"],
        &["ls", "-l", "/usr"],
        &["bash", "-c", ":"],
        &["sh", "-c", "cat /etc/passwd | sort | head -1"],
        &["emacs", "--version"],
        &[PYTHON, "-c", "pass"],
        &["git", "--version"],
        &["gcc", "--version"],
        &["bash", "-c", "for i in 1 2 3 4 5 6 7 8 9; do dirname /a/$i; done"],
    ];
    for words in calm {
        assert_calm(&found(&scene, words));
    }
}

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
    let object: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    assert_eq!(object["program"], "echo");
}

#[test]
fn the_json_is_what_its_schema_says_both_ways() {
    let schema = schema();
    schema.holds(&schema.example(), "the example");
    let (scene, program) = (Scene::new(), store("rpath"));
    schema.holds(&found(&scene, &[&program]), "a store");
    let script = "for i in $(seq 60); do x=$(dirname /a/b/$i); done; exit 3";
    schema.holds(&found(&scene, &["bash", "-c", script]), "with warnings");
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
        (&["--json=/"], &["sh", "-c", "exit 3"], 3),
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
    let line = format!("ulimit -f 1; {BECALM} check --json=q.json -- sh -c 'exit 3'");
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
    let report = run(&mut check(&scene, &[], &["dd", "if=data", "of=/dev/null", "bs=4M"])).err();
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
