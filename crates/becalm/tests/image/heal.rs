//! What `becalm image build` heals while it packs.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use testkit::imaged::{As, Imaged};
use testkit::user::{as_a_user, scene_for_a_user};

use super::BECALM;

const PYTHON: &str = "/usr/bin/python3";

fn python(words: &[&str]) -> String {
    let output = Command::new(PYTHON).args(words).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn version() -> String {
    python(&["-c", "import sys; print('%d.%d' % sys.version_info[:2])"])
}

fn tag() -> String {
    python(&["-c", "import sys; print(sys.implementation.cache_tag)"])
}

/// An environment of modules with bytecode that fits, that is stale, and without any.
fn environment(at: &Path) -> PathBuf {
    let site = at.join(format!("lib/python{}/site-packages", version()));
    fs::create_dir_all(site.join("pkg/sub")).unwrap();
    fs::create_dir_all(at.join("bin")).unwrap();
    std::os::unix::fs::symlink(PYTHON, at.join("bin/python3")).unwrap();
    for name in ["pkg/__init__", "pkg/fits", "pkg/stale"] {
        fs::write(site.join(format!("{name}.py")), "VALUE = 'before'\n").unwrap();
    }
    python(&["-m", "compileall", "-q", site.to_str().unwrap()]);
    fs::write(site.join("pkg/stale.py"), "VALUE = 'edited since'\n").unwrap();
    fs::write(site.join("pkg/missing.py"), "VALUE = 'never compiled'\n").unwrap();
    fs::write(site.join("pkg/sub/alone.py"), "VALUE = {'a', 'b', 'c', 'd'}\n").unwrap();
    fs::write(site.join("pkg/no-module.py"), "VALUE = 1\n").unwrap();
    site
}

fn build(directory: &Path, words: &[&str]) -> Output {
    let mut becalm = Command::new(BECALM);
    becalm.args(["image", "build"]).args(words).current_dir(directory);
    becalm.env_remove("SOURCE_DATE_EPOCH").env_remove("PYTHONPATH").output().unwrap()
}

#[track_caller]
fn answer(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    testkit::answer::parse(&output.stdout)
}

/// Of each module that was healed, by its name, what it was.
fn healed(answer: &Value) -> BTreeMap<String, String> {
    let modules = answer["healed"]["bytecode"].as_array().unwrap().iter();
    let name = |it: &Value| Path::new(it["path"].as_str().unwrap()).file_name().map(PathBuf::from);
    modules
        .map(|it| (name(it).unwrap().display().to_string(), it["was"].as_str().unwrap().to_owned()))
        .collect()
}

fn extracted(directory: &Path, image: &str) -> PathBuf {
    let mut becalm = Command::new(BECALM);
    becalm.args(["image", "extract", image, "out"]).current_dir(directory);
    let output = becalm.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    directory.join("out")
}

/// All of a tree: names, times, modes and bytes.
fn state(at: &Path) -> Vec<(PathBuf, i64, i64, u32, Vec<u8>)> {
    let mut all = Vec::new();
    let mut left = vec![at.to_owned()];
    while let Some(path) = left.pop() {
        let there = path.symlink_metadata().unwrap();
        let bytes = if there.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        if there.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        all.push((path, there.mtime(), there.mtime_nsec(), there.mode(), bytes));
    }
    all.sort();
    all
}

#[test]
fn missing_and_stale_bytecode_is_compiled_into_the_image_and_never_in_the_source() {
    let directory = tempfile::tempdir().unwrap();
    let site = environment(&directory.path().join("env"));
    let before = state(&directory.path().join("env"));
    let answer = answer(&build(directory.path(), &["--json", "-o", "i.sqsh", "env"]));
    assert_eq!(state(&directory.path().join("env")), before);
    let expected = [("alone.py", "missing"), ("missing.py", "missing"), ("stale.py", "stale")];
    let expected = expected.map(|(name, was)| (name.to_owned(), was.to_owned()));
    assert_eq!(healed(&answer), BTreeMap::from(expected));
    assert_eq!(answer["healed"]["as_it_was"].as_array().unwrap().len(), 0);
    assert_eq!(answer["manifest"]["healed"], 3);

    let out = extracted(directory.path(), "i.sqsh");
    let out = out.join(site.strip_prefix(directory.path().join("env")).unwrap());
    let flags = |name: &str| {
        let name = format!("{name}.{}.pyc", tag());
        fs::read(out.join("pkg").join(name)).unwrap()[4]
    };
    assert_eq!(flags("__pycache__/fits"), 0, "what fits is as it was");
    for name in ["__pycache__/stale", "__pycache__/missing", "sub/__pycache__/alone"] {
        assert_eq!(flags(name), 0, "{name} is compared with its source");
    }
    assert!(!out.join(format!("pkg/__pycache__/no-module.{}.pyc", tag())).exists());
    // Python itself takes it for what the sources say, and compiles nothing.
    let code = "import pkg.stale, pkg.missing, pkg.sub.alone, pkg.fits
print(pkg.stale.VALUE, pkg.missing.VALUE, sorted(pkg.sub.alone.VALUE), pkg.fits.VALUE)";
    let mut python = Command::new(PYTHON);
    let ran = python.args(["-B", "-v", "-c", code]).env("PYTHONPATH", &out).output().unwrap();
    let said = "edited since never compiled ['a', 'b', 'c', 'd'] before\n";
    assert_eq!(String::from_utf8_lossy(&ran.stdout), said);
    let trace = String::from_utf8_lossy(&ran.stderr);
    let place = out.to_string_lossy();
    let from_it = |start: &str| {
        let lines = trace.lines().filter(|line| line.starts_with(start));
        lines.filter(|line| line.contains(&*place)).count()
    };
    assert_eq!((from_it("# code object from '"), from_it("# wrote")), (5, 0), "{trace}");
    assert_eq!(from_it("# code object from /"), 0, "{trace}");
}

#[test]
fn the_same_tree_heals_to_the_same_bytes() {
    let directory = tempfile::tempdir().unwrap();
    environment(&directory.path().join("env"));
    let bytes = |words: &[&str]| {
        answer(&build(directory.path(), &[&["--json", "-o", "i.sqsh", "env"], words].concat()));
        fs::read(directory.path().join("i.sqsh")).unwrap()
    };
    let first = bytes(&[]);
    assert_eq!(first, bytes(&[]));
    assert_eq!(first, bytes(&["--readers", "1"]));
}

#[test]
fn as_is_the_bytes_are_packed_as_they_are() {
    let directory = tempfile::tempdir().unwrap();
    environment(&directory.path().join("env"));
    let answer = answer(&build(directory.path(), &["--json", "--as-is", "-o", "i.sqsh", "env"]));
    assert_eq!(answer["healed"], Value::Null);
    let out = extracted(directory.path(), "i.sqsh");
    let contents = |root: &Path| -> Vec<_> {
        let below = |path: &Path| path.strip_prefix(root).unwrap().to_owned();
        state(root).into_iter().map(|(path, .., bytes)| (below(&path), bytes)).collect()
    };
    assert_eq!(contents(&out), contents(&directory.path().join("env")));
}

#[test]
fn what_cannot_be_compiled_stays_as_it_is_and_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let site = environment(&directory.path().join("env"));
    fs::write(site.join("pkg/template.py"), "class {{ name }}:\n").unwrap();
    let other = directory.path().join("env/lib/python3.99/site-packages");
    fs::create_dir_all(&other).unwrap();
    fs::write(other.join("future.py"), "VALUE = 1\n").unwrap();
    let json = answer(&build(directory.path(), &["--json", "-o", "i.sqsh", "env"]));
    let left = json["healed"]["as_it_was"].as_array().unwrap();
    let why = |name: &str| {
        let it = left.iter().find(|it| it["path"].as_str().unwrap().ends_with(name)).unwrap();
        it["why"].as_str().unwrap().to_owned()
    };
    assert!(why("pkg/template.py").starts_with("SyntaxError: "), "{left:?}");
    assert_eq!(why("python3.99"), "no such Python (3.7 or later) is packed, traced or in PATH");
    assert_eq!(left.len(), 2);
    assert!(!healed(&json).contains_key("future.py"), "it is another Python's");
    let said = build(directory.path(), &["-o", "i.sqsh", "env"]).stdout;
    let said = String::from_utf8(said).unwrap();
    for part in ["missing bytecode", "stale bytecode", "not healed", "SyntaxError"] {
        assert!(said.contains(part), "{said}");
    }
}

/// The same Python, which takes itself for another.
const ANOTHER: &str = "#!/usr/bin/python3
import sys
sys.implementation.cache_tag = 'another-398'
sys.version_info = (3, 98, 0, 'final', 0)
exec(sys.argv[-1])
";

#[test]
fn each_python_of_several_gets_its_own_bytecode_of_what_it_can_import() {
    let directory = tempfile::tempdir().unwrap();
    let env = directory.path().join("env");
    let site = environment(&env);
    let another = env.join("bin/python3.98");
    fs::write(&another, ANOTHER).unwrap();
    fs::set_permissions(&another, fs::Permissions::from_mode(0o755)).unwrap();
    let other = env.join("lib/python3.98/site-packages");
    for directory in [&other, &env.join("src")] {
        fs::create_dir_all(directory).unwrap();
        fs::write(directory.join("one.py"), "VALUE = 1\n").unwrap();
    }
    let mut becalm = Command::new(BECALM);
    becalm.args(["image", "build", "--json", "-o", "i.sqsh", "env"]);
    becalm.current_dir(directory.path()).env("PYTHONPATH", env.join("src"));
    let answer = answer(&becalm.output().unwrap());
    let mut compiled: Vec<(PathBuf, &str)> = Vec::new();
    for it in answer["healed"]["bytecode"].as_array().unwrap() {
        let path = Path::new(it["path"].as_str().unwrap());
        if !path.starts_with(&site) {
            let below = path.strip_prefix(env.canonicalize().unwrap()).unwrap().to_owned();
            compiled.push((below, it["python"].as_str().unwrap()));
        } else {
            assert_eq!(it["python"], tag());
        }
    }
    compiled.sort();
    let tag = tag();
    let expected = [
        ("lib/python3.98/site-packages/one.py", "another-398"),
        ("src/one.py", "another-398"),
        ("src/one.py", &*tag),
    ];
    assert_eq!(compiled, expected.map(|(path, python)| (PathBuf::from(path), python)));
}

#[test]
fn what_a_trace_compiled_comes_first_as_bytecode_and_is_compiled_no_more() {
    let directory = tempfile::tempdir().unwrap();
    let site = environment(&directory.path().join("env"));
    let code = format!("import sys; sys.path.insert(0, {site:?}); import pkg.missing");
    let build_it = |words: &[&str]| {
        let command = ["env", "PYTHONDONTWRITEBYTECODE=1", "env/bin/python3", "-c", &code];
        let words = [&["--json", "-o", "i.sqsh"], words, &["env", "--"], &command[..]].concat();
        let answer = answer(&build(directory.path(), &words));
        // A directory that the trace opened is called python3.11, too.
        assert!(words.contains(&"--as-is") || answer["healed"]["as_it_was"] == json!([]));
        answer["traced"].as_u64().unwrap()
    };
    let plain = build_it(&["--as-is"]);
    assert_eq!(build_it(&[]), plain + 1, "the bytecode of pkg.missing");
}

#[test]
fn an_ordinary_user_heals_what_he_may_not_write_whatever_his_python_is_told() {
    let (scene, _) = scene_for_a_user(&[]);
    let root = PathBuf::from(scene.subdirectory("env"));
    let site = environment(&root);
    let all = state(&root).into_iter().rev().filter(|(path, ..)| !path.is_symlink());
    for (path, ..) in all {
        let mode = if path.is_dir() { 0o555 } else { 0o444 };
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    // Neither where bytecode is kept for this user, nor what is in the way of the standard library.
    let (cache, ambush) = (scene.at("cache"), PathBuf::from(scene.subdirectory("ambush")));
    fs::write(ambush.join("struct.py"), "raise SystemExit(9)\n").unwrap();
    let before = state(&root);
    let (becalm, image) = (scene.at("becalm"), scene.at("i.sqsh"));
    let words = [&becalm[..], "image", "build", "--json", "-o", &image, root.to_str().unwrap()];
    let mut becalm = as_a_user(&words);
    becalm.env("PYTHONPYCACHEPREFIX", &cache).env("PYTHONPATH", &ambush);
    let answer = answer(&becalm.output().unwrap());
    assert_eq!(healed(&answer).len(), 3, "{answer}");
    assert_eq!(state(&root), before);
    assert!(!Path::new(&cache).exists());
    assert!(site.join("pkg/missing.py").exists());
    for (path, ..) in before.iter().filter(|(path, ..)| path.is_dir()) {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn a_healed_image_is_as_fresh_as_its_sources() {
    let (scene, _) = scene_for_a_user(&[]);
    let directory = scene.subdirectory("env");
    let site = environment(Path::new(&directory));
    let image = scene.at("image.sqsh");
    answer(&build(Path::new("/"), &["--json", "-o", &image, &directory]));
    let imaged = Imaged { scene, directory, image };
    let listed = "ls \"$0\"/lib/*/site-packages/pkg/__pycache__ | wc -l";
    for check in ["quick", "full"] {
        assert_eq!(imaged.said(As::User, &["--check", check], listed).trim(), "4", "{check}");
    }
    fs::write(site.join("pkg/missing.py"), "VALUE = 'edited, and longer'\n").unwrap();
    for check in ["quick", "full"] {
        assert!(imaged.refused(As::User, &["--check", check]).contains("missing.py"), "{check}");
    }
}

#[test]
fn a_source_that_is_edited_in_a_layer_over_a_healed_image_is_compiled_anew() {
    let (scene, _) = scene_for_a_user(&[]);
    let directory = scene.subdirectory("env");
    let site = environment(Path::new(&directory));
    let image = scene.at("image.sqsh");
    answer(&build(Path::new("/"), &["--json", "-o", &image, &directory]));
    let changes = scene.subdirectory("changes");
    let _ = std::os::unix::fs::chown(&changes, Some(65534), Some(65534));
    let imaged = Imaged { scene, directory, image };
    let value = format!("{PYTHON} -B -c 'import pkg.missing; print(pkg.missing.VALUE)'");
    let site = site.display();
    let script = format!(
        "cd '{site}' && {value} && echo \"VALUE = 'edited there'\" >pkg/missing.py && {value}"
    );
    let said = imaged.said(As::User, &["--overlay", &changes], &script);
    assert_eq!(said, "never compiled\nedited there\n");
    imaged.all_gone();
}

#[test]
fn a_python_that_hangs_does_not_hang_the_packing() {
    let directory = tempfile::tempdir().unwrap();
    let env = directory.path().join("env");
    environment(&env);
    let hangs = env.join("bin/python3.98");
    fs::write(&hangs, "#!/bin/sh\nsleep 1000\n").unwrap();
    fs::set_permissions(&hangs, fs::Permissions::from_mode(0o755)).unwrap();
    let began = std::time::Instant::now();
    let answer = answer(&build(directory.path(), &["--json", "-o", "i.sqsh", "env"]));
    assert!(began.elapsed().as_secs() < 120, "{:?}", began.elapsed());
    let left = answer["healed"]["as_it_was"].as_array().unwrap();
    let about: Vec<&Value> =
        left.iter().filter(|it| it["path"].as_str().unwrap().ends_with("python3.98")).collect();
    assert_eq!(about.len(), 1, "{left:?}");
    assert_eq!(about[0]["why"], "it did not answer for 20 s, and was ended");
    assert_eq!(healed(&answer).len(), 3, "the others heal");
}

/// What a user's Python writes beside sources that were healed, and whether the image is refused then.
#[test]
fn bytecode_that_appears_in_the_source_is_no_change_unless_it_decides_what_is_imported() {
    let (scene, _) = scene_for_a_user(&[]);
    let directory = scene.subdirectory("env");
    let site = environment(Path::new(&directory));
    let image = scene.at("image.sqsh");
    answer(&build(Path::new("/"), &["--json", "-o", &image, &directory]));
    let imaged = Imaged { scene, directory, image };
    // As squashfs keeps whole seconds: what is written now is later than all that was packed.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let sub = site.join("pkg/sub");
    let compile = |words: &str| {
        let code =
            format!("import py_compile as p; p.compile({:?}, {words})", sub.join("alone.py"));
        python(&["-c", &code]);
    };
    compile("doraise=True");
    assert!(sub.join("__pycache__").is_dir());
    for check in ["quick", "full"] {
        let said = imaged.said(As::User, &["--check", check], "echo it ran");
        assert_eq!(said, "it ran\n", "{check}");
    }
    // Without a look at the source.
    compile("invalidation_mode=p.PycInvalidationMode.UNCHECKED_HASH");
    for check in ["quick", "full"] {
        assert!(imaged.refused(As::User, &["--check", check]).contains("pkg/sub"), "{check}");
    }
    compile("invalidation_mode=p.PycInvalidationMode.TIMESTAMP");
    assert_eq!(imaged.said(As::User, &[], "echo it ran"), "it ran\n");
    // A module of its own, without a source.
    compile(&format!("cfile={:?}", sub.join("legacy.pyc")));
    for check in ["quick", "full"] {
        assert!(imaged.refused(As::User, &["--check", check]).contains("pkg/sub"), "{check}");
    }
    fs::remove_file(sub.join("legacy.pyc")).unwrap();
    assert_eq!(imaged.said(As::User, &[], "echo it ran"), "it ran\n");
    // Beside it, the source itself is replaced, as an editor does.
    fs::write(sub.join("new"), "VALUE = ['new']\n").unwrap();
    fs::rename(sub.join("new"), sub.join("alone.py")).unwrap();
    for check in ["quick", "full"] {
        assert!(imaged.refused(As::User, &["--check", check]).contains("alone.py"), "{check}");
    }
}
