//! `becalm elf bind --manifest` and `becalm undo --manifest`: checksums that sha256sum checks, and what
//! Spack would say of the files.

use std::fs;
use std::process::Command;

use testkit::bound::Site;
use testkit::live::run_with_input;
use testkit::{Ran, run};

/// What Spack keeps of the prefixes below a directory, as lib/spack/spack/verify.py writes it.
const KEEP: &str = r#"
import base64, hashlib, json, os, sys
for prefix in os.scandir(sys.argv[1]):
    kept = {}
    for directory, directories, files in os.walk(prefix.path):
        for name in [""] + directories + files:
            path = os.path.join(directory, name) if name else directory
            found = os.lstat(path)
            kept[path] = {"mode": found.st_mode, "owner": found.st_uid, "group": found.st_gid, "type": "dir"}
            if os.path.isfile(path):
                digest = hashlib.sha1(open(path, "rb").read()).digest()
                kept[path] |= {"type": "file", "hash": base64.b32encode(digest).decode(),
                               "size": found.st_size, "time": found.st_mtime}
    os.mkdir(os.path.join(prefix.path, ".spack"))
    json.dump(kept, open(os.path.join(prefix.path, ".spack/install_manifest.json"), "w"))
"#;

/// What differs from that, in the words of Spack.
const VERIFY: &str = r#"
import base64, hashlib, json, os, sys
for prefix in os.scandir(sys.argv[1]):
    if not prefix.name.startswith("."):
        manifest = os.path.join(prefix.path, ".spack/install_manifest.json")
        for path, kept in json.load(open(manifest)).items():
            found, wrong = os.stat(path), []
            if (found.st_mode, found.st_uid, found.st_gid) != (kept["mode"], kept["owner"], kept["group"]):
                wrong += ["mode, owner or group"]
            if kept["type"] == "file":
                digest = base64.b32encode(hashlib.sha1(open(path, "rb").read()).digest()).decode()
                now = {"size": found.st_size, "time": found.st_mtime, "hash": digest}
                wrong += [word for word in now if now[word] != kept[word]]
            if wrong:
                print("%s: %s" % (", ".join(wrong), path))
"#;

fn python(code: &str, store: &str) -> String {
    let ran = run(Command::new("python3").args(["-c", code, store]));
    assert_eq!(ran.code(), 0, "{}", ran.err());
    ran.out()
}

fn sha256sum(lines: &str) -> Ran {
    run_with_input(Command::new("sha256sum").args(["--check", "--strict"]), lines.as_bytes())
}

/// The lines that begin so, without that.
fn lines(manifest: &str, beginning: &str) -> String {
    let lines = manifest.lines().filter_map(|line| line.strip_prefix(beginning));
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn the_checksums_are_those_of_the_files_before_and_after() {
    for mode in ["needed", "farm", "closure"] {
        let site = Site::new();
        site.store(20, &[]);
        let odd = site.at("an odd\nname \\ of a directory");
        fs::create_dir(&odd).unwrap();
        site.build("an odd\nname \\ of a directory/ask", &["ask.c", &site.rpath(&["n"])]);
        let file = site.scene.at("manifest");
        let bound = site.bind(&["--mode", mode, "--manifest", &file]);
        let manifest = fs::read_to_string(file).unwrap();
        let checked = sha256sum(&manifest);
        assert_eq!(checked.code(), 0, "{}{manifest}", checked.err());
        let files =
            bound["changes"].as_array().unwrap().len() + bound["files"].as_array().unwrap().len();
        assert_eq!(checked.out().lines().count(), files, "{manifest}");
        let links = bound["links"].as_u64().unwrap() as usize;
        let new = links + bound["directories"].as_array().unwrap().len();
        assert_eq!(lines(&manifest, "# new: ").lines().count(), new, "{manifest}");
        let id = bound["applied"].as_str().unwrap();
        assert_eq!(site.says(&["undo", id, "--manifest"]), manifest);
        let before = lines(&manifest, "# before: ");
        assert_ne!(sha256sum(&before).code(), 0);
        site.undo();
        assert_eq!(sha256sum(&before).code(), 0, "{before}");
        let (_, said) = site.fails(&["undo", id, "--manifest"]);
        assert!(said.contains("undone"), "{said}");
    }
}

#[test]
fn what_spack_will_say_of_the_files_is_said_before() {
    let site = Site::new();
    site.store(20, &[]);
    let store = site.at("store");
    python(KEEP, &store);
    assert_eq!(python(VERIFY, &store), "");
    let file = site.scene.at("manifest");
    let bound = site.bind(&["--manifest", &file]);
    let manifest = fs::read_to_string(file).unwrap();
    let sorted = |text: &str| {
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let said = sorted(&lines(&manifest, "# spack verify: "));
    assert_eq!(said.len(), bound["changes"].as_array().unwrap().len(), "{manifest}");
    assert_eq!(said, sorted(&python(VERIFY, &store)));
}

#[test]
fn a_manifest_of_spacks_that_is_none_is_named() {
    let site = Site::new();
    let x = site.part("x", "x", &[]);
    let app = site.ask("app", &[&site.rpath(&["n", "x/lib"]), &x]);
    fs::create_dir(site.at("app/.spack")).unwrap();
    fs::write(site.at("app/.spack/install_manifest.json"), "{\"\\u001b").unwrap();
    let file = site.scene.at("manifest");
    site.bind(&["--manifest", &file]);
    let manifest = fs::read_to_string(file).unwrap();
    let said = lines(&manifest, "# spack verify: ");
    assert_eq!(said, format!("its manifest cannot be read: {app}\n"));
}
