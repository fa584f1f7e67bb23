//! `becalm rehearse`.

pub mod calibration;
mod run;
pub mod view;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::ValueEnum;
use cost::{CostModel, FilesystemProfile, RecordedStart};
use job::ReportingRank;
use recording::{Recording, shown_name};
use rehearse::calibrate::CalibrationError;
use rehearse::report::RehearsalReport;
use rehearse::{RehearsalRequest, RehearsedDirectory};
use rustix::fs::{AtFlags, statat, unlinkat};
use term::number::{count, time};
use term::{Column, Table};

use crate::again;
use crate::asked_to_end::of_stage;
use crate::below::NamedDirectory;
use crate::command_report::is_done_or_said;
use crate::cost_options::{JobOptions, NamedProfile, profile};
use crate::exit::{Failure, NO};
use crate::recorded;
use crate::reporting_rank::{RankOption, RankReport};
use crate::save;
use crate::stdout_redirect::StdoutRedirect;
use view::RehearsalAnswer;

/// Run a command as if directories were on a slow shared filesystem, and say what it waited for
///
/// The command sees each PATH at its own place through a filesystem that is as slow as the
/// profile says, with one queue for all clients, and caches as a node has them, cold at first.
/// Nobody else sees anything of it. The command's own output is left alone: the report follows on
/// standard error (on standard output, if only that is a terminal). Its exit status is passed on.
#[derive(clap::Args)]
#[command(after_help = "\
Ranks that srun or mpirun starts have a filesystem and a queue each, and one of them reports. For
one queue to all ranks of this machine: becalm rehearse … -- mpirun …

Examples:
  becalm rehearse --profile nfs ~/venv -- ~/venv/bin/python -c 'import numpy'
  becalm rehearse --profile lustre --record=app.becalm /opt/store -- /opt/store/bin/app
  becalm rehearse --profile nfs /opt -- sh -c 'app >/dev/null; app'   # cold, then warm
  becalm rehearse --show nfs > slow.toml; becalm rehearse --profile ./slow.toml /opt -- app
  becalm rehearse --calibrate --profile nfs")]
pub struct RehearseArgs {
    /// What the filesystem is like: nfs, lustre, gpfs, local, one of your own or a file's path
    #[arg(long, value_name = "PROFILE", value_parser = profile(),
          required_unless_present_any = ["profiles", "show", "cold"])]
    profile: Option<NamedProfile>,

    /// Let the command change files below PATH; the real ones change
    #[arg(long)]
    writable: bool,

    /// Record the run, too, and say what caused its RPCs; =REC keeps the recording
    #[arg(long, value_name = "REC", num_args = 0..=1, require_equals = true)]
    record: Option<Option<PathBuf>>,

    /// Force one way of slowing files down, instead of FUSE where that can be had
    #[arg(long, value_name = "WAY")]
    by: Option<EmulationWay>,

    /// Print one JSON object instead of the report: the command's standard output then goes to
    /// standard error. With =FILE, write it there, and report as usual
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    json: Option<Option<PathBuf>>,

    #[command(flatten)]
    job: JobOptions,

    #[command(flatten)]
    one: RankOption,

    /// Measure how well this machine keeps to the profile, in a directory below PATH or /tmp; the
    /// exit status is 1 if it does not
    #[arg(long, conflicts_with_all = ["record", "writable", "cold_server", "command"])]
    calibrate: bool,

    /// List the profiles
    #[arg(long, exclusive = true)]
    profiles: bool,

    /// Print a profile as TOML, to be copied and edited
    #[arg(long, value_name = "PROFILE", exclusive = true)]
    show: Option<OsString>,

    /// Inside a rehearsal: forget all that the node has cached of it
    #[arg(long, exclusive = true)]
    cold: bool,

    /// The directories that are rehearsed
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,

    /// The command and its arguments
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// How files are slowed down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum EmulationWay {
    /// A FUSE filesystem in mounts of the command's own
    Fuse,
    /// Delays in a tracer: without FUSE, and less exact
    Tracer,
}

/// The schema of what the verb answers.
const SCHEMA: &str = "becalm.rehearse/1";

/// Runs the verb.
pub fn run(args: &RehearseArgs) -> Result<u8, Failure> {
    if args.profiles {
        return list();
    }
    if let Some(name) = &args.show {
        term::print(&FilesystemProfile::text(name).map_err(Failure::of_usage)?)?;
        return Ok(0);
    }
    let Some(named) = &args.profile else { return cold() };
    let profile = args.job.profile(named)?;
    crate::rehearsed::check_servers(&profile)?;
    if args.calibrate {
        return calibrate(args, &profile);
    }
    if args.command.is_empty() {
        return Err(Failure::of_usage(anyhow!(
            "no command is given: becalm rehearse … PATH -- CMD"
        )));
    }
    if args.paths.is_empty() {
        return Err(Failure::of_usage(anyhow!(
            "no directory is given: becalm rehearse … PATH -- CMD"
        )));
    }
    let wanted = RehearsalRequest { profile, paths: args.paths.clone(), writable: args.writable };
    rehearse(args, &wanted)
}

fn rehearse(args: &RehearseArgs, wanted: &RehearsalRequest) -> Result<u8, Failure> {
    let rank = args.one.reporting_rank()?;
    // Below a rehearsed directory nothing can be written, or only slowly: files are opened before.
    let json = match &args.json {
        Some(Some(path)) if !rank.is_silent() => {
            let opened = save::ANSWER.check(path).and_then(|()| Output::open(path));
            Some(opened.map_err(Failure::of_command)?)
        }
        _ => None,
    };
    let redirect =
        StdoutRedirect::to_stderr(args.json == Some(None)).map_err(Failure::of_command)?;
    // A file is of one rank.
    let record = args.record.as_ref().map(|file| file.as_deref().filter(|_| !rank.is_silent()));
    let ran = run::rehearsed(args, record, wanted)?;
    for place in &ran.places {
        if let Some(given) = &place.given {
            let (given, path) = (given.display(), place.path.display());
            term::warn(&format!("{given} is a symbolic link: {path} was rehearsed"));
        }
    }
    match &ran.recorded {
        Some((_, finished)) => rank.say_what_is_missing(finished),
        None if rank.is_silent() => {}
        None => ran.otherwise.iter().for_each(|line| term::warn(line)),
    }
    let recording = ran.recorded.as_ref().map(|(recording, _)| recording);
    let report =
        RehearsalReport::of(&ran.account, &wanted.profile, &ran.places, ran.wall, recording);
    let kept = record.flatten();
    let answer = RehearsalAnswer {
        rank: rank.number(),
        prediction: recording.map(|recording| predicted(args, wanted, &ran.places, recording)),
        difference: ran.difference,
        writable: wanted.writable,
        recording: kept.map(shown_name),
        ..RehearsalAnswer::of(
            &wanted.profile,
            ran.by,
            &ran.places,
            &args.command,
            ran.ended,
            report,
        )
    };
    if !rank.is_silent() {
        is_done_or_said(print(&answer, &next(args, kept), redirect, json, &rank))?;
        rank.say_whose(
            "each rank had a server of its own; one for all: becalm rehearse … -- mpirun …",
        );
    }
    match &ran.recorded {
        Some((_, finished)) => recorded::pass_on(finished),
        None => Ok(ran.ended.pass_on()),
    }
}

/// What the cost model says of the recorded run, on this filesystem.
fn predicted(
    args: &RehearseArgs,
    wanted: &RehearsalRequest,
    places: &[RehearsedDirectory],
    recording: &Recording,
) -> view::WaitPrediction {
    let job = args.job.size();
    let model = CostModel { profile: wanted.profile.clone(), job, warm: false };
    let names = places.iter().flat_map(|place| place.given.iter().chain([&place.path]));
    let below: Vec<_> = names.filter_map(|name| NamedDirectory::of(name).ok()).collect();
    let below: Vec<_> = below.iter().flat_map(NamedDirectory::names).cloned().collect();
    let start = RecordedStart::of(recording, &below, None);
    view::WaitPrediction { job, nodes: job.nodes(), predicted_wait: model.predict(&start).wait }
}

fn print(
    answer: &RehearsalAnswer,
    next: &str,
    redirect: Option<StdoutRedirect>,
    json: Option<Output>,
    rank: &ReportingRank,
) -> anyhow::Result<()> {
    if let Some(redirect) = redirect {
        return redirect.print(&term::json(answer)?);
    }
    if let Some(json) = json {
        json.write(&term::json(answer)?)?;
    }
    rank.print_report(|columns| answer.render(columns, next))
}

/// What to do next: what many ranks would cost, or what caused it.
fn next(args: &RehearseArgs, kept: Option<&Path>) -> String {
    let profile = args.profile.as_ref().map(|named| term::quoted(&named.name)).unwrap_or_default();
    if let Some(file) = kept {
        let file = term::quoted_path(file);
        return format!("becalm scale {file} --ranks 1000 --profile {profile}");
    }
    if args.record.is_some() {
        return format!("becalm check -- {}", term::shell_line(&args.command));
    }
    again::with(1, &["--record=start.becalm"])
}

/// A file that is written to later, from where its path may lead elsewhere. One that was not there goes again,
/// unless all is written.
struct Output {
    file: File,
    path: PathBuf,
    /// Where a new one lies.
    new_in: Option<File>,
}

impl Output {
    fn open(path: &Path) -> anyhow::Result<Output> {
        let directory = path.parent().filter(|directory| *directory != Path::new(""));
        let new_in = match path.symlink_metadata() {
            Err(_) => File::open(directory.unwrap_or(Path::new("."))).ok(),
            Ok(_) => None,
        };
        let mut options = File::options();
        let file = options.write(true).create(true).truncate(false).open(path);
        let file = file.with_context(|| path.display().to_string())?;
        Ok(Output { file, path: path.to_owned(), new_in })
    }

    fn write(mut self, text: &str) -> anyhow::Result<()> {
        let write = |file: &mut File| {
            // A pipe or a device has no length.
            if file.metadata()?.is_file() {
                file.set_len(0)?;
                file.rewind()?;
            }
            file.write_all(text.as_bytes())
        };
        write(&mut self.file).with_context(|| self.path.display().to_string())?;
        self.new_in = None;
        Ok(())
    }

    /// Whether a name in a directory is still this file's.
    fn is_named(&self, directory: &File, name: &OsStr) -> bool {
        let there = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
        let own = self.file.metadata();
        there.is_ok_and(|it| own.is_ok_and(|own| (it.st_dev, it.st_ino) == (own.dev(), own.ino())))
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let (Some(directory), Some(name)) = (self.new_in.take(), self.path.file_name())
            && self.is_named(&directory, name)
        {
            let _ = unlinkat(&directory, name, AtFlags::empty());
        }
    }
}

fn list() -> Result<u8, Failure> {
    let mut table = Table::new([
        Column::text("profile"),
        Column::number("metadata latency"),
        Column::number("MDS ops/s"),
        Column::path("about"),
    ]);
    for profile in FilesystemProfile::all() {
        match profile {
            Ok(profile) => {
                let service = profile.mds.service.nanos().0;
                let rate = 1_000_000_000u64.checked_div(service).map(count);
                let rate = rate.unwrap_or_else(|| "any".to_owned());
                table.row([profile.name.clone(), time(profile.latency()), rate, profile.about]);
            }
            Err(error) => term::warn(&error.to_string()),
        }
    }
    let mut text = table.render(term::width::terminal());
    text.push_str(&format!(
        "\nYour own: {}/NAME.toml, or any file by its path.\n",
        term::plain(&FilesystemProfile::directory().to_string_lossy())
    ));
    text.push_str(&term::style::next("becalm rehearse --show nfs"));
    term::print(&text)?;
    Ok(0)
}

fn cold() -> Result<u8, Failure> {
    let mounts = rehearse::forget_caches()?;
    if mounts == 0 {
        return Err(anyhow!("nothing is rehearsed here: run it inside becalm rehearse").into());
    }
    Ok(0)
}

fn calibrate(args: &RehearseArgs, profile: &FilesystemProfile) -> Result<u8, Failure> {
    let below = args.paths.first().cloned().unwrap_or_else(std::env::temp_dir);
    let waiting = term::ProgressBar::new();
    let progress = |done, of| waiting.tell("measuring", done, of);
    let calibration = rehearse::calibrate::calibrate(profile, &below, &progress);
    let calibration = calibration.map_err(|error| match error {
        CalibrationError::Stage(error) => of_stage(error),
        error => anyhow::Error::new(error).into(),
    })?;
    drop(waiting);
    let text = match &args.json {
        Some(_) => term::json(&calibration::CalibrationAnswer {
            schema: SCHEMA,
            calibration: &calibration,
        })?,
        None => calibration::render(&calibration, term::width::terminal()),
    };
    match &args.json {
        Some(Some(file)) => Output::open(file)?.write(&text)?,
        _ => term::print(&text)?,
    }
    Ok(if calibration.good { 0 } else { NO })
}
