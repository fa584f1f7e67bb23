//! `becalm python bundle`: what was packed, and what is imported as without.

use std::path::Path;

use python::bundle::{Packed, Why};
use recording::{Bytes, shown_name};
use serde::Serialize;

use crate::number::{bytes, count, counted};
use crate::{Column, Table, plain, style};

/// How many of what was not taken have a row.
const ROWS: usize = 12;

/// What `becalm python bundle` answers.
#[derive(Clone, Debug, Serialize)]
pub struct PythonBundle<'a> {
    schema: &'static str,
    bundle: String,
    #[serde(flatten)]
    packed: &'a Packed,
}

impl<'a> PythonBundle<'a> {
    /// What was packed into a file.
    pub fn of(bundle: &Path, packed: &'a Packed) -> PythonBundle<'a> {
        let bundle = shown_name(bundle);
        PythonBundle { schema: "becalm.python.bundle/1", bundle, packed }
    }

    /// The answer as a person reads it, at most `columns` columns wide. `next` is what to do
    /// next, as a command to paste.
    pub fn render(&self, columns: usize, next: &str) -> String {
        let text = style::headline(&self.headline(), columns) + "\n" + &self.facts(columns);
        text + &self.not_taken(columns) + "\n" + &style::next(next)
    }

    fn headline(&self) -> String {
        let packed = self.packed;
        let order = match packed.traced {
            0 => String::new(),
            traced if traced == packed.modules => ", as they were imported".to_owned(),
            traced => format!(", {} of them first, as they were imported", count(traced)),
        };
        format!(
            "{}: {} in {} for Python {}{order}",
            plain(&self.bundle),
            counted(packed.modules, "module", "modules"),
            bytes(Bytes(packed.bundle_bytes)),
            plain(&packed.python.version),
        )
    }

    fn facts(&self, columns: usize) -> String {
        let packed = self.packed;
        let mut table = Table::new([Column::text(""), Column::number(""), Column::path("")]);
        let mut row = |what: &str, number: u64, note: &str| {
            if number > 0 {
                table.row([what.to_owned(), count(number), note.to_owned()]);
            }
        };
        row("directories", packed.directories, "are searched no more");
        row("", packed.checked.len() as u64, "of them are looked at when a Python starts");
        row("modules", packed.looked_at, "are not installed: each is looked at before it is used");
        row("extension modules", packed.extensions, "are loaded from their own place, as without");
        table.render_rows(columns)
    }

    fn not_taken(&self, columns: usize) -> String {
        let not_taken = &self.packed.not_taken;
        if not_taken.is_empty() {
            return String::new();
        }
        let mut table = Table::new([Column::text("as without"), Column::path("").spare()]);
        for left in not_taken.iter().take(ROWS) {
            table.row([words(left.why), &left.path.to_string_lossy()]);
        }
        let more = match not_taken.len().saturating_sub(ROWS) {
            0 => String::new(),
            more => format!("({} more: --json)\n", count(more as u64)),
        };
        format!("\n{}{more}", table.render(columns))
    }
}

fn words(why: Why) -> &'static str {
    match why {
        Why::OtherPython => "another Python",
        Why::Zip => "zipped package",
        Why::Unreadable => "cannot be read",
        Why::Name => "name that is no plain UTF-8",
        Why::NoCode => "does not compile",
    }
}
