//! The page's own cost model says what becalm's says: at the values of a profile, at others, and
//! for other jobs.

#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::process::{Command, Stdio};

use cost::{CostModel, FilesystemProfile, JobSize, RecordedStart};
use explain::{ExplainOptions, explain};
use picture::{Picture, PicturedStart};
use recording::{ExitStatus, Recording};
use serde_json::{Value, json};
use testkit::made::{Made, ask, header, storm};

const MODEL: &str = include_str!("../src/page/model.js");

/// Says what one rank and all ranks wait in each case: a filesystem of a picture, with other speeds
/// and another job where they are given.
const CASES: &str = "
    const input = JSON.parse(require('fs').readFileSync(0, 'utf8'));
    console.log(JSON.stringify(input.cases.map((given) => {
        const wait = input.waits.find((wait) => wait.profile === given.profile);
        const speeds = { ...speedsOf(wait), ...given.speeds }, job = { ...jobOf(wait), ...given.job };
        return [oneRank(wait, speeds), allRanks(wait, speeds, job)];
    })));";

fn searching() -> Recording {
    let mut made = Made::new();
    let process = made.command("/usr/bin/demo");
    for number in 0..60 {
        for directory in 0..9 {
            made.call(process, ask("openat", &format!("/opt/s/{directory}/lib{number}")).missing());
        }
        made.call(process, ask("openat", &format!("/opt/s/9/lib{number}")).fd(3));
        made.call(process, ask("stat", &format!("/opt/s/9/lib{number}")));
    }
    made.end(process, ExitStatus::Exited(0));
    Recording::read(&made.finish()[..]).unwrap()
}

fn model(profile: &str, job: JobSize) -> CostModel {
    CostModel { profile: FilesystemProfile::find(profile.as_ref()).unwrap(), job, warm: false }
}

/// The filesystems of a picture, as its page has them.
fn pictured(recording: &Recording, model: &CostModel) -> Value {
    let options = ExplainOptions { model: model.clone(), ..ExplainOptions::default() };
    let start = PicturedStart::of("start", recording, explain(recording, &options), &options);
    let mut page = Vec::new();
    Picture::of_starts(vec![start]).write(&mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    let (_, data) = page.split_once("id=\"data\">").unwrap();
    let (data, _) = data.split_once("</script>").unwrap();
    serde_json::from_str::<Value>(data).unwrap()["starts"][0]["waits"].take()
}

/// What the page's model says of each case.
fn said(waits: &Value, cases: &[Value]) -> Vec<[f64; 2]> {
    let mut node = Command::new("node")
        .args(["-e", &format!("{MODEL}{CASES}")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let input = json!({"waits": waits, "cases": cases}).to_string();
    node.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = node.wait_with_output().unwrap();
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}

fn predicted(recording: &Recording, model: &CostModel) -> [f64; 2] {
    let wait = model.predict(&RecordedStart::of(recording, &[], None)).wait;
    [wait.one_rank, wait.all_ranks]
}

fn assert_equal(said: [f64; 2], predicted: [f64; 2], part: f64, what: &str) {
    for (said, predicted) in said.into_iter().zip(predicted) {
        let off = (said - predicted).abs();
        assert!(off <= predicted * part + 1e-6, "{what}: {said}, not {predicted}");
    }
}

#[test]
fn at_the_values_of_every_profile_the_page_says_what_becalm_predicts() {
    let recording = searching();
    let job = JobSize { ranks: 1000, ranks_per_node: 64 };
    let waits = pictured(&recording, &model("nfs", job));
    let names = ["nfs", "lustre", "gpfs", "local"];
    let cases = names.map(|profile| json!({"profile": profile}));
    for (profile, said) in names.iter().zip(said(&waits, &cases)) {
        assert_equal(said, predicted(&recording, &model(profile, job)), 1e-6, profile);
    }
}

#[test]
fn other_jobs_wait_as_becalm_predicts() {
    let recording = searching();
    let waits = pictured(&recording, &model("lustre", JobSize::ONE));
    let jobs = [(1, 1), (7, 2), (64, 64), (100, 1), (4096, 48), (24_576, 192), (100_000, 128)];
    let cases = jobs.map(|(ranks, on_a_node)| {
        json!({"profile": "lustre", "job": {"ranks": ranks, "ranksPerNode": on_a_node}})
    });
    for ((ranks, ranks_per_node), said) in jobs.into_iter().zip(said(&waits, &cases)) {
        let predicted = predicted(&recording, &model("lustre", JobSize { ranks, ranks_per_node }));
        assert_equal(said, predicted, 1e-6, &format!("{ranks} ranks"));
    }
}

#[test]
fn other_speeds_are_those_of_a_profile_that_says_so() {
    let recording = searching();
    let job = JobSize { ranks: 512, ranks_per_node: 64 };
    let waits = pictured(&recording, &model("lustre", job));
    let speeds = json!({"trip": 790_000, "service": 40_000, "bandwidth": 1e8});
    let said = said(&waits, &[json!({"profile": "lustre", "speeds": speeds})])[0];
    let text = FilesystemProfile::text("lustre".as_ref()).unwrap();
    let text = text.replace("190us", "790us").replace("10us", "40us").replace("3GB/s", "100MB/s");
    let profile = FilesystemProfile::parse(&text, "slower").unwrap();
    let slower = CostModel { profile, job, warm: false };
    assert_equal(said, predicted(&recording, &slower), 1e-6, "slower");
}

#[test]
fn a_start_of_many_steps_is_told_in_few_with_little_error() {
    let recording =
        Recording::written_by(&header(), |writer| storm::record(writer, 30_000)).unwrap();
    let job = JobSize { ranks: 1000, ranks_per_node: 64 };
    let waits = pictured(&recording, &model("nfs", job));
    for wait in waits.as_array().unwrap() {
        assert!(wait["alone"]["steps"].as_array().unwrap().len() <= 1000);
        let profile = wait["profile"].as_str().unwrap();
        let said = said(&waits, &[json!({"profile": profile})])[0];
        assert_equal(said, predicted(&recording, &model(profile, job)), 0.02, profile);
    }
}
