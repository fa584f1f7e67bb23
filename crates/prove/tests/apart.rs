//! Two sides that are measured apart, as around a change that can be made only once.
//!
//! A program of its own (`harness = false`): commands are run by forking off a process with one
//! thread, and test harnesses have several.
#![allow(clippy::unwrap_used)] // A test program.

use std::time::Duration;

use prove::{Behaviour, Conditions, CountChange, Proof, ProofBench, Speed, Subject};

fn bench() -> ProofBench {
    ProofBench { timeout: Some(Duration::from_secs(60)), recordings: 2, ..ProofBench::default() }
}

fn subject(text: &str) -> Subject {
    Subject::parse(text.as_ref()).unwrap()
}

fn apart(before: &str, after: &str, runs: usize) -> Proof {
    let measure = |text: &str| bench().measure(&subject(text), runs, None, &mut |_| {}).unwrap();
    Proof::of(measure(before), measure(after), Conditions::apart())
}

fn sides_measured_apart_are_compared_and_the_proof_says_that_they_were() {
    let proof = apart("sh -c 'sleep 0.2; ls / >/dev/null'", "sleep 0.02", 5);
    assert_eq!(proof.behaviour, Behaviour::Same);
    assert_eq!(proof.counts.change, CountChange::Fewer);
    assert_eq!(proof.times.speed, Speed::Faster);
    assert_eq!(proof.times.ratio.unwrap().method, stats::Method::HodgesLehmann);
    assert!(proof.verdict.proven);
    assert!(proof.notes.iter().any(|note| note.starts_with("all runs of before were made first")));
    assert_eq!((proof.before.counted.len(), proof.before.runs.len()), (2, 5));
}

fn a_proof_is_read_back_as_it_was_written() {
    let proof = apart("ls /", "ls /usr", 1);
    let text = serde_json::to_string(&proof).unwrap();
    let read: Proof = serde_json::from_str(&text).unwrap();
    // All but the beginning of the output, which is not written.
    assert_eq!(serde_json::to_string(&read).unwrap(), text);
    assert!(read.before.stdout.head.is_empty());
}

fn surroundings_take_the_filesystems_place_in_the_verdict() {
    let side = || bench().measure(&subject("true"), 0, None, &mut |_| {}).unwrap();
    let surroundings = Some("a rehearsed cluster".to_owned());
    let conditions = Conditions { surroundings, ..Conditions::apart() };
    let proof = Proof::of(side(), side(), conditions);
    assert!(proof.verdict.sentence.contains("; on a rehearsed cluster "), "{:?}", proof.verdict);
    assert!(!proof.verdict.proven);
}

fn main() {
    sides_measured_apart_are_compared_and_the_proof_says_that_they_were();
    a_proof_is_read_back_as_it_was_written();
    surroundings_take_the_filesystems_place_in_the_verdict();
}
