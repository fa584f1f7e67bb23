//! Trees that nobody thought of: the answer is Modules' own, before and after changes that nobody
//! thought of either. `BECALM_RANDOM_TREES` says how many trees, `BECALM_RANDOM_SEED` which.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::answer::{Asking, seen, settle};
use crate::scene::{Modulepath, all};

/// Numbers that a seed decides (splitmix64).
struct DrawnNumbers(u64);

impl DrawnNumbers {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) % most as u64) as usize
    }

    fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

const NAMES: [&str; 7] = ["gcc", "mpi", "gcc/sub", "a.b", "Gcc", "zlib", "py-x"];
const VERSIONS: [&str; 6] = ["1.0", "1.10", "2", "2-rc1", "latest", ".hidden"];

/// A line of a modulefile, of which `#` is a number.
const LINES: [&str; 24] = [
    "setenv VAR# value#",
    "prepend-path PATH /opt/#/bin",
    "append-path -d ; LIST# one two",
    "module-whatis {what # is}",
    "conflict gcc",
    "prereq mpi",
    "module load zlib",
    "catch {module load nosuch#}",
    "if {[is-loaded gcc]} { setenv SEES# gcc }",
    "if {[info exists env(HOME)]} { setenv HAS# $env(HOME) }",
    "if {[file exists [file join [file dirname $ModulesCurrentModulefile] extra#]]} { setenv X# 1 }",
    "setenv MODE# [module-info mode]",
    "setenv NAME# [module-info name]",
    "foreach f [lsort [glob -nocomplain /etc/host*]] { append files $f }; setenv F# $files",
    "set-alias al# {echo $*}",
    "puts stderr {said #}",
    "proc ModulesHelp {} { puts stderr help# }",
    "if {[module-info mode load]} { puts stderr loading# }",
    "source [file join [file dirname $ModulesCurrentModulefile] .. common.tcl]",
    "unsetenv VAR#",
    "error {fails #}",
    "break",
    "system {true}",
    "setenv T# [expr {# * 3}]",
];

const RC_LINES: [&str; 7] = [
    "module-version gcc/1.0 default",
    "module-alias comp gcc/1.10",
    "module-version mpi/2 stable",
    "module-alias gcc/9 mpi/1.0",
    "if {[info exists env(HOME)]} { module-alias home gcc/2 }",
    "catch {module-hide zlib/2}",
    "catch {module-forbid mpi/2}",
];

const QUESTIONS: [&str; 26] = [
    "load gcc",
    "load gcc/1.0 mpi",
    "load zlib",
    "load comp",
    "load gcc/9",
    "load a.b py-x",
    "load mpi/stable",
    "load Gcc",
    "load home",
    "avail",
    "avail -t",
    "avail -t gcc",
    "avail -l mpi",
    "whatis",
    "whatis gcc",
    "show gcc",
    "show mpi/2",
    "help zlib",
    "list",
    "purge",
    "unload gcc",
    "swap gcc mpi",
    "is-avail gcc/2",
    "path gcc",
    "paths g",
    "keyword what",
];

fn lines(drawn: &mut DrawnNumbers, of: &[&str], most: usize) -> String {
    let count = drawn.below(most + 1);
    let line = |_| drawn.one(of).replace('#', &drawn.below(4).to_string()) + "\n";
    (0..count).map(line).fold("#%Module\n".to_owned(), |all, line| all + &line)
}

fn write(root: &Path, name: &str, content: &str) -> PathBuf {
    let path = root.join(name);
    let _ = fs::create_dir_all(path.parent().unwrap());
    let _ = fs::write(&path, content);
    path
}

fn module(drawn: &mut DrawnNumbers) -> String {
    format!("{}/{}", drawn.one(&NAMES), drawn.one(&VERSIONS))
}

fn planted(drawn: &mut DrawnNumbers) -> Modulepath {
    let scene = Modulepath::new();
    let root = &scene.modulepath;
    write(root, "common.tcl", "setenv COMMON 1\n");
    for _ in 0..3 + drawn.below(8) {
        let name = module(drawn);
        write(root, &name, &lines(drawn, &LINES, 5));
    }
    for name in ["gcc/.modulerc", ".modulerc", "mpi/.modulerc"] {
        if drawn.below(3) == 0 {
            write(root, name, &lines(drawn, &RC_LINES, 3));
        }
    }
    if drawn.below(3) == 0 {
        write(root, "zlib/.version", "#%Module\nset ModulesVersion 2\n");
    }
    if drawn.below(4) == 0 {
        let _ = symlink(root.join("gcc"), root.join("linked"));
    }
    if drawn.below(4) == 0 {
        let _ = symlink("nowhere", root.join("mpi/dangling"));
    }
    scene
}

/// Some change of a tree.
fn changed(drawn: &mut DrawnNumbers, scene: &Modulepath) {
    let root = &scene.modulepath;
    let name = module(drawn);
    let path = root.join(&name);
    match drawn.below(9) {
        0 | 1 => drop(write(root, &name, &lines(drawn, &LINES, 5))),
        2 => drop(fs::remove_file(path)),
        3 => drop(fs::rename(path, root.join(module(drawn)))),
        4 => drop(write(root, "gcc/.modulerc", &lines(drawn, &RC_LINES, 3))),
        5 => drop(fs::remove_dir_all(root.join(drawn.one(&NAMES)))),
        6 => drop(fs::set_permissions(path, fs::Permissions::from_mode(0o200))),
        7 => drop(write(root, &format!("{}/extra{}", drawn.one(&NAMES), drawn.below(4)), "")),
        _ => drop(write(&scene.at(""), ".modulerc", &lines(drawn, &RC_LINES, 2))),
    }
}

fn asked(drawn: &mut DrawnNumbers, asking: &Asking, seed: u64) -> usize {
    let mut remembered = 0;
    for _ in 0..6 {
        let question: Vec<&str> = drawn.one(&QUESTIONS).split(' ').collect();
        let real = seen(&asking.real(&question).output().unwrap());
        for time in 0..3 {
            let answer = seen(&asking.becalm(&question).output().unwrap());
            assert_eq!(answer, real, "seed {seed}: {question:?}, time {time}");
        }
        remembered += usize::from(asking.why(&question).starts_with("remembered"));
    }
    remembered
}

#[test]
fn on_trees_that_nobody_thought_of_the_answer_is_that_of_modules() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("BECALM_RANDOM_SEED").unwrap_or(1);
    let seeds = first..first + number("BECALM_RANDOM_TREES").unwrap_or(12);
    let modules = all();
    let mut trees: Vec<(u64, DrawnNumbers, Modulepath)> = seeds
        .map(|seed| {
            let mut drawn = DrawnNumbers(seed);
            let scene = planted(&mut drawn);
            (seed, drawn, scene)
        })
        .collect();
    let mut remembered = 0;
    for _ in 0..2 {
        settle();
        for (seed, drawn, scene) in &mut trees {
            let modules = drawn.one(&modules);
            let loaded = scene.modulepath.join("gcc/1.0");
            let mut asking = Asking::new(scene, modules);
            if drawn.below(2) == 0 {
                asking = asking
                    .with("LOADEDMODULES", "gcc/1.0")
                    .with("_LMFILES_", loaded.to_str().unwrap());
            }
            remembered += asked(drawn, &asking, *seed);
            (0..1 + drawn.below(3)).for_each(|_| changed(drawn, scene));
            // What has just changed is not remembered, but answered.
            asked(drawn, &asking, *seed);
        }
    }
    // Others start programs, or look at what has just changed.
    assert!(remembered > trees.len() * 12 / 2, "{remembered} of {}", trees.len() * 12);
}
