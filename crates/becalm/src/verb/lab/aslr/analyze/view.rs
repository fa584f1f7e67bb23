//! `becalm lab aslr analyze`: how many processes are slow, and what that proves.

use lab::aslr::analyze::{
    Analysis, ArmComparison, ArmCount, AslrVerdict, ComparedUnit, LogTrouble, MOST_SAMPLES,
    NeededRuns, RankSamples, Statistic,
};
use schemars::JsonSchema;
use serde::Serialize;
use stats::{Bounds, Count, to_see_one};

use term::number::{count, counted};
use term::{Column, Table, plain, style, width};

use super::verdict::{confounded, doubted, excluded};

/// What `becalm lab aslr analyze` answers: as JSON, docs/schema/becalm.lab.aslr.analyze.md; as text,
/// [`AslrAnalysis::render`].
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct AslrAnalysis {
    /// `becalm.lab.aslr.analyze/1`.
    schema: &'static str,
    /// The answer in words.
    headline: String,
    /// Which number stands for a rank: `avg`, `min` or `max`.
    statistic: Statistic,
    /// Whether a file's arm is only known by its name.
    arms_inferred: bool,
    /// What was left out.
    trouble: LogTrouble,
    #[serde(flatten)]
    analysis: Analysis,
}

impl AslrAnalysis {
    /// What these samples say.
    pub fn of(samples: &RankSamples, statistic: Statistic, analysis: Analysis) -> AslrAnalysis {
        AslrAnalysis {
            schema: "becalm.lab.aslr.analyze/1",
            headline: headline(&analysis),
            statistic,
            arms_inferred: samples.inferred,
            trouble: samples.trouble.clone(),
            analysis,
        }
    }

    /// What must be known before believing the answer, a line each.
    pub fn warnings(&self) -> Vec<String> {
        let trouble = &self.trouble;
        let mut lines = Vec::new();
        let bad = trouble.malformed + trouble.not_numbers + trouble.cut;
        if let (1.., Some(first)) = (bad, &trouble.first) {
            lines.push(format!(
                "{} left out: {} no record, {} no time, {} cut; the first is {first}",
                counted(bad, "line was", "lines were"),
                count(trouble.malformed),
                count(trouble.not_numbers),
                count(trouble.cut)
            ));
        }
        if trouble.beside > 0 {
            lines.push(format!(
                "{} left out: a campaign's log is beside it, and tells of the same processes",
                counted(trouble.beside, "file of 'CT:' lines is", "files of 'CT:' lines are")
            ));
        }
        if self.arms_inferred {
            let names: Vec<_> = self.analysis.arms.iter().map(|arm| arm.name.as_str()).collect();
            lines.push(format!(
                "which file is of which arm ({}) is inferred from its name; say it with NAME=FILE",
                names.join(", ")
            ));
        }
        lines
    }

    /// The answer as a person reads it, at most `columns` columns wide, around what ministat says
    /// (which has its own width); `next` is what to do next, as a command to paste.
    pub fn render(&self, columns: usize, ministat: &str, next: Option<&str>) -> String {
        let analysis = &self.analysis;
        let mut text = style::headline(&plain(&self.headline), columns);
        for line in ministat.lines() {
            // Only names of sets may hold what is not to be shown as it is, and a tab.
            text.push_str(&plain(&line.replace('\t', "        ")));
            text.push('\n');
        }
        text.push('\n');
        text.push_str(&arms(analysis).render(columns));
        for comparison in &analysis.comparisons {
            text.push('\n');
            text.push_str(&width::wrap(&plain(&compared(comparison, analysis)), columns));
        }
        for line in self.remarks() {
            text.push_str(&width::wrap(&plain(&line), columns));
        }
        if !analysis.slow_ranks.is_empty() {
            text.push('\n');
            text.push_str(&slow(analysis).render(columns));
            text.push_str(&causes(analysis, columns));
        }
        next.map_or(text.clone(), |next| text + &style::next(next))
    }

    fn remarks(&self) -> Vec<String> {
        let analysis = &self.analysis;
        let mut lines = Vec::new();
        if analysis.slow_blocks > 0 {
            lines.push(format!(
                "{} of {} blocks are slow as a whole, over {:.0} % slower than the median job: what \
                 slows all of a block is the machine, and says nothing about arms.",
                count(analysis.slow_blocks as u64),
                count(analysis.blocks as u64),
                analysis.threshold * 100.0
            ));
        }
        if let Some(clusters) = analysis.clusters.filter(|clusters| clusters.clustered) {
            lines.push(format!(
                "Slow ranks come in clusters: {} that follow a slow one, {} of others. They are \
                 not independent, and the intervals above are too narrow.",
                of(clusters.after_slow),
                of(clusters.after_other)
            ));
        }
        if let Some(bits) = analysis.bits.as_ref().filter(|bits| bits.tested > 0) {
            let tested = counted(bits.tested as u64, "bit of addresses", "bits of addresses");
            lines.push(match bits.found.first() {
                None => format!("Within blocks, slow ranks share none of {tested}."),
                Some(bit) => format!(
                    "Within blocks, slow ranks share bit {} of {}: {} with it, {} without (p = {} \
                     after {tested}). That is a hint, no cause.",
                    bit.bit,
                    bit.map,
                    of(bit.set),
                    of(bit.clear),
                    chance(bit.p)
                ),
            });
        }
        lines
    }
}

fn headline(analysis: &Analysis) -> String {
    let limit = format!("over {:.0} % slower than the median", analysis.threshold * 100.0);
    let best = analysis.comparisons.iter().min_by(|a, b| a.p.total_cmp(&b.p));
    let Some(best) = best else {
        let slow = analysis.arms.first().map_or(Count { seen: 0, of: 0 }, |arm| arm.slow);
        return format!("{} processes are {limit}. Nothing to compare them with.", of(slow));
    };
    let what = match (best.by, best.more_than) {
        (ComparedUnit::Ranks, _) => "slow ranks".to_owned(),
        (ComparedUnit::Jobs, 0) => "jobs with a slow rank".to_owned(),
        (ComparedUnit::Jobs, more) => {
            format!("jobs with more than {}", counted(more, "slow rank", "slow ranks"))
        }
    };
    let left_out = match best.left_out.is_empty() {
        true => "",
        false => ", other known causes left out",
    };
    let counts = format!(
        "{what} {} {} against {} {} ({limit}{left_out}; Fisher, one-sided: p = {})",
        of(best.slow),
        best.arm,
        of(best.baseline),
        analysis.baseline,
        chance(best.p)
    );
    if analysis.verdict == Some(AslrVerdict::Confounded) {
        return confounded(analysis);
    }
    match (analysis.doubt, best.proven) {
        (Some(doubt), _) => format!("Cannot be told: {}.", doubted(doubt, analysis)),
        (None, true) if best.supposes_independence => {
            format!("Proven if ranks do not depend on each other (no jobs are told): {counts}.")
        }
        (None, true) => format!("Proven: {counts}."),
        (None, false) => format!("Not proven: {counts}."),
    }
}

/// The arms, one a row.
fn arms(analysis: &Analysis) -> Table {
    let job = format!("a slow rank in a job of {}", count(analysis.ranks));
    let mut table = Table::new([
        Column::path("arm"),
        Column::number("jobs").spare(),
        Column::number("ranks"),
        Column::number("median").spare(),
        Column::number("slow"),
        Column::number("one in"),
        Column::number("95 %"),
        Column::number(&job),
    ]);
    for ArmCount { name, jobs, times, slow, chance, job, .. } in &analysis.arms {
        table.row([
            name.clone(),
            count(*jobs as u64),
            count(slow.of),
            significant(times.median),
            count(slow.seen),
            one_in(slow.share().unwrap_or(0.0)),
            format!("{} to {}", one_in(chance.high), one_in(chance.low)),
            format!("{} ({})", percent(job.seen), range(job.bounds)),
        ]);
    }
    table
}

fn compared(comparison: &ArmComparison, analysis: &Analysis) -> String {
    let ArmComparison { arm, tables, p, p_two_sided, proven, needed, slow, baseline, .. } =
        comparison;
    let within = match tables {
        2.. => format!(", within {} blocks", count(*tables as u64)),
        _ => String::new(),
    };
    let times = match comparison.comparisons {
        several @ 2.. => format!(", times {several} comparisons"),
        _ => String::new(),
    };
    let mut text = format!(
        "{arm}: Fisher's exact test{within}{times}: p = {} (one-sided), {} (two-sided).",
        chance(*p),
        chance(*p_two_sided)
    );
    if !comparison.left_out.is_empty() {
        text.push_str(&format!(
            " Left out, since the layout did not make them slow: {}.",
            excluded(&comparison.left_out)
        ));
    }
    if analysis.doubt.is_some() {
        return text + " That says nothing here.";
    }
    if comparison.confounded {
        return text + " With them it has more: the arms differ by something else.";
    }
    match (proven, needed) {
        (true, _) => text.push_str(" It has more slow ranks: that is proven at 95 %."),
        (false, Some(needed)) => text.push_str(&wanted(needed, *slow, *baseline, comparison.by)),
        (false, None) if slow.seen == 0 && baseline.seen == 0 => {
            let tries = to_see_one(1e-4, 0.95).unwrap_or(0);
            let within = if analysis.blocks > 0 { " within its block" } else { "" };
            let else_word = if comparison.left_out.is_empty() { "" } else { " else" };
            text.push_str(&format!(
                " Nothing{else_word} is slow{within}. To see one in 10,000 at all takes {} ranks (95 %).",
                count(tries)
            ));
        }
        (false, None) if *p_two_sided < 0.05 => text.push_str(
            " It has fewer slow ranks: whether the other has more is asked with off= before this one's path.",
        ),
        (false, None) => {
            text.push_str(" It has no more slow ranks: more of the same prove nothing.")
        }
    }
    text
}

/// What would prove it.
fn wanted(needed: &NeededRuns, slow: Count, baseline: Count, by: ComparedUnit) -> String {
    let what = if by == ComparedUnit::Jobs { "jobs" } else { "ranks" };
    let have = slow.of.min(baseline.of);
    let mut text = " Not proven.".to_owned();
    if let Some(more) = needed.more_slow {
        text.push_str(&format!(
            " {} would do, if the other has no more.",
            counted(more, "more slow one", "more slow ones")
        ));
    }
    let sizes = [(needed.for_80_percent, "80 %"), (needed.for_95_percent, "95 %")];
    let sizes = sizes.into_iter().filter_map(|(size, chance)| {
        let (size, more) = (count(size?), count(size?.saturating_sub(have)));
        Some(format!("{size} {what} of each arm ({more} more) for a chance of {chance}"))
    });
    let sizes = sizes.collect::<Vec<_>>().join(", ");
    text.push_str(&match sizes.as_str() {
        "" => format!(" No number of {what} up to 1e12 would show so small a difference."),
        sizes => format!(" If this is how it is, proving it takes {sizes}."),
    });
    text
}

/// The slow ranks, by name.
fn slow(analysis: &Analysis) -> Table {
    let mut table = Table::new([
        Column::number("rank"),
        Column::text("arm"),
        Column::number("time"),
        Column::number("x median"),
        Column::number("min").spare(),
        Column::number("max").spare(),
        Column::text("cause"),
        Column::path("node").spare(),
        Column::path("log").spare(),
    ]);
    for rank in &analysis.slow_ranks {
        table.row([
            rank.rank.to_string(),
            rank.arm.clone(),
            significant(rank.time),
            format!("{:.2}", rank.times_median),
            significant(rank.min),
            significant(rank.max),
            words(rank.cause).to_owned(),
            rank.node.clone().unwrap_or_default(),
            match rank.job {
                0 => rank.file.clone(),
                job => format!("{}, job {job}", rank.file),
            },
        ]);
    }
    table
}

/// How many were left out, and how each cause is known.
fn causes(analysis: &Analysis, columns: usize) -> String {
    let mut text = String::new();
    let left = analysis.slow - analysis.slow_ranks.len() as u64;
    if left > 0 {
        text.push_str(&format!("and {} more: --all\n", count(left)));
    }
    let mut told = Vec::new();
    for rank in &analysis.slow_ranks {
        if !told.contains(&rank.why) {
            told.push(rank.why);
            let line = format!("{}: {}.", words(rank.cause), rank.why);
            text.push_str(&width::wrap(&line, columns));
        }
    }
    text
}

pub(super) fn words(cause: lab::aslr::analyze::SlowCause) -> &'static str {
    use lab::aslr::analyze::SlowCause;
    match cause {
        SlowCause::Machine => "machine",
        SlowCause::Passing => "passing",
        SlowCause::NotRepeated => "not repeated",
        SlowCause::DirtyUpper => "dirty upper",
        SlowCause::Cpu => "processor",
        SlowCause::Environment => "environment",
        SlowCause::Layout => "layout",
        SlowCause::Unknown => "unknown",
    }
}

fn of(slow: Count) -> String {
    format!("{} of {}", count(slow.seen), count(slow.of))
}

/// A chance as the number of tries in which it happens once: `10,000`; `∞` for none.
fn one_in(chance: f64) -> String {
    match chance {
        chance if chance * (MOST_SAMPLES as f64) < 1e-3 => "∞".to_owned(),
        chance if chance > 0.1 => format!("{:.2}", 1.0 / chance),
        chance => count((1.0 / chance).round() as u64),
    }
}

/// A p-value.
pub(super) fn chance(p: f64) -> String {
    match p {
        p if p >= 1e-3 => format!("{p:.3}"),
        p if p >= 1e-30 => format!("{p:.1e}"),
        _ => "below 1e-30".to_owned(),
    }
}

fn percent(chance: f64) -> String {
    match chance * 100.0 {
        share if share > 0.0 && share < 0.1 => "<0.1 %".to_owned(),
        share if share < 100.0 && share > 99.9 => ">99.9 %".to_owned(),
        share => format!("{share:.1} %"),
    }
}

fn range(bounds: Bounds) -> String {
    let low = percent(bounds.low);
    format!("{} to {}", low.trim_end_matches(" %"), percent(bounds.high))
}

/// A measured value in four digits.
fn significant(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    if !(1e-6..1e9).contains(&value.abs()) {
        return format!("{value:.3e}");
    }
    let places = (3 - value.abs().log10().floor() as i32).clamp(0, 12) as usize;
    format!("{value:.places$}")
}
