//! What is written is what is read.

use recording::{ExitStatus, Nanos, Recording, RecordingSummary, Writer};
use testkit::made::{every_kind, header, read};

#[test]
fn every_kind_of_record_is_read_as_it_was_written() {
    let (bytes, records) = every_kind::file();
    let read = read::all(&bytes).unwrap();
    assert_eq!(read.records, records);
    assert_eq!(read.cut, None);
    assert_eq!(
        read.summary,
        Some(RecordingSummary { ended: Nanos(5000), calls: 5, processes: 4, let_go: None })
    );
}

#[test]
fn a_recording_in_memory_holds_what_the_file_does() {
    let (bytes, _) = every_kind::file();
    let recording = Recording::read(&bytes[..]).unwrap();
    assert_eq!(recording.header, header());
    assert_eq!(recording.processes.len(), 4);
    assert_eq!(recording.events.len(), 5);
    assert_eq!(recording.blinds.len(), 9);
    assert_eq!(recording.images.len(), 1);
    assert_eq!((recording.signals, recording.delivered[0].signal), (1, 64));
    assert_eq!(recording.processes[1].threads, 1);
    let ends: Vec<_> = recording.processes.iter().map(|p| p.end.map(|end| end.status)).collect();
    assert_eq!(ends[..2], [Some(ExitStatus::Exited(0)), Some(ExitStatus::Signaled(9))]);
    let strange = recording.events[4].path.unwrap();
    assert_eq!(recording.path(strange), b"/tmp/new\nline \xff \"quoted\"");
    assert_eq!(recording.shown(strange), r#"/tmp/new\x0aline \xff "quoted""#);
    assert!(!recording.is_whole(), "io_uring hides calls");
}

#[test]
fn a_path_that_the_writer_forgot_keeps_its_first_number() {
    let bytes = testkit::made::Shared::default();
    let mut writer = Writer::new(bytes.sink(), &header()).unwrap();
    let first = writer.path(b"/usr/lib/libc.so.6");
    // More than the writer remembers.
    for file in 0..200_000 {
        writer.path(format!("/a/long/path/to/fill/the/memory/of/the/writer/{file}").as_bytes());
    }
    let second = writer.path(b"/usr/lib/libc.so.6");
    assert_ne!(first, second, "it was forgotten");
    let event = |path| match every_kind::file().1.pop() {
        Some(recording::Record::Call(event)) => {
            recording::Event { path: Some(path), site: None, ..event }
        }
        other => panic!("{other:?}"),
    };
    let (start, _) = (every_kind::file().1.remove(0), ());
    writer.record(&start);
    writer.call(event(first));
    writer.call(event(second));
    writer.finish(Nanos(1)).unwrap();
    let recording = Recording::read(&bytes.take()[..]).unwrap();
    assert_eq!(recording.events[0].path, recording.events[1].path);
    assert_eq!(recording.path_count(), 200_001);
}
