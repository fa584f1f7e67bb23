//! A PYTHONPATH of many entries, joined in the image.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use testkit::imaged::{As, Imaged};
use testkit::user::scene_for_a_user;

use super::BECALM;

const PYTHON: &str = "/usr/bin/python3";

/// Prefixes as Spack makes them, one a package, packed with PYTHONPATH set to all.
struct Prefixes {
    imaged: Imaged,
    search: String,
    answer: Value,
}

impl Prefixes {
    fn new(entries: usize, words: &[&str]) -> Prefixes {
        let (scene, _) = scene_for_a_user(&[]);
        let directory = scene.subdirectory("store");
        let mut all = Vec::new();
        for number in 0..entries {
            let entry = Path::new(&directory).join(format!("p{number:02}/lib/site-packages"));
            let package = entry.join(format!("pkg{number:02}"));
            fs::create_dir_all(&package).unwrap();
            let code =
                "import os\nTEXT = open(os.path.join(os.path.dirname(__file__), 'data')).read()\n";
            fs::write(package.join("__init__.py"), code).unwrap();
            fs::write(package.join("data"), format!("data of {number:02}")).unwrap();
            fs::write(entry.join(format!("mod{number:02}.py")), "VALUE = 1\n").unwrap();
            let dist = entry.join(format!("pkg{number:02}-1.{number}.dist-info"));
            fs::create_dir_all(&dist).unwrap();
            let metadata =
                format!("Metadata-Version: 2.1\nName: pkg{number:02}\nVersion: 1.{number}\n");
            fs::write(dist.join("METADATA"), metadata).unwrap();
            // What looks for its data beside the entry, by its own name.
            if number == 5 {
                let code = "from os.path import dirname\n\
                    TEXT = open(dirname(dirname(dirname(__file__))) + '/share').read()\n";
                fs::write(package.join("__init__.py"), code).unwrap();
                let share = entry.parent().unwrap().join("share");
                fs::write(share, "data of 05").unwrap();
            }
            // A command beside the entry, which its distribution lists.
            if number == 9 {
                fs::write(dist.join("RECORD"), "mod09.py,,\n../../bin/tool,,\n").unwrap();
            }
            // One plugin's name, offered twice: which one is taken is for the order to say.
            if [11, 13].contains(&number) {
                let points = "[console_scripts]\nboth = a:b\n[readers]\ncsv = mod:VALUE\n";
                fs::write(dist.join("entry_points.txt"), points).unwrap();
            }
            // A namespace package of two entries.
            if [3, 7].contains(&number) {
                fs::create_dir_all(entry.join("shared")).unwrap();
                fs::write(entry.join(format!("shared/of{number}.py")), "VALUE = 1\n").unwrap();
            }
            all.push(entry.display().to_string());
        }
        let (search, image) = (all.join(":"), scene.at("image.sqsh"));
        let mut becalm = Command::new(BECALM);
        becalm.args(["image", "build", "--json", "-o", &image]).args(words).arg(&directory);
        let output = becalm.env("PYTHONPATH", &search).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let answer = testkit::answer::parse(&output.stdout);
        Prefixes { imaged: Imaged { scene, directory, image }, search, answer }
    }

    fn run(&self, options: &[&str], words: &[&str]) -> Command {
        let mut command = self.imaged.run(As::User, options, words);
        command.env("PYTHONPATH", &self.search).env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }

    #[track_caller]
    fn said(&self, options: &[&str], code: &str) -> String {
        let ran = self.run(options, &[PYTHON, "-c", code]).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap()
    }

    /// How many metadata operations below the store it takes to import a module of the last entry.
    fn operations(&self) -> usize {
        let traces = self.imaged.scene.subdirectory("traces");
        fs::set_permissions(&traces, fs::Permissions::from_mode(0o777)).unwrap();
        let trace = format!("{traces}/trace");
        let strace = ["strace", "-f", "-qq", "-e", "trace=%file", "-o", &trace];
        let words = [&strace[..], &[PYTHON, "-c", "import mod39, pkg39"]].concat();
        let ran = self.run(&[], &words).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        let trace = fs::read_to_string(&trace).unwrap();
        trace.lines().filter(|line| line.contains(&self.imaged.directory)).count()
    }
}

#[test]
fn forty_entries_become_one_directory_and_six_and_all_is_found_where_it_was() {
    let prefixes = Prefixes::new(40, &[]);
    let joined = &prefixes.answer["healed"]["python_path"];
    assert_eq!(joined["from"].as_array().unwrap().len(), 40);
    assert_eq!(joined["to"].as_array().unwrap().len(), 7, "{joined}");
    let apart: Vec<_> = joined["apart"].as_array().unwrap().iter().collect();
    let why = |entry: &&Value| (entry["name"].clone(), entry["leaves"].clone());
    let shared = (json!("shared"), Value::Null);
    let leaves = (Value::Null, json!("pkg05/__init__.py"));
    let lists = (Value::Null, json!("pkg09-1.9.dist-info/RECORD"));
    let point = (json!("entry point readers csv"), Value::Null);
    let expected = [shared.clone(), leaves, shared, lists, point.clone(), point];
    assert_eq!(apart.iter().map(why).collect::<Vec<_>>(), expected);
    let code = "
import importlib, importlib.metadata as metadata, os, shared.of3, shared.of7, sys
for number in range(40):
    package = importlib.import_module('pkg%02d' % number)
    assert package.TEXT == 'data of %02d' % number
    assert ('p%02d/lib/site-packages' % number) in os.path.realpath(package.__file__)
    importlib.import_module('mod%02d' % number)
    assert metadata.version('pkg%02d' % number) == '1.%d' % number
names = [it.metadata['Name'] for it in metadata.distributions()]
print(sum(name.startswith('pkg') for name in names), len(shared.__path__))
print(sys.modules['mod06'].__cached__.startswith(os.environ['PYTHONPATH'].split(':')[0]))
";
    for check in ["quick", "full"] {
        assert_eq!(prefixes.said(&["--check", check], code), "40 2\nTrue\n", "{check}");
    }
    prefixes.imaged.all_gone();
    // Nothing of it is in the source.
    let mut there = fs::read_dir(&prefixes.imaged.directory).unwrap().flatten();
    assert!(there.all(|entry| !entry.file_name().to_string_lossy().starts_with('.')));
}

#[test]
fn an_import_from_the_last_of_forty_entries_asks_a_tenth_as_much() {
    let (joined, plain) = (Prefixes::new(40, &[]), Prefixes::new(40, &["--as-is"]));
    assert_eq!(plain.answer["healed"], Value::Null);
    let (before, now) = (plain.operations(), joined.operations());
    println!("{before} metadata operations become {now}");
    assert!(now * 4 < before, "{before} {now}");
}

#[test]
fn what_could_offer_other_names_keeps_the_entries() {
    let prefixes = Prefixes::new(8, &[]);
    let search = "import os; print(len(os.environ['PYTHONPATH'].split(':')))";
    assert_eq!(prefixes.said(&[], search), "4\n");
    assert_eq!(prefixes.said(&["--writable-tmpfs"], search), "8\n");
    let other = prefixes
        .imaged
        .run(As::User, &[], &[PYTHON, "-c", search])
        .env("PYTHONPATH", "/x")
        .output();
    assert_eq!(other.unwrap().stdout, b"1\n");
    // A new name in an entry.
    let entry = PathBuf::from(prefixes.search.split(':').next().unwrap());
    std::thread::sleep(std::time::Duration::from_millis(1100));
    fs::write(entry.join("new.py"), "VALUE = 1\n").unwrap();
    let why = prefixes.imaged.refused(As::User, &[]);
    assert!(why.contains("site-packages has changed"), "{why}");
}
