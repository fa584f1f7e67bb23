//! Which rc files are merged, and which stay: what a tidying plans, tree by tree.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use crate::support::ModuleTree;
use modules::site::{Environment, ModulesSite, User};
use modules::tidy::{Ground, TidyOptions, TidySubject, TidyView, Tidying, plan};
use modules::tree::{WalkLimits, walk};

fn planned_with(scene: &ModuleTree, paths: &[&str], options: &TidyOptions) -> Tidying {
    let site = ModulesSite::find(&Environment::default()).unwrap();
    let trees = paths.iter().map(|path| walk(&scene.at(path), WalkLimits::default())).collect();
    let user = User { name: "root".into(), user: 0, group: 0, groups: vec![0] };
    plan(&Ground { site: &site, views: &[TidyView { user, trees }] }, options)
}

fn planned(scene: &ModuleTree) -> Tidying {
    planned_with(scene, &["m"], &TidyOptions::default())
}

/// The lines that the root of `m` gets.
fn lines(tidying: &Tidying) -> Vec<&str> {
    tidying.merged.iter().flat_map(|merged| &merged.lines).map(String::as_str).collect()
}

fn why(scene: &ModuleTree, tidying: &Tidying, name: &str) -> String {
    let path: PathBuf = scene.at(name);
    let kept = tidying.kept.iter().find(|kept| kept.path == path);
    kept.unwrap_or_else(|| panic!("{name}: {tidying:?}")).reason.clone()
}

/// A modulepath of one name with an rc file, merged into the root's, which is there.
fn scene(rc: &str, content: &str) -> ModuleTree {
    let scene = ModuleTree::new();
    scene.file("m/.modulerc", "#%Module\n");
    scene.module("m/foo/1.0");
    scene.module("m/foo/2.0");
    scene.file(&format!("m/foo/{rc}"), content);
    scene
}

#[test]
fn symbols_of_modules_beside_an_rc_file_stand_at_the_root_with_their_directory() {
    for (rc, content, line) in [
        (".version", "#%Module\nset ModulesVersion 1.0\n", "module-version foo/1.0 default"),
        (".version", "#%Module\nset ModulesVersion \"1.0\"\n", "module-version foo/1.0 default"),
        (".modulerc", "#%Module\nmodule-version foo/2.0 a b\n", "module-version foo/2.0 a b"),
        (".modulerc", "#%Module\nmodule-version /2.0 a\n", "module-version foo/2.0 a"),
        (".modulerc", "#%Module\nmodule-version ./2.0 a\n", "module-version foo/2.0 a"),
    ] {
        assert_eq!(lines(&planned(&scene(rc, content))), [line], "{content}");
    }
}

#[test]
fn what_means_something_else_at_the_root_stays() {
    for (rc, content) in [
        (".version", "#%Module\nset ModulesVersion 3.0\n"),
        (".version", "#%Module\nset ModulesVersion foo/1.0\n"),
        (".modulerc", "#%Module\nset ModulesVersion 1.0\n"),
        (".modulerc", "#%Module\nmodule-version bar/1 a\n"),
        (".modulerc", "#%Module\nmodule-alias bar foo/1.0\n"),
        (".modulerc", "#%Module\nmodule-hide foo/1.0\n"),
        (".modulerc", "#%Module\nmodule-version foo/1.0 $env(USER)\n"),
        (".modulerc", "#%Module\nmodule-version foo/1.0 a\nreturn\n"),
        (".modulerc", "#%Module\nmodule-version foo/1.0 a\nmodule-version foo/2.0 a\n"),
        (".modulerc", "#%Module\nmodule-version foo/1.0 2.0\n"),
        (".modulerc", "module-version foo/1.0 a\n"),
        (".modulerc", "#%Module99\nmodule-version foo/1.0 a\n"),
    ] {
        let scene = scene(rc, content);
        let tidying = planned(&scene);
        assert!(tidying.is_empty(), "{content}: {tidying:?}");
        assert!(!why(&scene, &tidying, &format!("m/foo/{rc}")).is_empty());
    }
}

#[test]
fn what_not_everyone_may_read_is_not_told_to_everyone() {
    for (name, mode) in [("m/foo", 0o750), ("m/foo/.version", 0o640), ("m/foo/1.0", 0o604)] {
        let scene = scene(".version", "#%Module\nset ModulesVersion 1.0\n");
        fs::set_permissions(scene.at(name), fs::Permissions::from_mode(mode)).unwrap();
        assert!(planned(&scene).is_empty(), "{name}");
    }
}

#[test]
fn a_directory_that_another_rc_file_may_speak_of_is_left_alone() {
    for other in [
        "#%Module\nif {[info exists env(X)]} { module-version foo/2.0 default }\n",
        "#%Module\nforeach name {a b} { module-version $name/1 default }\n",
        "#%Module\nmodule-hide foo\n",
    ] {
        let scene = scene(".version", "#%Module\nset ModulesVersion 1.0\n");
        scene.module("m/bar/1");
        scene.file("m/bar/.modulerc", other);
        let tidying = planned(&scene);
        assert!(tidying.is_empty(), "{other}: {tidying:?}");
        assert!(why(&scene, &tidying, "m/foo/.version").contains("may be about it"));
    }
    let scene = scene(".version", "#%Module\nset ModulesVersion 1.0\n");
    scene.module("m/bar/1");
    scene.file("m/bar/.modulerc", "#%Module\nif {[info exists env(X)]} { module-hide bar/1 }\n");
    assert_eq!(lines(&planned(&scene)), ["module-version foo/1.0 default"], "about bar only");
}

#[test]
fn a_root_that_is_not_literal_words_gets_no_lines() {
    for root in ["#%Module\nif {1} {}\n", "#%Module\nmodule-version foo/2.0 default\n", "x\n"] {
        let scene = scene(".version", "#%Module\nset ModulesVersion 1.0\n");
        scene.file("m/.modulerc", root);
        assert!(planned(&scene).is_empty(), "{root}");
    }
    let linked = scene(".version", "#%Module\nset ModulesVersion 1.0\n");
    fs::rename(linked.at("m/.modulerc"), linked.at("rc")).unwrap();
    symlink("../rc", linked.at("m/.modulerc")).unwrap();
    assert!(planned(&linked).is_empty());
}

#[test]
fn a_name_that_two_modulepaths_have_is_left_alone() {
    let scene = scene(".version", "#%Module\nset ModulesVersion 1.0\n");
    scene.module("n/foo/1.0");
    let tidying = planned_with(&scene, &["m", "n"], &TidyOptions::default());
    assert!(why(&scene, &tidying, "m/foo/.version").contains("another modulepath"));
}

#[test]
fn a_root_rc_file_is_made_only_where_each_load_that_comes_by_loses_one() {
    let scene = scene(".version", "#%Module\nset ModulesVersion 1.0\n");
    fs::remove_file(scene.at("m/.modulerc")).unwrap();
    assert_eq!(planned(&scene).merged.len(), 1);
    scene.module("m/bar/1");
    let tidying = planned(&scene);
    assert!(why(&scene, &tidying, "m/foo/.version").contains("load bar would make 6 calls more"));
    let options = TidyOptions { slower_load: true, ..TidyOptions::default() };
    assert_eq!(planned_with(&scene, &["m"], &options).merged.len(), 1);
}

#[test]
fn strays_move_out_unless_something_may_read_them_where_they_are() {
    let scene = scene(".version", "#%Module\nset ModulesVersion 1.0\n");
    for name in ["README", "common.tcl", "lmod.lua", ".gitignore", "named", "run"] {
        scene.file(&format!("m/foo/{name}"), "text\n");
    }
    fs::set_permissions(scene.at("m/foo/run"), fs::Permissions::from_mode(0o755)).unwrap();
    scene.file("m/foo/1.0", "#%Module\nsource [file dirname $ModulesCurrentModulefile]/named\n");
    let tidying = planned(&scene);
    let moved: Vec<_> = tidying.moved.iter().map(|moved| (&moved.from, &moved.to)).collect();
    assert_eq!(moved, [(&scene.at("m/foo/README"), &scene.at("m.strays/foo/README"))]);
    let kept = tidying.kept.iter().filter(|kept| kept.what == TidySubject::Stray).count();
    assert_eq!(kept, 5);
}

/// Whether README beside a modulefile moves out.
fn moves(modulefile: &str) -> (bool, String) {
    let scene = scene(".version", "#%Module\nset ModulesVersion 1.0\n");
    scene.file("m/foo/README", "text\n");
    scene.file("m/foo/named", "text\n");
    scene.file("m/foo/reads.inc", "puts [glob [file dirname $ModulesCurrentModulefile]/*]\n");
    let root = scene.at("m").display().to_string();
    scene.file("m/bar/1.0", &format!("#%Module\n{}\n", modulefile.replace("ROOT", &root)));
    scene.file("m/bar/README", "text\n");
    let tidying = planned(&scene);
    let moved = |name: &str| tidying.moved.iter().any(|moved| moved.from == scene.at(name));
    let kept = tidying.kept.iter().find(|kept| kept.path == scene.at("m/bar/README"));
    (moved("m/bar/README"), kept.map(|kept| kept.reason.clone()).unwrap_or_default())
}

#[test]
fn what_a_modulefile_may_read_without_its_name_stays() {
    const OWN: &str = "[file dirname $ModulesCurrentModulefile]";
    for line in [
        "foreach f [glob OWN/*] { source $f }",
        "set d OWN; puts [llength [glob -nocomplain -directory $d *]]",
        "set d OWN\nforeach f [glob $d/*] {}",
        "setenv FOO_HOME OWN",
        "setenv FOO_HOME ROOT/bar",
        "setenv FOO_HOME [file dirname [file normalize $ModulesCurrentModulefile]]",
        "prepend-path PATH ROOT",
        "source OWN/../$name",
        "source $env(BASE)/named.$version",
        "source OWN/reads.inc",
        "source /elsewhere/common.tcl",
        "if {[file readable $env(BASE)/bar/READ$me]} {}",
        "if {[file exist [file join OWN $x]]} {}",
        "set f [open $x]",
        "puts [exec cat $x]",
        "puts [exec cat ROOT/bar/READ*]",
        "puts [exec sh -c {cat */READ*}]",
        "cd OWN",
        "set cmd glob\nputs [$cmd *]",
        "eval $command",
        "foreach mp [split $env(MODULEPATH) :] {}",
        "source-sh bash $x/env",
        "lappend auto_path OWN",
        "catch {::glob x*} all",
        "puts [glob \\\n ROOT/bar/*]",
    ] {
        let line = line.replace("OWN", OWN);
        let (moved, _) = moves(&line);
        assert!(!moved, "{line}");
    }
}

#[test]
fn a_modulefile_that_reads_nothing_here_keeps_no_stray() {
    for line in [
        "setenv FOO_HOME /opt/foo\nprepend-path PATH /opt/foo/bin",
        "set root /opt/foo\nif {![file isdirectory $root]} { break }\nprepend-path PATH $root/bin",
        "set root /opt/foo\nprepend-path PATH [file join $root bin]",
        "module-whatis {an open source file system}",
        "proc ModulesHelp {} { puts stderr {Foo is open source. Load it to glob.} }",
        "if {[module-info mode load]} { module load bar }",
        "module load named/1.0\nconflict bar",
        "prepend-path MODULEPATH /apps/compiler/gcc",
        "puts [exec uname -m 2>/dev/null]",
        "set names [glob -nocomplain /opt/foo/*]",
        "set f [open /proc/cpuinfo]",
        "source [file dirname $ModulesCurrentModulefile]/named",
        "set here [file dirname $ModulesCurrentModulefile]\nsource $here/named",
        "# glob *",
    ] {
        let (moved, why) = moves(line);
        assert!(moved, "{line}: {why}");
    }
}

#[test]
fn an_rc_file_that_a_modulefile_may_read_is_not_merged() {
    for line in [
        "puts [glob -nocomplain /opt/*/.version]",
        "set all [glob -types hidden $x/*]",
        "set all [glob $x/.*]",
        "puts [exec ls -a $x]",
    ] {
        let scene = scene(".version", "#%Module\nset ModulesVersion 1.0\n");
        scene.file("m/foo/1.0", &format!("#%Module\n{line}\n"));
        let tidying = planned(&scene);
        assert_eq!(tidying.merged, [], "{line}");
        assert!(why(&scene, &tidying, "m/foo/.version").contains("may read it"), "{line}");
    }
}

#[test]
fn cookies_are_checked_further_where_it_cannot_be_said_from_whom_to_hide() {
    let options = TidyOptions { no_cookie_checks: true, ..TidyOptions::default() };
    for mode in [0o640, 0o604] {
        let scene = scene(".version", "#%Module\nset ModulesVersion 1.0\n");
        scene.module("m/foo/3.0");
        fs::set_permissions(scene.at("m/foo/3.0"), fs::Permissions::from_mode(mode)).unwrap();
        let tidying = planned_with(&scene, &["m"], &options);
        assert!(tidying.environment.is_empty(), "{mode:o}");
        assert!(tidying.kept.iter().any(|kept| kept.what == TidySubject::CookieCheck));
    }
    let scene = scene(".version", "#%Module\nset ModulesVersion 1.0\n");
    scene.file("m/foo/3.0", "#%Module5.10\n");
    let tidying = planned_with(&scene, &["m"], &options);
    let line = "if {[versioncmp $ModuleToolVersion 5.10] < 0} { module-hide --hard foo/3.0 }";
    assert_eq!(tidying.hidden[0].line, line);
}
