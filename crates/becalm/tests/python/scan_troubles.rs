//! What `becalm python scan` calls by name: each is made, and found by its name and number.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::scan_scene::{
    PYTHON, answer, assert_adds_up, exact, found, number, operations, package, position, scan,
};
use testkit::{Scene, run};

#[test]
fn pth_files_editable_installs_and_namespace_packages_are_named() {
    let (scene, python) = (Scene::new(), "E/bin/python3");
    let mut venv = Command::new(PYTHON);
    venv.args(["-m", "venv", "--without-pip", &scene.at("E")]);
    assert_eq!(run(&mut venv).code(), 0);
    let site = run(Command::new(scene.at(python))
        .args(["-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]));
    let site = site.out().trim().to_owned();
    // An editable install of a package elsewhere, and two portions of a namespace.
    package(&scene.directory().join("src"), "edited", 3);
    fs::write(format!("{site}/__editable__.edited-1.0.pth"), scene.at("src")).unwrap();
    for (directory, part) in [(&site, "one"), (&scene.at("src"), "two")] {
        package(&Path::new(directory).join("spread"), part, 1);
    }
    let program = "import edited, spread.one, spread.two";
    let exact = exact(&scene, &[&scene.at(python), "-c", program], "");
    let editable = found(&exact["troubles"], "kind", "editable");
    assert!(editable["examples"][0].as_str().unwrap().ends_with("__editable__.edited-1.0.pth"));
    let namespace = found(&exact["troubles"], "kind", "namespace");
    assert_eq!(number(&namespace["numbers"]["portions"]), 2, "{namespace:#}");
    assert!(namespace["text"].as_str().unwrap().contains("spread"));
    let src = found(&exact["sys_path"], "path", &scene.at("src"));
    assert_eq!(number(&src["found"]), 2, "edited and spread: {src}");
    assert_eq!(
        found(&exact["modules"], "module", "edited.m1")["parent"],
        position(&exact, "edited")
    );
}

#[test]
fn a_zipped_package_is_opened_once_for_each_module_that_is_read_from_it() {
    let scene = Scene::new();
    package(&scene.directory(), "zipped", 4);
    let zip = "import zipfile, glob
with zipfile.ZipFile('pkg.zip', 'w') as z:
    for f in glob.glob('zipped/*.py'): z.write(f)";
    let mut make = Command::new(PYTHON);
    assert_eq!(run(make.args(["-c", zip]).current_dir(scene.directory())).code(), 0);
    fs::remove_dir_all(scene.at("zipped")).unwrap();
    // Away from the working directory, which is asked first.
    fs::create_dir(scene.at("away")).unwrap();
    fs::rename(scene.at("pkg.zip"), scene.at("away/pkg.zip")).unwrap();
    let exact = exact(&scene, &[PYTHON, "-c", "import zipped"], &scene.at("away/pkg.zip"));
    let zip = found(&exact["troubles"], "kind", "zip");
    assert_eq!(zip["examples"][0], scene.at("away/pkg.zip").as_str());
    let log = fs::read_to_string(scene.at("strace")).unwrap();
    let opens = log.lines().filter(|line| line.contains("openat") && line.contains("pkg.zip"));
    assert_eq!(number(&zip["numbers"]["opens"]), opens.count() as u64, "{zip:#}");
    assert!(number(&zip["numbers"]["opens"]) > 5, "its list, and five modules");
}

#[test]
fn stale_bytecode_is_named_once_and_then_it_is_calm() {
    let scene = Scene::new();
    package(&scene.directory().join("lib"), "old", 20);
    let lib = scene.at("lib");
    let words = [PYTHON, "-c", "import old"];
    let look = || answer(scan(&[], &words).env("PYTHONPATH", &lib));
    let fresh = look();
    let missing = found(&fresh["troubles"], "kind", "missing_bytecode");
    assert_eq!(number(&missing["numbers"]["modules"]), 21);
    assert_eq!(number(&missing["numbers"]["renamed"]), 21);
    assert!(look()["troubles"].as_array().unwrap().is_empty());
    // cp -r gives the sources the time of the copy; the bytecode remembers another.
    let copy = "sleep 1.1; cp -r lib copy";
    assert_eq!(run(Command::new("sh").args(["-c", copy]).current_dir(scene.directory())).code(), 0);
    let look = || answer(scan(&[], &words).env("PYTHONPATH", scene.at("copy")));
    let copied = look();
    let stale = found(&copied["troubles"], "kind", "stale_bytecode");
    assert_eq!(number(&stale["numbers"]["modules"]), 21, "{stale:#}");
    // Of each: the source is opened, .pyc.NUMBER made and renamed, its directory looked for.
    assert_eq!(operations(stale), 21 * 4, "{stale:#}");
    assert!(look()["troubles"].as_array().unwrap().is_empty(), "it was written again");
}

#[test]
fn bytecode_that_an_ordinary_user_cannot_write_is_compiled_at_every_start() {
    let (scene, _) = testkit::user::scene_for_a_user(&[]);
    package(&scene.directory().join("lib"), "fixed", 5);
    // Only its owner, who is not that user, may write.
    let becalm = scene.at("becalm");
    let words = [&becalm[..], "python", "scan", "--json", "--", PYTHON, "-c", "import fixed"];
    let mut command = testkit::user::as_a_user(&words);
    command.env_clear().env("PATH", "/usr/bin:/bin").env("PYTHONPATH", scene.at("lib"));
    if !testkit::user::is_root() {
        return;
    }
    for _ in 0..2 {
        let answer = answer(&mut command);
        let refused = found(&answer["troubles"], "kind", "unwritable_bytecode");
        assert_eq!(number(&refused["numbers"]["refused"]), 6, "{refused:#}");
        let missing = found(&answer["troubles"], "kind", "missing_bytecode");
        assert!(missing["text"].as_str().unwrap().contains("at every start"), "{missing:#}");
    }
}

#[test]
fn processes_that_write_the_same_bytecode_are_named() {
    let scene = Scene::new();
    package(&scene.directory().join("lib"), "raced", 3);
    // What a race comes to, in a fixed order: the second, too, finds none that fits.
    let script = format!(
        "{PYTHON} -c 'import raced'; sleep 1.1; touch lib/raced/*.py
        {PYTHON} -c 'import raced'"
    );
    let mut command = scan(&[], &["sh", "-c", &script]);
    let answer = answer(command.current_dir(scene.directory()).env("PYTHONPATH", scene.at("lib")));
    let race = found(&answer["troubles"], "kind", "bytecode_race");
    let numbers = &race["numbers"];
    assert_eq!((number(&numbers["files"]), number(&numbers["processes"])), (4, 2), "{race:#}");
    assert_eq!(answer["pythons"].as_array().unwrap().len(), 2);
    assert_adds_up(&answer);
}

#[test]
fn realpath_is_blamed_on_the_module_that_calls_it_and_grows_with_depth() {
    let scene = Scene::new();
    let lstats = |depth: usize| {
        let top = scene.directory().join(format!("d{depth}"));
        let deep = (0..depth).fold(top, |directory, number| directory.join(format!("x{number}")));
        package(&deep, "walks", 0);
        let init = "import os\nfor n in range(20): os.path.realpath(__file__ + str(n))\n";
        fs::write(deep.join("walks/__init__.py"), init).unwrap();
        let path = deep.to_str().unwrap();
        let exact = exact(&scene, &[PYTHON, "-c", "import walks"], path);
        let realpath = found(&exact["troubles"], "kind", "realpath").clone();
        assert!(realpath["text"].as_str().unwrap().contains("by walks"), "{realpath:#}");
        assert_eq!(number(&realpath["numbers"]["walks"]), 20);
        operations(&realpath)
    };
    assert_eq!(lstats(9) - lstats(2), 20 * 7, "each directory above is asked for at each call");
}

#[test]
fn metadata_of_distributions_is_named_with_the_module_that_searches_it() {
    let scene = Scene::new();
    let lib = scene.subdirectory("lib");
    for number in 0..30 {
        let info = format!("{lib}/d{number}-1.0.dist-info");
        fs::create_dir(&info).unwrap();
        fs::write(format!("{info}/METADATA"), format!("Name: d{number}\nVersion: 1.0\n")).unwrap();
        fs::write(format!("{info}/entry_points.txt"), "[x]\na = b:c\n").unwrap();
    }
    let module = "import importlib.metadata\nimportlib.metadata.entry_points()\n";
    fs::write(format!("{lib}/plugins.py"), module).unwrap();
    let exact = exact(&scene, &[PYTHON, "-c", "import plugins"], &lib);
    let metadata = found(&exact["troubles"], "kind", "metadata");
    assert!(number(&metadata["numbers"]["distributions"]) >= 30, "{metadata:#}");
    assert!(number(&metadata["numbers"]["entry_points"]) >= 30);
    assert!(metadata["text"].as_str().unwrap().contains("mostly by plugins"), "{metadata:#}");
}
