//! `becalm fork lines` tells what a line waits for from what it works and starts, who calls it, and
//! whether it is in a loop.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;
use testkit::{Scene, run};

use crate::lines::{answer, becalm};

/// The milliseconds of a line's field.
fn millis(line: &Value, field: &str) -> u64 {
    line[field].as_u64().unwrap() / 1_000_000
}

#[test]
fn what_is_waited_for_is_no_part_of_starting_nor_of_work() {
    let scene = Scene::new();
    run(Command::new("mkfifo").arg(scene.at("fifo")));
    let script = "x=$(sleep 0.7; basename /a/b)\n\
        x=$( (sleep 0.7; basename /a/b) )\n\
        (sleep 0.7; echo go > fifo) &\n\
        /bin/cat < fifo > /dev/null\n\
        i=0; (while ((i < 60000)); do ((i++)); done)\n\
        sleep 0.7 | sleep 0.7\n";
    scene.file("main.sh", script, 0o755);
    let words = ["fork", "lines", "--json", "--processes", "--", "bash", "main.sh"];
    let answer = answer(&run(&mut becalm(&scene, &words)));
    let starts = ["fork_ns", "setup_ns", "exec_ns", "loader_ns", "locale_ns"];
    let all = answer["lines"].as_array().unwrap();
    let line = |number: u64| all.iter().find(|line| line["line"] == number).unwrap();
    for number in [1, 2, 3, 4, 5, 6] {
        let line = line(number);
        let starting: u64 = starts.iter().map(|phase| millis(line, phase)).sum();
        assert!(starting < 300, "{line:#}");
        let own_work = millis(line, "work_ns") - millis(line, "waiting_ns");
        assert!(number == 5 || own_work < 300, "{line:#}");
        let waited = millis(line, "waiting_ns");
        match number {
            5 => assert!(own_work > 20 && waited < 300, "{line:#}"),
            // A pipe's two wait side by side, and their waiting is a sum.
            6 => assert!((1300..1900).contains(&waited), "{line:#}"),
            _ => assert!((650..1000).contains(&waited), "{line:#}"),
        }
    }
    let tree = answer["process_tree"].as_array().unwrap();
    assert_eq!(tree[0]["parent"], Value::Null);
    assert_eq!(tree.len() as u64, answer["processes"].as_u64().unwrap() + 1);
    let sleeps: Vec<_> = tree.iter().filter(|one| one["program"] == "sleep").collect();
    assert!(sleeps.iter().all(|one| millis(one, "waiting_ns") > 650), "{sleeps:#?}");
    assert_eq!(sleeps.len(), 5);
}

#[test]
fn a_line_tells_who_calls_it_and_loops_are_spoken_of_where_there_is_one() {
    let scene = Scene::new();
    scene.file("lib.sh", "\n\n\nf() {\n  x=$(echo \"$1\" | sed s/a/b/)\n}\n", 0o755);
    let script = "#!/bin/bash\n. ./lib.sh\n\
        f a\n\
        f b\n\
        x=$(echo a | sed s/a/b/) y=$(echo a | sed s/a/b/)\n\
        for i in 1 2 3; do\n\
        x=$(echo $i | sed s/a/b/)\n\
        done\n";
    scene.file("main.sh", script, 0o755);
    let ran = run(&mut becalm(&scene, &["fork", "lines", "--json", "--", "./main.sh"]));
    let answer = answer(&ran);
    let all = answer["lines"].as_array().unwrap();
    let line = |number: u64, file: &str| {
        let is_it = |line: &&Value| {
            line["line"] == number && line["file"].as_str().unwrap().ends_with(file)
        };
        all.iter().find(is_it).unwrap()
    };
    let says_loop = |line: &Value| {
        assert_eq!(line["advice"][0]["program"], "sed", "{line:#}");
        line["advice"][0]["text"].as_str().unwrap().contains("outside the loop")
    };
    let of_f = line(5, "lib.sh");
    let callers: Vec<_> = of_f["callers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|caller| caller["from"][0].as_str().unwrap().rsplit('/').next().unwrap())
        .collect();
    assert_eq!(BTreeSet::from_iter(callers), BTreeSet::from(["main.sh:3", "main.sh:4"]));
    // Twice, but from two places; and twice in one line.
    assert!(of_f["in_loop"] == false && !says_loop(of_f), "{of_f:#}");
    assert!(!says_loop(line(5, "main.sh")));
    assert!(says_loop(line(7, "main.sh")));
    let words = ["fork", "lines", "--", "./main.sh"];
    let screen = run(becalm(&scene, &words).env("COLUMNS", "160"));
    assert!(screen.err().contains("called at"), "{}", screen.err());
    assert!(screen.err().contains("main.sh:3 +1") || screen.err().contains("main.sh:4 +1"));
}
