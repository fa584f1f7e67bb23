//! Files that are no recordings, or were made to do harm: one clear error, no panic, no memory
//! beyond what the file is worth.

use recording::export::{self, ExportFormat, ExportOptions};
use recording::query::{CallFilter, GroupBy, table};
use recording::{Recording, RecordingReadError};
use testkit::Random;
use testkit::made::{every_kind, header, read};

const MAGIC: &[u8] = b"becalm-record 1\n";

/// A block with a right frame and checksum.
fn block(kind: u8, content: &[u8]) -> Vec<u8> {
    let packed = zstd::bulk::compress(content, 1).unwrap();
    frame(kind, content.len() as u32, &packed)
}

fn frame(kind: u8, unpacked: u32, packed: &[u8]) -> Vec<u8> {
    let mut frame = vec![kind];
    frame.extend_from_slice(&unpacked.to_le_bytes());
    frame.extend_from_slice(&(packed.len() as u32).to_le_bytes());
    frame.extend_from_slice(&crc32fast::hash(packed).to_le_bytes());
    frame.extend_from_slice(packed);
    frame
}

/// A recording whose only block of records has this content.
fn with_records(content: &[u8]) -> Vec<u8> {
    let header = serde_json::to_vec(&header()).unwrap();
    [MAGIC, &block(b'H', &header), &block(b'R', content)].concat()
}

fn error(bytes: &[u8]) -> RecordingReadError {
    Recording::read(bytes).expect_err("an error")
}

#[test]
fn another_kind_of_file_is_told_in_one_line() {
    let png = b"\x89PNG\r\n\x1a\n and so on and on".as_slice();
    for foreign in [b"".as_slice(), b"#!/bin/sh\necho hello, a script\n", png, &[0; 4096]] {
        assert!(matches!(error(foreign), RecordingReadError::Foreign));
        assert_eq!(
            error(foreign).to_string(),
            "not a recording (it does not begin with 'becalm-record')"
        );
    }
}

#[test]
fn another_version_of_the_format_is_named() {
    let (mut bytes, _) = every_kind::file();
    bytes[14] = b'7';
    assert_eq!(error(&bytes).to_string(), "a recording of format 7; this becalm reads format 1");
}

#[test]
fn a_header_that_makes_no_sense_is_refused() {
    for header in [b"".as_slice(), b"{}", b"[1,2", b"null", "[".repeat(100_000).as_bytes()] {
        let bytes = [MAGIC, &block(b'H', header)].concat();
        assert!(matches!(error(&bytes), RecordingReadError::NoHeader));
    }
    let records_first = [MAGIC, &block(b'R', b"")].concat();
    assert!(matches!(error(&records_first), RecordingReadError::NoHeader));
}

#[test]
fn later_versions_may_add_fields_to_the_header() {
    let mut json = serde_json::to_value(header()).unwrap();
    json["cluster"] = "added later".into();
    let bytes = [MAGIC, &block(b'H', json.to_string().as_bytes())].concat();
    assert_eq!(Recording::read(&bytes[..]).unwrap().header, header());
}

#[test]
fn lengths_that_lie_allocate_nothing_and_end_the_recording() {
    let header = [MAGIC, &block(b'H', &serde_json::to_vec(&header()).unwrap())].concat();
    let huge = frame(b'R', u32::MAX, b"x");
    let over = frame(b'R', (8 << 20) + 1, b"x");
    let mut longer_than_the_file = frame(b'R', 100, b"x");
    longer_than_the_file[5..9].copy_from_slice(&(8_u32 << 20).to_le_bytes());
    for lie in [&huge, &over, &longer_than_the_file] {
        let recording = Recording::read(&[&header[..], lie].concat()[..]).unwrap();
        assert!(recording.cut.is_some() && recording.summary.is_none());
    }
    // Unpacks to more, or to less, than the frame says.
    let zeros = zstd::bulk::compress(&[0; 1000], 1).unwrap();
    for said in [999, 1001] {
        let bytes = [&header[..], &frame(b'R', said, &zeros)].concat();
        assert!(matches!(error(&bytes), RecordingReadError::Damaged(_)));
    }
}

#[test]
fn records_that_make_no_sense_are_damage() {
    let varint = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    let long_path = [&[0][..], &varint].concat();
    let path_and_exec = [&[0, 1, b'/'][..], &[4, 0, 0, 0, 0], &varint].concat();
    let damaged: [(&str, &[u8]); 8] = [
        ("an unknown kind", &[99]),
        ("a kind of two bytes", &[0xff, 0x7f]),
        ("no record", &[]),
        ("a path longer than memory", &long_path),
        ("more arguments than memory", &path_and_exec),
        ("a process out of order", &[2, 5, 1, 0, 0, 0]),
        ("a process that is its own parent", &[2, 0, 1, 1, 0, 0, 0]),
        ("a thread of no process", &[3, 7, 1, 1]),
    ];
    for (what, content) in damaged {
        let error = error(&with_records(content));
        assert!(matches!(error, RecordingReadError::Damaged(_)), "{what}: {error}");
        assert!(error.to_string().starts_with("damaged: "), "{what}");
    }
}

#[test]
fn more_changes_of_mounts_than_any_recorder_keeps_are_damage() {
    let start = [2, 0, 1, 0, 0, 0].as_slice();
    let change = [10, 0, 0, 1, 0].as_slice();
    let with = |changes: usize| [start, &change.repeat(changes)].concat();
    assert!(Recording::read(&with_records(&with(1000))[..]).is_ok());
    let error = error(&with_records(&with(5000)));
    assert_eq!(error.to_string(), "damaged: more changes of mounts than are kept");
}

#[test]
fn a_call_on_a_path_that_was_never_given_is_damage() {
    let (bytes, records) = every_kind::file();
    assert!(read::all(&bytes).is_ok());
    let call = records.iter().find(|record| matches!(record, recording::Record::Call(_)));
    let content = postcard::to_allocvec(call.unwrap()).unwrap();
    assert_eq!(error(&with_records(&content)).to_string(), "damaged: a path that was never given");
}

#[test]
fn a_summary_that_makes_no_sense_and_a_second_header_are_damage() {
    let whole = serde_json::to_vec(&header()).unwrap();
    for end in [block(b'S', b"{"), block(b'H', &whole)] {
        let bytes = [MAGIC, &block(b'H', &whole), &end].concat();
        assert!(matches!(error(&bytes), RecordingReadError::Damaged(_)));
    }
}

#[test]
fn a_recording_that_lost_a_block_in_the_middle_is_not_taken_for_whole() {
    let bytes = testkit::made::Shared::default();
    let mut writer = recording::Writer::new(bytes.sink(), &header()).unwrap();
    let records = every_kind::records(&mut writer);
    records.iter().for_each(|record| every_kind::write(&mut writer, record));
    writer.flush();
    let before = bytes.take().len();
    let call = records.iter().rfind(|record| matches!(record, recording::Record::Call(_)));
    every_kind::write(&mut writer, call.unwrap());
    writer.flush();
    let after = bytes.take().len();
    writer.finish(recording::Nanos(1)).unwrap();
    let mut lost = bytes.take();
    assert!(Recording::read(&lost[..]).is_ok());
    lost.drain(before..after);
    assert_eq!(error(&lost).to_string(), "damaged: calls are missing from the middle");
}

/// All that becalm does with a recording.
fn use_all(recording: &Recording) {
    for by in GroupBy::ALL {
        let table = table(recording, by, &CallFilter::default());
        let rows: u64 = table.rows.iter().map(|row| row.calls).sum();
        assert_eq!(rows, table.total.calls);
    }
    for format in ExportFormat::ALL {
        export::write(recording, format, &mut std::io::sink(), &ExportOptions::default()).unwrap();
    }
}

#[test]
fn a_hundred_thousand_damaged_files_never_panic_and_are_never_whole_by_chance() {
    let (bytes, _) = every_kind::file();
    let whole = read::all(&bytes).unwrap();
    let mut random = Random::seeded(7);
    let mut readable = 0;
    for _ in 0..100_000 {
        let mut damaged = bytes.clone();
        for _ in 0..=random.below(4) {
            mutate(&mut damaged, &mut random);
        }
        if let Ok(read) = read::all(&damaged)
            && damaged != bytes
        {
            readable += 1;
            assert_eq!(read.summary, None);
            // Checksums: what is read of a damaged file is a part of what was written.
            let count = read.records.len();
            assert!(count <= whole.records.len() && read.records == whole.records[..count]);
        }
    }
    assert!(readable > 1000, "{readable} were read at least in part");
}

fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    let at = random.below(bytes.len() as u64) as usize;
    match random.below(4) {
        0 => bytes[at] = random.bits() as u8,
        1 => bytes[at] ^= 1 << random.below(8),
        2 => bytes.truncate(at.max(1)),
        _ => {
            let to = random.below(bytes.len() as u64) as usize;
            let byte = bytes.remove(at);
            bytes.insert(to, byte);
        }
    }
}

#[test]
fn records_of_nonsense_with_right_checksums_never_panic() {
    // The content of the small recording's blocks, as one.
    let (_, records) = every_kind::file();
    let paths = [&b"/usr/bin/demo"[..], b"/home/me", b"/lib64/ld.so", b"/tmp/\xff;\n"];
    let paths = paths.map(|path| recording::Record::Path(path.to_vec()));
    let content: Vec<u8> =
        paths.iter().chain(&records).flat_map(|r| postcard::to_allocvec(r).unwrap()).collect();
    use_all(&Recording::read(&with_records(&content)[..]).unwrap());
    let mut random = Random::seeded(3);
    let mut readable = 0;
    for _ in 0..20_000 {
        let mut damaged = content.clone();
        for _ in 0..=random.below(3) {
            mutate(&mut damaged, &mut random);
        }
        if let Ok(recording) = Recording::read(&with_records(&damaged)[..]) {
            readable += 1;
            use_all(&recording);
        }
    }
    assert!(readable > 100, "{readable} were read");
}
