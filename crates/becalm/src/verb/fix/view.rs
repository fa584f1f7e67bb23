//! What `becalm fix` answers.

use std::path::PathBuf;

use loader::bind::Binding;
use prove::{Harm, Proof};
use recording::{Bytes, shown_name};
use serde_json::{Value, json};
use term::number::{bytes, counted};
use term::{plain, style};

use crate::verb::elf::bind::view::Bound;

/// A fix, planned or applied.
pub struct FixAnswer<'a> {
    /// The files that are to be bound, or were.
    pub binding: &'a Binding,
    /// The environment that is to be packed, or was.
    pub packing: Option<&'a Packing>,
    /// Its name in the journal, once it was applied.
    pub applied: Option<&'a str>,
    /// Why it was taken back, if it was.
    pub harm: Option<Harm>,
    /// What was measured.
    pub proof: Option<&'a Proof>,
}

/// An environment that is packed into an image.
#[derive(Clone, Debug)]
pub struct Packing {
    /// The directory.
    pub environment: PathBuf,
    /// The image's file.
    pub image: PathBuf,
    /// Metadata operations of the start that lie below the directory: the image answers them.
    pub operations: u64,
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
        let Some(proof) = self.proof else { return text + "\n" + &style::next(next) };
        text.push('\n');
        if let Some(line) = kept_or_not(self.harm, proof) {
            let paint = if self.harm.is_some() { style::MORE } else { style::WARNING };
            text.push_str(&style::paint(paint, line));
            text.push('\n');
        }
        text.push_str(&super::super::prove::view::proof(proof, columns, next));
        text
    }

    fn cures(&self, columns: usize) -> String {
        let packed = self.packing.map(|packing| style::headline(&packing.headline(), columns));
        let bound = Bound::of(self.binding, self.applied).render(columns, "");
        match packed {
            None => bound,
            Some(packed) if self.binding.is_empty() => packed,
            Some(packed) => packed + &bound,
        }
    }

    /// The whole as data (docs/schema/becalm.fix.md).
    pub fn to_value(&self) -> Value {
        json!({
            "schema": "becalm.fix/1",
            "binding": Bound::of(self.binding, self.applied).to_value(),
            "packing": self.packing.map(Packing::to_value),
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

impl Packing {
    fn headline(&self) -> String {
        let (did, size) = match self.image_bytes {
            None => ("Would pack", String::new()),
            Some(size) => ("Packed", format!(", of {}", bytes(Bytes(size)))),
        };
        format!(
            "{did} {} ({}, {}) into one image, {}{size}: {} asked of it become the image's to answer",
            plain(&self.environment.to_string_lossy()),
            counted(self.entries, "file", "files"),
            bytes(Bytes(self.bytes)),
            plain(&self.image.to_string_lossy()),
            counted(self.operations, "question", "questions"),
        )
    }

    fn to_value(&self) -> Value {
        json!({
            "environment": shown_name(&self.environment),
            "image": shown_name(&self.image),
            "operations": self.operations,
            "entries": self.entries,
            "bytes": self.bytes,
            "image_bytes": self.image_bytes,
        })
    }
}
