//! How long the storms are waited for: a table, or a sentence where there is none.

use cost::PredictedWait;
use explain::{Findings, OtherWait, Storm};
use term::number::{bar, count, counted, percent};
use term::{Cell, Column, Table, style, width};

use crate::predicted_wait::seconds;

/// How long a bar is.
const BAR: usize = 10;

/// The storms; with what belongs to none, and all of it, where that is not one of them alone. No line
/// is wider than `columns`, as far as names and waits allow.
pub(super) fn table(findings: &Findings, columns: usize) -> String {
    let columns = columns.saturating_sub(2);
    let is_too_wide = |text: &str| {
        let lines = text.lines().map(|line| anstream::adapter::strip_str(line).to_string());
        lines.into_iter().any(|line| width::of(&line) > columns)
    };
    let mut text = table_of(findings, &findings.other_waits).render(columns);
    if is_too_wide(&text) {
        text = table_of(findings, &[]).render(columns);
    }
    text.lines().map(|line| format!("  {line}\n")).collect()
}

/// The table with the waits on these filesystems beside the one that was chosen.
fn table_of(findings: &Findings, others: &[OtherWait]) -> Table {
    let totals = &findings.totals;
    let one_rank = format!("1 rank, {}", findings.model.profile);
    // What is least needed goes first where there is no room: the bar, the failed, the operations.
    let mut table = Table::new([
        // Others are left out before a name is cut.
        if others.is_empty() { Column::path("cause") } else { Column::text("cause") },
        Column::number("ops").spare(),
        Column::number("failed").spare(),
        Column::text("").spare(),
        Column::number("").spare(),
        Column::number(&one_rank),
        Column::number(&if others.is_empty() { ranks(findings) } else { job(findings) }),
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
            Some(_) => pair(findings, &storm.predicted_wait, &storm.other_waits[..others.len()]),
            None => unknown(),
        };
        let name = storm.storm.name();
        table.row(row(name, storm.metadata_ops, storm.enoent, waits, style::MORE));
    }
    let faults = findings.page_faults.split_first().filter(|(faults, _)| {
        let all = findings.predicted_wait.map_or(0.0, |wait| wait.one_rank);
        faults.wait.one_rank * 20.0 > all
    });
    if let Some((faults, beside)) = faults {
        let waits = pair(findings, &faults.wait, &beside[..others.len()]);
        table.row(row(Storm::Data.name(), 0, 0, waits, style::NONE));
    }
    let rest: u64 = findings.rest.iter().map(|part| part.count.metadata_ops).sum();
    if findings.storms.len() > 1 || rest * 20 > totals.metadata_ops || faults.is_some() {
        let enoent = findings.rest.iter().map(|part| part.count.enoent).sum();
        table.row(row("other", rest, enoent, Default::default(), style::NONE));
        let waits = match findings.predicted_wait {
            Some(wait) => pair(findings, &wait, others),
            None => unknown(),
        };
        let [one, all] = waits;
        let (ops, enoent) = (count(totals.metadata_ops), count(totals.enoent));
        table.total(["total".to_owned(), ops, enoent, String::new(), String::new(), one, all]);
    }
    table
}

/// The waits of one rank and of all.
pub(super) fn sentence(findings: &Findings) -> String {
    let Some(wait) = findings.predicted_wait else { return String::new() };
    let [one, all] = pair(findings, &wait, &findings.other_waits);
    let profile = &findings.model.profile;
    let own = match findings.own_wait * 10.0 > wait.one_rank {
        true => format!(
            ", {} of it for becalm run itself (--check no looks at less)",
            seconds(findings.own_wait)
        ),
        false => String::new(),
    };
    let (ranks, nodes) = (findings.model.ranks, findings.model.nodes);
    let job = format!("{} on {}", count(ranks), counted(nodes, "node", "nodes"));
    let text = format!("1 rank waits {one} on {profile}{own}; {job}: {all}");
    // A number stays with its unit.
    text.replace(" ms", "\u{a0}ms").replace(" s ", "\u{a0}s ")
}

/// `1,000 ranks on 16 nodes`.
fn job(findings: &Findings) -> String {
    format!("{} on {}", ranks(findings), counted(findings.model.nodes, "node", "nodes"))
}

/// `1,000 ranks`.
fn ranks(findings: &Findings) -> String {
    counted(findings.model.ranks, "rank", "ranks")
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
