//! The run itself: through FUSE, or where that cannot be had by delays in a tracer.

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use launch::{CannotStart, Command, Ended};
use recording::Recording;
use rehearse::{Account, Rehearsal, RehearsalError, RehearsalRequest, RehearsedDirectory, traced};
use sandbox::groups;
use sandbox::namespace::NamespaceKind;
use watch::Finished;

use super::view::EmulatedBy;
use super::{EmulationWay, RehearseArgs};
use crate::exit::Failure;
use crate::{lost_rights, recorded};

/// A run that has ended.
pub struct EndedRehearsal {
    pub by: EmulatedBy,
    pub difference: Option<String>,
    pub places: Vec<RehearsedDirectory>,
    pub account: Account,
    pub ended: Ended,
    pub wall: Duration,
    pub recorded: Option<(Recording, Finished)>,
    /// What was otherwise for the command than without a rehearsal, a line each, where it is not
    /// recorded.
    pub otherwise: Vec<String>,
}

/// Runs the command in the way that was asked for, or in the best that can be had.
/// `record` says whether to record it, and in which file to keep that.
pub fn rehearsed(
    args: &RehearseArgs,
    record: Option<Option<&Path>>,
    wanted: &RehearsalRequest,
) -> Result<EndedRehearsal, Failure> {
    if args.by == Some(EmulationWay::Tracer) {
        return by_tracer(args, record, wanted);
    }
    let mut why_not = None;
    let ran = through_fuse(args, record, wanted, &mut why_not);
    match why_not.filter(|_| args.by.is_none()) {
        Some(why) => {
            term::warn(&format!("no FUSE: {why}; so {}", traced::DIFFERENCE));
            by_tracer(args, record, wanted)
        }
        None => ran,
    }
}

/// `why_not` is set where nothing was run because there is no FUSE to be had.
fn through_fuse(
    args: &RehearseArgs,
    record: Option<Option<&Path>>,
    wanted: &RehearsalRequest,
    why_not: &mut Option<RehearsalError>,
) -> Result<EndedRehearsal, Failure> {
    let groups = groups::other_groups();
    let mut enter = || match Rehearsal::enter(wanted) {
        Ok(rehearsal) => {
            let unmapped = groups.iter().filter(|group| !groups::is_mapped(**group));
            let unmapped: Vec<String> = unmapped.map(u32::to_string).collect();
            if wanted.writable
                && rehearsal.means() == NamespaceKind::UserNamespace
                && !unmapped.is_empty()
            {
                term::warn(&format!(
                    "files cannot be given to your other groups ({}) in a rehearsal: chgrp fails \
                     with 'Invalid argument' (unless /etc/subgid grants you them). Directories of these \
                     groups can be written to as ever",
                    unmapped.join(", ")
                ));
            }
            Ok(rehearsal)
        }
        Err(error) => {
            let said = Failure::of_command(anyhow::anyhow!("{error}"));
            *why_not = Some(error).filter(RehearsalError::is_for_want_of_fuse);
            Err(said)
        }
    };
    let mut otherwise = None;
    let (rehearsal, ended, wall, recorded) = match record {
        None => {
            let cannot =
                |why: CannotStart| Failure { status: why.exit_status(), error: why.into() };
            // Here: in the rehearsal these looks, which are nobody's wait, would be accounted for,
            // and spare the command its own.
            let command = Command::of(args.command.clone()).looked_up().map_err(cannot)?;
            let lost_rights = lost_rights::of(&command);
            let rehearsal = enter()?;
            otherwise = lost_rights.filter(|_| rehearsal.means() == NamespaceKind::UserNamespace);
            let timed = launch::attended(&command).map_err(cannot)?;
            (rehearsal, timed.ended, timed.wall, None)
        }
        Some(path) => {
            let record = recorded::RecordRequest::of(&args.command);
            let (recording, finished, rehearsal) = recorded::there_and_read(&record, path, enter)?;
            let wall = Duration::from_nanos(wall(&recording));
            (rehearsal, finished.ended, wall, Some((recording, finished)))
        }
    };
    let by = match rehearsal.means() {
        NamespaceKind::Privileged => EmulatedBy::Fuse,
        NamespaceKind::UserNamespace => EmulatedBy::FuseInUserNamespace,
    };
    let places = rehearsal.places().to_vec();
    let account = rehearsal.finish().map_err(Failure::of_command)?;
    let otherwise = otherwise.into_iter().collect();
    Ok(EndedRehearsal { by, difference: None, places, account, ended, wall, recorded, otherwise })
}

/// How long the recorded command ran, from its exec to its end, in nanoseconds.
fn wall(recording: &Recording) -> u64 {
    let Some(command) = recording.processes.first() else { return 0 };
    let began = command.execs.first().map_or(command.started, |exec| exec.at);
    let ended = command.end.as_ref().map(|end| end.at);
    let last = || recording.events.last().map(|event| event.start + event.took);
    ended.or_else(last).unwrap_or_default().0.saturating_sub(began.0)
}

fn by_tracer(
    args: &RehearseArgs,
    record: Option<Option<&Path>>,
    wanted: &RehearsalRequest,
) -> Result<EndedRehearsal, Failure> {
    let failed = |error: anyhow::Error| Failure::of_command(error);
    let both = OpenOptions::new().read(true).write(true).clone();
    let file = match record {
        None => both.clone().open("/dev/null").context("/dev/null"),
        Some(None) => launch::scratch_file().context("cannot keep the recording for a moment"),
        Some(Some(path)) => recorded::open(path, &mut both.clone()),
    };
    let file = file.map_err(failed)?;
    let to = file.try_clone().map_err(Failure::of_command)?;
    let options = recorded::RecordRequest::of(&[]).options();
    let command = Command::of(args.command.clone());
    let failure =
        |error: traced::TracedError| Failure { status: error.exit_status(), error: error.into() };
    let start = Instant::now();
    let traced = traced::record(&command, to, &options, wanted).map_err(failure)?;
    let places = traced.places().to_vec();
    let (finished, account) = traced.wait().map_err(failure)?;
    let wall = start.elapsed();
    let otherwise = explain::said(&finished.blinds);
    let (ended, difference) = (finished.ended, Some(traced::DIFFERENCE.to_owned()));
    let recorded = match record {
        None => None,
        Some(_) => Some((read_back(&file)?, finished)),
    };
    Ok(EndedRehearsal {
        by: EmulatedBy::Tracer,
        difference,
        places,
        account,
        ended,
        wall,
        recorded,
        otherwise,
    })
}

fn read_back(file: &File) -> Result<Recording, Failure> {
    let recording = Recording::read_beside(file).context("the recording just made");
    recording.map_err(Failure::of_command)
}
