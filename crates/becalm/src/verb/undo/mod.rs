//! `becalm undo`.

mod view;

use std::io::{IsTerminal, Write, stdout};
use std::path::Path;

use anyhow::Context;
use remedy::{Changed, Entry, Forgotten, Options, Status, UndoOptions, Undone};
use schemars::JsonSchema;
use serde::Serialize;
use term::{plain, width};

use crate::asked_to_end::{FileChanges, journal_options};
use crate::exit::{Failure, NO, USAGE};
use view::{render, render_forgotten, render_list};

/// Take back what becalm has changed, byte for byte
///
/// Without an ID, what was applied last. Refuses if a file has changed since or cannot be changed
/// now, and says which. What was interrupted is taken back as far as it can be; exit status 1: not all.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  becalm undo --list
  becalm undo 20261121-1 --manifest | sha256sum --check --quiet
  becalm undo 20261121-1 --dry-run
  becalm undo
  becalm undo --forget --older-than 30")]
pub struct UndoArgs {
    /// What to undo, as --list shows it
    #[arg(conflicts_with = "list")]
    id: Option<String>,
    /// Show what was applied, and what became of it
    #[arg(long)]
    list: bool,
    /// Say what would be done, and do nothing
    #[arg(long, conflicts_with = "list")]
    dry_run: bool,
    /// Undo nothing: write checksums of what it left and of what was there before, as sha256sum reads them
    #[arg(long, conflicts_with_all = ["list", "dry_run", "skip_changed", "json"])]
    manifest: bool,
    /// Leave files that have changed since, or cannot be changed now, and restore the others
    #[arg(long, conflicts_with = "list")]
    skip_changed: bool,
    /// Undo nothing: remove what is kept to undo it, such as the image that a new one has replaced; it
    /// stays as it is, and cannot be undone any more
    #[arg(long, conflicts_with_all = ["list", "manifest", "skip_changed"])]
    forget: bool,
    /// With --forget: all that was applied so many days ago or earlier
    #[arg(long, value_name = "DAYS", requires = "forget", conflicts_with = "id")]
    older_than: Option<u64>,
    /// Print one JSON object (docs/schema/becalm.undo.md)
    #[arg(long)]
    json: bool,
}

/// What the verb answers as JSON.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub enum UndoAnswer<'a> {
    /// With `--list`.
    List {
        /// `becalm.undo/1`.
        schema: &'static str,
        /// What was applied, the oldest first.
        applied: Vec<ListedChange<'a>>,
    },
    /// With `--forget`.
    Forget {
        /// `becalm.undo/1`.
        schema: &'static str,
        /// Whether nothing was removed, and this is what would be.
        dry_run: bool,
        /// What cannot be undone any more.
        forgotten: &'a [Forgotten],
        /// What was old enough, and stays.
        kept: &'a [KeptChange],
    },
    /// What was undone.
    Undo {
        /// `becalm.undo/1`.
        schema: &'static str,
        /// Whether nothing was done, and this is what would be.
        dry_run: bool,
        /// What was restored, and what was not.
        undone: &'a Undone,
    },
}

/// One change that was applied.
#[derive(Serialize, JsonSchema)]
pub struct ListedChange<'a> {
    #[serde(flatten)]
    entry: &'a Entry,
    /// When it was applied.
    when: String,
}

/// One change that could not be forgotten.
#[derive(Serialize, JsonSchema)]
pub struct KeptChange {
    /// Its id.
    id: String,
    /// Why not.
    reason: String,
}

const SCHEMA: &str = "becalm.undo/1";

/// Runs the verb.
pub fn run(args: &UndoArgs) -> Result<u8, Failure> {
    let state = remedy::state_directory()?;
    if args.list {
        return list(&state, args.json);
    }
    if args.manifest {
        let id = args.id.clone().map_or_else(|| remedy::last(&state).map(|last| last.id), Ok)?;
        let manifest = remedy::manifest(&state, &id).map_err(|error| of(error, &id, 0))?;
        return print_manifest(&manifest);
    }
    if args.forget {
        return forget(args, &journal_options(state));
    }
    let waiting = term::ProgressBar::new();
    let progress = |progress: remedy::Progress| {
        waiting.tell("restoring", progress.written as u64, progress.of as u64);
    };
    undo(args, Options { progress: &progress, ..journal_options(state) })
}

fn list(state: &Path, json: bool) -> Result<u8, Failure> {
    let entries = remedy::list(state)?;
    if json {
        let listed = entries.iter().map(|entry| ListedChange { entry, when: entry.when() });
        let answer = UndoAnswer::List { schema: SCHEMA, applied: listed.collect() };
        term::print(&term::json(&answer)?)?;
    } else {
        term::print(&render_list(&entries, width::terminal()))?;
    }
    Ok(0)
}

/// As it is for a program, which has to find the files again; a terminal gets no names that steer it.
fn print_manifest(manifest: &remedy::Manifest) -> Result<u8, Failure> {
    let mut lines = Vec::new();
    manifest.write(&mut lines).map_err(anyhow::Error::from)?;
    if stdout().is_terminal() {
        let lines = String::from_utf8_lossy(&lines);
        let plain: String = lines.lines().map(|line| plain(line) + "\n").collect();
        term::print(&plain)?;
    } else {
        stdout().write_all(&lines).context("standard output")?;
    }
    Ok(0)
}

fn undo(args: &UndoArgs, options: Options) -> Result<u8, Failure> {
    let id = match &args.id {
        Some(id) => id.clone(),
        None => {
            let last = remedy::last(&options.state)?;
            if !args.json {
                term::print(&format!("The last is {} ({}).\n", last.id, plain(&last.title)))?;
            }
            last.id
        }
    };
    let (skip_changed, dry_run) = (args.skip_changed, args.dry_run);
    let how = UndoOptions { skip_changed, dry_run, keep_needed: false };
    let files =
        remedy::list(&options.state)?.iter().find(|entry| entry.id == id).map(|it| it.files);
    warn_of_running(&options.state, &id);
    let changes = FileChanges::begin();
    let options = Options { is_asked_to_end: &|| changes.is_asked_to_end(), ..options };
    let undone = remedy::undo(&id, &options, how).map_err(|error| match error {
        remedy::Error::AskedToEnd => changes.failure(error),
        error => of(error, &id, files.unwrap_or(0)),
    })?;
    let told = tell(&undone, args);
    changes.end(match args.dry_run {
        true => "asked to end",
        false => "asked to end once files were renamed: what could be undone is",
    })?;
    told?;
    let is_asked_for = undone.skipped.is_empty() || args.skip_changed;
    Ok(if is_asked_for { 0 } else { NO })
}

/// Says which processes run what is about to be as before.
fn warn_of_running(state: &Path, id: &str) {
    let Ok(manifest) = remedy::manifest(state, id) else { return };
    let changed = manifest.entries.iter().filter(|entry| !entry.is_new);
    let warning = crate::running::warning(changed.map(|entry| entry.path.as_path()));
    warning.iter().for_each(|line| term::warn(line));
}

fn tell(undone: &Undone, args: &UndoArgs) -> Result<(), Failure> {
    if args.json {
        let answer = UndoAnswer::Undo { schema: SCHEMA, dry_run: args.dry_run, undone };
        term::print(&term::json(&answer)?)?;
    } else {
        term::print(&render(undone, args, width::terminal()))?;
    }
    Ok(())
}

/// Takes back what a verb has applied, as far as it can be.
///
/// # Errors
/// If something stays changed: what, and how to go on.
pub fn take_back(id: &str) -> Result<(), Failure> {
    let state = remedy::state_directory()?;
    let options = journal_options(state);
    let how = UndoOptions { skip_changed: true, keep_needed: true, dry_run: false };
    let stays = match remedy::undo(id, &options, how) {
        Ok(undone) if undone.skipped.is_empty() => return Ok(()),
        // By another becalm.
        Err(remedy::Error::Undone { .. }) => return Ok(()),
        Ok(undone) => remedy::Error::Changed { changed: undone.skipped },
        Err(error) => error,
    };
    Err(anyhow::Error::from(stays)
        .context(format!("taking {id} back; try: becalm undo {id}"))
        .into())
}

fn forget(args: &UndoArgs, options: &Options) -> Result<u8, Failure> {
    let ids = match (&args.id, args.older_than) {
        (Some(id), _) => vec![id.clone()],
        (None, Some(days)) => of_before(&remedy::list(&options.state)?, days),
        (None, None) => {
            return Err(Failure::of_usage(anyhow::anyhow!(
                "--forget of what? give an ID of becalm undo --list, or --older-than DAYS"
            )));
        }
    };
    let (mut forgotten, mut stay) = (Vec::new(), Vec::new());
    for id in ids {
        match remedy::forget(&id, options, args.dry_run) {
            Ok(one) => forgotten.push(one),
            // By another becalm, meanwhile.
            Err(remedy::Error::Forgotten { .. }) if args.id.is_none() => {}
            Err(error) if args.id.is_some() => return Err(of(error, &id, 1)),
            Err(error) => stay.push(KeptChange { id, reason: error.to_string() }),
        }
    }
    for KeptChange { id, reason } in &stay {
        term::warn(&format!("{id} stays as it is: {reason}"));
    }
    if args.json {
        let (schema, dry_run) = (SCHEMA, args.dry_run);
        let (forgotten, kept) = (&forgotten, &stay);
        let answer = UndoAnswer::Forget { schema, dry_run, forgotten, kept };
        term::print(&term::json(&answer)?)?;
    } else {
        term::print(&render_forgotten(&forgotten, args.dry_run, width::terminal()))?;
    }
    Ok(u8::from(!stay.is_empty()))
}

/// The ids of what ended so many days ago or earlier; what was interrupted is to be undone first.
fn of_before(entries: &[Entry], days: u64) -> Vec<String> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let until = now.map_or(0, |now| now.as_secs()).saturating_sub(days.saturating_mul(86_400));
    let has_something =
        |entry: &&Entry| matches!(entry.status, Status::Applied | Status::PartlyUndone);
    let old = entries.iter().filter(has_something).filter(|entry| entry.at <= until);
    old.map(|entry| entry.id.clone()).collect()
}

/// A line for each file that stays; of those that another application keeps from being undone, one for all.
fn each_reason(changed: &[Changed]) -> Vec<String> {
    let is_same = |one: &Changed, other: &Changed| one.by.is_some() && one.reason == other.reason;
    let is_first =
        |(at, one): &(usize, &Changed)| !changed[..*at].iter().any(|it| is_same(it, one));
    let line =
        |(_, one): (usize, &Changed)| match changed.iter().filter(|it| is_same(one, it)).count() {
            0 | 1 => one.to_string(),
            all => {
                let path = plain(&one.path.to_string_lossy());
                format!("{path} and {} more: {}", all - 1, one.reason)
            }
        };
    changed.iter().enumerate().filter(is_first).map(line).collect()
}

/// An error as the verb ends with it: every changed file is named, not only the first. `files` are those of
/// the change.
fn of(error: remedy::Error, id: &str, files: u64) -> Failure {
    match &error {
        remedy::Error::Unknown { .. } => return Failure { status: USAGE, error: error.into() },
        remedy::Error::Changed { changed } => {
            let mut lines = each_reason(changed);
            let first = lines.remove(0);
            lines.iter().for_each(|line| term::warn(line));
            let mut next = "nothing was undone".to_owned();
            if files > changed.len() as u64 {
                next += &format!("; to restore the others: becalm undo {id} --skip-changed");
            }
            return Failure::from(anyhow::anyhow!("{first}; {next}"));
        }
        remedy::Error::NoRoom { .. } => {
            let next = format!("nothing was undone; with room there: becalm undo {id}");
            return Failure::from(anyhow::anyhow!("{error}; {next}"));
        }
        _ => {}
    }
    Failure::from(error)
}
