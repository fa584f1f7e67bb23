//! `becalm modules audit` says what trees of modulefiles cost and what is wrong with them.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use crate::BECALM;
use serde_json::Value;
use testkit::user::{as_a_user, is_root};
use testkit::{Ran, Scene, copy_program, run};

fn audit(words: &[&str]) -> Ran {
    let words = [&["modules", "audit"], words].concat();
    run(Command::new(BECALM).args(words).env("COLUMNS", "80"))
}

#[track_caller]
fn json(ran: &Ran) -> Value {
    assert_eq!(ran.err(), "");
    serde_json::from_str(&ran.out()).unwrap()
}

/// The tree of Modules' cookbook 'Reduce I/O load'.
fn cookbook(scene: &Scene) -> [String; 2] {
    let make = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/modules/make");
    let made = Command::new(make).args(["plain", &scene.at("trees")]).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    fs::set_permissions(scene.at("trees"), Permissions::from_mode(0o755)).unwrap();
    [scene.at("trees/applications"), scene.at("trees/libraries")]
}

fn module(path: String) {
    fs::create_dir_all(Path::new(&path).parent().unwrap()).unwrap();
    fs::write(path, "#%Module1.0\n").unwrap();
}

fn calls(cost: &Value, which: &str) -> u64 {
    let calls = cost[which]["calls"].as_object().unwrap();
    calls.values().map(|number| number.as_u64().unwrap()).sum()
}

#[test]
fn the_cookbooks_tree_costs_what_its_prediction_says_for_an_ordinary_user() {
    let scene = Scene::new();
    let [applications, libraries] = cookbook(&scene);
    let ran = audit(&["--json", &applications, &libraries]);
    assert_eq!(ran.code(), 1);
    let answer = json(&ran);
    let costs = answer["costs"].as_array().unwrap();
    let commands: Vec<_> = costs.iter().map(|cost| cost["command"].as_str().unwrap()).collect();
    assert_eq!(commands, ["module avail", "module load appg", "module whatis"]);
    for cost in costs {
        assert_eq!(cost["predicted"]["calls"], cost["measured"]["calls"], "{cost}");
    }
    // As strace counts them, with Modules 5.2.
    if answer["release"] == "5.2.0" {
        assert_eq!(calls(&costs[0], "measured"), 874);
    }
}

#[test]
fn a_clean_tree_has_status_0_and_a_wrong_one_1_in_every_form() {
    let scene = Scene::new();
    module(scene.at("m/a/1"));
    let path = scene.at("m");
    for form in [&["--no-run"][..], &["--json"], &["--sarif"], &["--github", "--no-run"]] {
        let clean = audit(&[form, &[path.as_str()]].concat());
        assert_eq!((clean.code(), clean.err().as_str()), (0, ""), "{form:?}");
    }
    fs::write(scene.at("m/a/README"), "hello").unwrap();
    let github = audit(&["--no-run", "--github", &path]);
    assert_eq!(github.code(), 1);
    assert!(github.out().starts_with("::warning file="), "{}", github.out());
    let log = json(&audit(&["--no-run", "--sarif", &path]));
    assert_eq!(log["runs"][0]["results"][0]["ruleId"], "stray");
    let text = audit(&["--no-run", &path]).out();
    assert!(text.contains("1 modulefile in 1 modulepath: 0 errors, 1 warning;"), "{text}");
}

#[test]
fn a_tree_full_of_traps_is_audited_at_once() {
    let scene = Scene::new();
    module(scene.at("m/a/1"));
    symlink("..", scene.at("m/a/loop")).unwrap();
    assert!(Command::new("mkfifo").arg(scene.at("m/a/pipe")).status().unwrap().success());
    fs::write(scene.at("m/a/binary"), [0xff, 0, 1, 2]).unwrap();
    fs::write(scene.at("m/a/empty"), "").unwrap();
    fs::write(scene.at("m/a/.modulerc"), [&b"#%Module\n{"[..], &[b'x'; 2 << 20]].concat()).unwrap();
    let hacked = scene.at("hacked");
    fs::write(scene.at("m/.modulecache"), format!("#%Module5.3\nexec touch {hacked}\n")).unwrap();
    // `run` gives up on what hangs.
    let ran = audit(&["--json", &scene.at("m"), &scene.at("m/a/1"), &scene.at("none")]);
    assert_eq!(ran.code(), 1);
    let answer = json(&ran);
    let rules: Vec<_> = answer["rules"]
        .as_array()
        .unwrap()
        .iter()
        .map(|sum| sum["rule"].as_str().unwrap())
        .collect();
    for rule in
        ["loop", "special", "stray", "no_directory", "missing_modulepath", "untrusted_cache"]
    {
        assert!(rules.contains(&rule), "{rule} is not in {rules:?}");
    }
    assert_eq!(answer["costs"][0]["not_measured"], "it would wait for a FIFO for ever");
    assert!(!Path::new(&hacked).exists());
}

#[test]
fn what_a_user_may_not_read_is_said_with_his_name() {
    if !is_root() {
        return;
    }
    let scene = Scene::new();
    module(scene.at("m/a/1"));
    module(scene.at("m/a/private"));
    fs::set_permissions(scene.at("m/a/private"), Permissions::from_mode(0o600)).unwrap();
    let answer = json(&audit(&["--json", "--as", "nobody", "--as", "54321", &scene.at("m")]));
    let finding = &answer["findings"][0];
    assert_eq!(finding["rule"], "unreadable");
    assert_eq!(finding["users"], serde_json::json!(["nobody", "54321"]));
    // The real command was run as each: a file that is not to be read is opened in vain.
    let costs = answer["costs"].as_array().unwrap();
    assert_eq!(costs.len(), 6);
    for cost in costs {
        assert_eq!(cost["predicted"]["calls"], cost["measured"]["calls"], "{cost}");
    }
    let unknown = audit(&["--as", "nobody-of-that-name", &scene.at("m")]);
    assert_eq!(unknown.err(), "becalm: nobody-of-that-name: no such user\n");
}

/// A modulefile is its owner's code.
#[test]
fn what_runs_as_a_user_does_not_hear_what_roots_environment_has() {
    if !is_root() {
        return;
    }
    let scene = Scene::new();
    let heard = scene.at("heard");
    module(scene.at("m/a/1"));
    let tells =
        format!("#%Module\nset file [open {heard} a]\nputs $file [array get env]\nclose $file\n");
    fs::write(scene.at("m/.modulerc"), tells).unwrap();
    fs::write(&heard, "").unwrap();
    fs::set_permissions(&heard, Permissions::from_mode(0o666)).unwrap();
    let mut audit = Command::new(BECALM);
    audit.args(["modules", "audit", "--as", "54321", &scene.at("m")]);
    run(audit.env("SECRET", "abc").env("LC_MESSAGES", "C"));
    let heard = fs::read_to_string(heard).unwrap();
    assert!(heard.contains("LC_MESSAGES C") && heard.contains("MODULEPATH"), "{heard}");
    assert!(!heard.contains("SECRET"), "{heard}");
}

#[test]
fn an_ordinary_user_audits_as_himself_and_as_nobody_else() {
    let scene = Scene::new();
    module(scene.at("m/a/1"));
    let becalm = scene.at("becalm");
    copy_program(BECALM, &becalm);
    let mine = run(&mut as_a_user(&[&becalm, "modules", "audit", "--json", &scene.at("m")]));
    assert_eq!((mine.code(), mine.err().as_str()), (0, ""));
    assert!(json(&mine)["costs"][0]["measured"]["everywhere"].as_u64().unwrap() > 100);
    let other = ["modules", "audit", "--as", "root", &scene.at("m")];
    let refused = run(&mut as_a_user(&[&[becalm.as_str()][..], &other].concat()));
    assert_eq!(refused.code(), 1);
    assert!(refused.err().contains("cannot become root"), "{}", refused.err());
}

/// Without them it would be about $MODULEPATH.
#[test]
fn what_is_advised_is_about_the_modulepaths_that_were_looked_at() {
    let scene = Scene::new();
    let path = scene.subdirectory("two words");
    module(format!("{path}/app/1.0"));
    fs::write(format!("{path}/app/README"), "no modulefile\n").unwrap();
    let said = audit(&["--no-run", &path]).out();
    let command = said.split("becalm modules tidy").nth(1).unwrap_or_else(|| panic!("{said}"));
    let words = command.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.starts_with(&format!("'{path}'")), "{said}");
}

#[test]
fn without_a_modulepath_there_is_nothing_to_audit() {
    let ran = run(Command::new(BECALM).args(["modules", "audit"]).env_remove("MODULEPATH"));
    assert_eq!(ran.code(), 2);
    assert_eq!(ran.err(), "becalm: MODULEPATH is not set: name the modulepaths to look at\n");
}
