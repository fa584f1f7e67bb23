//! A small recording that holds every kind of record, and every kind of value in them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use recording::{
    Abi, Blind, ByteUnits, Call, Event, Exec, ExitStatus, FileRange, Frame, MappedElf, Micros,
    Mount, MountChange, Name, Nanos, Origin, Outcome, PathId, Phase, ProcessId, Record, StartCall,
    Touch, Usage, Writer,
};

use super::{Shared, header};

/// What is recorded, in this order. A call's start is from the recording's.
pub fn records(writer: &mut Writer) -> Vec<Record> {
    let demo = writer.path(b"/usr/bin/demo");
    let cwd = writer.path(b"/home/me");
    let loader = writer.path(b"/lib64/ld-linux-x86-64.so.2");
    let strange = writer.path(b"/tmp/new\nline \xff \"quoted\"");
    let mut records = vec![
        start(0, 4711, None, StartCall::Command, 10),
        start(1, 4712, Some(0), StartCall::Fork, 20),
        start(2, 4713, Some(1), StartCall::Vfork, 30),
        start(3, u32::MAX, Some(0), StartCall::Clone, 40),
        Record::Origin { process: ProcessId(2), origin: origin(cwd) },
        Record::Thread { process: ProcessId(1), thread: 4800, at: Nanos(50) },
        Record::Exec { process: ProcessId(0), exec: exec(demo, demo, cwd, Some(loader)) },
        Record::Exec { process: ProcessId(2), exec: exec(strange, demo, cwd, None) },
        Record::Words {
            process: ProcessId(2),
            words: [&b"demo"[..], b"\xff\n", "\\x09\\é".as_bytes()]
                .map(|word| Name::of(OsStr::from_bytes(word)))
                .to_vec(),
        },
        Record::Image { path: demo, image: image() },
        Record::Signal { process: ProcessId(1), thread: 4712, signal: 64, at: Nanos(60) },
        end(2, ExitStatus::Exited(255), u64::MAX),
        end(1, ExitStatus::Signaled(9), 0),
        end(0, ExitStatus::Exited(0), 12_345),
        end(3, ExitStatus::Exited(0), 1),
    ];
    records.push(Record::Mounts(MountChange {
        process: ProcessId(1),
        at: Nanos(70),
        namespace: 4026531841,
        mounts: vec![Mount {
            point: "/opt/env".into(),
            fs: "fuse.becalm-image".into(),
            source: "becalm-é".into(),
        }],
    }));
    records.extend(blinds().map(Record::Blind));
    records.extend(touches([strange, demo]).map(Record::Touch));
    let [first, others @ ..] = calls([demo, strange, loader]).map(Record::Call);
    let range = FileRange { offset: u64::MAX, bytes: 4096 };
    records.extend([first, Record::Range(range)]);
    records.extend(others);
    records
}

fn start(process: u32, pid: u32, parent: Option<u32>, how: StartCall, at: u64) -> Record {
    let (process, parent) = (ProcessId(process), parent.map(ProcessId));
    Record::Start { process, pid, parent, how, at: Nanos(at) }
}

fn end(process: u32, status: ExitStatus, number: u64) -> Record {
    let usage =
        Usage { user: Micros(number), system: Micros(number / 2), max_rss: ByteUnits(number) };
    Record::End { process: ProcessId(process), at: Nanos(number), status, usage }
}

fn exec(path: PathId, image: PathId, cwd: PathId, loader: Option<PathId>) -> Exec {
    Exec {
        at: Nanos(45),
        path,
        image,
        argv: vec!["demo".into(), String::new(), "né\n".into()],
        exact_argv: Vec::new(),
        cwd,
        loader,
        env: vec![("PATH".into(), "/usr/bin".into()), ("LC_ALL".into(), String::new())],
    }
}

fn origin(file: PathId) -> Origin {
    let frame = |file, line, function: &str| Frame { file, line, function: function.into() };
    let frames = vec![frame(Some(file), u32::MAX, "né\n"), frame(None, 0, "")];
    Origin { rss: ByteUnits(u64::MAX), frames }
}

fn image() -> MappedElf {
    MappedElf {
        soname: Some("libdemo.so.1".into()),
        needed: vec!["libc.so.6".into(), "libm.so.6".into()],
        rpath: vec!["$ORIGIN/../lib".into()],
        runpath: vec!["/opt/lib".into()],
        interpreter: Some("/lib64/ld-linux-x86-64.so.2".into()),
    }
}

/// A blind spot of every kind.
pub fn blinds() -> [Blind; 11] {
    let process = ProcessId(1);
    [
        Blind::IoUring { process },
        Blind::Setuid { process, path: "/usr/bin/su".into() },
        Blind::TracerRefused { process },
        Blind::OwnFilter { process },
        Blind::OuterFilter,
        Blind::Unreadable { process },
        Blind::OtherRoot { process },
        Blind::Lost { calls: 300 },
        Blind::RequestFailed { process, error: "PTRACE_GETREGS: EIO".into() },
        Blind::FaultsUnseen { process, error: "perf_event_open: EACCES".into() },
        Blind::FaultsLost { faults: 40 },
    ]
}

fn calls([path, other, site]: [PathId; 3]) -> [Event; 5] {
    let plain = Event {
        start: Nanos(1000),
        thread: 4711,
        path: Some(path),
        site: Some(site),
        in_loader: true,
        phase: Phase::Loading,
        ..Event::new(Call::new(Abi::X86_64, 257), Outcome::Returned(3))
    };
    [
        plain,
        // Began before the one that ended before it.
        Event { start: Nanos(900), outcome: Outcome::Failed(2), in_loader: false, ..plain },
        Event {
            start: Nanos(u64::MAX),
            took: Nanos(u64::MAX),
            thread: u32::MAX,
            flags: u64::MAX,
            fd: Some(i32::MIN),
            outcome: Outcome::Returned(i64::MIN),
            other_path: Some(other),
            site: None,
            phase: Phase::Running,
            by_descriptor: true,
            call: Call::new(Abi::X32, u64::MAX),
            ..plain
        },
        Event {
            start: Nanos(0),
            path: None,
            outcome: Outcome::Failed(u16::MAX),
            fd: Some(-1),
            call: Call::new(Abi::I386, 6),
            ..plain
        },
        Event {
            start: Nanos(2000),
            outcome: Outcome::Returned(-1),
            path: Some(other),
            call: Call::new(Abi::Aarch64, 56),
            ..plain
        },
    ]
}

/// The second is before the first, in its file and in time.
fn touches([path, other]: [PathId; 2]) -> [Touch; 2] {
    let process = ProcessId(2);
    let touch = Touch { process, thread: u32::MAX, path, offset: 3 << 40, at: Nanos(3000) };
    [touch, Touch { path: other, offset: 4096, at: Nanos(2900), ..touch }]
}

/// Writes one record as the recorder does.
pub fn write(writer: &mut Writer, record: &Record) {
    match record {
        Record::Call(event) => writer.call(*event),
        Record::Touch(touch) => writer.touch(*touch),
        other => writer.record(other),
    }
}

/// The file, a block for every two records or fewer, and the records.
pub fn file() -> (Vec<u8>, Vec<Record>) {
    let bytes = Shared::default();
    let mut writer = Writer::new(bytes.sink(), &header()).unwrap();
    let records = records(&mut writer);
    for pair in records.chunks(2) {
        pair.iter().for_each(|record| write(&mut writer, record));
        writer.flush();
    }
    writer.finish(Nanos(5000)).unwrap();
    (bytes.take(), records)
}
