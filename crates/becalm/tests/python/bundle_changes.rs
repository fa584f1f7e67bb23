//! A bundle and a world that has changed since: what is believed, what is not, and whom it runs
//! for.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};

use crate::BECALM;
use crate::bundle_scene::{Bundled, PYTHON};
use testkit::run;

const SITE: &str = "lib/python3.11/site-packages";

/// A module of one's own, and an installed package, packed.
fn packed() -> (Bundled, [&'static str; 3]) {
    let mut bundled = Bundled::new();
    bundled.file("own/mine.py", "x = 'old'");
    bundled.file(&format!("{SITE}/pack/__init__.py"), "");
    bundled.file(&format!("{SITE}/pack/inner.py"), "x = 'old'");
    bundled.python_path = format!("{}:{}", bundled.scene.at("own"), bundled.scene.at(SITE));
    let words = [PYTHON, "-c", "import mine, pack.inner; print(mine.x, pack.inner.x)"];
    bundled.without(&words); // Its bytecode is there before its directories are looked at.
    bundled.pack(&[], &words);
    assert_eq!(bundled.with(&[], &words).out(), "old old\n");
    (bundled, words)
}

#[test]
fn a_module_of_ones_own_is_what_it_is_now() {
    let (bundled, words) = packed();
    fs::write(bundled.scene.at("own/mine.py"), "x = 'fresh'").unwrap();
    assert_eq!(bundled.with(&[], &words).out(), "fresh old\n");
    assert_eq!(bundled.with(&["--check", "no"], &words).out(), "fresh old\n");
    // One that appears is found, and it shadows what comes later.
    bundled.file("own/pack/__init__.py", "class inner: x = 'shadow'");
    let said = bundled.with(&[], &[PYTHON, "-c", "import pack; print(pack.inner.x)"]);
    assert_eq!((said.out(), said.err()), ("shadow\n".to_owned(), String::new()));
    fs::remove_file(bundled.scene.at("own/mine.py")).unwrap();
    assert!(bundled.with(&[], &words).err().contains("No module named 'mine'"));
}

#[test]
fn what_is_installed_anew_is_imported_as_without_and_that_is_said_once() {
    let (bundled, _) = packed();
    bundled.file(&format!("{SITE}/other-1.dist-info/METADATA"), "");
    bundled.file(&format!("{SITE}/pack/inner.py"), "x = 'fresh'");
    let program = "import pack.inner, subprocess, sys
print(pack.inner.x, flush=True)
if len(sys.argv) == 1: subprocess.run([sys.executable, *sys.orig_argv[1:], 'child'])";
    let said = bundled.with(&[], &[PYTHON, "-c", program]);
    assert_eq!(said.out(), "fresh\nfresh\n");
    let warning = format!("{} changed after it was made", bundled.scene.at(SITE));
    assert_eq!(said.err().matches(&warning).count(), 1, "{}", said.err());
    assert_eq!(said.err().lines().count(), 1, "{}", said.err());
}

#[test]
fn an_upgrade_in_any_of_many_prefixes_is_seen() {
    let mut bundled = Bundled::new();
    let site = |number: usize| format!("prefix{number}/{SITE}");
    let all: Vec<String> = (0..30).map(|number| bundled.scene.at(&site(number))).collect();
    for number in 0..30 {
        bundled.file(&format!("{}/pack{number}/__init__.py", site(number)), "x = 'old'");
    }
    bundled.python_path = all.join(":");
    let import = |number: usize| format!("import pack{number}; print(pack{number}.x)");
    let program = (0..30).map(import).collect::<Vec<_>>().join("\n");
    let words = [PYTHON, "-c", &program];
    bundled.without(&words);
    bundled.pack(&[], &words);
    assert_eq!(bundled.with(&[], &words).out(), "old\n".repeat(30));
    for number in [0, 7, 29] {
        bundled.file(&format!("{}/pack{number}-2.dist-info/METADATA", site(number)), "");
        bundled.file(&format!("{}/pack{number}/__init__.py", site(number)), "x = 'fresh'");
        let said = bundled.with(&[], &[PYTHON, "-c", &import(number)]);
        assert_eq!(said.out(), "fresh\n", "{number}");
    }
}

#[test]
fn an_installed_source_that_is_edited_in_place_is_seen_by_a_full_check_only() {
    let (bundled, words) = packed();
    fs::write(bundled.scene.at(&format!("{SITE}/pack/inner.py")), "x = 'fresh'").unwrap();
    assert_eq!(bundled.with(&["--check", "full"], &words).out(), "old fresh\n");
    assert_eq!(bundled.with(&[], &words).out(), "old old\n");
    let reload = "import importlib, pack.inner; print(importlib.reload(pack.inner).x)";
    assert_eq!(bundled.with(&[], &[PYTHON, "-c", reload]).out(), "fresh\n");
}

#[test]
fn a_module_that_the_program_writes_is_found() {
    let (bundled, _) = packed();
    let program = format!(
        "import importlib, pack
open({:?} + '/fresh.py', 'w').write('x = 1')
open({:?} + '/pack/late.py', 'w').write('x = 2')
import fresh, pack.late
print(fresh.x, pack.late.x)
importlib.invalidate_caches()
import pack.inner
print(pack.inner.x)",
        bundled.scene.at("own"),
        bundled.scene.at(SITE)
    );
    assert_eq!(bundled.with(&[], &[PYTHON, "-c", &program]).out(), "1 2\nold\n");
}

#[test]
fn a_bundle_that_goes_or_changes_while_it_is_used_does_no_harm() {
    let (bundled, _) = packed();
    for change in ["os.remove(b)", "os.truncate(b, 100)", "open(b, 'ab').write(bytes(9))"] {
        let bytes = fs::read(bundled.bundle()).unwrap();
        let program = format!(
            "import os; b = {:?}; {change}; import pack.inner, email.message, xml.dom.minidom, asyncio; print(pack.inner.x)",
            bundled.bundle()
        );
        let said = bundled.with(&[], &[PYTHON, "-c", &program]);
        assert_eq!((said.out(), said.err()), ("old\n".to_owned(), String::new()), "{change}");
        fs::write(bundled.bundle(), bytes).unwrap();
        fs::set_permissions(bundled.bundle(), Permissions::from_mode(0o644)).unwrap();
    }
}

#[test]
fn a_python_that_it_was_not_made_for_runs_as_without() {
    let (bundled, words) = packed();
    let finders = "import sys; print(len(sys.meta_path), sys.path)";
    for python in [vec![PYTHON, "-O"], vec![PYTHON, "-E"], vec![PYTHON, "-I"]] {
        let line: Vec<&str> = python.iter().copied().chain(["-c", finders]).collect();
        bundled.assert_same(&line);
    }
    for python in crate::bundle_scene::pythons().iter().filter(|python| *python != PYTHON) {
        if run(bundled.command(python).args(["-V"])).out().contains(" 3.11.") {
            continue;
        }
        bundled.assert_same(&[python, "-c", finders]);
        bundled.assert_same(&[python, words[1], words[2]]);
    }
}

#[test]
fn only_a_bundle_that_nobody_else_can_have_written_is_run() {
    let (bundled, words) = packed();
    let refused = |why: &str| {
        let said = bundled.with(&[], &words);
        assert_eq!(said.code(), 125, "{why}: {}", said.out());
        assert!(said.err().contains(why), "{why}: {}", said.err());
    };
    let mode = |path: &str, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    let bundle = bundled.bundle();
    mode(&bundle, 0o664);
    refused("others may write to it");
    mode(&bundle, 0o644);
    mode(&bundled.scene.at("out"), 0o777);
    refused("others may replace it");
    mode(&bundled.scene.at("out"), 0o1777);
    assert_eq!(bundled.with(&[], &words).code(), 0);
    let whole = fs::read(&bundle).unwrap();
    let damaged = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        bytes
    };
    for bytes in [vec![], whole[..50].to_vec(), whole[..200].to_vec(), damaged(100), damaged(30)] {
        fs::write(&bundle, bytes).unwrap();
        refused("is no bundle");
    }
    fs::write(&bundle, &whole).unwrap();
    if rustix::process::geteuid().is_root() {
        chown(&bundle, Some(65534), None).unwrap();
        refused("belongs to user 65534");
    }
}

#[test]
fn what_is_no_bundle_is_not_written_over_and_a_wrong_interpreter_is_an_error() {
    let bundled = Bundled::new();
    fs::write(bundled.bundle(), "precious").unwrap();
    let line = |python: &str| {
        let mut command = bundled.command(BECALM);
        command.args(["python", "bundle", "-o", &bundled.bundle(), "--python", python]);
        run(command.args(["--", PYTHON, "-c", "import json"]))
    };
    let said = line(PYTHON);
    assert!(said.code() == 1 && said.err().contains("is no bundle"), "{}", said.err());
    assert_eq!(fs::read(bundled.bundle()).unwrap(), b"precious");
    for (python, why) in [("/bin/true", "says nothing"), ("/nonexistent", "not found")] {
        let said = line(python);
        assert!(said.code() == 1 && said.err().contains(why), "{}", said.err());
    }
}
