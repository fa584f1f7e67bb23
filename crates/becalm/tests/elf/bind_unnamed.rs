//! A library that is known by no DT_SONAME stays a name: bound, nobody would find it by its name.

use std::fs;
use std::path::Path;
use std::process::Command;

const BECALM: &str = env!("CARGO_BIN_EXE_becalm");

fn gcc(compiler: &str, root: &Path, source: &str, words: &[&str]) {
    fs::write(root.join("s.c"), source).unwrap();
    let all = ["s.c", "-Wl,--no-as-needed"];
    let done = Command::new(compiler).args(all).args(words).current_dir(root).status().unwrap();
    assert!(done.success(), "{words:?}");
}

/// `bin/app` needs libk.so, which needs libq.so and finds it by its own list alone; the program
/// opens libq.so by its name.
fn site(compiler: &str, soname: Option<&str>) -> tempfile::TempDir {
    let site = tempfile::tempdir().unwrap();
    let root = &site.path().canonicalize().unwrap();
    for directory in ["bin", "k", "q", "n", "m"] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    let named = soname.map(|name| format!("-Wl,-soname,{name}"));
    let mut q = vec!["-shared", "-fPIC", "-o", "q/libq.so"];
    q.extend(named.as_deref());
    gcc(compiler, root, "int q(void) { return 1; }", &q);
    // The linker takes the name of the file for a library without one.
    if soname != Some("libq.so") {
        gcc(compiler, root, "", &["-shared", "-fPIC", "-o", "libq.so", "-Wl,-soname,libq.so"]);
    } else {
        fs::copy(root.join("q/libq.so"), root.join("libq.so")).unwrap();
    }
    let list = |names: &[&str]| {
        let all: Vec<String> = names.iter().map(|it| root.join(it).display().to_string()).collect();
        format!("-Wl,--enable-new-dtags,-rpath,{}", all.join(":"))
    };
    let k = ["-shared", "-fPIC", "-o", "k/libk.so", "-Wl,-soname,libk.so", "-L.", "-lq"];
    let (by_k, by_app) = (list(&["n", "m", "q"]), list(&["n", "m", "k"]));
    gcc(compiler, root, "int k(void) { return 1; }", &[&k[..], &[&by_k]].concat());
    let app = "#include <dlfcn.h>
        #include <stdio.h>
        int main(void) { return !puts(dlopen(\"libq.so\", 1) ? \"found\" : dlerror()); }";
    let unresolved = "-Wl,--unresolved-symbols=ignore-all";
    gcc(compiler, root, app, &["-o", "bin/app", "k/libk.so", unresolved, &by_app]);
    site
}

fn said(site: &Path) -> String {
    let ran = Command::new(site.join("bin/app")).env_remove("LD_LIBRARY_PATH").output().unwrap();
    String::from_utf8(ran.stdout).unwrap()
}

fn bind(site: &Path, words: &[&str]) -> String {
    let mut becalm = Command::new(BECALM);
    becalm.args(["elf", "bind", "--json"]).args(words).arg(site);
    let bound = becalm.env("XDG_STATE_HOME", site.join("state")).output().unwrap();
    assert!(bound.status.success(), "{}", String::from_utf8_lossy(&bound.stderr));
    String::from_utf8(bound.stdout).unwrap()
}

#[test]
fn what_has_no_soname_of_that_name_is_still_opened_by_name_once_all_else_is_bound() {
    for (mode, compiler) in [("needed", "gcc"), ("closure", "gcc"), ("needed", "musl-gcc")] {
        for soname in [None, Some("libother.so"), Some("libq.so")] {
            let site = site(compiler, soname);
            assert_eq!(said(site.path()), "found\n", "{compiler} {soname:?}");
            let planned = bind(site.path(), &["--mode", mode, "--dry-run"]);
            bind(site.path(), &["--mode", mode]);
            assert_eq!(said(site.path()), "found\n", "{compiler} {mode} {soname:?}");
            if mode == "needed" && compiler == "gcc" {
                let mut lines = planned.lines().map(str::trim);
                let is_named =
                    lines.any(|it| it.starts_with("\"new\"") && it.contains("q/libq.so"));
                assert_eq!(is_named, soname == Some("libq.so"), "{planned}");
                assert_eq!(planned.contains("no DT_SONAME of that name"), !is_named, "{planned}");
            }
        }
    }
}
