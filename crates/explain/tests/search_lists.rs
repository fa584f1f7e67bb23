//! Search lists, on recordings that are told call by call.

#![allow(clippy::unwrap_used)] // A test program: what fails, fails the test.

mod support;

use explain::Storm;
use support::*;

/// Names with two endings each, found in the directory of that number.
fn searched(tale: &mut Tale, directories: &[String], names: &[String], found: usize) {
    for name in names {
        for directory in &directories[..found] {
            tale.call("stat", &format!("{directory}/{name}.pmc"), NO);
            tale.call("stat", &format!("{directory}/{name}.pm"), NO);
        }
        tale.call("stat", &format!("{}/{name}.pmc", directories[found]), NO);
        tale.call("stat", &format!("{}/{name}.pm", directories[found]), YES);
    }
}

#[test]
fn the_variable_whose_directories_are_searched_is_named_with_what_never_hit_and_the_best_order() {
    let directories = numbered("/opt/p", 20);
    let list = directories.join(":");
    let mut tale =
        Tale::of("/opt/bin/app", &["app"], &[("R_LIBS", &list), ("MANPATH", "/opt/man")]);
    searched(&mut tale, &directories, &numbered("Some/M", 20), 18);
    let findings = tale.explained();
    let storm = only(&findings, Storm::SearchList);
    assert_eq!((storm.metadata_ops, storm.enoent), (20 * 38, 20 * 37));
    assert_eq!(storm.title, "20 names were searched in up to 19 directories of R_LIBS");
    let source = source(storm, "search_list");
    assert_eq!(source["list"]["variable"], "R_LIBS");
    assert_eq!((&source["given"], &source["names"]), (&20.into(), &20.into()));
    assert_eq!(source["never_hit"].as_array().unwrap().len(), 19);
    assert_eq!(source["best_order"], serde_json::json!([directories[18]]));
    assert_eq!(source["ops_in_best_order"], 20 * 2);
}

/// As of perl, which searches its own directories behind those of PERL5LIB.
#[test]
fn what_a_program_searches_besides_is_none_of_the_variables() {
    let mut directories = numbered("/opt/p", 20);
    let list = directories.join(":");
    directories.extend(numbered("/usr/lib/own", 6));
    let mut tale = Tale::of("/opt/bin/app", &["app"], &[("R_LIBS", &list)]);
    searched(&mut tale, &directories, &numbered("M", 20), 25);
    let findings = tale.explained();
    let storm = only(&findings, Storm::SearchList);
    let title = "20 names were searched in up to 26 directories, 20 of them from R_LIBS";
    assert_eq!(storm.title, title);
    let source = source(storm, "search_list");
    assert_eq!((&source["given"], &source["directories"]), (&20.into(), &26.into()));
}

/// As of forty modules in as many directories.
#[test]
fn what_the_first_and_the_second_directory_have_is_found_in_these() {
    let directories = numbered("/opt/p", 40);
    let list = directories.join(":");
    let mut tale = Tale::of("/opt/bin/app", &["app"], &[("R_LIBS", &list)]);
    for found in 0..40 {
        for directory in &directories[..found] {
            tale.call("openat", &format!("{directory}/m{found}.so.x"), NO);
        }
        for _ in 0..2 {
            tale.call("openat", &format!("{}/m{found}.so.x", directories[found]), YES);
        }
    }
    let findings = tale.explained();
    let storm = only(&findings, Storm::SearchList);
    assert_eq!(storm.enoent, (0..40).sum::<u64>());
    let found = source(storm, "search_list");
    // All but the one that is found at once.
    assert_eq!(found["names"], 39);
    assert_eq!(found["never_hit"], serde_json::json!([]));
    assert_eq!(found["best_order"], serde_json::json!(directories));
    let entries = storm.sources.iter().map(|source| source.sentence(storm.metadata_ops));
    let entries: Vec<_> = entries.filter(|said| said.contains("failed lookups, ")).collect();
    assert!(
        entries.iter().any(|said| said.contains("p0: 39 failed lookups, 1 search")),
        "{entries:#?}"
    );
    assert!(entries.iter().all(|said| !said.contains("nothing was found")), "{entries:#?}");
}

#[test]
fn a_list_that_is_written_nowhere_is_said_to_be_unknown() {
    let mut tale = Tale::of_app();
    let directories = numbered("/opt/plugins/", 30);
    searched(&mut tale, &directories, &numbered("M", 20), 29);
    let findings = tale.explained();
    let storm = only(&findings, Storm::SearchList);
    assert_eq!(source(storm, "search_list")["list"], "unknown");
    let sentence = storm.sources[0].sentence(storm.metadata_ops);
    let expected = "a list that becalm does not know, of 30 directories, beginning with \
                    /opt/plugins/0: ";
    assert!(sentence.starts_with(expected), "{sentence}");
}

#[test]
fn many_processes_of_one_program_search_one_list() {
    let directories = numbered("/opt/include/", 20);
    let words = directories.iter().map(|directory| format!("-I{directory}"));
    let words: Vec<String> = std::iter::once("cc1".to_owned()).chain(words).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut tale = Tale::of("/usr/bin/make", &["make"], &[]);
    for number in 0..20 {
        let child = tale.start(Some(0), recording::StartCall::Fork);
        tale.exec(child, "/usr/lib/gcc/cc1", "/usr/lib/gcc/cc1", &words, &[]);
        for directory in &directories {
            tale.call_of(child, "openat", &format!("{directory}/header{number}.h"), NO);
        }
        tale.end(child, 500, 900);
    }
    let findings = tale.explained();
    let source = source(only(&findings, Storm::SearchList), "search_list");
    assert_eq!((&source["list"]["option"], &source["processes"]), (&"-I".into(), &20.into()));
    assert_eq!(source["enoent"], 400);
}

#[test]
fn unrelated_lookups_that_fail_are_no_list() {
    let mut tale = Tale::of_app();
    for (at, name) in numbered("/opt/data/file", 300).iter().enumerate() {
        // A name of its own in each directory, and one that is looked for in two.
        tale.call("stat", &format!("{name}/only{at}"), NO);
        tale.call("stat", &format!("/etc/app/{at}.conf"), NO);
        tale.call("stat", &format!("/home/me/app/{at}.conf"), NO);
    }
    let findings = tale.explained();
    assert!(findings.storms.iter().all(|storm| storm.storm != Storm::SearchList), "{findings:#?}");
}

/// As node does in each of its packages, whose `lib/package.json` may be there.
#[test]
fn what_is_looked_for_in_each_directory_that_is_read_anyway_is_no_list() {
    let mut tale = Tale::of_app();
    for package in numbered("/opt/app/node_modules/m", 80) {
        tale.call("openat", &format!("{package}/package.json"), YES);
        tale.call("stat", &format!("{package}/lib/x"), NO);
        tale.call("stat", &format!("{package}/lib/x.js"), YES);
        tale.call("openat", &format!("{package}/lib/package.json"), NO);
        tale.call("openat", &format!("{package}/lib/x.js"), YES);
        tale.call("stat", &format!("{package}/lib/node_modules"), NO);
        tale.call("stat", &format!("{package}/node_modules"), NO);
    }
    let findings = tale.explained();
    assert!(findings.storms.iter().all(|storm| storm.storm != Storm::SearchList), "{findings:#?}");
}
