//! The screens of `becalm undo`.

use remedy::{Entry, Forgotten, Tally, Undone};
use term::number::{bytes, count, counted};
use term::{Column, Table, plain, style};

use super::UndoArgs;

/// What was applied, and what became of it.
pub fn render_list(entries: &[Entry], columns: usize) -> String {
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
        let paths = count(entry.files);
        table.row([&entry.id, &entry.when(), &paths, entry.status.name(), &entry.title]);
    }
    text.push_str(&table.render(columns));
    if let Some(last) = remedy::last_of(entries) {
        text.push('\n');
        text.push_str(&style::next(&format!("becalm undo {}", last.id)));
    }
    text
}

/// What cannot be undone any more, or could not be.
pub fn render_forgotten(forgotten: &[Forgotten], dry_run: bool, columns: usize) -> String {
    if forgotten.is_empty() {
        return style::headline("There is nothing to forget.", columns);
    }
    let verb = if dry_run { "Would forget" } else { "Forgot" };
    let freed: u64 = forgotten.iter().map(|one| one.freed.0).sum();
    let (one, many) = ("change, which stays as it is", "changes, which stay as they are");
    let number = counted(forgotten.len() as u64, one, many);
    let free = if dry_run { "would be free" } else { "are free" };
    let headline = format!("{verb} {number}: {} {free} again.", bytes(freed));
    let mut text = style::headline(&headline, columns);
    for one in forgotten {
        text.push_str(&format!("{} ({})\n", one.id, plain(&one.title)));
        for removed in &one.removed {
            text.push_str(&format!("  {}\n", plain(&removed.to_string_lossy())));
        }
    }
    text
}

/// So many paths are shown, and how many more there are: whether it is what it is called, a few tell.
const SHOWN: usize = 10;

fn render_paths(undone: &Undone, dry_run: bool) -> String {
    let paths = undone.paths.iter().take(SHOWN);
    let mut text: String =
        paths.map(|path| format!("  {}\n", plain(&path.to_string_lossy()))).collect();
    if let Some(more) = undone.paths.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        let all = if dry_run { " (--json shows all)" } else { "" };
        text.push_str(&format!("  … and {} more{all}\n", count(more as u64)));
    }
    text
}

/// What was taken back, or would be.
pub fn render(undone: &Undone, args: &UndoArgs, columns: usize) -> String {
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
    let said = match (said.is_empty(), undone.skipped.is_empty()) {
        (true, true) => "everything was as before already".to_owned(),
        (true, false) => "nothing can be taken back".to_owned(),
        (false, _) => said.join(", "),
    };
    let verb = if args.dry_run { "Would undo" } else { "Undid" };
    let headline = format!("{verb} {} ({}): {said}.", undone.id, plain(&undone.title));
    let mut text = style::headline(&headline, columns);
    text.push_str(&render_paths(undone, args.dry_run));
    for skipped in &undone.skipped {
        text.push_str(&format!("left as it is: {}\n", plain(&skipped.to_string())));
    }
    for left in &undone.left {
        text.push_str(&format!("not empty, so it stays: {}\n", plain(&left.to_string_lossy())));
    }
    if restored.linked > 0 {
        text.push_str("What was started before, and opens libraries by name, may look where the links were.\n");
    }
    if !args.dry_run && !args.skip_changed && !undone.skipped.is_empty() {
        if restored == Tally::default() {
            let forget = format!("becalm undo --forget {}", undone.id);
            text.push_str(&format!("If all of it is to stay as it is: {forget}\n"));
        }
        text.push('\n');
        text.push_str(&style::next(&format!("becalm undo {}", undone.id)));
    }
    if args.dry_run {
        text.push('\n');
        let skip = if args.skip_changed { " --skip-changed" } else { "" };
        text.push_str(&style::next(&format!("becalm undo {}{skip}", undone.id)));
    }
    text
}
