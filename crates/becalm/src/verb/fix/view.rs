//! What `becalm fix` says.

use std::path::PathBuf;

use cure::TakenAway;
use loader::bind::Binding;
use prove::{Harm, Proof};
use recording::{ByteUnits, shown_name};
use serde_json::{Value, json};
use term::number::{bytes, counted};
use term::{plain, style, width};

use super::PlannedWait;
use crate::predicted_wait::{seconds, wait_sentence};
use crate::verb::elf::bind::view::Bound;

/// A fix, planned or applied.
pub struct FixAnswer<'a> {
    /// The files that are to be bound, or were.
    pub binding: &'a Binding,
    /// The image that is to be built, or was.
    pub image: Option<&'a EnvironmentImage>,
    /// Why none is, where one would help.
    pub no_image: Option<&'a str>,
    /// What the start waits, and would with these changes.
    pub wait: &'a PlannedWait,
    /// Its name in the journal, once it was applied.
    pub applied: Option<&'a str>,
    /// Why it was taken back, if it was.
    pub harm: Option<Harm>,
    /// What was measured.
    pub proof: Option<&'a Proof>,
}

/// An image of an environment.
#[derive(Clone, Debug)]
pub struct EnvironmentImage {
    /// The directories.
    pub directories: Vec<PathBuf>,
    /// The image's file.
    pub image: PathBuf,
    /// Metadata operations of the start that lie below the directory: the image serves them.
    pub taken: TakenAway,
    /// Files, directories and links in it.
    pub entries: u64,
    /// The sum of the files' sizes.
    pub bytes: u64,
    /// The image's size, once it is built.
    pub image_bytes: Option<u64>,
}

impl FixAnswer<'_> {
    /// What was planned or done, then what was measured.
    pub fn render(&self, columns: usize, next: &str) -> String {
        let mut text = self.cures(columns);
        let Some(proof) = self.proof else {
            return text + "\n" + &self.wait(columns) + &style::next(next);
        };
        text.push('\n');
        if let Some(line) = kept_or_not(self.harm, proof) {
            let paint = if self.harm.is_some() { style::MORE } else { style::WARNING };
            text.push_str(&style::paint(paint, line));
            text.push('\n');
        }
        text.push_str(&super::super::prove::view::proof(proof, columns, next));
        text
    }

    fn wait(&self, columns: usize) -> String {
        let PlannedWait { model, now, after } = self.wait;
        let Some(now) = now else {
            return "No wait is predicted: becalm check says why.\n".to_owned();
        };
        let after = after.map_or(String::new(), |after| {
            let (one, all) = (seconds(after.one_rank), seconds(after.all_ranks));
            format!("; with this plan {one}, and {all}")
        });
        width::wrap(&format!("{}{after}.", wait_sentence(model, now)), columns)
    }

    fn cures(&self, columns: usize) -> String {
        let image = match (self.image, self.no_image) {
            (Some(image), _) => style::headline(&image.headline(), columns),
            (None, Some(why)) => width::wrap(&format!("No image: {}", plain(why)), columns),
            (None, None) => String::new(),
        };
        let bound = || Bound::of(self.binding, self.applied).render(columns, "");
        match self.image.is_some() && self.binding.is_empty() {
            true => image,
            false => image + &bound(),
        }
    }

    /// The whole as data (docs/schema/becalm.fix.md).
    pub fn to_value(&self) -> Value {
        json!({
            "schema": "becalm.fix/1",
            "binding": Bound::of(self.binding, self.applied).to_value(),
            "image": self.image.map(EnvironmentImage::to_value),
            "no_image": self.no_image,
            "model": self.wait.model,
            "predicted_wait": self.wait.now,
            "predicted_wait_after": self.wait.after,
            "applied": self.applied,
            "taken_back": self.harm.is_some(),
            "harm": self.harm,
            "proof": self.proof,
        })
    }
}

/// What became of the changes, where it does not go without saying.
fn kept_or_not(harm: Option<Harm>, proof: &Proof) -> Option<&'static str> {
    match harm {
        Some(Harm::Behaviour) => {
            Some("Taken back: with these changes the command did not behave as before.")
        }
        Some(Harm::Slower) => Some("Taken back: with these changes the command took longer."),
        Some(Harm::MoreOperations) => {
            Some("Taken back: with these changes it made more metadata operations.")
        }
        None if !proof.verdict.proven => {
            Some("Kept, though no gain was proven: nothing speaks against it.")
        }
        None => None,
    }
}

impl EnvironmentImage {
    fn headline(&self) -> String {
        let (did, size) = match self.image_bytes {
            None => ("Would build", String::new()),
            Some(size) => ("Built", format!(" ({})", bytes(ByteUnits(size)))),
        };
        format!(
            "{did} one image, {}{size}, of {} ({}, {}): it serves {} of this start",
            plain(&self.image.to_string_lossy()),
            plain(&term::shell_line(&self.directories)),
            counted(self.entries, "file", "files"),
            bytes(ByteUnits(self.bytes)),
            counted(self.taken.metadata_ops, "metadata operation", "metadata operations"),
        )
    }

    fn to_value(&self) -> Value {
        json!({
            "directories": self.directories.iter().map(shown_name).collect::<Vec<_>>(),
            "file": shown_name(&self.image),
            "metadata_ops": self.taken.metadata_ops,
            "enoent": self.taken.enoent,
            "entries": self.entries,
            "bytes": self.bytes,
            "image_bytes": self.image_bytes,
        })
    }
}
