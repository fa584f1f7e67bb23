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

/// The times of a script's lines that start something, and the command's; of the best of three runs.
fn timed(script: &str) -> (u64, Vec<Value>) {
    let scene = Scene::new();
    scene.file("main.sh", script, 0o755);
    let runs = (0..3).map(|_| {
        let words = ["fork", "lines", "--json", "--", "bash", "main.sh"];
        let answer = answer(&run(&mut becalm(&scene, &words)));
        (millis(&answer, "wall_ns"), answer["lines"].as_array().unwrap().clone())
    });
    runs.min_by_key(|(wall, _)| *wall).unwrap()
}

/// Each of the lines is cured by hand, and the script timed anew.
#[test]
fn a_line_cured_saves_what_was_said_before() {
    let lines = [
        ("a=$(dirname \"/x/$i\")", "a=/x"),
        ("for k in 1 2; do b=$(basename \"/x/$i\"); done", "for k in 1 2; do b=$i; done"),
        ("c=$(echo \"$i\" | sed s/1/2/)", "c=${i/1/2}"),
    ];
    let script = |cured: Option<usize>| {
        let line = |(at, line): (usize, &(&str, &str))| {
            if cured == Some(at) { line.1.to_owned() } else { line.0.to_owned() }
        };
        let body: Vec<String> = lines.iter().enumerate().map(line).collect();
        format!("for ((i = 0; i < 120; i++)); do\n{}\ndone\n", body.join("\n"))
    };
    // A machine that others use differs from one run to the next; what is wrong is so each time.
    let is_near = |at: usize| -> Result<(), String> {
        let (wall, told) = timed(&script(None));
        let line = told.iter().find(|line| line["line"] == at as u64 + 2).unwrap();
        let saved = millis(line, "saved_if_cured_ns");
        let (cured, _) = timed(&script(Some(at)));
        let truly = wall.saturating_sub(cured);
        // At least that is saved.
        let noise = wall / 10;
        let is_near = saved <= truly + noise && saved + noise >= truly / 2;
        is_near.then_some(()).ok_or(format!("line {}: {saved} said, {truly} ms of {wall}", at + 2))
    };
    for at in 0..lines.len() {
        is_near(at).or_else(|_| is_near(at)).or_else(|_| is_near(at)).unwrap();
    }
}

/// What runs beside a longer one saves nothing; what waits or works is not cured.
#[test]
fn only_what_the_end_waits_for_saves_anything() {
    let script = "sleep 1 &\n\
        for i in 1 2 3 4 5 6 7 8 9; do x=$(dirname /a/b); done | sleep 0.2\n\
        wait\n\
        x=$(sleep 0.5; basename /a/b)\n\
        (i=0; while ((i < 90000)); do ((i++)); done; basename a >/dev/null)\n";
    let (wall, told) = timed(script);
    let line = |number: u64| told.iter().find(|line| line["line"] == number).unwrap();
    let critical = |number: u64| millis(line(number), "critical_ns");
    assert!(critical(1) > 950 && critical(1) < 2000, "{told:#?}");
    assert_eq!(critical(2), 0, "{told:#?}");
    assert!((500..1500).contains(&critical(4)), "{told:#?}");
    let saved = |number: u64| millis(line(number), "saved_if_cured_ns");
    assert!(saved(4) < 250 && saved(5) < 250, "{told:#?}");
    let all: u64 = [1, 2, 4, 5].into_iter().map(critical).sum();
    assert!(all <= wall, "{all} of {wall}");
}

#[test]
fn a_large_shell_is_told_where_its_forks_cost() {
    let script =
        "x=$(head -c 300000000 /dev/zero | tr '\\0' x)\nfor i in 1 2 3; do /bin/true; done\n";
    let scene = Scene::new();
    scene.file("main.sh", script, 0o755);
    let ran = run(&mut becalm(&scene, &["fork", "lines", "--", "bash", "main.sh"]));
    let said = ran.err().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("At main.sh:2, bash holds"), "{said}");
    assert!(said.contains("each fork copies its page tables"), "{said}");
}
