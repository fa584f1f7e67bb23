//! One recorded run, and what is counted of it.
//!
//! This happens on the stage (see `launch::Stage`): whatever a recording takes to be read stays
//! out of this process's memory, and so out of what is forked from it.

use std::fs::File;

use cost::{CostModel, PredictedWait, RecordedStart};
use launch::{Command, Ended};
use recording::{Blind, Recording};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bench::CannotRun;
use crate::counts::RecordedCounts;
use crate::place::TestedFilesystem;

/// What a recorded run shows.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Recorded {
    pub ended: Ended,
    pub counted: RecordedCounts,
    pub predicted_wait: Option<PredictedWait>,
    pub place: Option<TestedFilesystem>,
    pub blinds: Vec<Blind>,
    /// Whether it left processes behind; what they do from then on is not counted.
    pub left_processes: bool,
}

/// Runs the command, records it to the file, and counts.
pub(crate) fn of(
    command: &Command,
    file: File,
    options: &watch::RecorderOptions,
    cost: Option<&CostModel>,
) -> Result<Recorded, CannotRun> {
    let failed = |why: String| CannotRun { status: 125, why };
    let again = file.try_clone().map_err(|error| failed(error.to_string()))?;
    let finished = watch::record(command, file, options)
        .and_then(watch::Session::wait)
        .map_err(|error| CannotRun { status: error.exit_status(), why: error.to_string() })?;
    if let Some(failure) = finished.failure {
        return Err(failed(format!("the recording cannot be written: {failure}")));
    }
    let recording = Recording::read_beside(&again)
        .map_err(|error| failed(format!("the recording just made: {error}")))?;
    Ok(Recorded {
        ended: finished.ended,
        counted: RecordedCounts::of(&recording),
        predicted_wait: cost
            .map(|model| model.predict(&RecordedStart::of(&recording, &[], None)).wait),
        place: TestedFilesystem::of(&recording),
        blinds: finished.blinds,
        left_processes: finished.still_running > 0,
    })
}
