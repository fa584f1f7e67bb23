//! How a start stands to its budget, as a person reads it.

use term::number::{count, counted};
use term::{Cell, Column, Table, plain, style, width};

use super::answer::{BudgetAnswer, BudgetVerdict, JudgedLimit};
use super::counts::{CountRow, CountedKind};
use super::growth::{GrownRow, NewPath};

/// Rows of each kind that are shown.
const SHOWN: usize = 5;

/// How wide a name may be.
const NAME: usize = 60;

impl BudgetAnswer {
    /// The verdict, a table of the limits, and what grew.
    pub fn render(&self, columns: usize) -> String {
        let paint = match self.verdict {
            BudgetVerdict::Within => style::CALM,
            BudgetVerdict::NotKnown => style::UNDECIDED,
            BudgetVerdict::Over => style::SLOW,
        };
        let of = match &self.baseline {
            Some(before) => {
                let file = plain(&before.file.to_string());
                let tolerance = match before.tolerance_percent {
                    0.0 => String::new(),
                    percent => format!(", {percent} % more is no growth"),
                };
                format!("  compared with {file}{tolerance}")
            }
            None => String::new(),
        };
        let mut text =
            format!("\n{}{of}\n{}", style::paint(paint, self.verdict.name()), self.table(columns));
        for note in &self.notes {
            let line = width::wrap(&format!("! {note}"), columns);
            text.push_str(&style::paint(style::WARNING, line.trim_end()));
            text.push('\n');
        }
        for line in self.reasons(SHOWN) {
            text.push_str(&format!(
                "  {}\n",
                width::shorten(&line, columns.saturating_sub(2).max(20))
            ));
        }
        text
    }

    fn table(&self, columns: usize) -> String {
        let mut table = Table::new([
            Column::text("limit"),
            Column::number("before").spare(),
            Column::number("at most"),
            Column::number("found"),
            Column::text(""),
        ]);
        for limit in &self.limits {
            let (word, paint) = match limit.verdict {
                BudgetVerdict::Within => ("within", style::CALM),
                BudgetVerdict::NotKnown => ("not known", style::UNDECIDED),
                BudgetVerdict::Over => ("over", style::SLOW),
            };
            let found = limit.found.map_or("?".to_owned(), |found| found.to_string());
            table.row([
                Cell::from(limit.limit.to_string()),
                Cell::from(limit.before.map_or(String::new(), |before| before.to_string())),
                Cell::from(limit.most.to_string()),
                Cell::from(found),
                Cell::styled(word, paint),
            ]);
        }
        let text = table.render(columns.saturating_sub(2));
        text.lines().map(|line| format!("  {line}\n")).collect()
    }

    /// Why there is more, a line each: what grew, or where most of it is.
    pub fn reasons(&self, most: usize) -> Vec<String> {
        let mut lines = Vec::new();
        let grown = &self.grown;
        for kind in [
            CountedKind::Cause,
            CountedKind::Rpath,
            CountedKind::Runpath,
            CountedKind::Directory,
            CountedKind::Library,
            CountedKind::Program,
        ] {
            let rows: Vec<_> = grown.of_kind(kind).collect();
            lines.extend(rows.iter().take(most).map(|row| row.sentence()));
            let more = rows.len().saturating_sub(most);
            if more > 0 {
                lines.push(format!(
                    "… {} more",
                    counted(more as u64, kind.words().0, kind.words().1)
                ));
            }
        }
        lines.extend(grown.new_paths.iter().take(most).map(NewPath::sentence));
        if grown.fewer > 0 && !grown.rows.is_empty() {
            lines.push(format!(
                "fewer: {} of before in other directories",
                counted(grown.fewer, "operation", "operations")
            ));
        }
        if grown.rows.is_empty() {
            lines.extend(self.largest.iter().map(CountRow::sentence));
        }
        lines
    }
}

impl JudgedLimit {
    /// `ops: 672 found, at most 500`.
    pub fn sentence(&self) -> String {
        let found = match self.found {
            Some(found) => format!("{found} found"),
            None => "not known".to_owned(),
        };
        let before = self.before.map_or(String::new(), |before| format!(" ({before} before)"));
        format!("{}: {found}, at most {}{before}", self.limit, self.most)
    }
}

impl CountedKind {
    /// One of it, and many.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            CountedKind::Cause => ("cause", "causes"),
            CountedKind::Directory => ("directory", "directories"),
            CountedKind::Library => ("library", "libraries"),
            CountedKind::Rpath => ("RPATH", "RPATHs"),
            CountedKind::Runpath => ("RUNPATH", "RUNPATHs"),
            CountedKind::Program => ("program", "programs"),
        }
    }
}

impl super::counts::Counted {
    /// What it is: no line begins with a name that a stranger chose.
    fn words(&self) -> String {
        let name = self.name.as_ref().map(|name| width::shorten(&plain(&name.to_string()), NAME));
        let name = name.unwrap_or_default();
        let cause = self.cause.map_or("", recording::Cause::name);
        match self.what {
            CountedKind::Cause => cause.to_owned(),
            CountedKind::Directory => format!("{cause} in {name}"),
            CountedKind::Library => format!("library {name}"),
            CountedKind::Rpath => format!("RPATH of {name}"),
            CountedKind::Runpath => format!("RUNPATH of {name}"),
            CountedKind::Program => format!("program {name}"),
        }
    }

    /// So many of what is counted of it.
    fn counted(&self, number: u64) -> String {
        let (one, many) = match self.what {
            CountedKind::Rpath | CountedKind::Runpath => ("directory", "directories"),
            CountedKind::Program => ("process", "processes"),
            _ => ("operation", "operations"),
        };
        counted(number, one, many)
    }
}

impl GrownRow {
    fn sentence(&self) -> String {
        let failed = match self.failed == 0 && self.failed_before == 0 {
            true => String::new(),
            false => format!(", failed {} → {}", count(self.failed_before), count(self.failed)),
        };
        let (before, now) = (count(self.before), self.of.counted(self.now));
        format!("{}: {before} → {now}{failed}", self.of.words())
    }
}

impl CountRow {
    fn sentence(&self) -> String {
        let failed = match self.failed {
            0 => String::new(),
            failed => format!(", {} failed", count(failed)),
        };
        format!("{}: {}{failed}", self.of.words(), self.of.counted(self.number))
    }
}

impl NewPath {
    fn sentence(&self) -> String {
        let name = width::shorten(&plain(&self.path.to_string()), NAME);
        let failed = if self.enoent > 0 {
            format!(", {} failed", count(self.enoent))
        } else {
            String::new()
        };
        format!("new: {name}: {}{failed}", counted(self.metadata_ops, "operation", "operations"))
    }
}
