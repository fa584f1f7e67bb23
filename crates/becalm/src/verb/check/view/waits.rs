//! How long the storms are waited for: a table, or a sentence where there is none.

use cost::PredictedWait;
use explain::{Findings, OtherWait};
use term::number::{bar, count, counted, percent};
use term::{Cell, Column, Table, style};

use crate::predicted_wait::seconds;

/// How long a bar is.
const BAR: usize = 10;

/// The storms; with what belongs to none, and all of it, where that is not one of them alone. No line
/// is wider than `columns`, as far as names and waits allow.
pub(super) fn table(findings: &Findings, columns: usize) -> String {
    let totals = &findings.totals;
    let one_rank = format!("1 rank, {}", findings.model.profile);
    // What is least needed goes first where there is no room: the bar, the failed, the operations.
    let mut table = Table::new([
        Column::text("cause"),
        Column::number("ops").spare(),
        Column::number("failed").spare(),
        Column::text("").spare(),
        Column::number("").spare(),
        Column::number(&one_rank),
        Column::number(&job(findings)),
    ]);
    let row = |name: &str, ops: u64, enoent: u64, waits: [String; 2], paint| {
        let [one, all] = waits;
        [
            Cell::from(name),
            Cell::from(count(ops)),
            Cell::from(count(enoent)),
            Cell::styled(&bar(ops, totals.metadata_ops, BAR), paint),
            Cell::from(percent(ops, totals.metadata_ops)),
            Cell::from(one),
            Cell::from(all),
        ]
    };
    for storm in &findings.storms {
        let waits = match findings.predicted_wait {
            Some(_) => pair(findings, &storm.predicted_wait, &storm.other_waits),
            None => unknown(),
        };
        let name = storm.storm.name();
        table.row(row(name, storm.metadata_ops, storm.enoent, waits, style::MORE));
    }
    let rest: u64 = findings.rest.iter().map(|part| part.count.metadata_ops).sum();
    if findings.storms.len() > 1 || rest * 20 > totals.metadata_ops {
        let enoent = findings.rest.iter().map(|part| part.count.enoent).sum();
        table.row(row("other", rest, enoent, Default::default(), style::NONE));
        let waits = match findings.predicted_wait {
            Some(wait) => pair(findings, &wait, &findings.other_waits),
            None => unknown(),
        };
        let [one, all] = waits;
        let (ops, enoent) = (count(totals.metadata_ops), count(totals.enoent));
        table.total(["total".to_owned(), ops, enoent, String::new(), String::new(), one, all]);
    }
    let lines = table.render(columns.saturating_sub(2));
    lines.lines().map(|line| format!("  {line}\n")).collect()
}

/// The waits of one rank and of all.
pub(super) fn sentence(findings: &Findings) -> String {
    let Some(wait) = findings.predicted_wait else { return String::new() };
    let [one, all] = pair(findings, &wait, &findings.other_waits);
    let profile = &findings.model.profile;
    let text = format!("1 rank waits {one} on {profile}; {}: {all}", job(findings));
    // A number stays with its unit.
    text.replace(" ms", "\u{a0}ms").replace(" s ", "\u{a0}s ")
}

/// `1,000 ranks on 16 nodes`.
fn job(findings: &Findings) -> String {
    let model = &findings.model;
    let (ranks, nodes) = (model.ranks, model.nodes);
    format!("{} on {}", counted(ranks, "rank", "ranks"), counted(nodes, "node", "nodes"))
}

/// Of one rank on the filesystem that was chosen, and of all on each.
fn pair(findings: &Findings, wait: &PredictedWait, others: &[OtherWait]) -> [String; 2] {
    let of = |profile: &str, wait: &PredictedWait| {
        format!("{} {}", term::plain(profile), seconds(wait.all_ranks))
    };
    let others = others.iter().map(|other| of(&other.profile, &other.wait));
    let all = std::iter::once(of(&findings.model.profile, wait)).chain(others);
    [seconds(wait.one_rank), all.collect::<Vec<_>>().join(" · ")]
}

fn unknown() -> [String; 2] {
    ["-", "-"].map(str::to_owned)
}
