//! What logs of many processes prove, and what they do not.
#![allow(clippy::unwrap_used)] // A test program.

mod nulls;

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

use lab::aslr::analyze::{
    Analysis, AnalysisOptions, ComparedUnit, Input, LogReadError, RankSamples, SlowCause,
    Statistic, analyze, data_sets, strip_plot, tail_plot,
};
use lab::aslr::log::{Address, CampaignHeader, LoggedProcess, Retest, RetestChange, SCHEMA};
use stats::Random;
use tempfile::TempDir;

const QUESTION: AnalysisOptions = AnalysisOptions { threshold: 0.1, ranks: 24_576, most_named: 10 };

/// Numbers between 0 and 1.
fn even(random: &mut Random) -> f64 {
    (random.bits() >> 11) as f64 / (1u64 << 53) as f64
}

/// The published test's lines: so many ranks, of which so many are slow throughout.
fn published(ranks: usize, slow: usize, seed: u64) -> String {
    let mut random = Random::seeded(seed);
    let mut text = String::from("pow test, 10 steps\n");
    for rank in 0..ranks {
        // Spread out, and not next to each other.
        let is_slow = slow > 0 && rank % (ranks / slow) == 5;
        let avg = if is_slow { 0.13 } else { 0.1 } + 0.001 * even(&mut random);
        let (min, max) = (avg - 0.0005, avg + 0.0005);
        writeln!(text, "CT: {rank} {min:.6} {max:.6} {avg:.6} 0.000200 : node{}", rank / 192)
            .unwrap();
    }
    text
}

struct Logs {
    directory: TempDir,
}

impl Logs {
    fn new() -> Logs {
        Logs { directory: TempDir::new().unwrap() }
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> Input {
        let path = self.directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        Input { path, arm: None }
    }

    fn whole(&self) -> Input {
        Input { path: self.directory.path().to_owned(), arm: None }
    }
}

fn read(inputs: &[Input]) -> Result<RankSamples, LogReadError> {
    RankSamples::read(inputs, Statistic::Avg)
}

#[track_caller]
fn analyzed(inputs: &[Input]) -> (RankSamples, Analysis) {
    let samples = read(inputs).unwrap_or_else(|error| panic!("{error}"));
    let analysis = analyze(&samples, &QUESTION).unwrap();
    (samples, analysis)
}

#[test]
fn three_slow_of_38016_against_none_is_not_proven_and_it_says_how_many_more_are_needed() {
    let logs = Logs::new();
    let inputs = [
        logs.write("on.log", published(38_016, 3, 1)),
        logs.write("off.log", published(38_016, 0, 2)),
    ];
    let (samples, analysis) = analyzed(&inputs);
    assert_eq!((analysis.proven, analysis.slow), (Some(false), 3));
    let comparison = &analysis.comparisons[0];
    assert_eq!((comparison.arm.as_str(), analysis.baseline.as_str()), ("on", "off"));
    assert!((comparison.p - 0.125).abs() < 1e-4, "{comparison:?}");
    let needed = comparison.needed.unwrap();
    assert_eq!(needed.more_slow, Some(2));
    // 67,210 for one in 10,000; this is 3 of 38,016.
    assert!((85_000..85_300).contains(&needed.for_80_percent.unwrap()), "{needed:?}");
    assert!((115_800..116_100).contains(&needed.for_95_percent.unwrap()), "{needed:?}");
    let on = &analysis.arms[0];
    assert!((on.chance.low - 1.63e-5).abs() < 1e-7 && (on.chance.high - 2.31e-4).abs() < 1e-6);
    assert!((on.job.bounds.low - 0.33).abs() < 0.01 && on.job.bounds.high > 0.996, "{on:?}");
    assert!(samples.inferred && samples.trouble.first.is_none());
}

#[test]
fn six_slow_against_none_is_proven() {
    let logs = Logs::new();
    let inputs = [
        logs.write("on.log", published(38_016, 6, 1)),
        logs.write("off.log", published(38_016, 0, 2)),
    ];
    let (_, analysis) = analyzed(&inputs);
    assert_eq!(analysis.proven, Some(true));
    assert!(analysis.comparisons[0].needed.is_none());
    // One job of each arm: no more is told.
    assert!(analysis.comparisons[0].supposes_independence);
}

#[test]
fn the_published_counts_keep_their_verdicts_when_jobs_are_counted() {
    let logs = Logs::new();
    // 198 jobs of 192 ranks.
    let in_jobs = |text: String| {
        let line = |(at, line): (usize, &str)| match line.strip_prefix("CT: ") {
            Some(rest) => format!("CT: {} {}\n", (at - 1) % 192, rest.split_once(' ').unwrap().1),
            None => line.to_owned() + "\n",
        };
        text.lines().enumerate().map(line).collect::<String>()
    };
    for (slow, p, proven) in [(3, 0.1238, false), (5, 0.0301, true), (6, 0.0147, true)] {
        let inputs = [
            logs.write("on.log", in_jobs(published(38_016, slow, 1))),
            logs.write("off.log", in_jobs(published(38_016, 0, 2))),
        ];
        let (_, analysis) = analyzed(&inputs);
        let comparison = &analysis.comparisons[0];
        assert_eq!(
            (comparison.by, comparison.slow.of, comparison.slow.seen),
            (ComparedUnit::Jobs, 198, slow as u64)
        );
        assert!((comparison.p - p).abs() < 1e-3, "{comparison:?}");
        assert_eq!((analysis.proven, comparison.supposes_independence), (Some(proven), false));
    }
}

#[test]
fn a_slow_rank_without_a_second_start_is_of_unknown_cause() {
    let logs = Logs::new();
    let (_, analysis) = analyzed(&[logs.write("on.log", published(2_000, 3, 1))]);
    assert_eq!((analysis.proven, analysis.slow_ranks.len()), (None, 3));
    assert!(analysis.slow_ranks.iter().all(|rank| rank.cause == SlowCause::Unknown));
}

#[test]
fn a_rank_that_was_fast_in_a_part_of_its_run_is_no_slow_layout() {
    let logs = Logs::new();
    let text = published(100, 0, 1) + "CT: 100 0.100 0.900 0.180 0.2 :\n";
    let (_, analysis) = analyzed(&[logs.write("on.log", text)]);
    assert_eq!((analysis.slow, analysis.slow_ranks[0].cause), (1, SlowCause::Passing));
}

#[test]
fn slow_ranks_that_follow_each_other_are_counted_by_jobs() {
    let logs = Logs::new();
    let line = |rank: usize, avg: f64| format!("CT: {rank} {avg} {avg} {avg} 0 :\n");
    // 40 jobs of 50 ranks; all ranks of the 7th are slow: 50 of 2000, but one job of 40.
    let job = |avg| (0..50).map(|rank| line(rank, avg)).collect::<String>();
    let on: String = (0..40).map(|number| job(if number == 7 { 0.2 } else { 0.1 })).collect();
    let off = job(0.1).repeat(40);
    let (_, analysis) = analyzed(&[logs.write("on.log", on), logs.write("off.log", off)]);
    let comparison = &analysis.comparisons[0];
    assert!(analysis.clusters.unwrap().clustered);
    assert_eq!(
        (comparison.by, comparison.slow.seen, comparison.slow.of),
        (ComparedUnit::Jobs, 1, 40)
    );
    assert_eq!(analysis.proven, Some(false));
}

/// A log of one campaign: blocks of 8 processes on and off; a whole block may be slow.
fn campaign(change: impl Fn(&mut LoggedProcess)) -> String {
    let header = CampaignHeader {
        schema: SCHEMA.into(),
        campaign: Some("c".into()),
        ..CampaignHeader::default()
    };
    let mut text = serde_json::to_string(&header).unwrap() + "\n";
    for job in 0..80u64 {
        for rank in 0..8 {
            let mut process = LoggedProcess {
                arm: if job % 2 == 0 { "on" } else { "off" }.into(),
                job,
                block: Some(job / 8),
                rank,
                min: 0.099,
                max: 0.101,
                avg: 0.1,
                stddev: 0.001,
                control: Some(0.05),
                ..LoggedProcess::default()
            };
            change(&mut process);
            text += &serde_json::to_string(&process).unwrap();
            text.push('\n');
        }
    }
    text
}

fn slow(process: &mut LoggedProcess) {
    (process.min, process.avg, process.max) = (0.199, 0.2, 0.201);
}

#[test]
fn a_block_that_is_slow_as_a_whole_has_no_slow_ranks() {
    let logs = Logs::new();
    let text = campaign(|process| {
        if process.block == Some(3) {
            slow(process);
        }
    });
    let (_, analysis) = analyzed(&[logs.write("log", text)]);
    assert_eq!((analysis.slow, analysis.blocks), (0, 10));
    assert_eq!(analysis.comparisons[0].tables, 10);
}

#[test]
fn the_cause_is_what_a_second_start_without_it_shows() {
    let logs = Logs::new();
    let fast = |changed| Retest { changed, avg: 0.1 };
    let still = |changed| Retest { changed, avg: 0.2 };
    let same = still(RetestChange::Nothing);
    let cases: Vec<(Vec<Retest>, Option<f64>, SlowCause)> = vec![
        (vec![same, fast(RetestChange::Layout)], Some(0.09), SlowCause::Machine),
        (vec![fast(RetestChange::Nothing)], None, SlowCause::NotRepeated),
        (
            vec![same, fast(RetestChange::CleanUpper), fast(RetestChange::Layout)],
            None,
            SlowCause::DirtyUpper,
        ),
        (vec![same, fast(RetestChange::Cpu), fast(RetestChange::Layout)], None, SlowCause::Cpu),
        (vec![same, fast(RetestChange::Environment)], None, SlowCause::Environment),
        (vec![same, still(RetestChange::Cpu), fast(RetestChange::Layout)], None, SlowCause::Layout),
        (vec![same, still(RetestChange::Layout)], None, SlowCause::Unknown),
        (vec![fast(RetestChange::Layout)], None, SlowCause::Unknown),
    ];
    for (retests, control, cause) in cases {
        let text = campaign(|process| {
            if (process.job, process.rank) == (16, 4) {
                slow(process);
                process.retests.clone_from(&retests);
                process.control = control.or(process.control);
            }
        });
        let (_, analysis) = analyzed(&[logs.write("log", text)]);
        assert_eq!(analysis.slow_ranks.len(), 1);
        assert_eq!(analysis.slow_ranks[0].cause, cause, "{retests:?}");
    }
}

#[test]
fn a_rank_that_is_slow_by_waiting_for_a_processor_is_not_blamed_on_anything_else() {
    let logs = Logs::new();
    let retests = vec![
        Retest { changed: RetestChange::Nothing, avg: 0.2 },
        Retest { changed: RetestChange::Layout, avg: 0.1 },
    ];
    // It takes 0.2 s, and others 0.1.
    for (waited, cause) in
        [(0.1, SlowCause::Machine), (0.05, SlowCause::Layout), (0.0, SlowCause::Layout)]
    {
        let text = campaign(|process| {
            if (process.job, process.rank) == (16, 4) {
                slow(process);
                process.retests.clone_from(&retests);
                process.waited = Some(waited);
            }
        });
        let (_, analysis) = analyzed(&[logs.write("log", text)]);
        assert_eq!(analysis.slow_ranks[0].cause, cause, "{waited}");
    }
}

#[test]
fn dirty_registers_that_were_not_cleared_are_told_of_and_not_blamed() {
    let logs = Logs::new();
    let still = |changed| Retest { changed, avg: 0.2 };
    for (retests, said) in [
        (vec![], "upper vector registers were dirty"),
        (
            vec![still(RetestChange::Nothing), still(RetestChange::Cpu)],
            "slow again, whatever was changed, and",
        ),
    ] {
        let text = campaign(|process| {
            if (process.job, process.rank) == (16, 4) {
                slow(process);
                process.retests.clone_from(&retests);
                process.dirty_upper = Some(true);
            }
        });
        let (_, analysis) = analyzed(&[logs.write("log", text)]);
        let slow = &analysis.slow_ranks[0];
        assert_eq!(slow.cause, SlowCause::Unknown);
        assert!(slow.why.starts_with(said) && slow.why.ends_with("was not tested"), "{}", slow.why);
    }
}

#[test]
fn a_bit_that_slow_ranks_share_within_blocks_is_found_and_one_that_goes_with_blocks_is_not() {
    let logs = Logs::new();
    let text = campaign(|process| {
        // Bit 14 is that of the rank; bit 20 is that of the block, and so is the machine's speed.
        let (bit, block) = (u64::from(process.rank % 2), process.block.unwrap() % 2);
        let at = 0x7f00_0000_0000 | bit << 14 | block << 20;
        process.maps.insert("libm.so.6".into(), Address(at));
        if bit == 1 && process.rank < 4 && process.job % 4 == 0 {
            slow(process);
        }
        if block == 1 {
            process.avg += 0.05;
        }
    });
    let (_, analysis) = analyzed(&[logs.write("log", text)]);
    let bits = analysis.bits.unwrap();
    let found: Vec<_> = bits.found.iter().map(|bit| bit.bit.as_str()).collect();
    assert_eq!(found, ["14", "14^25"], "{bits:?}");
}

#[test]
fn a_campaigns_log_counts_once_though_its_times_are_printed_beside_it() {
    let logs = Logs::new();
    logs.write("node1.log", campaign(|_| {}));
    logs.write("on/slurm-1.out", published(300, 0, 1));
    logs.write("job.sh", "#!/bin/sh\n12345\n");
    let (samples, analysis) = analyzed(&[logs.whole()]);
    assert_eq!(analysis.arms.iter().map(|arm| arm.slow.of).sum::<u64>(), 640);
    assert_eq!(samples.trouble.beside, 1);
    let same = [logs.whole(), Input { path: logs.directory.path().join("node1.log"), arm: None }];
    assert!(matches!(read(&same), Err(LogReadError::Twice { .. })));
}

#[test]
fn a_log_that_is_cut_anywhere_gives_every_whole_line_before_it() {
    let logs = Logs::new();
    let all = published(12, 0, 1);
    for end in all.find("CT: 1 ").unwrap()..all.len() {
        let (samples, analysis) = analyzed(&[logs.write("on.log", &all[..end])]);
        let whole = all[..end].matches(" : node0\n").count() as u64;
        // A line that was cut behind its numbers has lost none.
        let almost = u64::from(all[..end].lines().last().unwrap().contains(" :"))
            * u64::from(!all[..end].ends_with('\n'));
        assert_eq!(analysis.arms[0].slow.of, whole + almost, "{end}");
        assert!(samples.trouble.malformed == 0 && samples.trouble.cut <= 1);
    }
    let all = campaign(|_| {});
    for end in [all.len() - 1, all.len() - 2, all.len() - 100] {
        let (samples, _) = analyzed(&[logs.write("log", &all[..end])]);
        assert_eq!(samples.trouble.cut, u64::from(end < all.len() - 1), "{end}");
    }
}

#[test]
fn what_is_no_number_is_left_out_and_said() {
    let logs = Logs::new();
    let text = published(10, 0, 1)
        + "CT: 10 nan nan nan nan :\nCT: 11 0.1 inf 0.1 0 :\nCT: 12 -1 1 0.1 0 :\n\
           CT: 13 0.1 x 0.1 0 :\nCT: 14 0.1\nCT: 15 0.1 0.1 0.1 nan :\n";
    let (samples, analysis) = analyzed(&[logs.write("on.log", text)]);
    let trouble = &samples.trouble;
    assert_eq!((trouble.not_numbers, trouble.malformed, trouble.cut), (3, 2, 0));
    assert!(trouble.first.as_ref().unwrap().ends_with("on.log, line 12: holds what is no time"));
    assert_eq!(analysis.arms[0].slow.of, 11);
}

#[test]
fn one_sample_and_equal_samples_are_no_trouble() {
    let logs = Logs::new();
    let (samples, analysis) = analyzed(&[logs.write("on.log", published(1, 0, 1))]);
    assert_eq!((analysis.arms[0].slow.of, data_sets(&samples, true).len()), (1, 0));
    let equal = "0.1\n".repeat(50);
    let inputs = [logs.write("a.txt", &equal), logs.write("b.txt", &equal)];
    let (samples, analysis) = analyzed(&inputs);
    assert_eq!((analysis.slow, analysis.comparisons[0].p), (0, 1.0));
    assert!(strip_plot(&samples, &analysis).ends_with("</svg>\n"));
    assert!(tail_plot(&samples, &analysis).ends_with("</svg>\n"));
}

#[test]
fn two_forms_in_one_file_are_refused() {
    let logs = Logs::new();
    let mixed = published(3, 0, 1) + &campaign(|_| {});
    let error = read(&[logs.write("on.log", mixed)]).unwrap_err();
    assert!(matches!(error, LogReadError::Mixed { line: 5, .. }), "{error}");
    let newer = campaign(|_| {}).replacen("log/1", "log/2", 1);
    let error = read(&[logs.write("log", newer)]).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("is becalm.aslr.log/2, and this becalm reads becalm.aslr.log/1")
    );
}

#[test]
fn what_holds_no_times_is_refused() {
    let logs = Logs::new();
    for text in ["", "nothing here\n", "\0\0\0\0"] {
        let error = read(&[logs.write("on.log", text)]).unwrap_err();
        assert!(matches!(error, LogReadError::Nothing { .. }), "{error}");
    }
    let error = read(&[logs.write("on.log", "CT: 1 nan nan nan nan :\n")]).unwrap_err();
    assert!(matches!(error, LogReadError::Nothing { .. }), "{error}");
    let device = Input { path: Path::new("/dev/zero").into(), arm: None };
    assert!(matches!(read(&[device]), Err(LogReadError::NoFile { .. })));
    let samples = read(&[logs.write("on.log", "-1\n-2\n-3\n")]).unwrap();
    assert!(analyze(&samples, &QUESTION).is_err());
}

#[test]
fn a_line_without_end_takes_no_memory_and_is_left_out() {
    let logs = Logs::new();
    let long =
        format!("CT: 1 0.1 0.1 0.1 0 : {}\nCT: {}\n", "x".repeat(5 << 20), "9".repeat(3 << 20));
    let (samples, analysis) = analyzed(&[logs.write("on.log", long)]);
    assert_eq!((analysis.arms[0].slow.of, samples.trouble.malformed), (1, 1));
}

#[test]
fn plots_are_well_formed_and_have_no_more_marks_than_places() {
    let logs = Logs::new();
    let inputs = [
        logs.write("on<&>.log", published(38_016, 3, 1)),
        logs.write("off.log", published(38_016, 0, 2)),
    ];
    let (samples, analysis) = analyzed(&inputs);
    for (name, plot) in [
        ("strip.svg", strip_plot(&samples, &analysis)),
        ("tail.svg", tail_plot(&samples, &analysis)),
    ] {
        assert!(plot.len() < 2 << 20, "{name}: {} bytes", plot.len());
        let path = logs.write(name, plot).path;
        let program = "import sys, xml.dom.minidom as x; x.parse(sys.argv[1])";
        let python = Command::new("python3").args(["-c", program]).arg(path).status().unwrap();
        assert!(python.success(), "{name}");
    }
}
