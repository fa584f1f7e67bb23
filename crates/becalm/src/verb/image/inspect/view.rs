//! The screen of `becalm image inspect`: what is in an image.

use std::path::{Path, PathBuf};

use image::{ExtFacts, Holds, Inspection, ObjectFacts, SifFacts, SquashFacts};
use recording::{ByteUnits, shown_name};
use schemars::JsonSchema;
use serde::Serialize;
use term::number::{bytes, count, counted, percent};
use term::{Cell, Column, Table, plain, quoted_path, style};

/// How many objects and labels have a row.
const OBJECTS: usize = 12;
const LABELS: usize = 8;

/// What `becalm image inspect` answers.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Inspected {
    /// `becalm.image.inspect/1`.
    schema: &'static str,
    /// The file, as it was given.
    file: String,
    #[serde(flatten)]
    inspection: Inspection,
    #[serde(skip)]
    path: PathBuf,
}

impl Inspected {
    /// What was found in `path`.
    pub fn of(path: &Path, inspection: Inspection) -> Inspected {
        Inspected {
            schema: "becalm.image.inspect/1",
            file: shown_name(path),
            inspection,
            path: path.to_owned(),
        }
    }

    /// The answer as a person reads it, at most `columns` columns wide.
    pub fn render(&self, columns: usize) -> String {
        let size = bytes(ByteUnits(self.inspection.bytes));
        let (headline, body, next) = match &self.inspection.holds {
            Holds::Sif(sif) => (sif_headline(sif, &size), sif_body(sif, columns), self.next(sif)),
            Holds::Squashfs { squashfs } => (
                format!(
                    "squashfs of {size}: {}, made {}",
                    squashfs_words(squashfs),
                    moment(i64::from(squashfs.facts.made))
                ),
                squashfs_body(squashfs, columns),
                format!("unsquashfs -lls {}", self.quoted()),
            ),
            Holds::Ext { ext } => (
                ext_headline(ext),
                String::new(),
                format!("debugfs -R 'ls -l /upper' {}", self.quoted()),
            ),
        };
        let headline = format!("{}: {headline}", plain(&self.file));
        let gap = if body.is_empty() { "" } else { "\n" };
        style::headline(&headline, columns) + &body + gap + &style::next(&next)
    }

    fn next(&self, sif: &SifFacts) -> String {
        match sif.objects.iter().any(|object| object.object == "definition file") {
            true => format!("becalm image inspect --deffile {}", self.quoted()),
            false => format!("becalm image inspect --json {} | jq .objects", self.quoted()),
        }
    }

    fn quoted(&self) -> String {
        quoted_path(&self.path)
    }
}

fn sif_headline(sif: &SifFacts, size: &str) -> String {
    let arch = match sif.arch {
        "unknown" => "no processor in particular",
        arch => arch,
    };
    let signed = if sif.signed { "signed (not verified here)" } else { "not signed" };
    let encrypted = if sif.encrypted { ", encrypted" } else { "" };
    let objects = counted(sif.objects.len() as u64, "object", "objects");
    format!("SIF of {size} for {arch}, {objects}, {signed}{encrypted}")
}

fn sif_body(sif: &SifFacts, columns: usize) -> String {
    let mut table = Table::new([
        Column::number("id"),
        Column::text("object"),
        Column::path("holds"),
        Column::number("offset"),
        Column::number("size"),
        Column::path("name").spare(),
    ]);
    for object in sif.objects.iter().take(OBJECTS) {
        table.row([
            Cell::from(object.id.to_string()),
            Cell::from(object.role.as_ref().unwrap_or(&object.object).as_str()),
            object_cell(object),
            Cell::from(count(object.offset)),
            Cell::from(bytes(ByteUnits(object.bytes))),
            Cell::from(object.name.as_str()),
        ]);
    }
    let mut text = table.render(columns);
    text.push_str(&more(sif.objects.len(), OBJECTS, "objects"));
    text.push_str(&format!("\nUUID {}, made {}\n", sif.uuid, moment(sif.created)));
    if !sif.labels.is_empty() {
        let mut labels = Table::new([Column::text("label"), Column::path("")]);
        for (name, value) in sif.labels.iter().take(LABELS) {
            labels.row([name.as_str(), value.as_str()]);
        }
        text.push('\n');
        text.push_str(&labels.render(columns));
        text.push_str(&more(sif.labels.len(), LABELS, "labels"));
    }
    text
}

fn more(all: usize, shown: usize, what: &str) -> String {
    match all.saturating_sub(shown) {
        0 => String::new(),
        more => format!("({more} more {what}: --json)\n"),
    }
}

/// What an object holds; what is wrong with it, before all else.
fn object_cell(object: &ObjectFacts) -> Cell {
    if let Some(problem) = &object.problem {
        return Cell::styled(problem, style::WARNING);
    }
    let words = match (&object.squashfs, &object.ext, &object.filesystem, &object.fingerprint) {
        (Some(squashfs), ..) => format!("squashfs, {}", squashfs_words(squashfs)),
        (_, Some(ext), ..) => format!("{}, {}", ext.filesystem, used(ext)),
        (_, _, Some(filesystem), _) => filesystem.clone(),
        (_, _, _, Some(fingerprint)) => format!("key {fingerprint}"),
        _ => String::new(),
    };
    Cell::from(words)
}

fn squashfs_words(squashfs: &SquashFacts) -> String {
    let facts = &squashfs.facts;
    let files = counted(u64::from(facts.inodes), "inode", "inodes");
    format!("{}, {files}", facts.compression)
}

/// What becalm says of an image of its own.
fn squashfs_body(squashfs: &SquashFacts, columns: usize) -> String {
    let Some(manifest) = &squashfs.manifest else {
        return "Not becalm's: nothing is known of what it was made from.\n".to_owned();
    };
    let mut table = Table::new([Column::text(""), Column::path("")]);
    let path = |path: &Path| shown_name(path);
    table.row(["stands for", &path(manifest.layout.base())]);
    for packed in manifest.layout.paths().iter().take(LABELS) {
        table.row(["packed", &path(packed)]);
    }
    let sources = &manifest.fingerprint;
    let packed =
        counted(sources.entries, "file, directory or link", "files, directories and links");
    let newest = moment(i64::from(sources.newest));
    table.row([
        "sources",
        &format!("{packed}, {}, the newest of {newest}", bytes(ByteUnits(sources.bytes))),
    ]);
    let order = match &manifest.trace {
        Some(trace) => format!("{} as {trace} opens them, then by path", count(manifest.traced)),
        None => "by path".to_owned(),
    };
    table.row(["order", &order]);
    let rest = more(manifest.layout.paths().len(), LABELS, "paths");
    table.render_rows(columns) + &rest
}

fn ext_headline(ext: &ExtFacts) -> String {
    let what = match ext.filesystem {
        "ext3" => "ext3",
        _ => "ext filesystem that Apptainer does not take for an overlay",
    };
    format!("{what} of {}: {}", bytes(ByteUnits(ext.bytes)), ext_words(ext))
}

fn ext_words(ext: &ExtFacts) -> String {
    let inodes = percent(u64::from(ext.used_inodes), u64::from(ext.inodes));
    let clean = if ext.clean { "unmounted cleanly" } else { "mounted, or not unmounted cleanly" };
    format!("{}, {inodes} of its inodes; {clean}", used(ext))
}

fn used(ext: &ExtFacts) -> String {
    format!("{} used ({})", bytes(ByteUnits(ext.used_bytes)), percent(ext.used_bytes, ext.bytes))
}

/// A moment in seconds since 1970 as a person reads it: `2023-11-14 22:13 UTC`.
fn moment(seconds: i64) -> String {
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (hour, minute) = (rest / 3600, rest / 60 % 60);
    match date(days) {
        Some((year, month, day)) => {
            format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
        }
        None => format!("{seconds} s after 1970"),
    }
}

/// Year, month and day of a count of days since 1970-01-01: civil_from_days of
/// <https://howardhinnant.github.io/date_algorithms.html>. None far from now.
fn date(days: i64) -> Option<(i64, i64, i64)> {
    let days = days.checked_add(719_468).filter(|days| (0..4_000_000).contains(days))?;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let march = (5 * day + 2) / 153;
    let month = if march < 10 { march + 3 } else { march - 9 };
    Some((year + era * 400 + i64::from(month <= 2), month, day - (153 * march + 2) / 5 + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_a_date_and_one_that_cannot_be_is_a_number() {
        assert_eq!(moment(0), "1970-01-01 00:00 UTC");
        assert_eq!(moment(1_700_000_000), "2023-11-14 22:13 UTC");
        assert_eq!(moment(-1), "1969-12-31 23:59 UTC");
        assert_eq!(moment(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(moment(i64::MAX), format!("{} s after 1970", i64::MAX));
        assert_eq!(moment(i64::MIN), format!("{} s after 1970", i64::MIN));
    }
}
