//! Reads any bytes as a recording, and does with it all that becalm does with one.
//!
//! The first byte chooses how the rest is taken: as a file, or, since a fuzzer finds no
//! checksums, as the content of a block of records in a file that is right otherwise.

#![no_main]

use std::io::{self, Write, sink};
use std::sync::{Arc, LazyLock, Mutex};

use explain::{ExplainOptions, explain};
use libfuzzer_sys::fuzz_target;
use recording::export::{self, ExportFormat, ExportOptions, Weight};
use recording::query::{CallFilter, GroupBy, prefix_counts, tables};
use recording::{Cause, Header, Reader, Recording, Writer, diff};

fuzz_target!(|input: &[u8]| {
    let Some((choice, rest)) = input.split_first() else { return };
    let file = if choice % 2 == 0 { rest.to_vec() } else { with_records(rest) };
    if let Ok(mut reader) = Reader::new(&file[..]) {
        while let Ok(Some(_)) = reader.next_record() {}
    }
    if let Ok(recording) = Recording::read(&file[..]) {
        use_all(&recording);
    }
});

fn use_all(recording: &Recording) {
    let findings = explain(recording, &ExplainOptions::default());
    let found = findings.storms.iter().map(|storm| storm.metadata_ops).sum::<u64>();
    assert!(found <= findings.totals.metadata_ops);
    let scan = python::scan(recording, None);
    assert!(scan.imports.metadata_ops <= scan.all.metadata_ops);
    let filters = [
        CallFilter::default(),
        CallFilter { below: Some(b"/usr".to_vec()), ..CallFilter::default() },
        CallFilter { cause: Some(Cause::Program), default_set: true, ..CallFilter::default() },
    ];
    for (by, filter) in GroupBy::ALL.iter().flat_map(|by| filters.iter().map(move |f| (by, f))) {
        let (a, b) = tables(recording, recording, *by, filter);
        assert_eq!(a, b);
        assert_eq!(a.rows.iter().map(|row| row.calls).sum::<u64>(), a.total.calls);
        assert!(diff::tables(&a, &b).iter().all(|row| row.before == row.after));
        let _ = a.strace_text();
    }
    let counts = prefix_counts(recording, b"/usr");
    assert!(counts.enoent <= counts.metadata_ops);
    assert!(diff::paths(recording, recording).only_a.is_empty());
    for (format, weight) in ExportFormat::ALL.iter().flat_map(|f| Weight::ALL.map(|w| (f, w))) {
        let written = export::write(recording, *format, &mut sink(), &ExportOptions { weight });
        assert!(written.is_ok());
    }
}

/// The magic and the header, which a writer writes when it is made.
static START: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let bytes = SharedBytes::default();
    drop(Writer::new(Box::new(bytes.clone()), &Header::default()));
    bytes.0.lock().map(|bytes| bytes.clone()).unwrap_or_default()
});

/// A recording whose only block of records has this content.
fn with_records(content: &[u8]) -> Vec<u8> {
    let mut file = START.clone();
    let packed = zstd::bulk::compress(content, 1).unwrap_or_default();
    file.push(b'R');
    file.extend_from_slice(&(content.len() as u32).to_le_bytes());
    file.extend_from_slice(&(packed.len() as u32).to_le_bytes());
    file.extend_from_slice(&crc32fast::hash(&packed).to_le_bytes());
    file.extend_from_slice(&packed);
    file
}

#[derive(Clone, Default)]
struct SharedBytes(Arc<Mutex<Vec<u8>>>);

impl Write for SharedBytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Ok(mut all) = self.0.lock() {
            all.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
