//! Random trees, asked at random: native `avail` gives the real command's bytes, or none.
//!
//! `PROPTEST_CASES` says how many, each time others; each runs the real commands a dozen times.

use std::path::PathBuf;

use crate::support::bench::Bench;
use crate::support::{ModuleTree, sites};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// Parts of names: versions that sort oddly, names that are one another's beginnings, letters
/// that mean something to Tcl, to its patterns or to a shell.
const PARTS: [&str; 30] = [
    "a", "A", "ab", "abc", "b", "foo", "foobar", "1", "1.0", "1.9", "1.10", "01.9", "2", "v2",
    "10", ".1", ".hid", "default", "latest", "sym", "-x", "c++", "a b", "{x", "$v", "[z]", "x\\y",
    "é", "1.9-rc1", "2.0_a",
];

/// What files begin with.
const BEGINNINGS: [&str; 6] =
    ["#%Module\n", "#%Module1.0\n", "#%Module5.4\n", "#%Module99\n", "no cookie\n", ""];

const MODULES: [&str; 14] = [
    "a",
    "foo",
    "a/1",
    "foo/1.0",
    "foo/1.10",
    "ab/2",
    "/1",
    "./1.9",
    "foo/a/1",
    "a/foo",
    "b/.1",
    "foobar/default",
    "a/sym",
    "foo/",
];

const SYMBOLS: [&str; 6] = ["default", "sym", "latest", "1", ".dot", "zeta"];

fn part() -> impl Strategy<Value = String> {
    // Most names are plain: else all trees would be left to Modules.
    prop_oneof![
        12 => prop::sample::select(&PARTS[..20]),
        1 => prop::sample::select(&PARTS[20..]),
    ]
    .prop_map(str::to_owned)
}

fn name() -> impl Strategy<Value = String> {
    prop::collection::vec(part(), 1..4).prop_map(|parts| parts.join("/"))
}

fn rc_line() -> impl Strategy<Value = String> {
    let module = || prop::sample::select(&MODULES[..]);
    let symbol = || prop::sample::select(&SYMBOLS[..]);
    prop_oneof![
        4 => (module(), symbol()).prop_map(|(module, symbol)| format!("module-version {module} {symbol}")),
        1 => (module(), symbol(), symbol()).prop_map(|(module, one, two)| format!("module-version {module} {one} {two}")),
        2 => (module(), module()).prop_map(|(alias, module)| format!("module-alias {alias} {module}")),
        2 => (module(), module(), prop::sample::select(&["", "../", "../../", "./"][..]))
            .prop_map(|(name, file, up)| format!("module-virtual {name} {up}{file}")),
        2 => symbol().prop_map(|version| format!("set ModulesVersion {version}")),
        1 => Just("set ModulesVersion 1.10".to_owned()),
        1 => Just("# a comment".to_owned()),
    ]
}

fn rc() -> impl Strategy<Value = (String, String)> {
    let directory = prop_oneof![1 => Just(String::new()), 4 => part(), 1 => name()];
    let file = prop_oneof![Just(".modulerc"), Just(".version")];
    let lines = prop::collection::vec(rc_line(), 1..4);
    let cookie = prop_oneof![9 => Just("#%Module\n"), 1 => Just("#%Module99\n")];
    (directory, file, cookie, lines).prop_map(|(directory, file, cookie, lines)| {
        let name =
            if directory.is_empty() { file.to_owned() } else { format!("{directory}/{file}") };
        (name, format!("{cookie}{}\n", lines.join("\n")))
    })
}

fn tree() -> impl Strategy<Value = Vec<(String, String)>> {
    let beginning = prop_oneof![4 => Just(0_usize), 1 => 1..BEGINNINGS.len()];
    let file = (name(), beginning).prop_map(|(name, at)| (name, BEGINNINGS[at].to_owned()));
    let files = prop::collection::vec(file, 1..14);
    // Trees without rc files go a shorter way.
    let rcs = prop_oneof![1 => Just(Vec::new()), 1 => prop::collection::vec(rc(), 1..4)];
    (files, rcs).prop_map(|(files, rcs)| [files, rcs].concat())
}

fn question() -> impl Strategy<Value = Vec<String>> {
    let options = prop::sample::subsequence(
        vec!["-t", "-l", "-j", "-a", "-d", "-L", "-C", "-S", "-i", "--width=50", "--color=always"],
        0..4,
    );
    let pattern = prop_oneof![
        prop::sample::select(&PARTS[..16]).prop_map(str::to_owned),
        prop::sample::select(&MODULES[..]).prop_map(str::to_owned),
        prop::sample::select(&["f*", "*/1", "?", "*o*", "a*/", "foo/1", "*.*"][..])
            .prop_map(str::to_owned),
    ];
    let patterns = prop::collection::vec(pattern, 0..3);
    (options, patterns).prop_map(|(options, patterns)| {
        let words = std::iter::once("avail").chain(options);
        words.map(str::to_owned).chain(patterns).collect()
    })
}

/// What is set in the environment beside the modulepath.
fn surroundings() -> impl Strategy<Value = Vec<(&'static str, &'static str)>> {
    prop::sample::subsequence(
        vec![
            ("MODULES_ICASE", "always"),
            ("MODULES_ICASE", "search"),
            ("MODULES_SEARCH_MATCH", "contains"),
            ("MODULES_MCOOKIE_CHECK", "eval"),
            ("MODULES_TERM_WIDTH", "33"),
            ("MODULES_COLOR", "always"),
            ("MODULES_TERM_BACKGROUND", "light"),
            ("MODULES_IMPLICIT_DEFAULT", "0"),
            ("MODULES_EXTENDED_DEFAULT", "0"),
            ("MODULES_ADVANCED_VERSION_SPEC", "0"),
            ("loaded", "foo/1.0"),
            ("loaded", "a/1:ab/2"),
        ],
        0..3,
    )
}

/// Sets them; of loaded modules, the files in the first modulepath.
fn surround(bench: &mut Bench, root: &std::path::Path, surroundings: &[(&str, &str)]) {
    for (name, value) in surroundings {
        if *name != "loaded" {
            bench.environment.set(name, value);
            continue;
        }
        let files = value.split(':').map(|module| root.join(module));
        let files: Vec<_> = files.map(|file| file.to_str().unwrap().to_owned()).collect();
        bench.environment.set("LOADEDMODULES", value);
        bench.environment.set("_LMFILES_", files.join(":"));
    }
}

fn plant(scene: &ModuleTree, root: &str, tree: &[(String, String)]) -> PathBuf {
    let root = scene.at(root);
    std::fs::create_dir_all(&root).unwrap();
    for (name, content) in tree {
        let path = root.join(name);
        // A part of the way may be a file already, or the name a directory.
        if std::fs::create_dir_all(path.parent().unwrap()).is_ok() && !path.is_dir() {
            std::fs::write(&path, content).unwrap();
        }
    }
    root
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn native_avail_is_the_real_one_or_none(
        one in tree(),
        two in tree(),
        questions in prop::collection::vec(question(), 3),
        surroundings in surroundings(),
    ) {
        let scene = ModuleTree::new();
        let roots = [plant(&scene, "one", &one), plant(&scene, "two", &two)];
        for site in sites() {
            let mut bench = Bench::new(&site, &roots);
            surround(&mut bench, &roots[0], &surroundings);
            for question in &questions {
                let words: Vec<&str> = question.iter().map(String::as_str).collect();
                let native = bench.assert_same_or_unable(&words);
                if std::env::var_os("BECALM_TEST_COUNT").is_some() {
                    eprintln!("{} {}", if native { "native" } else { "left" }, site.release);
                }
            }
        }
    }
}

/// Always the same trees, so that what a run says is of the change alone; others with
/// `PROPTEST_CASES`.
fn config() -> ProptestConfig {
    let given = ProptestConfig {
        failure_persistence: None,
        max_shrink_iters: 200,
        ..ProptestConfig::default()
    };
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => given,
        None => ProptestConfig { cases: 24, rng_seed: RngSeed::Fixed(1), ..given },
    }
}
