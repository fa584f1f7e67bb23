//! The proof as CSV and as Markdown.

use std::time::Duration;

use launch::Ended;
use term::number::{count, time};

use crate::proof::Proof;
use crate::side::Side;

/// A row for each side (RFC 4180). The first eight columns are hyperfine's, so that what reads
/// its files reads this one; all times are in seconds.
pub fn csv(proof: &Proof) -> String {
    let mut text = String::from(
        "command,mean,stddev,median,user,system,min,max,side,runs,lower_quartile,upper_quartile,\
         metadata_ops,enoent,openat,openat_failed,processes,status,signal,ratio,ratio_low,ratio_high\
         \r\n",
    );
    for (name, side, summary) in sides(proof) {
        let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
        let of = |get: fn(&stats::Summary) -> f64| number(summary.as_ref().map(get));
        let mean = |get: fn(&crate::TimedRun) -> f64| {
            let values: Vec<_> = side.runs.iter().map(get).collect();
            number(stats::Summary::of(&values).map(|summary| summary.mean))
        };
        let counted = side.first_counted();
        let (status, signal) = match side.ended {
            Ended::Exited(status) => (status.to_string(), String::new()),
            Ended::Signaled(signal) => (String::new(), signal.to_string()),
        };
        let ratio = proof.times.ratio.filter(|_| name == "after");
        let interval = ratio.and_then(|ratio| ratio.interval);
        let cells = [
            quoted(&side.command),
            of(|summary| summary.mean),
            number(summary.as_ref().and_then(|summary| summary.standard_deviation)),
            of(|summary| summary.median),
            mean(|run| run.user_us.seconds()),
            mean(|run| run.system_us.seconds()),
            of(|summary| summary.min),
            of(|summary| summary.max),
            name.to_owned(),
            side.runs.len().to_string(),
            of(|summary| summary.lower_quartile),
            of(|summary| summary.upper_quartile),
            counted.metadata_ops.to_string(),
            counted.enoent.to_string(),
            counted.call("openat").calls.to_string(),
            counted.call("openat").errors.to_string(),
            counted.processes.to_string(),
            status,
            signal,
            number(ratio.map(|ratio| ratio.ratio)),
            number(interval.map(|interval| interval.low)),
            number(interval.map(|interval| interval.high)),
        ];
        text.push_str(&cells.join(","));
        text.push_str("\r\n");
    }
    text
}

/// The verdict, one table and the notes, to paste into an issue or a README.
pub fn markdown(proof: &Proof) -> String {
    let verdict = &proof.verdict;
    let mut text = format!("**{}:** {}.\n\n", verdict.answer(), escaped(&verdict.sentence));
    text.push_str("| | Command | Metadata operations | 'No such file' | openat | ");
    text.push_str("Processes | Median time | Quartiles |\n");
    text.push_str("|:---|:---|---:|---:|---:|---:|---:|---:|\n");
    for (name, side, summary) in sides(proof) {
        let counted = side.first_counted();
        let times = summary.map_or([String::new(), String::new()], |summary| {
            let quartiles = [summary.lower_quartile, summary.upper_quartile];
            let quartiles = quartiles.map(|quartile| time(seconds(quartile)));
            [time(seconds(summary.median)), quartiles.join(" - ")]
        });
        let counts =
            [counted.metadata_ops, counted.enoent, counted.call("openat").calls, counted.processes];
        let cells: Vec<_> = [name.to_owned(), code(&side.command)]
            .into_iter()
            .chain(counts.map(count))
            .chain(times)
            .collect();
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    let runs = proof.before.runs.len().min(proof.after.runs.len());
    let machine = format!("{} timed runs of each on {}, Linux {}.", runs, proof.host, proof.kernel);
    text.push_str(&format!("\n{}\n", escaped(&machine)));
    if !proof.notes.is_empty() {
        text.push('\n');
    }
    for note in &proof.notes {
        text.push_str(&format!("- {}\n", escaped(note)));
    }
    text
}

fn sides(proof: &Proof) -> [(&'static str, &Side, Option<stats::Summary>); 2] {
    [("before", &proof.before, proof.times.before), ("after", &proof.after, proof.times.after)]
}

/// A measured time; it is never negative.
fn seconds(measured: f64) -> Duration {
    Duration::try_from_secs_f64(measured).unwrap_or_default()
}

/// A CSV cell: in quotes where it must be.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text.to_owned()
}

/// Inline code in a table's cell: in as many backquotes as it takes, on one line. A table ends a
/// cell at a bar even in code (GitHub Flavored Markdown, 4.10).
fn code(text: &str) -> String {
    let text = recording::shown(text.as_bytes()).replace('|', "\\|");
    let longest = text.split(|char| char != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let pad = if longest > 0 { " " } else { "" };
    format!("{fence}{pad}{text}{pad}{fence}")
}

/// Text without what Markdown or HTML would act on.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in recording::shown(text.as_bytes()).chars() {
        if "\\`*_[]<>|#".contains(char) {
            escaped.push('\\');
        }
        escaped.push(char);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_stays_one_cell() {
        assert_eq!(quoted("sh -c 'a, \"b\"'"), "\"sh -c 'a, \"\"b\"\"'\"");
        assert_eq!(quoted("ls"), "ls");
        assert_eq!(code("sh -c 'a | b'"), "`sh -c 'a \\| b'`");
        assert_eq!(code("echo `id`"), "`` echo `id` ``");
        assert_eq!(code("a\nb"), "`a\\x0ab`");
        assert_eq!(escaped("on <b> a_b"), "on \\<b\\> a\\_b");
    }
}
