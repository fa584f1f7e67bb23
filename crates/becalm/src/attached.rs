//! Watching processes that run already, for the verbs that do.

use std::fs::{File, OpenOptions};
use std::io::IsTerminal;
use std::path::Path;

use anyhow::{Context, anyhow, bail};
use recording::Recording;
use script::lines::LineFinder;
use watch::{AttachError, AttachOptions, NextExec, RecordedStarts, Until, Watched};

use crate::exit::Failure;
use crate::recorded;

/// What was watched, and its recording, which is still open.
pub struct AttachedRecording {
    pub file: File,
    pub recording: Recording,
    pub watched: Watched,
}

/// Whom to watch, and how long.
pub struct AttachRequest {
    pub pids: Vec<i32>,
    /// Not before each of them has executed its next program.
    pub from_exec: bool,
    /// What ends the watching, besides the end of the last one and the user.
    pub until: Vec<Until>,
    /// Only what starts processes.
    pub starts: Option<RecordedStarts>,
}

/// Watches processes and records them to a path if one is given, else to a file without a name,
/// and reads that back.
pub fn and_read(wanted: AttachRequest, path: Option<&Path>) -> Result<AttachedRecording, Failure> {
    let AttachRequest { pids, from_exec, until, starts } = wanted;
    // Before the file: once that is there, an exec is no longer missed.
    let awaited = if from_exec { &pids[..] } else { &[] };
    let next_execs = awaited.iter().map(|pid| NextExec::of(*pid)).collect();
    let existed = path.is_some_and(|path| path.symlink_metadata().is_ok());
    let file = match path {
        Some(path) if existed && !path.is_file() => {
            let why = anyhow!("it could not be read back; give a regular file");
            return Err(why.context(path.display().to_string()).into());
        }
        Some(path) => recorded::open(path, OpenOptions::new().read(true).write(true))?,
        None => launch::scratch_file().context("cannot keep the recording for a moment")?,
    };
    let copy = file.try_clone()?;
    if std::io::stderr().is_terminal() {
        term::warn("watching; Ctrl-C lets go again, and all runs on");
    }
    let options = AttachOptions {
        pids,
        next_execs,
        until,
        starts,
        observer: || Box::new(LineFinder::default()),
        read_image: |path| loader::facts(path).ok(),
    };
    let watched = watch::attach(copy, &options).inspect_err(|error| {
        // Nothing was watched, and nothing is in it.
        if let (AttachError::Refused { .. }, Some(path), false) = (error, path, existed) {
            let _ = std::fs::remove_file(path);
        }
    })?;
    if watched.came_late {
        term::warn("it had begun when it could be watched: what its loader looked for is missing");
    }
    if let Some(failure) = &watched.failure {
        let why = format!("the recording is cut, it could not be written to its end: {failure}");
        term::warn(&why);
    }
    let recording = Recording::read_beside(&file).context("the recording just made")?;
    Ok(AttachedRecording { file, recording, watched })
}

/// What `--until` takes where nothing is heard of MPI_Init.
pub fn until(text: &str) -> Result<Until, String> {
    match text.parse() {
        Ok(Until::Start | Until::MpiInit) | Err(_) => {
            Err("give quiet, a number of seconds, exec:NAME, open:GLOB or exit".to_owned())
        }
        Ok(until) => Ok(until),
    }
}

/// The processes of a Slurm job, or of one of its steps, on this node.
///
/// # Errors
/// Where Slurm has none here, or there is no Slurm.
pub fn of_job(job: &str) -> anyhow::Result<Vec<i32>> {
    let command = || format!("scontrol listpids {}", term::quoted(Path::new(job)));
    let listed = std::process::Command::new("scontrol").args(["listpids", job]).output();
    let listed = listed.with_context(|| format!("cannot run {}", command()))?;
    let said = String::from_utf8_lossy(&listed.stderr);
    let pids = pids_of(&String::from_utf8_lossy(&listed.stdout));
    match (pids.is_empty(), said.lines().next()) {
        (false, _) => Ok(pids),
        (true, Some(why)) => bail!("{}: {}", command(), term::plain(why)),
        (true, None) => bail!("{}: no process of that job runs on this node", command()),
    }
}

/// The first column of `scontrol listpids`, whose first line names the columns. A process that
/// Slurm has lost is -1.
fn pids_of(list: &str) -> Vec<i32> {
    let first = |line: &str| line.split_whitespace().next()?.parse().ok();
    list.lines().skip(1).filter_map(first).filter(|pid| *pid > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processes_of_a_step_are_the_first_column() {
        let list = "PID      JOBID    STEPID   LOCALID GLOBALID\n\
                    25201    7        0        0       0\n\
                    -1       7        0        1       1\n\
                    25207    7        extern   -       -\n";
        assert_eq!(pids_of(list), [25201, 25207]);
        assert_eq!(pids_of(""), [0; 0]);
    }

    #[test]
    fn what_would_take_a_breakpoint_is_no_end() {
        assert!(until("10").is_ok() && until("quiet").is_ok() && until("exec:cc1plus").is_ok());
        assert!(["mpi-init", "start", "soon"].iter().all(|text| until(text).is_err()));
    }
}
