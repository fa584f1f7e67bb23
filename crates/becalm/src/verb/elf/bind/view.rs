//! What `becalm elf bind` answers.

use std::path::Path;

use loader::bind::{Binding, Counts, Effect, NameLeft};
use term::number::{change_percent, count, counted};
use term::{Cell, Column, Table, plain, style, width};

/// Programs that a screen shows.
const PROGRAMS: usize = 8;
/// Reasons and conflicts that a screen shows.
const REASONS: usize = 6;

/// A binding, as it is shown.
pub struct Bound<'a> {
    pub(super) binding: &'a Binding,
    /// What was applied, by its name in the journal.
    pub(super) applied: Option<&'a str>,
}

impl<'a> Bound<'a> {
    /// A plan, or what became of it once applied.
    pub fn of(binding: &'a Binding, applied: Option<&'a str>) -> Bound<'a> {
        Bound { binding, applied }
    }

    /// A headline, what it means for programs, what was left out and why, what to do next.
    pub fn render(&self, columns: usize, next: &str) -> String {
        let mut text = style::headline(&self.headline(), columns);
        if !self.binding.changes.is_empty() {
            text.push('\n');
            text.push_str(&self.programs(columns));
        }
        text.push_str(&self.left_out(columns));
        text.push_str(&self.conflicts(columns));
        text.push_str(&self.names_left(columns));
        if !self.binding.changes.is_empty() && self.applied.is_none() {
            text.push('\n');
            for risk in &self.binding.risks {
                text.push_str(&width::wrap(risk, columns));
            }
        }
        if !next.is_empty() {
            text.push('\n');
            text.push_str(&style::next(next));
        }
        text
    }

    fn headline(&self) -> String {
        let Binding { changes, calm, barred, .. } = self.binding;
        let files = counted(changes.len() as u64, "file", "files");
        if changes.is_empty() {
            if *barred > 0 {
                let files = counted(*barred as u64, "file", "files");
                return format!("Nothing can be bound: {files} cannot be changed");
            }
            return match calm {
                0 => "Nothing to bind".to_owned(),
                calm => {
                    let searching = counted(*calm as u64, "object searches", "objects search");
                    format!("Nothing to bind: {searching} for nothing that binding would spare")
                }
            };
        }
        let predicted = self.binding.predicted();
        let (before, after) = (failed(&predicted.before), failed(&predicted.after));
        let did = if self.applied.is_some() { "Bound" } else { "Would bind" };
        let searches = counted(before, "failed lookup becomes", "failed lookups become");
        format!("{did} {files}: {searches} {}", count(after))
    }

    fn programs(&self, columns: usize) -> String {
        let Binding { programs, libraries, .. } = self.binding;
        let mut all: Vec<&Effect> = programs.iter().chain(libraries).collect();
        all.sort_by_key(|effect| std::cmp::Reverse(asked(&effect.before)));
        let mut table = Table::new([
            Column::path("start of"),
            Column::number("objects").spare(),
            Column::number("ops"),
            Column::number("failed"),
            Column::number("then ops"),
            Column::number("failed"),
            Column::number("change"),
        ]);
        for effect in all.iter().take(PROGRAMS) {
            let (before, after) = (asked(&effect.before), asked(&effect.after));
            table.row([
                Cell::from(plain(&effect.path.to_string_lossy())),
                count(effect.objects as u64).into(),
                count(before).into(),
                count(failed(&effect.before)).into(),
                count(after).into(),
                count(failed(&effect.after)).into(),
                Cell::styled(&change_percent(before, after), style::LESS),
            ]);
        }
        let mut text = table.render(columns);
        if all.len() > PROGRAMS {
            text.push_str(&format!(
                "… and {} more (--json shows all)\n",
                count((all.len() - PROGRAMS) as u64)
            ));
        }
        text
    }

    /// The most frequent reasons, each with one file.
    fn left_out(&self, columns: usize) -> String {
        let mut reasons: Vec<(&str, &Path, u64)> = Vec::new();
        for left in &self.binding.left_out {
            match reasons.iter_mut().find(|(reason, ..)| *reason == left.reason) {
                Some((.., times)) => *times += 1,
                None => reasons.push((&left.reason, &left.path, 1)),
            }
        }
        reasons.sort_by_key(|(.., times)| std::cmp::Reverse(*times));
        let mut text = String::new();
        for (reason, path, times) in reasons.iter().take(REASONS) {
            let more = match times {
                1 => String::new(),
                times => format!(" and {} more", count(times - 1)),
            };
            let line = format!("Left out: {}{more}: {reason}", plain(&path.to_string_lossy()));
            text.push_str(&width::wrap(&line, columns));
        }
        if reasons.len() > REASONS {
            let more = reasons.len() - REASONS;
            text.push_str(&format!("… and {more} more reasons (--json shows all)\n"));
        }
        if text.is_empty() { text } else { format!("\n{text}") }
    }

    /// The most frequent reasons for which a name is searched on, each with one name.
    fn names_left(&self, columns: usize) -> String {
        let mut reasons: Vec<(&str, &NameLeft, u64)> = Vec::new();
        for left in &self.binding.names_left {
            match reasons.iter_mut().find(|(reason, ..)| *reason == left.reason) {
                Some((.., times)) => *times += 1,
                None => reasons.push((left.reason, left, 1)),
            }
        }
        reasons.sort_by_key(|(.., times)| std::cmp::Reverse(*times));
        let mut text = String::new();
        for (reason, left, times) in reasons.iter().take(REASONS) {
            let more = match times {
                1 => String::new(),
                times => format!(" and {} more", count(times - 1)),
            };
            let (name, file) = (left.name.to_string_lossy(), left.file.to_string_lossy());
            let line = format!("Still a name: {name} in {file}{more}: {reason}");
            text.push_str(&width::wrap(&plain(&line), columns));
        }
        if text.is_empty() { text } else { format!("\n{text}") }
    }

    fn conflicts(&self, columns: usize) -> String {
        let mut text = String::new();
        for conflict in self.binding.conflicts.iter().take(REASONS) {
            let side = |(program, path): &(std::path::PathBuf, Option<std::path::PathBuf>)| {
                let found = path.as_ref().map_or("nothing".into(), |path| path.to_string_lossy());
                format!("{} finds {}", program.display(), found)
            };
            let line = format!(
                "Conflict: {} in {} stays a name: {}, {}",
                conflict.name.to_string_lossy(),
                conflict.file.display(),
                side(&conflict.sides[0]),
                side(&conflict.sides[1]),
            );
            text.push_str(&style::paint(
                style::WARNING,
                width::wrap(&plain(&line), columns).trim_end(),
            ));
            text.push('\n');
        }
        if text.is_empty() { text } else { format!("\n{text}") }
    }
}

fn failed(counts: &Counts) -> u64 {
    counts.failed_opens + counts.failed_stats
}

fn asked(counts: &Counts) -> u64 {
    counts.opens + counts.stats
}
