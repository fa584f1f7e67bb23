//! The command once more, not recorded, with `-X importtime`.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use anyhow::Context;
use launch::{Command, Stage, StageError};
use python::{ImportScan, importtime};

use crate::asked_to_end::of_stage;
use crate::exit::Failure;

/// More than this of standard error is not read: some 900,000 imports.
const MOST: u64 = 64 << 20;

/// Puts the times of a second run beside the imports of the first. That run reads nothing, and
/// what it writes is not shown. Says why there are no times, if there are none.
///
/// # Errors
/// Where becalm is asked to end meanwhile.
pub(super) fn beside(
    command: &[OsString],
    scan: &mut ImportScan,
) -> Result<Option<String>, Failure> {
    Ok(match said(command) {
        Ok(text) => match importtime::beside(scan, importtime::parse(&text)) {
            0 => Some("no times: Python said none (-E and -I make it ignore the variable)".into()),
            _ => None,
        },
        Err(error) => match error.downcast::<StageError>() {
            Ok(error @ StageError::Interrupted(_)) => return Err(of_stage(error)),
            Ok(error) => Some(format!("no times: {error}")),
            Err(error) => Some(format!("no times: {error:#}")),
        },
    })
}

/// What the command writes to standard error.
fn said(command: &[OsString]) -> anyhow::Result<Vec<u8>> {
    let mut file = launch::scratch_file().context("cannot keep what it says for a moment")?;
    let errors: File = file.try_clone().context("cannot keep what it says for a moment")?;
    let command = Command::of(command.to_vec());
    let mut stage = Stage::new();
    stage.environment.push((importtime::VARIABLE.into(), "1".into()));
    let played = stage.play(|| {
        rustix::stdio::dup2_stderr(&errors).map_err(|error| error.to_string())?;
        launch::timed(&command).map(drop).map_err(|error| error.to_string())
    })?;
    played.result.map_err(anyhow::Error::msg)?;
    file.seek(SeekFrom::Start(0)).context("cannot read what it said")?;
    let mut text = Vec::new();
    file.take(MOST).read_to_end(&mut text).context("cannot read what it said")?;
    Ok(text)
}
