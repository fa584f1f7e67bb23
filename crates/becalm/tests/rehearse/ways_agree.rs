//! A start sends the same RPCs whether its calls go through FUSE or are delayed by a tracer, and as
//! many as are predicted: also where most of what it looks for lies below directories that are not
//! there.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use testkit::rehearsal::{Rehearser, each_rehearser};
use testkit::run;

/// The metadata RPCs of a start, those that failed, and those that are predicted of its recording.
struct SentRpcs {
    sent: u64,
    failed: u64,
    predicted: u64,
}

fn sent(user: &Rehearser, way: &str, path: &str, words: &[&str]) -> SentRpcs {
    let record = format!("--record={}", user.scene.at(way));
    let options = ["--profile", "nfs", "--json", "--by", way, &record, path, "--"];
    let ran = run(&mut user.becalm(&[&options, words].concat()));
    assert_eq!(ran.code(), 0, "{way}: {}", ran.err());
    let answer: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert!(answer["by"].as_str().unwrap().starts_with(way), "{}", answer["by"]);
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{answer:#}"));
    SentRpcs {
        sent: number(&answer["rpcs"]),
        failed: number(&answer["enoent"]),
        predicted: number(&answer["predicted_wait"]["rpcs"]),
    }
}

/// Both ways send the same but for `links`, the symbolic links, which a tracer does not follow.
fn both_ways_send_what_is_predicted(path: &str, links: u64, words: &[&str]) {
    for user in each_rehearser() {
        let [fuse, tracer] = ["fuse", "tracer"].map(|way| sent(&user, way, path, words));
        for (way, sent) in [("FUSE", &fuse), ("a tracer", &tracer)] {
            let told = format!("{way}: sent {}, predicted {}", sent.sent, sent.predicted);
            assert!(sent.sent.abs_diff(sent.predicted) <= links, "{told}");
        }
        assert_eq!(fuse.failed, tracer.failed, "failed through FUSE, and by a tracer");
        assert!(fuse.sent.abs_diff(tracer.sent) <= links, "{} and {}", fuse.sent, tracer.sent);
    }
}

#[test]
fn libraries_searched_over_forty_directories_of_an_rpath() {
    let user = each_rehearser().remove(0);
    let store = user.scene.subdirectory("store");
    let make = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/store/make");
    let made = run(Command::new(make).args(["--libs", "40", &store]));
    assert_eq!(made.code(), 0, "{}", made.err());
    both_ways_send_what_is_predicted(&store, 2, &[made.out().trim(), "--version"]);
}

/// perl looks for `File/Find.pm` in each of them, and asks for `File/` nowhere by itself.
#[test]
fn modules_searched_over_many_directories_of_inc() {
    let user = each_rehearser().remove(0);
    let tree = user.tree("inc");
    let inc: Vec<_> = (0..30).map(|number| format!("{tree}/inc{number}")).collect();
    inc.iter().for_each(|directory| fs::create_dir(Path::new(directory)).unwrap());
    let program = "require POSIX; require File::Find; require Data::Dumper; require Storable; \
                   require IO::Socket;";
    let options: Vec<_> = inc.iter().map(|directory| format!("-I{directory}")).collect();
    let words: Vec<&str> = options.iter().map(String::as_str).collect();
    both_ways_send_what_is_predicted(&tree, 2, &[&["perl"], &words[..], &["-e", program]].concat());
}
