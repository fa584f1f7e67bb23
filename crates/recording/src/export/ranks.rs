//! The starts of a run's ranks in other programs' formats: a line a rank.

use std::io::{self, Write};

use serde_json::json;

use crate::{Nanos, RankStart};

/// Writes them as comma-separated values, the slowest first. What was not seen is empty.
///
/// # Errors
/// Those of `out`.
pub fn csv(starts: &[RankStart], out: &mut dyn Write) -> io::Result<()> {
    out.write_all(b"rank,node,began_ns,mpi_init_ns,waited_ns,returned_ns,watched_ns\n")?;
    for start in starts {
        let number = |nanos: Option<Nanos>| nanos.map_or_else(String::new, |it| it.0.to_string());
        writeln!(
            out,
            "{},{},{},{},{},{},{}",
            start.rank,
            super::csv::quoted(&start.node),
            start.began.0,
            number(start.called),
            number(start.waited),
            number(start.returned),
            start.watched.0
        )?;
    }
    Ok(())
}

/// Writes them in Chrome's Trace Event Format, a track a rank, the slowest on top: its start, how
/// long it then waited for the rank that called MPI_Init last, and MPI_Init from there on.
///
/// # Errors
/// Those of `out`.
pub fn chrome(starts: &[RankStart], run: &str, out: &mut dyn Write) -> io::Result<()> {
    let about = term::json::line(&json!({ "run": run, "ranks": starts.len() }))?;
    write!(out, "{{\"displayTimeUnit\":\"ms\",\"otherData\":{about},\"traceEvents\":[")?;
    let last = starts.first().filter(|start| start.called.is_some());
    let mut separator = "\n";
    for (place, start) in starts.iter().enumerate() {
        let pid = start.rank;
        let name = format!("rank {pid} on {}", start.node);
        let mut events = vec![
            json!({"name": "process_name", "ph": "M", "pid": pid, "args": {"name": name}}),
            json!({"name": "process_sort_index", "ph": "M", "pid": pid, "args": {"sort_index": place}}),
        ];
        let mut slice = |name: String, from: Nanos, to: Nanos| {
            if to > from {
                let (ts, dur) = (from.0 as f64 / 1e3, (to.0 - from.0) as f64 / 1e3);
                events.push(json!({
                    "name": name, "cat": "rank", "ph": "X", "ts": ts, "dur": dur, "pid": pid, "tid": pid
                }));
            }
        };
        slice("start".to_owned(), start.began, start.called.unwrap_or(start.watched));
        if let Some(((called, waited), last)) = start.called.zip(start.waited).zip(last) {
            let all_there = Nanos(called.0.saturating_add(waited.0));
            slice(format!("waits for rank {}", last.rank), called, all_there);
            slice("MPI_Init".to_owned(), all_there, start.returned.unwrap_or(all_there));
        }
        for event in events {
            out.write_all(separator.as_bytes())?;
            separator = ",\n";
            out.write_all(term::json::line(&event)?.as_bytes())?;
        }
    }
    out.write_all(b"\n]}\n")
}
