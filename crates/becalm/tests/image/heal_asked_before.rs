//! A library is bound only where no directory or link that is asked before it leads out of what is
//! packed: what is put there later comes first.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use testkit::imaged::{As, Imaged};
use testkit::user::scene_for_a_user;

use super::BECALM;

/// `env/bin/m` needs `libq.so`, which lies in `env/c`, by a list; it says which one it has.
struct Env {
    imaged: Imaged,
    root: PathBuf,
    program: String,
}

impl Env {
    /// `make` makes what else is there before all is linked.
    fn new(list: &str, make: impl FnOnce(&Path)) -> Env {
        let (scene, _) = scene_for_a_user(&[]);
        let root = PathBuf::from(scene.subdirectory("t")).canonicalize().unwrap();
        for directory in ["env/a", "env/b", "env/c", "env/bin", "out/v1/lib", "out/lib"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        make(&root);
        library(&root, "env/c/libq.so", 1);
        fs::write(
            root.join("m.c"),
            "#include <stdio.h>\nint q(void); int main(void) { printf(\"q%d\\n\", q()); return 0; }",
        )
        .unwrap();
        let list = list.replace("ROOT", root.to_str().unwrap());
        gcc(&root, &["m.c", "-o", "env/bin/m", "-Lenv/c", "-lq", &format!("-Wl,-rpath,{list}")]);
        let at = |name: &str| root.join(name).to_str().unwrap().to_owned();
        let (directory, image, program) = (at("env"), at("i.sqsh"), at("env/bin/m"));
        Env { imaged: Imaged { scene, directory, image }, root, program }
    }

    fn built(&self) -> Value {
        let mut becalm = Command::new(BECALM);
        becalm.args(["image", "build", "--json", "-o"]);
        becalm.args([&self.imaged.image, &self.imaged.directory]).env_remove("LD_LIBRARY_PATH");
        let output = becalm.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        testkit::answer::parse(&output.stdout)
    }

    fn plain(&self) -> String {
        String::from_utf8(Command::new(&self.program).output().unwrap().stdout).unwrap()
    }
}

fn gcc(root: &Path, words: &[&str]) {
    let done = Command::new("gcc").args(words).current_dir(root).status().unwrap();
    assert!(done.success(), "{words:?}");
}

/// A libq.so that answers with this number.
fn library(root: &Path, file: &str, number: u32) {
    fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
    fs::write(root.join("q.c"), format!("int q(void) {{ return {number}; }}")).unwrap();
    gcc(root, &["-shared", "-fPIC", "q.c", "-o", file, "-Wl,-soname,libq.so"]);
}

fn bound(answer: &Value) -> usize {
    answer["healed"]["libraries"].as_array().map_or(0, Vec::len)
}

#[test]
fn what_comes_to_lie_behind_a_link_that_leads_out_of_the_image_is_loaded_as_without_the_image() {
    type Make = fn(&Path);
    let cur: Make = |root| symlink(root.join("out/v1"), root.join("env/cur")).unwrap();
    let dangles: Make = |root| symlink(root.join("out/v2"), root.join("env/cur")).unwrap();
    let within: Make = |root| {
        symlink("next", root.join("env/cur")).unwrap();
        symlink(root.join("out/v1"), root.join("env/next")).unwrap();
    };
    let file: Make = |root| symlink("../../out/libq.so", root.join("env/b/libq.so")).unwrap();
    #[cfg(target_arch = "x86_64")]
    let variant: Make = |root| symlink("../../out/hw", root.join("env/b/glibc-hwcaps")).unwrap();
    let cases: &[(&str, Make, &str)] = &[
        ("ROOT/env/a:ROOT/env/cur/lib:ROOT/env/c", cur, "out/v1/lib/libq.so"),
        ("ROOT/env/a:ROOT/env/cur/../lib:ROOT/env/c", cur, "out/lib/libq.so"),
        ("ROOT/env/a:ROOT/env/cur/lib/:ROOT/env/c", dangles, "out/v2/lib/libq.so"),
        ("ROOT/env/a:ROOT/env/cur/lib:ROOT/env/c", within, "out/v1/lib/libq.so"),
        ("ROOT/env/a:ROOT/env/b:ROOT/env/c", file, "out/libq.so"),
        #[cfg(target_arch = "x86_64")] // glibc has no such directories for other processors.
        ("ROOT/env/a:ROOT/env/b:ROOT/env/c", variant, "out/hw/x86-64-v2/libq.so"),
        ("$ORIGIN/../a:$ORIGIN/../cur/lib:$ORIGIN/../c", cur, "out/v1/lib/libq.so"),
        ("$ORIGIN/../a:$ORIGIN/../cur/../lib:$ORIGIN/../c", cur, "out/lib/libq.so"),
        ("$ORIGIN/../a:$ORIGIN/../b:$ORIGIN/../c", file, "out/libq.so"),
    ];
    for &(list, make, later) in cases {
        let env = Env::new(list, make);
        let answer = env.built();
        assert_eq!(env.plain(), "q1\n", "{list}");
        library(&env.root, later, 2);
        assert_eq!(env.plain(), "q2\n", "{list}: the later one comes first");
        for user in [As::Root, As::User] {
            for check in ["full", "quick", "no"] {
                let said = env.imaged.said(user, &["--check", check], &env.program);
                assert!(said.contains("q2"), "{list} {later} {check}: {said} {answer}");
            }
        }
        assert_eq!(bound(&answer), 0, "{list}: {answer}");
        let as_it_was = answer["healed"]["as_it_was"].as_array().unwrap();
        assert!(as_it_was[0]["path"].as_str().unwrap().ends_with("env/bin/m"), "{answer}");
        let why = as_it_was[0]["why"].as_str().unwrap();
        assert!(why.starts_with("libq.so stays a name: ") && why.contains("asked before"), "{why}");
        env.imaged.all_gone();
    }
}

#[test]
fn links_that_stay_in_the_image_and_what_is_asked_afterwards_do_not_matter() {
    let make = |root: &Path| {
        symlink("v1", root.join("env/cur")).unwrap();
        symlink(root.join("env/cur"), root.join("env/again")).unwrap();
        fs::create_dir_all(root.join("env/v1/lib")).unwrap();
        symlink(root.join("out/v1"), root.join("env/leaves")).unwrap();
    };
    for list in [
        "ROOT/env/a:ROOT/env/again/lib:ROOT/env/none:ROOT/env/c:ROOT/env/leaves",
        "$ORIGIN/../a:$ORIGIN/../again/lib:$ORIGIN/../b:$ORIGIN/../c:$ORIGIN/../leaves",
    ] {
        let env = Env::new(list, make);
        let answer = env.built();
        assert_eq!(bound(&answer), 1, "{list}: {answer}");
        assert!(env.imaged.said(As::User, &["--check", "full"], &env.program).contains("q1"));
        env.imaged.all_gone();
    }
}
