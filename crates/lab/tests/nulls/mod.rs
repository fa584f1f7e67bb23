//! Experiments without an effect, many times over: how often 'Proven' is said of nothing, and how
//! often of something.

use std::fmt::Write;

use lab::aslr::analyze::{AslrVerdict, Doubt, Input, SlowCause, analyze};
use stats::Random;

use crate::{Logs, QUESTION, even, read};

/// How often each experiment is made. Seeds are fixed: it comes out the same each time.
const TIMES: u64 = 200;
/// How often it may say 'Proven' where there is nothing.
const FALSE: f64 = 0.06;
const RANKS: usize = 8;

/// The chance of each rank of a job to be slow, drawn once a job.
type Fate = fn(&mut Random) -> f64;

const FATES: [(&str, Fate); 4] = [
    ("independent", |_| 0.05),
    ("bad jobs", |random| if even(random) < 0.2 { 1.0 } else { 0.0 }),
    ("half-bad jobs", |random| if even(random) < 0.3 { 0.5 } else { 0.02 }),
    // Of Beta(1/2, 1/2), by the arcsine law.
    ("beta rates", |random| (even(random) * std::f64::consts::FRAC_PI_2).sin().powi(2)),
];

/// How a campaign is written.
#[derive(Clone, Copy, Debug)]
enum LogForm {
    /// A block is a job of each arm.
    Blocks,
    /// Two files of jobs.
    Files,
}

/// One experiment: jobs of both arms, by their fates.
struct Experiment {
    form: LogForm,
    jobs: usize,
    ranks: usize,
    fates: [Fate; 2],
}

impl Experiment {
    fn inputs(&self, logs: &Logs, random: &mut Random) -> Vec<Input> {
        let mut job = |fate: Fate| -> Vec<f64> {
            let rate = fate(random);
            let time = |_| match even(random) < rate {
                true => 0.2 + 0.02 * even(random),
                false => 0.1 + 0.002 * even(random),
            };
            (0..self.ranks).map(time).collect()
        };
        let mut texts = [String::new(), String::new()];
        let mut both = "{\"schema\":\"becalm.aslr.log/1\",\"campaign\":\"c\"}\n".to_owned();
        for block in 0..self.jobs {
            for (side, arm) in ["on", "off"].into_iter().enumerate() {
                for (rank, avg) in job(self.fates[side]).into_iter().enumerate() {
                    writeln!(texts[side], "CT: {rank} {avg} {avg} {avg} 0 :").unwrap();
                    writeln!(
                        both,
                        "{{\"arm\":\"{arm}\",\"job\":{},\"block\":{block},\"rank\":{rank},\
                         \"min\":{avg},\"avg\":{avg},\"max\":{avg},\"stddev\":0}}",
                        2 * block + side
                    )
                    .unwrap();
                }
            }
        }
        match self.form {
            LogForm::Blocks => vec![logs.write("log", both)],
            LogForm::Files => {
                let [on, off] = texts;
                vec![logs.write("on.log", on), logs.write("off.log", off)]
            }
        }
    }

    /// How often it says 'Proven', of all times.
    fn proven(&self) -> f64 {
        let logs = Logs::new();
        let mut random = Random::seeded(self.jobs as u64);
        let mut proven = 0;
        for _ in 0..TIMES {
            let samples = read(&self.inputs(&logs, &mut random)).unwrap();
            proven += u64::from(analyze(&samples, &QUESTION).unwrap().proven == Some(true));
        }
        proven as f64 / TIMES as f64
    }
}

#[test]
fn of_nothing_proven_is_said_at_most_six_times_in_a_hundred_and_of_something_mostly() {
    for form in [LogForm::Blocks, LogForm::Files] {
        for jobs in [3, 10, 20] {
            for ranks in if jobs == 20 { vec![1, 2, RANKS] } else { vec![RANKS] } {
                for (name, fate) in FATES {
                    let proven = Experiment { form, jobs, ranks, fates: [fate; 2] }.proven();
                    println!("{form:?}, {jobs} jobs of {ranks}, {name}: {proven} of nothing");
                    assert!(proven <= FALSE, "{form:?}, {jobs} jobs of {ranks}, {name}: {proven}");
                }
                let fates: [Fate; 2] = [|_| 0.2, |_| 0.0];
                let power = Experiment { form, jobs, ranks, fates }.proven();
                println!("{form:?}, {jobs} jobs of {ranks}: {power} of one in five");
                assert!(
                    jobs < 10 || ranks < RANKS || power > 0.9,
                    "{form:?}, {jobs} jobs: {power}"
                );
            }
        }
    }
}

/// A campaign without a launcher: one process a block and arm, of these times.
fn one_a_block(times: impl Iterator<Item = (f64, f64)>) -> String {
    let mut text = "{\"schema\":\"becalm.aslr.log/1\",\"campaign\":\"c\"}\n".to_owned();
    for (block, (on, off)) in times.enumerate() {
        for (side, (arm, avg)) in [("on", on), ("off", off)].into_iter().enumerate() {
            writeln!(
                text,
                "{{\"arm\":\"{arm}\",\"job\":{},\"block\":{block},\"rank\":0,\"min\":{avg},\
                 \"avg\":{avg},\"max\":{avg},\"stddev\":0}}",
                2 * block + side
            )
            .unwrap();
        }
    }
    text
}

#[test]
fn with_one_process_a_block_what_is_slow_is_seen_or_said_to_be_untold() {
    let logs = Logs::new();
    let slow = |block: usize| if block < 16 { 0.1 * (1 + block) as f64 } else { 0.1 } * 1.5;
    let of = |times: &mut dyn Iterator<Item = (f64, f64)>| {
        let samples = read(&[logs.write("log", one_a_block(times))]).unwrap();
        analyze(&samples, &QUESTION).unwrap()
    };
    // 16 of 30 blocks, up to 24 times slower, all of them in one arm.
    let one_arm = of(&mut (0..30).map(|block| (if block < 16 { slow(block) } else { 0.1 }, 0.1)));
    assert_eq!((one_arm.proven, one_arm.slow, one_arm.doubt), (Some(true), 16, None));
    // In either arm.
    let either = of(&mut (0..30).map(|block| match (block < 16, block % 2) {
        (true, 0) => (slow(block), 0.1),
        (true, _) => (0.1, slow(block)),
        _ => (0.1, 0.1),
    }));
    assert_eq!((either.proven, either.slow, either.doubt), (Some(false), 16, None));
    // In both: which is the usual speed, nobody can tell.
    let both = of(&mut (0..30).map(|block| {
        let time = if block < 16 { slow(block) } else { 0.1 };
        (time, time)
    }));
    assert_eq!((both.proven, both.doubt), (Some(false), Some(Doubt::Speeds)));
    // In a few blocks of both: it is the machine's.
    let few = of(&mut (0..30).map(|block| if block < 5 { (0.3, 0.3) } else { (0.1, 0.1) }));
    assert_eq!((few.slow, few.slow_blocks, few.doubt), (0, 5, None));
}

#[test]
fn jobs_of_other_sizes_are_not_compared() {
    let logs = Logs::new();
    let jobs = |ranks: usize| {
        let job: String = (0..ranks).map(|rank| format!("CT: {rank} 0.1 0.1 0.1 0 :\n")).collect();
        job.repeat(10)
    };
    let inputs = [logs.write("on.log", jobs(16)), logs.write("off.log", jobs(4))];
    let analysis = analyze(&read(&inputs).unwrap(), &QUESTION).unwrap();
    assert_eq!((analysis.proven, analysis.doubt), (Some(false), Some(Doubt::Sizes)));
}

/// A campaign of 20 blocks of jobs of 8 ranks. Of each rank of an arm: the chance that the machine
/// slows it, which its control loop shows, and that something unknown does.
fn with_control(random: &mut Random, machine: [f64; 2], unknown: [f64; 2]) -> String {
    let mut text = "{\"schema\":\"becalm.aslr.log/1\",\"campaign\":\"c\"}\n".to_owned();
    for block in 0..20 {
        for (side, arm) in ["on", "off"].into_iter().enumerate() {
            for rank in 0..RANKS {
                let is_machine = even(random) < machine[side];
                let is_slow = is_machine || even(random) < unknown[side];
                let avg = if is_slow { 0.2 } else { 0.1 } + 0.002 * even(random);
                let control = if is_machine { 2e-4 } else { 1e-4 };
                writeln!(
                    text,
                    "{{\"arm\":\"{arm}\",\"job\":{},\"block\":{block},\"rank\":{rank},\"min\":{avg},\
                     \"avg\":{avg},\"max\":{avg},\"stddev\":0,\"control\":{control}}}",
                    2 * block + side
                )
                .unwrap();
            }
        }
    }
    text
}

/// How often each verdict is given.
fn verdicts(machine: [f64; 2], unknown: [f64; 2]) -> [f64; 3] {
    let logs = Logs::new();
    let mut random = Random::seeded(4);
    let all = [AslrVerdict::Proven, AslrVerdict::Confounded, AslrVerdict::NotProven];
    let mut times = [0; 3];
    for _ in 0..TIMES {
        let text = with_control(&mut random, machine, unknown);
        let analysis = analyze(&read(&[logs.write("log", text)]).unwrap(), &QUESTION).unwrap();
        let at = all.iter().position(|verdict| analysis.verdict == Some(*verdict)).unwrap();
        times[at] += 1;
    }
    times.map(|times| times as f64 / TIMES as f64)
}

#[test]
fn what_the_machine_slows_in_one_arm_is_a_confounder_and_hides_no_layout() {
    // One rank in five of one arm is slow, all of them by the machine.
    let [proven, confounded, _] = verdicts([0.2, 0.0], [0.0, 0.0]);
    assert_eq!((proven, confounded), (0.0, 1.0));
    // Beside something unknown that is the same in both arms.
    let [proven, confounded, _] = verdicts([0.2, 0.0], [0.03, 0.03]);
    println!("the machine in one arm: proven {proven}, confounded {confounded}");
    assert!(proven <= FALSE && confounded > 0.8, "{proven} {confounded}");
    // The machine in both arms, as often: a layout that slows one rank in five is proven.
    let [proven, confounded, _] = verdicts([0.1, 0.1], [0.2, 0.0]);
    println!("the machine in both, a layout in one: proven {proven}, confounded {confounded}");
    assert!(proven > 0.8, "{proven} {confounded}");
    // And nothing, where there is none.
    let [proven, confounded, _] = verdicts([0.1, 0.1], [0.05, 0.05]);
    println!("the same in both: proven {proven}, confounded {confounded}");
    assert!(proven <= FALSE && confounded <= FALSE, "{proven} {confounded}");
}

#[test]
fn what_was_left_out_is_told_by_cause_and_still_counts_as_slow() {
    let logs = Logs::new();
    let text = with_control(&mut Random::seeded(1), [0.2, 0.0], [0.0, 0.0]);
    let analysis = analyze(&read(&[logs.write("log", text)]).unwrap(), &QUESTION).unwrap();
    let [comparison] = &analysis.comparisons[..] else { panic!("{analysis:?}") };
    let [left] = comparison.left_out[..] else { panic!("{comparison:?}") };
    assert_eq!((left.cause, left.slow, left.baseline), (SlowCause::Machine, analysis.slow, 0));
    assert!(left.slow > 20 && comparison.slow.seen == 0 && comparison.confounded);
    assert_eq!(analysis.proven, Some(false));
}

#[test]
fn arms_that_share_no_node_are_not_compared() {
    let logs = Logs::new();
    let text = |nodes: [&str; 2]| {
        let mut text = "{\"schema\":\"becalm.aslr.log/1\",\"campaign\":\"c\"}\n".to_owned();
        for job in 0..20 {
            let (arm, node) = [("on", nodes[0]), ("off", nodes[1])][job % 2];
            writeln!(
                text,
                "{{\"arm\":\"{arm}\",\"job\":{job},\"rank\":0,\"min\":0.1,\"avg\":0.1,\
                 \"max\":0.1,\"stddev\":0,\"node\":\"{node}\"}}"
            )
            .unwrap();
        }
        text
    };
    let of = |nodes| {
        let read = read(&[logs.write("log", text(nodes))]).unwrap();
        analyze(&read, &QUESTION).unwrap().doubt
    };
    assert_eq!(of(["n1", "n2"]), Some(Doubt::Nodes));
    assert_eq!(of(["n1", "n1"]), None);
}
