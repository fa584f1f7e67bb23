//! Names that are no text, or would steer a terminal: every answer can be read, and what it names
//! is named byte for byte.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::BECALM;
use testkit::{Ran, Scene, run};

/// A blank, a quote, what JSON and a shell read as an escape, and what no text holds.
const ODD: &[u8] = b"o \t\n'\"\\x41\\\x1b[31m\x7f\xff\xc2\x9b!$x";

/// Each of them in a name of its own: what is lost may lie in one only.
const EACH: [&[u8]; 4] = [b"a\tb", b"it's \"\n\"", b"a\\x09b\x1b[31m", b"a\xffb"];

fn at(scene: &Scene, name: &[u8]) -> PathBuf {
    scene.directory().join(OsStr::from_bytes(name))
}

fn becalm(scene: &Scene, words: &[&OsStr]) -> Ran {
    let mut command = Command::new(BECALM);
    run(command.args(words).current_dir(scene.directory()).env("XDG_STATE_HOME", scene.at("state")))
}

/// The bytes of a name, as docs/schema/names.md says.
fn bytes_of(text: &str) -> Vec<u8> {
    recording::shown_path(text).into_os_string().into_vec()
}

/// Fails where a terminal would be steered, or a reader stopped.
#[track_caller]
fn assert_harmless(what: &dyn std::fmt::Debug, bytes: &[u8]) {
    let text = std::str::from_utf8(bytes);
    let text = text.unwrap_or_else(|_| panic!("{what:?}: {}", bytes.escape_ascii()));
    let raw = text.chars().find(|char| char.is_control() && *char != '\n');
    assert_eq!(raw, None, "{what:?}: {}", bytes.escape_ascii());
}

fn strings(value: &Value, take: &mut dyn FnMut(&str)) {
    match value {
        Value::String(text) => take(text),
        Value::Array(all) => all.iter().for_each(|one| strings(one, take)),
        Value::Object(all) => all.iter().for_each(|(name, one)| {
            take(name);
            strings(one, take);
        }),
        _ => {}
    }
}

#[test]
fn no_verb_answers_with_a_raw_control_character_or_a_name_that_is_lost() {
    let scene = Scene::new();
    let directory = at(&scene, ODD);
    fs::create_dir(&directory).unwrap();
    let script = directory.join(OsStr::from_bytes(&[ODD, b".sh"].concat()));
    testkit::write_program(&script, "#!/bin/bash\nfor i in {1..60}; do /bin/true; done\n");
    testkit::copy_program("/usr/bin/true", directory.join("t\u{9b}"));
    let inner = directory.join("in\n");
    fs::create_dir(&inner).unwrap();
    let made = Command::new("chmod").arg("-R").arg("755").arg(&directory).status();
    assert!(made.unwrap().success());
    let program = directory.join("t\u{9b}");
    let (rec, image) = (directory.join("rec\t"), directory.join("i\x1b.sqsh"));
    let (rec, image, program, script) =
        (rec.as_os_str(), image.as_os_str(), program.as_os_str(), script.as_os_str());
    let word = OsStr::new;
    let verbs: &[(&str, &[&OsStr])] = &[
        ("check", &[word("--"), script]),
        ("check", &[word("-o"), rec, word("--"), program]),
        ("record", &[word("-o"), rec, word("--"), script]),
        ("report", &[rec, word("--by"), word("process")]),
        ("report", &[rec, word("--by"), word("prefix"), word("--all")]),
        ("report", &[rec, word("--by"), word("line")]),
        ("diff", &[rec, rec]),
        ("diff", &[rec, rec, word("--paths")]),
        ("scale", &[rec, word("--ranks"), word("64")]),
        ("python scan", &[word("--"), program]),
        ("fork lines", &[word("--"), script]),
        ("fix", &[word("--"), program]),
        ("elf tree", &[program, word("--probes")]),
        ("elf bind", &[word("--dry-run"), program, script]),
        ("image build", &[word("-o"), image, inner.as_os_str()]),
        ("image inspect", &[image]),
        ("modules audit", &[word("--no-run"), directory.as_os_str()]),
    ];
    for (verb, rest) in verbs {
        for json in [false, true] {
            let mut words: Vec<&OsStr> = verb.split(' ').map(word).collect();
            words.extend(json.then(|| word("--json")));
            words.extend(*rest);
            let ran = becalm(&scene, &words);
            assert!(ran.code() < 2, "{words:?}: {}", ran.err());
            assert_harmless(&words, &ran.stdout);
            assert_harmless(&words, &ran.stderr);
            let said = if *verb == "record" { &ran.stderr } else { &ran.stdout };
            if json {
                let value: Value = serde_json::from_slice(said).unwrap_or_else(|error| {
                    panic!("{words:?}: {error}: {}\n{}", ran.out(), ran.err())
                });
                strings(&value, &mut |text| {
                    assert_harmless(&words, text.as_bytes());
                    assert!(!text.contains(['\n', '\u{fffd}']), "{words:?}: {text:?}");
                });
            }
        }
    }
    for format in ["jsonl", "chrome", "csv", "folded", "strace", "speedscope"] {
        let ran = becalm(&scene, &[word("export"), rec, word("--format"), word(format)]);
        assert_eq!(ran.code(), 0, "{}", ran.err());
        assert_harmless(&format, &ran.stdout);
    }
}

/// A virtual environment with 60 packages in a directory of that name, and a program that imports
/// them all.
fn environment(scene: &Scene, name: &[u8]) -> (PathBuf, String) {
    let plain = scene.at("env");
    let made = ["-m", "venv", "--without-pip", &plain];
    assert_eq!(run(Command::new("/usr/bin/python3").args(made)).code(), 0);
    let site = Command::new("find").args([&plain, "-name", "site-packages"]).output().unwrap();
    let site = String::from_utf8(site.stdout).unwrap();
    for number in 0..60 {
        let package = format!("{}/package_{number}", site.lines().next().unwrap());
        fs::create_dir(&package).unwrap();
        fs::write(format!("{package}/__init__.py"), "").unwrap();
    }
    // Python itself makes none of a name that is no UTF-8, but runs in one.
    let env = at(scene, name);
    fs::rename(plain, &env).unwrap();
    let program = "import importlib\nfor n in range(60): importlib.import_module(f'package_{n}')\n";
    (env, scene.file("program.py", program, 0o644))
}

#[test]
fn an_environment_of_any_name_is_cured_and_what_is_to_be_pasted_runs() {
    for name in EACH {
        let scene = Scene::new();
        let (env, program) = environment(&scene, name);
        let python = env.join("bin/python3").into_os_string();
        let of = |verb: &str, more: &[&str]| {
            let mut words = vec![OsString::from(verb)];
            words.extend(more.iter().map(OsString::from));
            words.extend([OsString::from("--"), python.clone(), OsString::from(&program)]);
            becalm(&scene, &words.iter().map(OsString::as_os_str).collect::<Vec<_>>())
        };
        let planned = of("fix", &["--json"]);
        let plan: Value = serde_json::from_slice(&planned.stdout).unwrap();
        let packed = plan["image"]["directories"][0].as_str().map(bytes_of);
        // What a calm file cannot say, it is not planned to.
        let is_text = std::str::from_utf8(name).is_ok();
        let packs = is_text.then(|| env.as_os_str().as_bytes().to_owned());
        assert_eq!(packed, packs, "{plan:#}");

        let checked: Value = serde_json::from_slice(&of("check", &["--json"]).stdout).unwrap();
        assert_eq!(bytes_of(checked["command"][0].as_str().unwrap()), python.as_bytes());
        let storms = checked["storms"].as_array().unwrap();
        let storm = storms.iter().find(|storm| storm["storm"] == "python").unwrap();
        let named = storm["sources"].as_array().unwrap().iter();
        let named = named.filter(|one| one["kind"] == "environment");
        let named: Vec<_> = named.map(|one| bytes_of(one["directory"].as_str().unwrap())).collect();
        assert_eq!(named, [env.as_os_str().as_bytes()]);

        let steps = checked["cures"].as_array().unwrap().iter();
        let mut steps = steps.filter_map(|step| step["command"].as_str());
        let pack = steps.find(|command| command.contains("image build")).unwrap();
        paste(&scene, pack.split_once(" && ").unwrap().0);
        let report = of("check", &[]).err();
        let next = report.lines().find_map(|line| line.strip_prefix("More  ")).unwrap();
        assert!(paste(&scene, next).out().contains("package_"), "{next}");
        // Of two runs none is called slower: on a warm local disk an image is, for a start so
        // short.
        let fix = of("fix", &["--runs", "2"]);
        let (said, failed) = (fix.out(), fix.code());
        match said.lines().last().unwrap().strip_prefix("Next: ") {
            Some(next) if is_text => drop(paste(&scene, next)),
            next => {
                let why = "is no UTF-8, which a calm file has to be";
                let said = said.replace('\n', " ");
                assert!(failed == 1 && said.contains(why), "{next:?}: {failed} {said}");
            }
        }
    }
}

/// Runs what a user would paste into bash; it must end well.
#[track_caller]
fn paste(scene: &Scene, line: &str) -> Ran {
    let directory = PathBuf::from(BECALM);
    let path = format!("{}:/usr/bin:/bin", directory.parent().unwrap().display());
    let mut bash = Command::new("bash");
    bash.args(["-c", &format!("set -e; {line}")]).current_dir(scene.directory());
    let ran = run(bash.env("PATH", path).env("XDG_STATE_HOME", scene.at("state")));
    assert_eq!(ran.code(), 0, "{line}\n{}{}", ran.out(), ran.err());
    ran
}
