//! `becalm check --budget` and `--baseline`: a start that grew fails, with what grew; one that did
//! not passes, each time.

use std::fs;

use super::*;

/// A program in `app` that finds its one library in the last of the directories of its RPATH.
fn application(scene: &Scene, before_it: &[&str]) -> String {
    let own = scene.at("lib");
    fs::create_dir_all(&own).unwrap();
    let list: Vec<_> = before_it.iter().map(|name| scene.at(name)).chain([own.clone()]).collect();
    scene.file("mesh.c", "int mesh(void) { return 0; }", 0o644);
    scene.file("app.c", "int mesh(void); int main(void) { return mesh(); }", 0o644);
    let build = |words: &[&str]| {
        let ran = run(Command::new("cc").args(words).current_dir(scene.directory()));
        assert_eq!(ran.code(), 0, "{}", ran.err());
    };
    build(&["-shared", "-fPIC", "-o", "lib/libmesh.so", "mesh.c"]);
    let rpath = format!("-Wl,--disable-new-dtags,-rpath,{}", list.join(":"));
    build(&["-o", "app", "app.c", "-Llib", "-lmesh", &rpath]);
    scene.at("app")
}

/// The same, checked.
fn held(scene: &Scene, options: &[&str], words: &[&str]) -> Ran {
    run(&mut check(scene, options, words))
}

#[test]
fn a_longer_rpath_fails_with_its_cause_its_file_and_its_directories() {
    let scene = Scene::new();
    let app = application(&scene, &[]);
    let made = held(&scene, &["--json=start.json", "-o", "start.becalm"], &[&app]);
    assert_eq!(made.code(), 0, "{}", made.err());
    application(&scene, &["store/fft/lib", "store/hdf/lib"]);
    // On a screen names may be cut in the middle: they are looked at in JSON.
    let grew = ["OVER BUDGET", "loader (start): ", ": 1 → 3 directories", "library libmesh.so: "];
    for baseline in ["start.json", "start.becalm"] {
        let ran = held(&scene, &["--baseline", baseline, "--json=now.json"], &[&app]);
        assert_eq!(ran.code(), 3, "{}", ran.err());
        assert!(grew.iter().all(|part| ran.err().contains(part)), "{}", ran.err());
        let now: Value = serde_json::from_slice(&fs::read(scene.at("now.json")).unwrap()).unwrap();
        let rows = now["budget"]["grown"]["rows"].as_array().unwrap();
        let has = |what: &str, name: &str, now: u64| {
            let is_it = |row: &&Value| row["what"] == what && row["name"] == name;
            let row = rows.iter().find(is_it).unwrap_or_else(|| panic!("no {name} in {rows:#?}"));
            assert!(number(&row["now"]) >= now, "{row:#}");
        };
        has("rpath", &app, 3);
        has("directory", &scene.at("store/fft/lib"), 1);
        has("library", "libmesh.so", 3);
        let new = now["budget"]["grown"]["new_paths"].as_array().unwrap();
        let path = scene.at("store/fft/lib/libmesh.so");
        assert_eq!(new.iter().any(|new| new["path"] == path), baseline == "start.becalm");
    }
    // The same from before to after is a budget that is kept.
    application(&scene, &[]);
    assert_eq!(held(&scene, &["--baseline", "start.json"], &[&app]).code(), 0);
}

#[test]
fn a_start_that_is_the_same_passes_twenty_times_of_twenty() {
    let scene = Scene::new();
    // Names that are others each time, children, and what they ask /proc for.
    let script = "import json, os, subprocess, tempfile\n\
                  with tempfile.TemporaryDirectory() as made:\n \
                  open(made + '/file', 'w').close()\n \
                  os.path.exists(made + '/none')\n\
                  subprocess.run(['sh', '-c', 'cat /proc/$$/status >/dev/null; ls /none 2>/dev/null'])";
    let words = [PYTHON, "-B", "-c", script];
    let made = held(&scene, &["--json=start.json", "-o", "start.becalm", "--until=exit"], &words);
    assert_eq!(made.code(), 0, "{}", made.err());
    let mut waits = std::collections::BTreeSet::new();
    for run in 0..20 {
        let baseline = if run % 2 == 0 { "start.json" } else { "start.becalm" };
        let options =
            ["--baseline", baseline, "--budget=wait=1min", "--until=exit", "--json=now.json"];
        let ran = held(&scene, &options, &words);
        assert_eq!(ran.code(), 0, "{run}: {}", ran.err());
        let now: Value = serde_json::from_slice(&fs::read(scene.at("now.json")).unwrap()).unwrap();
        waits.insert(now["budget"]["limits"][0]["found"].to_string());
    }
    assert_eq!(waits.len(), 1, "{waits:?}");
}

#[test]
fn a_tolerance_lets_so_much_more_pass_and_no_more() {
    let scene = Scene::new();
    let ask = |times: u32| format!("for i in $(seq {times}); do [ -e /none/$i ]; done; true");
    let hundred = ["bash", "-c", &ask(1000)];
    let (few, many) = (ask(1040), ask(1200));
    assert_eq!(held(&scene, &["--json=start.json"], &hundred).code(), 0);
    for (words, tolerance, status) in
        [(&few, "5%", 0), (&few, "0%", 3), (&few, "1", 3), (&many, "5%", 3), (&many, "50%", 0)]
    {
        let options = ["--baseline=start.json", "--tolerance", tolerance];
        let ran = held(&scene, &options, &["bash", "-c", words]);
        assert_eq!(ran.code(), status, "{tolerance}: {}", ran.err());
        assert!(ran.err().contains("! the baseline is of other arguments: "), "{}", ran.err());
    }
}

#[test]
fn limits_are_of_all_and_of_causes_and_the_first_that_is_not_kept_fails() {
    let scene = Scene::new();
    let words = ["sh", "-c", "ls /none 2>/dev/null; true"];
    for (budget, status) in [
        ("ops=100000,failed=100000,distinct=100000,processes=100,wait=1min", 0),
        ("loader.ops=100000,shell.failed=1000", 0),
        ("ops=1", 3),
        ("failed=0", 3),
        ("processes=1", 3),
        ("wait=1us", 3),
        ("ops=100000,loader.ops=1", 3),
        ("python.ops=0,modules.ops=0,nss.failed=1000", 0),
    ] {
        let ran = held(&scene, &["--budget", budget], &words);
        assert_eq!(ran.code(), status, "{budget}: {}", ran.err());
        let verdict = if status == 0 { "WITHIN BUDGET\n" } else { "OVER BUDGET\n" };
        assert!(ran.err().contains(verdict), "{budget}: {}", ran.err());
    }
}

#[test]
fn a_command_that_fails_keeps_its_own_status() {
    let scene = Scene::new();
    let over = ["--budget=ops=0"];
    assert_eq!(held(&scene, &over, &["sh", "-c", "exit 7"]).code(), 7);
    assert_eq!(held(&scene, &over, &["no-such-command"]).code(), 127);
    let killed = held(&scene, &over, &["sh", "-c", "kill -TERM $$"]);
    assert!(killed.status.code().is_none(), "{:?}", killed.status);
    assert_eq!(held(&scene, &over, &["true"]).code(), 3);
}

#[test]
fn what_was_not_seen_whole_is_no_pass() {
    let scene = Scene::new();
    let many = "for i in $(seq 20000); do [ -e /none/$i$RANDOM ]; done; true";
    let script = format!(
        "trap '' XFSZ; ulimit -f 16; exec {BECALM} check -o cut.becalm --budget ops=1000000 -- \
         bash -c '{many}'"
    );
    let mut command = Command::new("bash");
    command.args(["-c", &script]).current_dir(scene.directory());
    let ran = run(&mut command);
    assert_eq!(ran.code(), 3, "{}", ran.err());
    assert!(ran.err().contains("\nNOT KNOWN\n"), "{}", ran.err());
    let refused = held(&scene, &["--baseline=cut.becalm"], &["bash", "-c", many]);
    assert_eq!(refused.code(), 125, "{}", refused.err());
    assert!(refused.err().contains("not recorded to its end"), "{}", refused.err());
    // Nor is what was watched until another moment.
    let slow = ["sh", "-c", "true; sleep 0.1; true"];
    assert_eq!(held(&scene, &["--until=0.01", "--json=start.json"], &slow).code(), 0);
    let ran = held(&scene, &["--until=exit", "--baseline=start.json", "--tolerance=900"], &slow);
    assert_eq!(ran.code(), 3, "{}", ran.err());
    assert!(ran.err().contains("! the baseline was watched until passed"), "{}", ran.err());
}

#[test]
fn what_makes_no_sense_is_refused_before_the_command_runs() {
    let scene = Scene::new();
    assert_eq!(held(&scene, &["--json=true.json"], &["true"]).code(), 0);
    scene.file("other.json", "{\"schema\": \"becalm.report/1\"}", 0o644);
    scene.file("old.json", "{\"schema\": \"becalm.check/1\"}", 0o644);
    scene.file("broken.json", "{\"schema\": ", 0o644);
    scene.file("notes.txt", "mine", 0o644);
    let tests: &[(&[&str], i32, &str)] = &[
        (&["--baseline=true.json"], 125, "true.json: it is of true, not of sh"),
        (&["--baseline=none.json"], 125, "none.json: No such file"),
        (&["--baseline=other.json"], 125, "other.json: it is no answer of becalm check"),
        (&["--baseline=old.json"], 125, "old.json: it has no counts"),
        (&["--baseline=broken.json"], 125, "broken.json: it is no JSON object"),
        (&["--budget=ops=1", "--junit=notes.txt"], 125, "it exists and is no XML file"),
        (&["--budget=ops=1", "--junit=none/x.xml"], 125, "none/x.xml: No such file"),
        (&["--budget=ops"], 2, "give NAME=NUMBER"),
        (&["--budget=opens=3"], 2, "there is no 'opens'"),
        (&["--budget=wait=soon"], 2, "'soon' is no time"),
        (&["--budget=ops=1", "--rehearse=nfs"], 2, "cannot be used with"),
        (&["--tolerance=5%"], 2, "--baseline"),
        (&["--junit=x.xml"], 2, "--junit and --github need --budget or --baseline"),
        (&["--github"], 2, "--junit and --github need --budget or --baseline"),
    ];
    for (options, status, said) in tests {
        let ran = held(&scene, options, &["sh", "-c", "touch ran"]);
        assert_eq!(ran.code(), *status, "{options:?}: {}", ran.err());
        assert!(ran.err().contains(said), "{options:?}: {}", ran.err());
        assert!(!scene.path("ran").exists(), "{options:?}");
    }
    assert_eq!(fs::read(scene.at("notes.txt")).unwrap(), b"mine");
}

/// What Python's own parser makes of a JUnit report: of each case its class, its name, and its
/// failures' message and text, as JSON.
fn junit(scene: &Scene, file: &str) -> Value {
    let script = "import json, sys, xml.etree.ElementTree as tree\n\
                  root = tree.parse(sys.argv[1]).getroot()\n\
                  assert root.tag == 'testsuites', root.tag\n\
                  [suite] = root\n\
                  counts = {k: int(suite.get(k)) for k in ('tests', 'failures', 'errors')}\n\
                  cases = [{'class': c.get('classname'), 'name': c.get('name'), 'failed': \
                  [[e.tag, e.get('message'), e.text] for e in c]} for c in suite]\n\
                  print(json.dumps({'counts': counts, 'cases': cases}))";
    let ran = run(Command::new(PYTHON).args(["-c", script, &scene.at(file)]));
    assert_eq!(ran.code(), 0, "{}", ran.err());
    serde_json::from_slice(&ran.stdout).unwrap()
}

#[test]
fn names_of_strangers_stay_inside_xml_and_annotations() {
    let scene = Scene::new();
    let name = "a\"<b>&'\n::error::50%,x:]]>\u{1}\u{ffff}";
    let program = scene.file(name, "#!/bin/sh\n[ -e \"/none/$0\" ]\nexit 0\n", 0o755);
    let options = ["--budget=failed=0,ops=100000", "--junit=junit.xml", "--github"];
    let ran = held(&scene, &options, &[&program]);
    assert_eq!(ran.code(), 3, "{}", ran.err());
    let report = junit(&scene, "junit.xml");
    assert_eq!(report["counts"], serde_json::json!({"tests": 2, "failures": 1, "errors": 0}));
    let class = report["cases"][0]["class"].as_str().unwrap();
    assert!(class.contains(r#"a"<b>&'\x0a::error::50%,x:]]>\x01"#), "{class}");
    let failed = &report["cases"][0]["failed"][0];
    assert_eq!(failed[0], "failure");
    assert!(failed[1].as_str().unwrap().starts_with("failed: "), "{failed}");
    assert_eq!(report["cases"][1]["failed"], serde_json::json!([]));
    let commands: Vec<_> = ran.stderr.split(|byte| *byte == b'\n').collect();
    let commands: Vec<_> = commands
        .iter()
        .map(|line| String::from_utf8_lossy(line))
        .filter(|line| line.trim_start().starts_with("::"))
        .collect();
    assert_eq!(commands.len(), 1, "{commands:?}");
    let start = r#"::error title=becalm%3A "#;
    assert!(commands[0].starts_with(start) && commands[0].contains("50%25%2Cx%3A"), "{commands:?}");
}

#[test]
fn reports_of_a_budget_that_is_kept_say_so() {
    let scene = Scene::new();
    let options = ["--budget=ops=100000,wait=1min", "--junit=junit.xml", "--github"];
    for _ in 0..2 {
        let ran = held(&scene, &options, &["true"]);
        assert_eq!(ran.code(), 0, "{}", ran.err());
        assert!(ran.err().contains("\n::notice title=becalm%3A true::ops: "), "{}", ran.err());
        let report = junit(&scene, "junit.xml");
        assert_eq!(report["counts"], serde_json::json!({"tests": 2, "failures": 0, "errors": 0}));
    }
}
