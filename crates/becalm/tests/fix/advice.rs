//! What `becalm check` advises is pasted as it is printed, into bash, where the storm is: it ends
//! with status 0, the command says what it said, and makes fewer metadata operations. What is not certain to do so is
//! not advised.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::BECALM;
use serde_json::Value;
use testkit::{Ran, Scene, run, uncached};

/// A directory whose path has to be quoted, with becalm on PATH.
struct Place {
    scene: Scene,
    directory: String,
    env: Vec<(String, String)>,
}

impl Place {
    fn new() -> Place {
        let scene = Scene::new();
        let directory = scene.subdirectory("it's a place");
        let bin = scene.subdirectory("bin");
        symlink(BECALM, format!("{bin}/becalm")).unwrap();
        let env = [
            ("PATH", format!("{bin}:/usr/bin:/bin")),
            ("HOME", scene.subdirectory("home")),
            ("LC_ALL", "C".to_owned()),
        ];
        let env = env.map(|(name, value)| (name.to_owned(), value)).to_vec();
        Place { scene, directory, env }
    }

    fn at(&self, name: &str) -> String {
        format!("{}/{name}", self.directory)
    }

    fn file(&self, name: &str, text: &str) {
        std::fs::write(self.at(name), text).unwrap();
    }

    fn set(&mut self, name: &str, value: String) {
        self.env.retain(|(known, _)| known != name);
        self.env.push((name.to_owned(), value));
    }

    fn command(&self, program: &str, words: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(words).current_dir(&self.directory).env_clear();
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    #[track_caller]
    fn bash(&self, line: &str) -> Ran {
        run(&mut self.command("bash", &["-c", line]))
    }

    /// What can be done about the storm of that name, of a command: cures, then looks.
    #[track_caller]
    fn steps(&self, name: &str, words: &[&str]) -> Vec<Value> {
        steps_of(&self.found(words), name)
    }

    /// What check finds where whatever is repeated is waited for each time.
    #[track_caller]
    fn found(&self, words: &[&str]) -> Value {
        let profile = uncached(&self.scene);
        let check = ["check", "--json", "--profile", &profile, "--"];
        let ran = run(&mut self.command(BECALM, &[&check, words].concat()));
        serde_json::from_slice(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}", ran.err()))
    }

    #[track_caller]
    fn operations(&self, words: &[&str]) -> u64 {
        self.found(words)["totals"]["metadata_ops"].as_u64().unwrap()
    }

    /// What a line says that must succeed.
    #[track_caller]
    fn said(&self, line: &str) -> String {
        let ran = self.bash(line);
        assert_eq!(ran.code(), 0, "{line}\n{}{}", ran.out(), ran.err());
        ran.out()
    }
}

#[track_caller]
fn steps_of(found: &Value, name: &str) -> Vec<Value> {
    let storms = found["storms"].as_array().unwrap();
    assert!(storms.iter().any(|storm| storm["storm"] == name), "no {name} storm: {found:#}");
    let of = |list: &str| found[list].as_array().unwrap().iter();
    let steps = of("cures").chain(of("looks")).filter(|step| step["storm"] == name);
    steps.cloned().collect()
}

/// The commands of a storm's steps.
fn commands(steps: &[Value]) -> Vec<&str> {
    steps.iter().filter_map(|step| step["command"].as_str()).collect()
}

/// The sentences of a storm's steps that have no command.
fn sentences(steps: &[Value]) -> Vec<&str> {
    let steps = steps.iter().filter(|step| step["command"].is_null());
    steps.map(|step| step["text"].as_str().unwrap()).collect()
}

fn store(place: &Place, libraries: &str, options: &[&str]) -> String {
    let make = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/store/make");
    let mut make = Command::new(make);
    let made = run(make.args(options).args(["--libs", libraries]).arg(place.at("opt")));
    assert_eq!(made.code(), 0, "{}", made.err());
    made.out().trim_end().to_owned()
}

#[test]
fn binding_what_a_long_rpath_searches() {
    for kind in [&[][..], &["--runpath"]] {
        let place = Place::new();
        let program = store(&place, "40", kind);
        let (before, said) =
            (place.operations(&[&program]), run(&mut place.command(&program, &[])));
        let steps = place.steps("loader", &[&program]);
        let [advised] = commands(&steps)[..] else { panic!("{steps:#?}") };
        place.said(advised);
        assert!(place.operations(&[&program]) * 2 < before, "{advised}");
        assert_eq!(run(&mut place.command(&program, &[])), said);
    }
}

#[test]
fn binding_what_plug_ins_search() {
    let place = Place::new();
    let program = store(&place, "60", &["--runpath"]);
    let load = "import ctypes, glob, sys\n\
                for name in sorted(glob.glob(sys.argv[1] + '/*/lib/*')): ctypes.CDLL(name)\n\
                print('done')";
    place.file("load.py", load);
    let store = Path::new(&program).ancestors().nth(3).unwrap().to_str().unwrap();
    let words = ["/usr/bin/python3", "load.py", store];
    let before = place.operations(&words);
    let steps = place.steps("dlopen", &words);
    let [advised] = commands(&steps)[..] else { panic!("{steps:#?}") };
    place.said(advised);
    assert!(place.operations(&words) < before, "{advised}");
    assert_eq!(
        place.said(&format!("python3 load.py '{}'", store.replace('\'', r"'\''"))),
        "done\n"
    );
}

#[test]
fn files_that_are_not_ones_own_are_not_to_be_bound() {
    if !testkit::user::is_root() {
        return;
    }
    let (scene, _) = testkit::user::scene_for_a_user(&[]);
    let becalm = scene.at("becalm");
    let make = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/store/make");
    let made = run(Command::new(make).arg("--libs=40").arg(scene.directory()));
    let opened = Command::new("chmod").args(["-R", "a+rX"]).arg(scene.directory()).status();
    assert!(opened.unwrap().success());
    let program = made.out().trim_end().to_owned();
    let ran = run(&mut testkit::user::as_a_user(&[&becalm, "check", "--json", "--", &program]));
    let found: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(found["storms"][0]["storm"], "loader", "{found:#}");
    assert_eq!(steps_of(&found, "loader"), [] as [Value; 0]);
}

#[test]
fn a_library_path_is_not_taken_apart_by_what_one_start_needs() {
    let mut place = Place::new();
    let program = store(&place, "40", &["--no-rpath"]);
    let store = Path::new(&program).ancestors().nth(3).unwrap();
    let packages = store.read_dir().unwrap().map(|entry| entry.unwrap().path().join("lib"));
    let list: Vec<_> = packages.map(|directory| directory.to_str().unwrap().to_owned()).collect();
    place.set("LD_LIBRARY_PATH", list.join(":"));
    assert_eq!(commands(&place.steps("loader", &[&program])), [""; 0]);
}

/// A script that starts three programs for each of 100 paths.
const UNPACK: &str = "while read -r path; do
    directory=$(dirname \"$path\")
    mkdir -p \"out/$directory\"
    echo \"$directory\" \"$(basename \"$path\")\"
done < list
";

fn unpacking(place: &Place) {
    place.file("unpack.sh", UNPACK);
    let list: String = (0..100).map(|number| format!("a/d{}/f{number}\n", number % 7)).collect();
    place.file("list", &list);
}

#[test]
fn builtins_for_a_script_that_starts_what_bash_can_do() {
    let place = Place::new();
    unpacking(&place);
    let words = ["bash", "unpack.sh"];
    let (before, said) = (place.operations(&words), place.said("bash unpack.sh"));
    let steps = place.steps("fork", &words);
    let commands = commands(&steps);
    assert_eq!(
        commands,
        ["becalm run --builtins -- bash unpack.sh", "becalm fork lines -- bash unpack.sh"]
    );
    for advised in &commands {
        assert_eq!(place.said(advised), said, "{advised}");
    }
    let after = place.operations(&["bash", "-c", commands[0]]);
    assert!(after < before, "{before} became {after}");
}

#[test]
fn the_same_where_the_script_is_executed_and_not_as_sh() {
    let place = Place::new();
    for (first, is_advised) in
        [("#!/usr/bin/env bash", true), ("#!/bin/bash", true), ("#!/bin/sh", false)]
    {
        let text =
            "for i in a b c d e f g h i j; do for j in 1 2 3 4 5 6; do dirname /$i/$j; done; done";
        place.file("run.sh", &format!("{first}\n{text}\n"));
        place.said("chmod +x run.sh");
        let steps = place.steps("fork", &["./run.sh"]);
        let advised = commands(&steps).contains(&"becalm run --builtins -- ./run.sh");
        assert_eq!(advised, is_advised, "{first}: {steps:#?}");
    }
}

#[test]
fn no_builtins_where_cat_reads_what_comes() {
    let place = Place::new();
    place.file("run.sh", "for i in {1..100}; do echo $i | cat; done\n");
    let steps = place.steps("fork", &["bash", "run.sh"]);
    assert!(!commands(&steps).iter().any(|line| line.contains("--builtins")), "{steps:#?}");
}

#[test]
fn what_to_write_in_a_line() {
    let place = Place::new();
    unpacking(&place);
    let (before, said) = (place.operations(&["bash", "unpack.sh"]), place.said("bash unpack.sh"));
    let steps = place.steps("fork", &["bash", "unpack.sh"]);
    let mut edits = 0;
    for sentence in sentences(&steps) {
        let rest = sentence.strip_prefix("In unpack.sh:").unwrap_or_else(|| panic!("{sentence}"));
        let (line, rest) = rest.split_once(": write `").unwrap();
        let (write, of) = rest.strip_suffix('`').unwrap().split_once("` instead of `").unwrap();
        let text = std::fs::read_to_string(place.at("unpack.sh")).unwrap();
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        let line = &mut lines[line.parse::<usize>().unwrap() - 1];
        assert!(line.contains(of), "{line}: {sentence}");
        *line = line.replacen(of, write, 1);
        place.file("unpack.sh", &lines.join("\n"));
        edits += 1;
    }
    if edits > 0 {
        assert_eq!(place.said("bash unpack.sh"), said);
        assert!(place.operations(&["bash", "unpack.sh"]) < before);
    }
}

#[test]
fn a_full_path_is_not_searched() {
    let mut place = Place::new();
    let empty: Vec<_> =
        (0..12).map(|number| place.scene.subdirectory(&format!("bin{number}"))).collect();
    let path = place.env.iter().find(|(name, _)| name == "PATH").unwrap().1.clone();
    place.set("PATH", format!("{}:{path}", empty.join(":")));
    place.file("run.sh", "for i in {1..40}; do env uname; done\n");
    let before = place.operations(&["bash", "run.sh"]);
    let said = place.said("bash run.sh");
    let steps = place.steps("path", &["bash", "run.sh"]);
    assert_eq!(commands(&steps), [""; 0], "what others need of PATH is not known");
    let [sentence] = sentences(&steps)[..] else { panic!("{steps:#?}") };
    let told = sentence.split_once("`uname` is ").unwrap().1;
    let path = told.split([',', ' ']).next().unwrap();
    place.file("run.sh", &format!("for i in {{1..40}}; do env {path}; done\n"));
    assert_eq!(place.said("bash run.sh"), said);
    assert!(place.operations(&["bash", "run.sh"]) < before, "{sentence}");
}

#[test]
fn a_named_time_zone_is_read_once() {
    let place = Place::new();
    place.file("run.sh", "for i in {1..400}; do printf '%(%Y)T\\n' 1000000000; done\n");
    let (before, said) = (place.operations(&["bash", "run.sh"]), place.said("bash run.sh"));
    let steps = place.steps("repeat", &["bash", "run.sh"]);
    let [advised] = commands(&steps)[..] else { panic!("{steps:#?}") };
    assert_eq!(place.said(advised), said);
    assert!(place.operations(&["bash", "-c", advised]) * 2 < before, "{advised}");
}

#[test]
fn repeats_walks_and_locales_have_no_cure_that_is_certain() {
    let mut place = Place::new();
    for number in 0..120 {
        std::fs::create_dir_all(place.at(&format!("tree/d{number}"))).unwrap();
        place.file(&format!("tree/d{number}/file"), "");
    }
    place.said("git init -q tree && cd tree && git add . && git -c user.name=me -c user.email=me commit -qm x");
    place.file("poll.sh", "for i in {1..1000}; do [ -e tree ]; done");
    let calm: [(&str, &[&str]); 3] = [
        ("walk", &["git", "-C", "tree", "status"]),
        ("walk", &["find", "tree", "-newer", "/etc/hostname"]),
        ("repeat", &["bash", "poll.sh"]),
    ];
    for (name, words) in calm {
        assert_eq!(place.steps(name, words), [] as [Value; 0], "{words:?}");
    }
    place.env.retain(|(name, _)| name != "LC_ALL");
    place.set("LANG", "tlh_QO.UTF-8".to_owned());
    place.file(
        "tools.sh",
        "for t in ls id date uname cat sort head tail wc cut tr uniq stat touch mv cp rm ln; do $t --help; $t --version; done",
    );
    assert_eq!(place.steps("locale", &["bash", "tools.sh"]), [] as [Value; 0]);
}

#[test]
fn the_audit_of_a_modulepath() {
    let place = Place::new();
    for package in 0..30 {
        std::fs::create_dir_all(place.at(&format!("modulefiles/p{package}"))).unwrap();
        (1..5).for_each(|version| {
            place.file(&format!("modulefiles/p{package}/{version}.0"), "#%Module\n")
        });
    }
    let avail = "unset MODULEPATH; module use \"$PWD/modulefiles\"; module avail";
    let steps = place.steps("modules", &["bash", "-lc", avail]);
    let [advised] = commands(&steps)[..] else { panic!("{steps:#?}") };
    assert!(place.said(advised).contains("120 modulefiles in 1 modulepath"), "{advised}");
}

/// A virtual environment with a package of many modules.
fn environment(place: &Place) -> String {
    place.said("python3 -m venv --without-pip venv && (cd venv/lib/*/site-packages && mkdir many)");
    let modules = "cd venv/lib/*/site-packages/many && for i in {1..150}; do \
                   echo \"x = $i\" > m$i.py; done; \
                   { for i in {1..150}; do echo \"from . import m$i\"; done; } > __init__.py";
    place.said(modules);
    place.said("venv/bin/python -c 'import many'");
    place.at("venv/bin/python")
}

/// How many operations reach the filesystem that a place is on.
#[track_caller]
fn reached(place: &Place, line: &str) -> u64 {
    let words = ["rehearse", "--json", "--profile", "local", "--writable", &place.directory, "--"];
    let ran = run(&mut place.command(BECALM, &[&words[..], &["bash", "-c", line]].concat()));
    assert_eq!(ran.code(), 0, "{line}: {}", ran.err());
    let told: Value = serde_json::from_slice(&ran.stdout).unwrap();
    told["rpcs"].as_u64().unwrap()
}

#[test]
fn an_image_of_an_environment_that_most_is_searched_in() {
    let place = Place::new();
    let python = environment(&place);
    let words = [python.as_str(), "-c", "import many; print(many.m7.x)"];
    let steps = place.steps("python", &words);
    let [built, scanned] = commands(&steps)[..] else { panic!("{steps:#?}") };
    assert!(built.starts_with("becalm image build -o env.sqsh "), "{built}");
    let (_, in_the_image) = built.split_once(" && ").unwrap();
    assert!(place.said(built).ends_with("7\n"), "{built}");
    let plain = in_the_image.split_once(" -- ").unwrap().1;
    let (before, after) = (reached(&place, plain), reached(&place, in_the_image));
    // Most of what is left is the check: one operation a directory of the image and traced file.
    assert!(after * 3 < before * 2, "{before} became {after}");
    assert_eq!(place.said(scanned), "7\n");
}

#[test]
fn what_is_next_where_no_storm_explains_the_wait() {
    let place = Place::new();
    let make = "for i in {1..150}; do mkdir -p inc/$i; done; mkdir last && cd last && \
                for i in {1..60}; do echo '1;' > m$i.pm; done; \
                { for i in {1..60}; do echo \"require m$i;\"; done; } > ../all.pl";
    place.said(make);
    let run_it =
        "@INC = ((map { \"inc/$_\" } 1..150), \"last\"); do \"./all.pl\"; print \"done\\n\"";
    let report = run(&mut place.command(BECALM, &["check", "--", "perl", "-e", run_it])).err();
    assert!(report.contains("no single storm"), "{report}");
    let next = report.lines().last().unwrap().strip_prefix("Next: ").unwrap();
    assert!(place.said(next).contains("inc"), "{next}");
    let kept = ["check", "-o", "kept.becalm", "--", "perl", "-e", run_it];
    let report = run(&mut place.command(BECALM, &kept)).err();
    let next = report.lines().last().unwrap().strip_prefix("Next: ").unwrap();
    assert_eq!(next, "becalm report kept.becalm --by prefix");
    assert!(place.said(next).contains("inc"), "{next}");
}

#[test]
fn what_a_report_says_next_is_pasted_elsewhere() {
    let place = Place::new();
    place.said("mkdir sub; printf '#!/bin/sh\\necho it runs\\n' > app; chmod +x app");
    place.said("cd sub; becalm record -o ../r.becalm -- ../app");
    let said = place.said("becalm report r.becalm --by library");
    let next = said.lines().last().unwrap().strip_prefix("Next: ").unwrap();
    assert!(next.starts_with("(cd ") && place.said(next).contains("it runs"), "{next}");
    let said = place.said("cd sub; becalm report ../r.becalm --by library");
    assert!(said.ends_with("Next: becalm fix -- ../app\n"), "{said}");
}

#[test]
fn no_image_of_what_is_no_environment_or_serves_little() {
    let place = Place::new();
    let python = environment(&place);
    let has_image = |words: &[&str]| {
        let steps = place.steps("python", words);
        let all = commands(&steps);
        all.iter().any(|line| line.contains("image build"))
    };
    // Most is searched in the Python that the environment is based on.
    assert!(!has_image(&[
        &python,
        "-c",
        "import asyncio, email, http.client, json, unittest.mock"
    ]));
    assert!(has_image(&[&python, "-c", "import many"]));
    // Whoever works in the environment would write to it.
    let mut within =
        place.command(BECALM, &["check", "--json", "--", &python, "-c", "import many"]);
    let found = run(within.current_dir(place.at("venv"))).out();
    assert!(found.contains("becalm python scan") && !found.contains("image build"), "{found}");
}
