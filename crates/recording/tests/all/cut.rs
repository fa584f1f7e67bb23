//! Recordings that end too early: the recorder was killed, or the disk was full.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};

use recording::{Nanos, Recording, RecordingReadError, Writer};
use testkit::made::{Shared, every_kind, header, read};

/// The offsets at which a block ends, from the file's own frames.
fn block_ends(bytes: &[u8]) -> Vec<usize> {
    let mut ends = vec![16];
    while let Some(frame) = bytes.get(*ends.last().unwrap()..).filter(|rest| rest.len() >= 13) {
        let packed = u32::from_le_bytes(frame[5..9].try_into().unwrap());
        ends.push(ends.last().unwrap() + 13 + packed as usize);
    }
    ends
}

#[test]
fn a_recording_cut_anywhere_reads_up_to_the_cut_and_says_so() {
    let (bytes, records) = every_kind::file();
    let ends = block_ends(&bytes);
    assert_eq!(ends.last(), Some(&bytes.len()));
    let mut before_cut = 0;
    let mut steps = 0;
    for cut in 0..bytes.len() {
        match read::all(&bytes[..cut]) {
            Ok(read) => {
                assert_eq!(read.summary, None, "cut at {cut}");
                assert!(read.cut.is_some(), "cut at {cut}");
                let count = read.records.len();
                assert_eq!(read.records, records[..count], "cut at {cut}");
                // There is more to read only where another block has become whole.
                assert!(count == before_cut || ends.contains(&cut), "cut at {cut}");
                steps += usize::from(count > before_cut);
                before_cut = count;
                let recording = Recording::read(&bytes[..cut]).unwrap();
                assert!(!recording.is_whole(), "cut at {cut}");
            }
            Err(RecordingReadError::Foreign) => assert!(cut < 16, "cut at {cut}"),
            Err(RecordingReadError::NoHeader) => {
                assert!((16..ends[1]).contains(&cut), "cut at {cut}")
            }
            Err(error) => panic!("cut at {cut}: {error}"),
        }
    }
    assert_eq!(before_cut, records.len(), "only the summary was missing in the end");
    assert!(steps > 10, "many blocks to cut at: {steps}");
}

#[test]
fn bytes_after_the_end_are_not_read() {
    let (mut bytes, records) = every_kind::file();
    bytes.extend_from_slice(b"trailing");
    let read = read::all(&bytes).unwrap();
    assert_eq!(read.records, records);
    assert!(read.summary.is_some());
}

#[test]
fn a_writer_that_dies_leaves_all_that_was_flushed() {
    let bytes = Shared::default();
    let mut writer = Writer::new(bytes.sink(), &header()).unwrap();
    let records = every_kind::records(&mut writer);
    records.iter().for_each(|record| every_kind::write(&mut writer, record));
    writer.flush();
    // What is in the sink now is what a killed recorder leaves.
    let left = bytes.take();
    drop(writer);
    let read = read::all(&left).unwrap();
    assert_eq!(read.records, records);
    assert_eq!(read.summary, None);
    assert!(read.cut.unwrap().contains("was not ended"));
    assert_eq!(read::all(&bytes.take()).unwrap().records, records, "dropped unfinished");
}

#[test]
fn without_a_flush_the_writer_writes_by_itself_soon() {
    let bytes = Shared::default();
    let mut writer = Writer::new(bytes.sink(), &header()).unwrap();
    let records = every_kind::records(&mut writer);
    records.iter().for_each(|record| every_kind::write(&mut writer, record));
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(100);
    while read::all(&bytes.take()).unwrap().records != records {
        assert!(std::time::Instant::now() < deadline, "nothing was written for a hundred seconds");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    drop(writer);
}

/// A disk that is full after so many bytes.
struct Full {
    room: usize,
    bytes: Shared,
}

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.room == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let taken = self.bytes.write(&bytes[..bytes.len().min(self.room)])?;
        self.room -= taken;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_reported_and_what_is_there_reads_as_cut() {
    let (whole, _) = every_kind::file();
    let begins = block_ends(&whole)[1];
    let mut failed_at = [0, 0];
    for room in 0..whole.len() + 200 {
        let bytes = Shared::default();
        let sink = Box::new(Full { room, bytes: bytes.clone() });
        let mut writer = match Writer::new(sink, &header()) {
            Ok(writer) => writer,
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::StorageFull);
                assert!(room < begins, "the header fits in {room} bytes");
                failed_at[0] += 1;
                continue;
            }
        };
        let records = every_kind::records(&mut writer);
        for record in &records {
            every_kind::write(&mut writer, record);
        }
        match writer.finish(Nanos(5000)) {
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{room} bytes");
                let recording = Recording::read(&bytes.take()[..]).unwrap();
                assert!(recording.summary.is_none() && recording.cut.is_some());
                assert!(!recording.is_whole());
                failed_at[1] += 1;
            }
            Ok(_) => assert_eq!(read::all(&bytes.take()).unwrap().records, records),
        }
    }
    assert!(failed_at.iter().all(|times| *times > 100), "both places were tried: {failed_at:?}");
}

#[test]
fn a_recorder_is_not_held_up_by_a_full_disk() {
    let bytes = Shared::default();
    let sink = Box::new(Full { room: 1000, bytes: bytes.clone() });
    let mut writer = Writer::new(sink, &header()).unwrap();
    // Far more than the writer keeps in memory.
    testkit::made::storm::record(&mut writer, 300_000);
    assert!(writer.has_failed());
    assert!(writer.finish(Nanos(1)).is_err());
    assert!(Recording::read(&bytes.take()[..]).unwrap().cut.is_some());
}

#[test]
fn dev_full_refuses_the_first_byte() {
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let error = Writer::new(Box::new(full), &header()).err().unwrap();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
}

#[test]
fn a_file_on_disk_is_cut_like_any_other() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("cut.becalm");
    let (bytes, _) = every_kind::file();
    File::create(&file).unwrap().write_all(&bytes[..bytes.len() - 1]).unwrap();
    let recording = Recording::open(&file).unwrap();
    assert!(recording.cut.unwrap().contains("within a block"));
    assert_eq!(recording.events.len(), 5);
}

#[test]
fn reading_beside_a_recorder_leaves_its_offset_where_it_is() {
    let (bytes, _) = every_kind::file();
    let half = bytes.len() / 2;
    let mut recorder = tempfile::tempfile().unwrap();
    recorder.write_all(&bytes[..half]).unwrap();
    let cut = Recording::read_beside(&recorder).unwrap();
    assert!(cut.summary.is_none());
    recorder.write_all(&bytes[half..]).unwrap();
    assert!(Recording::read_beside(&recorder).unwrap().summary.is_some());
}
