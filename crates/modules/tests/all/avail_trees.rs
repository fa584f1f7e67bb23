//! Native `avail` on trees of odd names and of rc files that meddle with one another: the real
//! command's bytes, or none where Modules alone can say.

use std::fs;
use std::path::PathBuf;

use crate::support::bench::Bench;
use crate::support::{ModuleTree, sites};

const QUESTIONS: [&[&str]; 9] = [
    &["avail"],
    &["avail", "-t"],
    &["avail", "-l"],
    &["avail", "-j"],
    &["avail", "-a"],
    &["avail", "-d"],
    &["avail", "-L", "-t"],
    &["avail", "-t", "a"],
    &["avail", "-C", "1"],
];

/// Which questions are answered natively, for each Modules; each answer is the real one.
#[track_caller]
fn answered(roots: &[PathBuf]) -> Vec<bool> {
    let mut native = Vec::new();
    for site in sites() {
        let bench = Bench::new(&site, roots);
        // The order of a key of several colours is Tcl's own.
        bench.assert_same_or_unable(&["avail", "--color=always"]);
        native.extend(QUESTIONS.iter().map(|words| bench.assert_same_or_unable(words)));
    }
    native
}

/// Whether all questions are answered natively, or none.
#[track_caller]
fn is_native(roots: &[PathBuf]) -> bool {
    let native = answered(roots);
    assert!(native.iter().all(|one| *one == native[0]), "{native:?}");
    native[0]
}

/// A modulepath `m` of modulefiles with these names.
fn tree(names: &[&str]) -> (ModuleTree, PathBuf) {
    let scene = ModuleTree::new();
    for name in names {
        scene.module(&format!("m/{name}"));
    }
    let root = scene.at("m");
    (scene, root)
}

#[test]
fn odd_names_of_plain_letters_are_shown_as_modules_shows_them() {
    let long = ["n"; 200].concat();
    let deep = ["d"; 30].join("/");
    for names in [
        &["a b/1 0", "a b/2", " x/1"][..],
        &["-a/1", "-t/-l", "a/-1"],
        &["a{/1", "b}/2", "{c}/1", "a$b/$v", "[a]/1", "a\\b/1", "\"q\"/1"],
        &["a;b/1", "a&b/1", "a|b/1", "a>b/1", "a#b/1", "#c/1"],
        &["c++/1", "a=1/b=2", "a,b/1", "a@b/1", "a:b/1", "a/1%"],
        &[&long, &format!("in/{long}/{long}"), &deep],
        &["a/0x1", "a/1.9", "a/1.09", "a/01.9", "a/1.9+cuda", "a/1.9-rc1", "a/1.9_1", "a/1.10"],
        &["a/1.9A", "a/1.9a", "a/9", "a/10", "a/v2", "a/V3", "A/1", "a/B/1", "a/b/1"],
    ] {
        let (_scene, root) = tree(names);
        assert!(is_native(&[root]), "{names:?}");
    }
}

#[test]
fn names_that_tcl_reads_in_its_own_way_are_left_to_modules() {
    for name in ["h\u{e9}/1", "a/\u{4e2d}", "~root/1", "a/~x", "a\nb/1", "a\tb"] {
        let (_scene, root) = tree(&["a/1", name]);
        assert!(!is_native(&[root]), "{name:?}");
    }
}

#[test]
fn files_that_are_no_modulefiles_are_not_shown() {
    let (scene, root) = tree(&["a/1"]);
    scene.file("m/a/empty", "");
    scene.file("m/a/README", "read me");
    fs::write(scene.at("m/a/binary"), [0_u8, 255, 128, 10, 0]).unwrap();
    fs::write(scene.at("m/a/bom"), "\u{feff}#%Module\n").unwrap();
    fs::write(scene.at("m/a/cookie_and_more"), b"#%Module1.0 \xff\xfe\n").unwrap();
    fs::write(scene.at("m/a/large"), [b'x'; 1 << 20]).unwrap();
    for name in ["a/2~", "a/3,v", "a/#4#", "CVS/1", ".git/1", "a/.hidden", ".dot/1"] {
        scene.module(&format!("m/{name}"));
    }
    assert!(is_native(&[root]));
}

#[test]
fn an_alias_with_the_name_of_a_file_that_is_no_modulefile_is_left_to_modules_with_d_and_l() {
    let (scene, root) = tree(&["b/1"]);
    scene.file("m/a", "no cookie\n");
    scene.file("m/.modulerc", "#%Module\nmodule-alias a b/1\n");
    for site in sites() {
        let bench = Bench::new(&site, std::slice::from_ref(&root));
        assert!(bench.assert_same_or_unable(&["avail"]));
        assert!(["-d", "-L"].iter().all(|by| !bench.assert_same_or_unable(&["avail", by])));
    }
}

#[test]
fn rc_files_that_meddle_with_one_another_count_in_the_release_s_order() {
    for rcs in [
        // One directory's names another's.
        &[("a/.modulerc", "module-version b/2 default"), ("b/.version", "set ModulesVersion 1")][..],
        &[("b/.modulerc", "module-version a/1 sym"), (".modulerc", "module-version a/2 sym")],
        // Twice the same symbol, and both files in one directory.
        &[
            ("a/.modulerc", "module-version a/1 x\nmodule-version a/2 x"),
            ("a/.version", "set ModulesVersion 2"),
        ],
        &[("a/.modulerc", "set ModulesVersion 1"), ("a/.version", "set ModulesVersion nosuch")],
        // Nested, and by the directory's own name.
        &[
            ("a/b/.modulerc", "module-version b/1 deep\nmodule-version /2 here"),
            ("a/.version", "set ModulesVersion 1"),
        ],
        &[("a/b/.version", "set ModulesVersion 2"), ("a/.version", "set ModulesVersion b")],
        // An alias of a symbol of an alias.
        &[
            (".modulerc", "module-alias c a/x\nmodule-version c last"),
            ("a/.modulerc", "module-version a/1 x"),
        ],
        &[(".modulerc", "module-alias a/1 b/1\nmodule-alias new/1 a/1")],
    ] {
        let (scene, root) = tree(&["a/1", "a/2", "b/1", "b/2", "a/b/1", "a/b/2"]);
        for (name, content) in rcs {
            scene.file(&format!("m/{name}"), &format!("#%Module\n{content}\n"));
        }
        // With `-d` and `-L`, some depend on the order in which Tcl keeps names.
        assert!(answered(&[root])[0], "{rcs:?}");
    }
}

#[test]
fn symbols_that_modules_itself_defines_are_found_by_name_where_there_is_no_rc_file() {
    let (_scene, root) = tree(&["a/1", "a/2", "b/c/1"]);
    for site in sites() {
        let bench = Bench::new(&site, std::slice::from_ref(&root));
        for pattern in ["a/default", "a/latest", "b/c/default", "b/latest", "a/", "default"] {
            assert!(bench.assert_same_or_unable(&["avail", pattern]), "{pattern}");
        }
    }
}

#[test]
fn a_default_that_leads_back_to_its_directory_is_left_to_modules() {
    let (scene, root) = tree(&["a/1", "b/1"]);
    scene.file("m/b/.modulerc", "#%Module\nmodule-version b/ default\n");
    for site in sites() {
        // Modules itself may end for want of memory then: it is not run.
        assert!(Bench::new(&site, std::slice::from_ref(&root)).native(&["avail"]).is_err());
    }
}

#[test]
fn rc_files_that_need_evaluation_are_left_to_modules() {
    for content in [
        "if {[info exists env(USER)]} { module-version a/1 x }",
        "if {[module-info usergroups wheel]} { module-version a/1 x }",
        "module-version a/$v x",
        "module-version a/1 x\nerror here\nmodule-version a/2 y",
        "module-version a/1 x\nreturn\nmodule-version a/2 y",
        "module-version a/1",
        "module-hide a/1",
        "module-hide --user root a/1",
        "module-forbid --after 2020-01-01 a/1",
        "module-tag new a/1",
        "module-virtual v/1 $file",
        "module-virtual v/1 nowhere",
        "modulepath-ignore a",
        "source /dev/null",
        "module-version a/1 x; module-version a/2 y z {",
    ] {
        let (scene, root) = tree(&["a/1", "a/2"]);
        scene.file("m/.modulerc", &format!("#%Module\n{content}\n"));
        assert!(!is_native(&[root]), "{content}");
    }
    // Modules puts its path into a script of its own.
    let (scene, root) = tree(&["a/1", "b{/1"]);
    scene.file("m/b{/.modulerc", "#%Module\nmodule-version /1 x\n");
    assert!(!is_native(&[root]));
}

/// A modulepath `v` of virtual modules beside a modulepath `m`.
fn virtual_tree(lines: &[&str]) -> (ModuleTree, PathBuf) {
    let (scene, _) = tree(&["a/1", "a/2", "b/1", "c"]);
    scene.file("m/stray", "no cookie\n");
    scene.file("m/newer", "#%Module99\n");
    scene.file("v/.modulerc", &format!("#%Module\n{}\n", lines.join("\n")));
    let root = scene.at("v");
    (scene, root)
}

#[test]
fn virtual_modules_are_shown_as_modules_shows_them() {
    let all = [
        "module-virtual a/1 ../m/a/1",
        "module-virtual a/2 ../m/a/2",
        "module-virtual b/1 ../m/./b/1",
        "module-virtual deep/in/it ../v/../m/c",
        "module-virtual c ../m/c",
        "module-virtual .hid/1 ../m/c",
        "module-virtual a/stray ../m/stray",
        "module-virtual a/newer ../m/newer",
        "module-version a/1 default old",
        "module-alias other b/1",
        "set ModulesVersion x",
    ];
    let (scene, root) = virtual_tree(&all[..6]);
    assert!(is_native(std::slice::from_ref(&root)));
    // With others, some questions are left to Modules; what is answered is the same.
    assert!(answered(&[scene.at("m"), root]).iter().any(|native| *native));
    let (scene, root) = virtual_tree(&all);
    assert!(answered(&[root, scene.at("m")]).iter().any(|native| *native));
    let (_scene, root) = virtual_tree(&all[..6]);
    for site in sites() {
        let mut bench = Bench::new(&site, std::slice::from_ref(&root));
        bench.environment.set("MODULES_MCOOKIE_CHECK", "eval");
        for words in QUESTIONS {
            bench.assert_same_or_unable(words);
        }
    }
}

#[test]
fn slashes_at_the_end_of_a_modulepath_are_none_of_its_name() {
    let (scene, root) = tree(&["a/1", "a/2"]);
    scene.module("n/b/1");
    let spelled = [PathBuf::from(format!("{}//", root.display())), scene.at("n/")];
    assert!(is_native(&spelled));
}

#[test]
fn an_rc_file_without_a_cookie_or_of_a_later_modules_is_passed_over() {
    for first in ["", "#%Module99\n", "#Module\n"] {
        let (scene, root) = tree(&["a/1", "a/2"]);
        scene.file("m/a/.modulerc", &format!("{first}module-version a/1 x\n"));
        assert!(is_native(&[root]), "{first:?}");
    }
}

#[test]
fn modulepaths_are_shown_in_their_order_and_know_each_other_s_symbols() {
    let scene = ModuleTree::new();
    for name in ["one/a/1", "one/b/1", "two/a/1", "two/a/2", "empty/.keep"] {
        scene.module(name);
    }
    scene.file("one/a/.modulerc", "#%Module\nmodule-version a/2 far\nmodule-alias al two\n");
    scene.file("two/a/.modulerc", "#%Module\nmodule-version a/1 near default\n");
    let path = |name: &str| scene.at(name);
    for roots in [
        vec![path("one"), path("two")],
        vec![path("two"), path("one")],
        vec![path("one"), path("one")],
        vec![path("nosuch"), path("two"), path("empty")],
    ] {
        assert!(is_native(&roots), "{roots:?}");
    }
    for odd in ["two/", "two/../one", "./two"] {
        answered(&[path("one"), path(odd)]);
    }
}

#[test]
fn a_variable_in_the_modulepath_is_what_modules_takes_it_for() {
    let scene = ModuleTree::new();
    scene.module("m/a/1");
    scene.module("m/sub/b/1");
    let root = scene.at("m");
    let text = root.to_str().unwrap();
    for site in sites() {
        let mut bench = Bench::new(&site, &[root.clone(), scene.at("m/sub")]);
        bench.environment.set("SUB", "sub");
        bench.environment.set("SLASHES", "/sub//");
        bench.environment.set("ODD", "s[u]b");
        for (path, is_native) in [
            (format!("{text}/$SUB"), true),
            (format!("{text}/${{SUB}}:{text}"), true),
            (format!("{text}:{text}/$NOT_SET:{text}/$SUB"), true),
            (format!("/usr/share/$NOT_SET/modulefiles:{text}"), true),
            (format!("{text}/$SLASHES"), true),
            (format!("{text}/$ODD:{text}"), false),
            (format!("{text}/s$SUB"), false),
            (format!("{text}/$SUB(x):{text}"), false),
            ("$SUB".to_owned(), false),
            (format!("{text}/../m"), false),
        ] {
            bench.environment.set("MODULEPATH", path.clone());
            for question in QUESTIONS {
                assert_eq!(bench.assert_same_or_unable(question), is_native, "{path}");
            }
        }
    }
}
