//! Reads a recording record by record.

use recording::{Reader, Record, RecordingReadError, RecordingSummary};

/// All that could be read, and how it ended.
pub struct All {
    pub records: Vec<Record>,
    pub summary: Option<RecordingSummary>,
    pub cut: Option<&'static str>,
}

pub fn all(bytes: &[u8]) -> Result<All, RecordingReadError> {
    let mut reader = Reader::new(bytes)?;
    let mut records = Vec::new();
    while let Some(record) = reader.next_record()? {
        records.push(record);
    }
    Ok(All { records, summary: reader.summary().cloned(), cut: reader.cut() })
}
