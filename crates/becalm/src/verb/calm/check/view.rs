//! Whether a calm file holds, as a person reads it and as JSON.

use std::path::Path;

use cure::{CalmChange, CalmFile};
use image::mount::ComparedSources;
use recording::shown_name;
use schemars::JsonSchema;
use serde::Serialize;
use term::number::counted;
use term::{Column, Table, plain, style, width};

/// What `becalm calm check` answers: docs/schema/becalm.calm.check.md.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CalmChecked {
    /// `becalm.calm.check/1`.
    schema: &'static str,
    /// The calm file, as it was given.
    file: String,
    /// Whether it can be used as it is.
    holds: bool,
    /// How many files were compared: by their content; those that are read ahead, by size and time.
    compared: u64,
    /// How many files that the image was made of were compared, by time and size; 0 where there is
    /// no image, where its sources are not there, and where one has changed.
    sources_compared: u64,
    /// How many of these had to be read: they, or directories above them, were touched since.
    sources_read: u64,
    /// How many directories, which are searched in another order, were listed.
    directories_compared: u64,
    /// Those that are not as they were.
    changed: Vec<ChangedFile>,
    /// What else is in the way, a sentence each: what the image was made of has changed, copies lie
    /// where nothing may be executed.
    reasons: Vec<String>,
    /// The working directory in which the calm file was made.
    directory: String,
    /// The line that writes it again; null where it holds.
    write_again: Option<String>,
    /// The line to type next.
    #[serde(skip)]
    next: String,
    /// The line that writes it again, whether it holds or not.
    #[serde(skip)]
    again: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ChangedFile {
    /// The file.
    path: String,
    /// What has become of it.
    what: String,
}

impl CalmChecked {
    /// What came of it.
    pub fn of(
        file: &Path,
        calm: &CalmFile,
        changes: &[CalmChange],
        reasons: Vec<String>,
    ) -> CalmChecked {
        let holds = changes.is_empty() && reasons.is_empty();
        let compared = calm.image.iter().len()
            + calm.beside.len()
            + 2 * calm.shown.len()
            + calm.relies_on.len();
        let compared = compared + calm.read_ahead.files.len();
        let changed = changes.iter().map(|change| ChangedFile {
            path: shown_name(&change.path),
            what: change.what.clone(),
        });
        let again = calm.write_again_from_here(file);
        CalmChecked {
            schema: "becalm.calm.check/1",
            file: shown_name(file),
            holds,
            compared: compared as u64,
            sources_compared: 0,
            sources_read: 0,
            directories_compared: calm.reordered_directories(),
            changed: changed.collect(),
            reasons,
            directory: shown_name(&calm.directory),
            next: match holds {
                true => format!("becalm run {}", term::quoted_path(file)),
                false => again.clone(),
            },
            write_again: (!holds).then(|| again.clone()),
            again,
        }
    }

    /// With how many files that the image was made of were compared.
    pub fn with_sources(self, compared: &[ComparedSources]) -> CalmChecked {
        CalmChecked {
            sources_compared: compared.iter().map(|image| image.files).sum(),
            sources_read: compared.iter().map(|image| image.read).sum(),
            ..self
        }
    }

    /// Whether the calm file can be used.
    pub fn holds(&self) -> bool {
        self.holds
    }

    /// As a person reads it.
    pub fn render(&self, columns: usize) -> String {
        let file = plain(&self.file);
        let files = counted(self.compared, "file", "files");
        let directories = counted(self.directories_compared, "directory", "directories");
        let of = match (self.compared, self.directories_compared) {
            (_, 0) => files,
            (0, _) => directories,
            _ => format!("{files} and {directories}"),
        };
        let compared = self.compared + self.directories_compared;
        let headline = match (self.holds, compared, self.changed.len()) {
            (true, 0, _) => format!("{file} holds: it relies on no file."),
            (true, ..) if self.sources_compared > 0 => {
                let sources = counted(self.sources_compared, "file", "files");
                format!(
                    "{file} holds: {of} compared, all as they were; of {sources} that the image was \
                     made of, times and sizes are."
                )
            }
            (true, ..) => format!("{file} holds: {of} compared, all as they were."),
            (false, _, 0) => format!("{file} does not hold any more."),
            (false, _, changed) => {
                let is = if changed == 1 { "is" } else { "are" };
                format!("{file} does not hold any more: {changed} of {of} {is} not as before.")
            }
        };
        let mut text = style::headline(&headline, columns);
        if !self.changed.is_empty() {
            let mut table = Table::new([Column::path("file"), Column::text("what")]);
            for ChangedFile { path, what } in self.changed.iter().take(MOST) {
                table.row([path.as_str(), what.as_str()]);
            }
            text.push_str(&table.render(columns));
            if let more @ 1.. = self.changed.len().saturating_sub(MOST) {
                text.push_str(&format!(
                    "and {}\n",
                    counted(more as u64, "file more", "files more")
                ));
            }
        }
        if self.sources_read > 0 {
            let files = counted(self.sources_read, "file", "files");
            let were = if self.sources_read == 1 { "was" } else { "were" };
            text.push_str(&width::wrap(
                &plain(&format!(
                    "{files} that the image was made of {were} touched since, and had to be read. Each start \
                     reads those that it opens, until the calm file is written again:"
                )),
                columns,
            ));
            text.push_str(&format!("{}\n", plain(&self.again)));
        }
        for reason in &self.reasons {
            text.push_str(&width::wrap(&plain(reason), columns));
        }
        text.push('\n');
        text.push_str(&style::next(&self.next));
        text
    }
}

/// A screen of them.
const MOST: usize = 20;
