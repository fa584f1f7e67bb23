//! Reads a recording record by record.

use recording::{Reader, Record, RecordingReadError, RecordingSummary};

/// All that could be read, and how it ended.
pub struct All {
    /// The records.
    pub records: Vec<Record>,
    /// What is at the end of a whole one.
    pub summary: Option<RecordingSummary>,
    /// Why it ends too early.
    pub cut: Option<&'static str>,
}

/// Reads a recording as far as that can be done.
pub fn all(bytes: &[u8]) -> Result<All, RecordingReadError> {
    let mut reader = Reader::new(bytes)?;
    let mut records = Vec::new();
    while let Some(record) = reader.next_record()? {
        records.push(record);
    }
    Ok(All { records, summary: reader.summary().cloned(), cut: reader.cut() })
}
