//! What one recording comes to, without holding it in memory: ranks are compared by it.

use std::io::Read;

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Blind, ExitStatus, LetGo, Nanos, ProcessId, Reader, Record, RecordingReadError};

/// The sums over one recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Totals {
    /// Metadata operations: what a metadata server would serve.
    pub metadata_ops: u64,
    /// Of those, failed lookups.
    pub enoent: u64,
    /// System calls that the recording holds.
    pub calls: u64,
    /// Processes.
    pub processes: u64,
    /// In metadata operations, between entry and return, summed over threads; the recorder's own
    /// stops are in it.
    #[serde(rename = "metadata_time_ns")]
    pub metadata_time: Nanos,
    /// From the start to the command's own end, or to the last thing recorded where that is
    /// missing.
    #[serde(rename = "took_ns")]
    pub took: Nanos,
    /// How the command itself ended; none where the recording was cut before.
    #[serde(skip)]
    pub status: Option<ExitStatus>,
    /// Whether it shows all of the run.
    pub whole: bool,
    /// When it began, in nanoseconds since 1970 by its node's clock.
    #[serde(skip)]
    pub began_unix: u64,
    /// When and why the command was let go of, if it was.
    #[serde(skip)]
    pub let_go: Option<LetGo>,
}

impl Totals {
    /// Adds a recording up.
    ///
    /// # Errors
    /// [`RecordingReadError`]; a recording that was cut is not one.
    pub fn of(mut reader: Reader<impl Read>) -> Result<Totals, RecordingReadError> {
        let header = reader.header();
        let seconds = header.started_unix.saturating_mul(1_000_000_000);
        let began_unix = seconds.saturating_add(header.started_nanos.into());
        let mut totals = Totals { began_unix, ..Totals::default() };
        let (mut ended, mut last, mut hidden) = (0, Nanos::default(), false);
        while let Some(record) = reader.next_record()? {
            match record {
                Record::Call(event) => {
                    totals.calls += 1;
                    last = last.max(Nanos(event.start.0.saturating_add(event.took.0)));
                    if event.is_metadata() {
                        totals.metadata_ops += 1;
                        totals.enoent += u64::from(event.is_missing());
                        let sum = totals.metadata_time.0.saturating_add(event.took.0);
                        totals.metadata_time = Nanos(sum);
                    }
                }
                Record::Start { .. } => totals.processes += 1,
                Record::End { process, at, status, .. } => {
                    ended += 1;
                    if process == ProcessId(0) {
                        totals.took = at;
                        totals.status = Some(status);
                    }
                }
                Record::Blind(blind) => hidden |= Blind::hides_calls(&blind),
                _ => {}
            }
        }
        if totals.status.is_none() {
            totals.took = reader.summary().map_or(last, |summary| summary.ended);
        }
        totals.let_go = reader.summary().and_then(|summary| summary.let_go.clone());
        totals.whole = reader.summary().is_some() && ended >= totals.processes && !hidden;
        Ok(totals)
    }
}
