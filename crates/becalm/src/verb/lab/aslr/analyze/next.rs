//! What to do next.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use lab::aslr::analyze::{Analysis, SlowCause, SlowRank};
use serde_json::Value;

use super::AnalyzeArgs;
use crate::again;

/// A log's first line is no longer than this.
const HEADER: u64 = 1 << 20;

/// See it.
pub(super) fn seen(args: &AnalyzeArgs) -> Option<String> {
    if args.strip.is_some() || args.tail.is_some() {
        return None;
    }
    // Its older name, `becalm aslr analyze`, is of a word less.
    let verb = if std::env::args_os().nth(1).is_some_and(|word| word == "lab") { 3 } else { 2 };
    Some(again::with(verb, &["--strip", "strip.svg", "--tail", "tail.svg"]))
}

/// Have the layout explained of the slowest rank that is slow by it.
pub(super) fn explained(analysis: &Analysis) -> Option<String> {
    analysis.slow_ranks.iter().find_map(explaining)
}

fn explaining(slow: &SlowRank) -> Option<String> {
    // Only an offset can be had again.
    let layout = slow.layout.as_deref().filter(|layout| layout.starts_with("layout:"))?;
    if slow.cause != SlowCause::Layout {
        return None;
    }
    let header = header(Path::new(&slow.file))?;
    let by = if header["by"] == "wall" { "--by wall " } else { "" };
    let words = header["command"].as_array()?.iter();
    let mut words: Vec<&str> = words.map(Value::as_str).collect::<Option<_>>()?;
    // The built-in kernel lies beside its log; ranks that begin together are not started alone.
    let kernel = Path::new(&slow.file).with_file_name("kernel");
    if header["is_kernel"] == true {
        *words.first_mut()? = kernel.to_str().filter(|_| kernel.exists())?;
        if words.contains(&"(MPI)") {
            return None;
        }
    }
    let command = term::shell_line(&words);
    Some(format!("becalm lab aslr explain {layout} {by}-- {command}"))
}

/// A log's first line.
fn header(file: &Path) -> Option<Value> {
    let mut line = String::new();
    BufReader::new(File::open(file).ok()?.take(HEADER)).read_line(&mut line).ok()?;
    serde_json::from_str(&line).ok()
}
