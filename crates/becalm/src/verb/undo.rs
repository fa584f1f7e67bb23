//! `becalm undo`.

use std::path::Path;

use remedy::{Entry, How, Options, Undone};
use serde::Serialize;
use show::number::counted;
use show::{Column, Table, plain, style, width};

use crate::exit::{Failure, USAGE};

/// Take back what becalm has changed, byte for byte
///
/// Without an ID, what was applied last. Refuses if a file has changed since, and says which.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  becalm undo --list
  becalm undo 20261121-1 --dry-run
  becalm undo")]
pub struct Args {
    /// What to undo, as --list shows it
    #[arg(conflicts_with = "list")]
    id: Option<String>,
    /// Show what was applied, and what became of it
    #[arg(long)]
    list: bool,
    /// Say what would be done, and do nothing
    #[arg(long, conflicts_with = "list")]
    dry_run: bool,
    /// Leave files that have changed since as they are, and restore the others
    #[arg(long, conflicts_with = "list")]
    skip_changed: bool,
    /// Print one JSON object (docs/schema/becalm.undo.md)
    #[arg(long)]
    json: bool,
}

/// What the verb answers as JSON.
#[derive(Serialize)]
#[serde(untagged)]
enum Answer<'a> {
    List { schema: &'static str, applied: Vec<Listed<'a>> },
    Undo { schema: &'static str, dry_run: bool, undone: &'a Undone },
}

#[derive(Serialize)]
struct Listed<'a> {
    #[serde(flatten)]
    entry: &'a Entry,
    when: String,
}

const SCHEMA: &str = "becalm.undo/1";

/// Runs the verb.
pub fn run(args: &Args) -> Result<u8, Failure> {
    let state = remedy::state_directory()?;
    if args.list {
        return list(&state, args.json);
    }
    let waiting = show::Waiting::new();
    let progress = |progress: remedy::Progress| {
        waiting.tell("restoring", progress.written as u64, progress.of as u64);
    };
    undo(args, Options { progress: &progress, ..Options::new(state) })
}

fn list(state: &Path, json: bool) -> Result<u8, Failure> {
    let entries = remedy::list(state)?;
    if json {
        let listed = entries.iter().map(|entry| Listed { entry, when: entry.when() });
        let answer = Answer::List { schema: SCHEMA, applied: listed.collect() };
        show::print(&show::json(&answer)?)?;
    } else {
        show::print(&render_list(&entries, width::terminal()))?;
    }
    Ok(0)
}

fn render_list(entries: &[Entry], columns: usize) -> String {
    let due = entries.iter().filter(|entry| entry.status.can_be_undone()).count();
    if entries.is_empty() {
        return style::headline("becalm has changed nothing here.", columns);
    }
    let headline = counted(due as u64, "change can be undone.", "changes can be undone.");
    let mut text = style::headline(&headline, columns);
    text.push('\n');
    let mut table = Table::new([
        Column::text("id"),
        Column::text("when (UTC)").spare(),
        Column::number("paths"),
        Column::text("status"),
        Column::path("what"),
    ]);
    for entry in entries.iter().rev() {
        let paths = show::number::count(entry.files);
        table.row([&entry.id, &entry.when(), &paths, entry.status.name(), &entry.title]);
    }
    text.push_str(&table.render(columns));
    if let Some(last) = entries.iter().rev().find(|entry| entry.status.can_be_undone()) {
        text.push('\n');
        text.push_str(&style::next(&format!("becalm undo {}", last.id)));
    }
    text
}

fn undo(args: &Args, options: Options) -> Result<u8, Failure> {
    let id = match &args.id {
        Some(id) => id.clone(),
        None => {
            let last = remedy::last(&options.state)?;
            if !args.json {
                show::print(&format!("The last is {} ({}).\n", last.id, plain(&last.title)))?;
            }
            last.id
        }
    };
    let how = How { skip_changed: args.skip_changed, dry_run: args.dry_run };
    let undone = remedy::undo(&id, &options, how).map_err(|error| of(error, &id))?;
    if args.json {
        let answer = Answer::Undo { schema: SCHEMA, dry_run: args.dry_run, undone: &undone };
        show::print(&show::json(&answer)?)?;
    } else {
        show::print(&render(&undone, args, width::terminal()))?;
    }
    Ok(0)
}

/// An error as the verb ends with it: every changed file is named, not only the first.
fn of(error: remedy::Error, id: &str) -> Failure {
    match &error {
        remedy::Error::Unknown { .. } => return Failure { status: USAGE, error: error.into() },
        remedy::Error::Changed { changed } => {
            for changed in &changed[1..] {
                show::warn(&changed.to_string());
            }
            let next = format!(
                "nothing was undone; to restore the others: becalm undo {id} --skip-changed"
            );
            let first = anyhow::Error::from(changed[0].clone());
            return Failure::from(anyhow::anyhow!("{first}; {next}"));
        }
        _ => {}
    }
    Failure::from(error)
}

fn render(undone: &Undone, args: &Args, columns: usize) -> String {
    let restored = undone.restored;
    let parts = [
        (restored.patched, "file has its old bytes again", "files have their old bytes again"),
        (restored.removed, "removed file is back", "removed files are back"),
        (restored.created, "created file is gone", "created files are gone"),
        (restored.linked, "link is gone", "links are gone"),
        (
            restored.directories - undone.left.len() as u64,
            "directory is gone",
            "directories are gone",
        ),
    ];
    let said = parts.iter().filter(|part| part.0 > 0);
    let said: Vec<_> = said.map(|(number, one, many)| counted(*number, one, many)).collect();
    let said = if said.is_empty() {
        "everything was as before already".to_owned()
    } else {
        said.join(", ")
    };
    let verb = if args.dry_run { "Would undo" } else { "Undid" };
    let headline = format!("{verb} {} ({}): {said}.", undone.id, plain(&undone.title));
    let mut text = style::headline(&headline, columns);
    for skipped in &undone.skipped {
        text.push_str(&format!("left as it is: {}\n", plain(&skipped.to_string())));
    }
    for left in &undone.left {
        text.push_str(&format!("not empty, so it stays: {}\n", plain(&left.to_string_lossy())));
    }
    if args.dry_run {
        text.push('\n');
        let skip = if args.skip_changed { " --skip-changed" } else { "" };
        text.push_str(&style::next(&format!("becalm undo {}{skip}", undone.id)));
    }
    text
}
