//! Which parts of files a recording says were used.

use recording::query::data::{self, DataOrder, DataRun, DataUse};
use recording::{
    Abi, Call, Event, FileRange, Nanos, Outcome, PathId, ProcessId, Record, Recording, Touch,
};
use testkit::made::Made;

const MIB: u64 = 1 << 20;

struct MadeData {
    made: Made,
    at: u64,
}

impl MadeData {
    fn new() -> MadeData {
        let mut made = Made::new();
        made.start(None);
        MadeData { made, at: 1000 }
    }

    fn call(&mut self, number: u64, path: PathId, outcome: i64, range: Option<FileRange>) {
        self.at += 10;
        let call = Call::new(Abi::X86_64, number);
        let event = Event::new(call, Outcome::Returned(outcome));
        let fd = (number != OPENAT).then_some(3);
        self.made.writer.call(Event { start: Nanos(self.at), path: Some(path), fd, ..event });
        if let Some(range) = range {
            self.made.writer.record(&Record::Range(range));
        }
    }

    fn touch(&mut self, path: PathId, offset: u64) {
        self.at += 10;
        let process = ProcessId(0);
        let at = Nanos(self.at);
        self.made.writer.touch(Touch { process, thread: 1000, path, offset, at });
    }

    fn read(self) -> Recording {
        self.made.writer.finish(Nanos(self.at + 10)).unwrap();
        Recording::read(&self.made.bytes.take()[..]).unwrap()
    }
}

const READ: u64 = 0;
const LSEEK: u64 = 8;
const MMAP: u64 = 9;
const PREAD64: u64 = 17;
const OPENAT: u64 = 257;

fn range(offset: u64, bytes: u64) -> FileRange {
    FileRange { offset, bytes }
}

#[test]
fn a_mapping_that_is_touched_from_end_to_end_is_one_run() {
    let mut made = MadeData::new();
    let path = made.made.writer.path(b"/lib/libbig.so");
    made.call(MMAP, path, 0x7000_0000, Some(range(0, 4 * MIB - 4096)));
    (0..64).for_each(|part| made.touch(path, part * Touch::AROUND));
    let recording = made.read();
    let [file] = &data::files(&recording)[..] else { panic!("{recording:?}") };
    assert_eq!((file.mapped, file.touched), (4 * MIB - 4096, 4 * MIB - 4096));
    assert_eq!((file.read, file.order), (0, DataOrder::Sequential));
    let run = DataRun {
        path,
        range: range(0, 4 * MIB - 4096),
        how: DataUse::Touched,
        at: recording.touches[0].at,
    };
    assert_eq!(data::runs(&recording), [run]);
}

#[test]
fn touches_that_jump_about_are_scattered_and_their_runs_in_that_order() {
    let mut made = MadeData::new();
    let path = made.made.writer.path(b"/lib/libbig.so");
    [40, 2, 30, 31, 7, 20].into_iter().for_each(|part| made.touch(path, part * Touch::AROUND));
    let recording = made.read();
    assert_eq!(data::files(&recording)[0].order, DataOrder::Scattered);
    let runs = data::runs(&recording);
    let runs: Vec<_> =
        runs.iter().map(|run| (run.range.offset >> 16, run.range.bytes >> 16)).collect();
    assert_eq!(runs, [(40, 1), (2, 1), (30, 2), (7, 1), (20, 1)]);
}

#[test]
fn a_read_is_where_the_descriptor_stands_unless_it_says_where() {
    let mut made = MadeData::new();
    let path = made.made.writer.path(b"/data/table");
    made.call(OPENAT, path, 3, None);
    made.call(READ, path, 100, None);
    made.call(READ, path, 50, None);
    made.call(LSEEK, path, 1000, None);
    made.call(READ, path, 10, None);
    made.call(PREAD64, path, 7, Some(range(5000, 64)));
    made.call(READ, path, 1, None);
    // Opened anew, it is read from its beginning again.
    made.call(OPENAT, path, 3, None);
    made.call(READ, path, 200, None);
    let recording = made.read();
    let reads: Vec<_> = data::accesses(&recording)
        .iter()
        .map(|access| (access.range.offset, access.range.bytes))
        .collect();
    assert_eq!(reads, [(0, 100), (100, 50), (1000, 10), (5000, 7), (1010, 1), (0, 200)]);
    let runs: Vec<_> =
        data::runs(&recording).iter().map(|run| (run.range.offset, run.range.bytes)).collect();
    assert_eq!(runs, [(0, 150), (1000, 10), (5000, 7), (1010, 1), (150, 50)]);
    let file = &data::files(&recording)[0];
    assert_eq!((file.read, file.reads, file.touched), (368, 6, 0));
}

#[test]
fn a_recording_with_a_range_before_any_call_is_damaged() {
    let made = MadeData::new();
    let mut writer = made.made.writer;
    writer.record(&Record::Range(range(0, 1)));
    writer.finish(Nanos(1)).unwrap();
    let error = Recording::read(&made.made.bytes.take()[..]).unwrap_err();
    assert!(error.to_string().contains("range"), "{error}");
}

#[test]
fn parts_that_overlap_are_counted_once() {
    let mut ranges = data::Ranges::default();
    assert_eq!(ranges.take_in(range(10, 10)), [range(10, 10)]);
    assert_eq!(ranges.take_in(range(30, 10)), [range(30, 10)]);
    assert_eq!(ranges.take_in(range(5, 40)), [range(5, 5), range(20, 10), range(40, 5)]);
    assert_eq!(ranges.take_in(range(6, 30)), []);
    assert_eq!(ranges.take_in(range(u64::MAX - 1, 10)), [range(u64::MAX - 1, 1)]);
    assert_eq!(ranges.take_in(range(45, 5)), [range(45, 5)], "beside what there is");
    assert_eq!(ranges.bytes(), 46);
}
