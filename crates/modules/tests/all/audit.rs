//! What the audit predicts is what the real commands do, and it finds what makes them slow.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

use crate::support::{ModuleTree, sites};
use modules::audit::{
    Audit, AuditRequest, AuditRule, ModuleCommand, Timeout, UserView, annotations, audit, measure,
    predict, sarif,
};
use modules::site::ModulesSite;
use modules::tree::{WalkLimits, walk};

const LONG: Timeout = Timeout(Duration::from_secs(60));

/// A tree with all that an ordinary tree has, and some that it should not.
fn tree() -> ModuleTree {
    let scene = ModuleTree::new();
    for name in ["gcc", "mpi", "py thon"] {
        for version in 1..8 {
            scene.module(&format!("{name}/{version}.0"));
        }
    }
    scene.file("gcc/.version", "#%Module\nset ModulesVersion 3.0\n");
    scene.file("mpi/.modulerc", "#%Module\nmodule-version mpi/2.0 stable\n");
    scene.file("mpi/deep/er/.modulerc", &format!("#%Module\n# {}\n", "x".repeat(9000)));
    scene.file("mpi/deep/er/1", &format!("#%Module1.0\n# {}\n", "x".repeat(5000)));
    scene.file("gcc/README", "hello\n");
    scene.file("gcc/empty", "");
    scene.file("gcc/9.0", "#%Module99\n");
    scene.file("gcc/old~", "#%Module\n");
    scene.file("top", "#%Module\n");
    scene.file("mpi/.git/config", "x");
    symlink("nowhere", scene.at("gcc/gone")).unwrap();
    fs::create_dir(scene.at("empty")).unwrap();
    for number in 0..60 {
        scene.module(&format!("long/{}-{number}", "version".repeat(20)));
    }
    scene
}

fn audited(scene: &Path, site: Option<&ModulesSite>) -> Audit {
    let modulepaths = [(scene.to_owned(), None)];
    let views = [UserView::of(&[scene], None, WalkLimits::default()).unwrap()];
    let wanted =
        AuditRequest { modulepaths: &modulepaths, site, is_lmod: false, load: None, timeout: None };
    audit(&views, &wanted, &|_, _| {})
}

fn count(audit: &Audit, rule: AuditRule) -> u64 {
    audit.rules.iter().find(|sum| sum.rule == rule).map_or(0, |sum| sum.count)
}

#[test]
fn avail_whatis_and_load_make_the_predicted_calls_call_by_call() {
    let scene = tree();
    let tree = walk(scene.path(), WalkLimits::default());
    for site in sites() {
        for ask in [
            ModuleCommand::Avail,
            ModuleCommand::Whatis,
            ModuleCommand::Load("gcc".into()),
            ModuleCommand::Load("long".into()),
        ] {
            let predicted = predict(&ask, &[&tree], &site);
            let measured = measure(&ask, &[scene.path()], &site, None, LONG).unwrap();
            assert_eq!(predicted.calls, measured.calls, "{ask:?} of {}", site.release);
            assert!(!predicted.at_least && !predicted.hangs);
        }
    }
}

#[test]
fn a_top_rc_file_and_several_modulepaths_are_predicted_too() {
    let (one, two) = (tree(), ModuleTree::new());
    one.file(".modulerc", "#%Module\nmodule-version gcc/4.0 four\n");
    one.file(".version", "#%Module\n");
    two.module("gcc/10.0");
    let missing = two.at("missing");
    let paths = [one.path(), two.path(), missing.as_path()];
    let trees = paths.map(|path| walk(path, WalkLimits::default()));
    let trees: Vec<_> = trees.iter().collect();
    for site in sites() {
        for ask in [ModuleCommand::Avail, ModuleCommand::Load("gcc".into())] {
            let predicted = predict(&ask, &trees, &site);
            let measured = measure(&ask, &paths, &site, None, LONG).unwrap();
            assert_eq!(predicted.calls, measured.calls, "{ask:?} of {}", site.release);
        }
    }
}

#[test]
fn a_loop_is_more_than_predicted_and_a_fifo_is_not_waited_for() {
    let scene = ModuleTree::new();
    scene.module("a/1");
    symlink("..", scene.at("a/loop")).unwrap();
    let site = &sites()[0];
    let predicted =
        predict(&ModuleCommand::Avail, &[&walk(scene.path(), WalkLimits::default())], site);
    let measured = measure(&ModuleCommand::Avail, &[scene.path()], site, None, LONG).unwrap();
    assert!(predicted.at_least && measured.calls.all() > 10 * predicted.calls.all());
    let made = std::process::Command::new("mkfifo").arg(scene.at("pipe")).status().unwrap();
    assert!(made.success());
    assert!(
        predict(&ModuleCommand::Avail, &[&walk(scene.path(), WalkLimits::default())], site).hangs
    );
    let short = Timeout(Duration::from_millis(1500));
    let hung = measure(&ModuleCommand::Avail, &[scene.path()], site, None, short).unwrap_err();
    assert!(hung.contains("not done after 1.5 s"), "{hung}");
    let audit = audited(scene.path(), Some(site));
    assert_eq!((count(&audit, AuditRule::Loop), count(&audit, AuditRule::Special)), (1, 1));
}

#[test]
fn what_makes_a_tree_slow_or_wrong_is_named() {
    let scene = tree();
    scene.file("broken/.modulerc", "#%Module\n\nmodule-version {broken/1 x\n");
    scene.file("blind/.modulerc", "module-version blind/1 x\n");
    for number in 0..200 {
        scene.module(&format!("crowd/{number}"));
    }
    scene.file("lua/1.lua", "whatis('x')\n");
    let audit = audited(scene.path(), Some(&sites()[0]));
    for (rule, expected) in [
        (AuditRule::Stray, 2),
        (AuditRule::Lua, 1),
        (AuditRule::NewerCookie, 1),
        (AuditRule::Dangling, 1),
        (AuditRule::Crowded, 1),
        (AuditRule::BrokenRc, 1),
        (AuditRule::RcWithoutCookie, 1),
        (AuditRule::MovableRc, 2),
        (AuditRule::Ignored, 2),
    ] {
        assert_eq!(count(&audit, rule), expected, "{rule:?}");
    }
    assert!(audit.is_wrong());
    let broken = audit.findings.iter().find(|finding| finding.rule == AuditRule::BrokenRc).unwrap();
    assert_eq!(broken.line, Some(4));
    let moved: Vec<_> =
        audit.findings.iter().filter(|one| one.rule == AuditRule::MovableRc).collect();
    assert_eq!(moved[0].text, "could be: module-version gcc/3.0 default");
    assert_eq!(moved[1].text, "could be: module-version mpi/2.0 stable");
    let log = sarif(&audit, "1");
    assert_eq!(log["runs"][0]["results"].as_array().unwrap().len(), audit.findings.len());
    assert_eq!(annotations(&audit).lines().count(), audit.findings.len());
    assert!(annotations(&audit).contains(",line=4,title=broken_rc::"));
}

#[test]
fn a_clean_tree_is_clean() {
    let scene = ModuleTree::new();
    scene.module("a/1");
    scene.module("a/2");
    assert!(!audited(scene.path(), Some(&sites()[0])).is_wrong());
}

#[test]
fn an_rc_file_stays_where_moving_it_would_change_something_for_somebody() {
    for (name, content) in [
        ("d/.modulerc", "#%Module\nset ModulesVersion 1\n"),
        ("d/.version", "#%Module\nset ModulesVersion sub/1\n"),
        ("d/.version", "#%Module\nset ModulesVersion 9\n"),
        ("d/.version", "#%Module\nmodule-version $x y\n"),
        ("d/.modulerc", "#%Module\nmodule-version other/1 x\n"),
        ("d/.modulerc", "#%Module\nmodule-version d/1 x\nmodule-version d/2 y\n"),
        ("d/.modulerc", "#%Module\nmodule-hide d/1\n"),
        (".modulerc", "#%Module\nmodule-version d/1 x\n"),
    ] {
        let scene = ModuleTree::new();
        for module in ["d/1", "d/2", "d/sub/1", "other/1"] {
            scene.module(module);
        }
        scene.file(name, content);
        let audit = audited(scene.path(), Some(&sites()[0]));
        assert_eq!(count(&audit, AuditRule::MovableRc), 0, "{name}: {content}");
        // What is private must not be told in a place that all may read.
        let scene = ModuleTree::new();
        scene.module("d/1");
        let private = scene.file("d/.version", "#%Module\nset ModulesVersion 1\n");
        assert_eq!(count(&audited(scene.path(), None), AuditRule::MovableRc), 1);
        fs::set_permissions(private, fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(count(&audited(scene.path(), None), AuditRule::MovableRc), 0);
    }
}

/// Numbers that are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % most
    }
}

const NAMES: [&str; 13] = [
    "gcc", "1.0", "-dash", "sp ace", "{brace}", "$dollar", "[x]", "é", ".hidden", "back\\", "a~",
    "x,v", "#y#",
];

fn grow(scene: &ModuleTree, directory: &str, depth: usize, numbers: &mut Numbers) {
    for _ in 0..numbers.below(6) + 1 {
        let name = format!("{directory}/{}", NAMES[numbers.below(NAMES.len())]);
        let path = scene.at(&name);
        if path.symlink_metadata().is_ok() {
            continue;
        }
        match numbers.below(9) {
            0..3 if depth < 3 => {
                fs::create_dir(&path).unwrap();
                grow(scene, &name, depth + 1, numbers);
            }
            3 => drop(scene.file(&name, "stray")),
            4 => symlink("nowhere", &path).unwrap(),
            5 => drop(scene.file(&name, "#%Module99\n")),
            6 => drop(
                scene.file(&format!("{directory}/.modulerc"), "#%Module\nmodule-version ./1 s\n"),
            ),
            7 => drop(
                scene.file(&format!("{directory}/.version"), "#%Module\nset ModulesVersion 1.0\n"),
            ),
            _ => drop(scene.module(&name)),
        }
    }
}

#[test]
fn random_trees_of_odd_names_are_predicted_too() {
    for seed in 1..25 {
        let scene = ModuleTree::new();
        fs::create_dir(scene.at("m")).unwrap();
        grow(&scene, "m", 0, &mut Numbers(seed * 0x9e37_79b9_7f4a));
        let root = scene.at("m");
        let tree = walk(&root, WalkLimits::default());
        for site in sites() {
            for ask in [ModuleCommand::Avail, ModuleCommand::Whatis] {
                let predicted = predict(&ask, &[&tree], &site);
                let measured = measure(&ask, &[&root], &site, None, LONG).unwrap();
                let names: Vec<_> = tree.entries.iter().map(|entry| &entry.name).collect();
                let what = format!("seed {seed}, {ask:?} of {}: {names:?}", site.release);
                assert_eq!(predicted.calls, measured.calls, "{what}");
            }
        }
    }
}

#[test]
fn an_open_brace_in_a_directories_name_ends_avail_of_5_2_if_it_has_an_rc_file() {
    for (name, breaks) in [("}", true), ("{brace", true), ("{brace}", false), ("back\\", false)] {
        let scene = ModuleTree::new();
        scene.module("a/1");
        scene.file(&format!("{name}/.modulerc"), "#%Module\n");
        for site in sites() {
            let audit = audited(scene.path(), Some(&site));
            assert_eq!(count(&audit, AuditRule::BreakingName), u64::from(breaks), "{name}");
            let ran = std::process::Command::new(&site.tclsh)
                .arg(&site.command)
                .args(["bash", "avail"])
                .env("MODULEPATH", scene.path())
                .output()
                .unwrap();
            // The code of a command that failed, for the shell to evaluate.
            let fails = String::from_utf8_lossy(&ran.stdout).contains("test 0 = 1");
            let is_old = site.release.number() < (5, 5);
            assert_eq!(fails, breaks && is_old, "{name}, {}", site.release);
        }
    }
}
