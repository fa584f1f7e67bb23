//! What a journal says, and how its lines are framed.
//!
//! A line is a checksum, the record's number, and the record as JSON, separated by spaces:
//! `1f2e3d4c 7 {"record":"ready"}`. The checksum is the CRC-32 of what follows it, in
//! hexadecimal. A line counts only whole: with its newline, the right checksum and the next
//! number.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::change::{FileChange, Version};
use crate::directory_times::ChangedDirectory;
use crate::text;

/// What the first record of a journal says that it is.
pub(crate) const SCHEMA: &str = "becalm.journal/1";

/// One line of a journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub(crate) enum JournalRecord {
    /// The first: what is being applied.
    Begin {
        schema: String,
        id: String,
        title: String,
        /// Seconds since 1970.
        at: u64,
    },
    /// New files that are about to be written, to be renamed or removed later. What is left of
    /// them after an interruption is litter.
    Temporaries {
        #[serde(with = "text::paths")]
        paths: Vec<PathBuf>,
    },
    /// A change that is about to be made.
    Change(Box<FileChange>),
    /// Files that the changes hold by, and do not change: who undoes a change of one of these is told.
    Relies {
        #[serde(with = "text::paths")]
        paths: Vec<PathBuf>,
    },
    /// All changes are told and all new files are on the disk: from here on they are renamed.
    Ready,
    /// Directories in which files have come, gone or been replaced, and when each was changed before.
    Directories { changed: Vec<ChangedDirectory> },
    /// Every change is made, and on the disk.
    Applied,
    /// More is about to be changed under the same id.
    Extending,
    /// A file that was put there is about to be made anew, as this; while it stays applied.
    Renewed {
        #[serde(with = "text::path")]
        path: PathBuf,
        version: Version,
    },
    /// The changes are about to be taken back.
    Undoing,
    /// They are taken back, but for those of these paths.
    Undone {
        #[serde(with = "text::paths")]
        skipped: Vec<PathBuf>,
    },
    /// They stay: what was kept to take them back is about to be removed.
    Forgotten,
}

/// Appends a record as the line with that number.
pub(crate) fn add_line(
    number: u64,
    record: &JournalRecord,
    out: &mut Vec<u8>,
) -> serde_json::Result<()> {
    let sum_at = out.len();
    // In the place of the checksum, which is known once what it is of is written.
    out.extend_from_slice(b"00000000 ");
    let body_at = out.len();
    out.extend_from_slice(format!("{number} ").as_bytes());
    serde_json::to_writer(&mut *out, record)?;
    let sum = format!("{:08x}", crc32fast::hash(&out[body_at..]));
    out[sum_at..sum_at + sum.len()].copy_from_slice(sum.as_bytes());
    out.push(b'\n');
    Ok(())
}

/// The record of a line without its newline, if it is whole and has that number.
pub(crate) fn of_line(number: u64, line: &[u8]) -> Option<JournalRecord> {
    let body = checked(line)?;
    let (there, json) = body.split_once(' ')?;
    (there == number.to_string()).then(|| serde_json::from_str(json).ok())?
}

/// What follows a line's checksum, if that is right.
fn checked(line: &[u8]) -> Option<&str> {
    let (sum, body) = (line.get(..8)?, line.get(9..)?);
    let right = format!("{:08x}", crc32fast::hash(body));
    (line.get(8) == Some(&b' ') && sum == right.as_bytes())
        .then(|| std::str::from_utf8(body).ok())?
}

/// Whether a line is whole, whichever number it has.
pub(crate) fn is_whole(line: &[u8]) -> bool {
    checked(line).is_some()
}

/// Whether a line is whole and ends the telling.
pub(crate) fn is_an_end(line: &[u8]) -> bool {
    let record = checked(line)
        .and_then(|body| body.split_once(' '))
        .and_then(|(_, json)| serde_json::from_str(json).ok());
    matches!(
        record,
        Some(
            JournalRecord::Applied
                | JournalRecord::Renewed { .. }
                | JournalRecord::Undone { .. }
                | JournalRecord::Forgotten
        )
    )
}
