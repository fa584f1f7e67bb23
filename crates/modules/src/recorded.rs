//! A run of the real command, recorded.

use launch::{Command, Ended};
use recording::Recording;
use watch::{RecorderOptions, Session};

/// Runs a command, and reads what was recorded of it and how it ended; or says what failed.
pub(crate) fn recorded(command: &Command) -> Result<(Recording, Ended), String> {
    let words = |error: &dyn std::error::Error| error.to_string();
    let file = launch::scratch_file().map_err(|error| words(&error))?;
    let again = file.try_clone().map_err(|error| words(&error))?;
    let options = RecorderOptions { tap: false, ..RecorderOptions::default() };
    let finished = watch::record(command, file, &options)
        .and_then(Session::wait)
        .map_err(|error| words(&error))?;
    if let Some(failure) = finished.failure {
        return Err(format!("the recording cannot be written: {failure}"));
    }
    let recording = Recording::read_beside(&again).map_err(|error| words(&error))?;
    Ok((recording, finished.ended))
}
