//! Recordings that were made to do harm: small files that unpack to much, and chains of processes
//! as long as the recording.

use std::fs::{self, File};
use std::path::Path;

use recording::{
    Blind, ByteUnits, Call, Event, ExitStatus, Frame, Header, MappedElf, Micros, Mount,
    MountChange, Nanos, Origin, Outcome, PathId, ProcessId, Record, StartCall, Usage, Writer,
};

const FIRST: ProcessId = ProcessId(0);

fn start(process: ProcessId) -> Record {
    let parent = process.0.checked_sub(1).map(ProcessId);
    let how = if parent.is_none() { StartCall::Command } else { StartCall::Fork };
    Record::Start { process, pid: process.0 + 1, parent, how, at: Nanos(u64::from(process.0)) }
}

fn exec(process: ProcessId, at: u64, path: PathId, argv: Vec<String>) -> Record {
    let program = recording::Exec { at: Nanos(at), argv, ..recording::Exec::new(path, path) };
    Record::Exec { process, exec: program }
}

/// What is small in a file and large in memory, by name.
pub fn bulky() -> Vec<(&'static str, Record)> {
    let texts = |number| vec![String::new(); number];
    let frames = vec![Frame { file: None, line: 0, function: String::new() }; 30_000];
    let image = MappedElf { needed: texts(100_000), ..MappedElf::default() };
    let signal = Record::Signal { process: FIRST, thread: 0, signal: 0, at: Nanos(0) };
    vec![
        ("signals", signal),
        ("blinds", Record::Blind(recording::Blind::IoUring { process: FIRST })),
        ("threads", Record::Thread { process: FIRST, thread: 0, at: Nanos(0) }),
        ("arguments", exec(FIRST, 0, PathId(0), texts(100_000))),
        ("images", Record::Image { path: PathId(0), image }),
        ("frames", Record::Origin { process: FIRST, origin: Origin { rss: ByteUnits(0), frames } }),
    ]
}

/// A file of some ten kilobytes that holds a record over and over.
pub fn bomb(file: &Path, record: &Record) {
    let mut writer =
        Writer::new(Box::new(File::create(file).unwrap()), &Header::default()).unwrap();
    writer.record(&start(FIRST));
    writer.path(b"/bin/sh");
    writer.flush();
    let length = || fs::metadata(file).unwrap().len() as usize;
    let before = length();
    for _ in 0..100_000 {
        if length() > before {
            break;
        }
        writer.record(record);
    }
    writer.flush();
    drop(writer);
    let bytes = fs::read(file).unwrap();
    let block = &bytes[before..];
    let times = 29_000 / block.len() + 1;
    fs::write(file, [&bytes[..before], &block.repeat(times)].concat()).unwrap();
}

/// Processes each of which started the next; each became two programs, and only of the first is
/// it known by which line it was started.
pub fn chain(file: &Path, processes: u32) {
    let mut writer =
        Writer::new(Box::new(File::create(file).unwrap()), &Header::default()).unwrap();
    let path = writer.path(b"/bin/sh");
    let end = u64::from(processes) * 2;
    for number in 0..processes {
        let process = ProcessId(number);
        writer.record(&start(process));
        match number {
            0 => writer.record(&exec(process, 0, path, vec!["sh".into()])),
            1 => {
                let frame = Frame { file: Some(path), line: 7, function: "f".into() };
                let origin = Origin { rss: ByteUnits(0), frames: vec![frame] };
                writer.record(&Record::Origin { process, origin });
            }
            // The upper half has nothing but its parent's program.
            _ if number > processes / 2 => {
                writer.record(&exec(process, end, path, vec![]));
                writer.record(&exec(process, end + 1, path, vec![]));
            }
            _ => {}
        }
    }
    let usage = Usage { user: Micros(1), system: Micros(1), max_rss: ByteUnits(1) };
    for number in 0..processes {
        let (process, at) = (ProcessId(number), Nanos(end + 2));
        writer.record(&Record::End { process, at, status: ExitStatus::Exited(0), usage });
    }
    writer.finish(Nanos(end + 3)).unwrap();
}

/// A way to forge a recording to a file.
type Forge = fn(&Path);

/// What costs a reader more than in proportion, where it looks at all of one thing for each of
/// another, by name.
pub const STEEP: [(&str, Forge); 5] = [
    ("a chain of processes", |file| chain(file, 200_000)),
    ("calls on a deep path, each after the node has forgotten it", deep_calls),
    ("deep paths, each another", deep_paths),
    ("processes after many changes of mounts", changes_and_processes),
    ("blind spots of a process that changed its mounts often", changes_and_blinds),
];

fn forge(file: &Path, header: &Header, fill: impl FnOnce(&mut Writer)) {
    let mut writer = Writer::new(Box::new(File::create(file).unwrap()), header).unwrap();
    writer.record(&start(FIRST));
    let root = writer.path(b"/");
    writer.record(&exec(FIRST, 0, root, vec!["sh".into()]));
    fill(&mut writer);
    writer.finish(Nanos(u64::MAX >> 1)).unwrap();
}

fn stat(path: PathId, at: u64) -> Event {
    let event = Event::new(Call::named("stat").unwrap(), Outcome::Returned(0));
    Event { path: Some(path), start: Nanos(at), ..event }
}

/// Calls a minute apart: no node trusts for so long what it has looked up.
pub fn deep_calls(file: &Path) {
    forge(file, &Header::default(), |writer| {
        let path = writer.path(&b"/a".repeat(2_000));
        (0..100_000).for_each(|number| writer.call(stat(path, number * 60_000_000_000)));
    });
}

fn deep_paths(file: &Path) {
    forge(file, &Header::default(), |writer| {
        for number in 0..4_000 {
            let above = format!("/{number}");
            let path = writer.path(&[above.as_bytes(), &b"/a".repeat(2_000)].concat());
            writer.call(stat(path, number));
        }
    });
}

fn change(at: u64) -> Record {
    let mount = Mount { point: "/".into(), fs: "ext4".into(), source: "x".into() };
    let (process, at) = (FIRST, Nanos(at));
    Record::Mounts(MountChange { process, at, namespace: at.0 % 2, mounts: vec![mount] })
}

fn changes_and_processes(file: &Path) {
    forge(file, &Header::default(), |writer| {
        (1..100_000).for_each(|at| writer.record(&change(at)));
        for number in 1..100_000 {
            let (process, parent, how) = (ProcessId(number), Some(FIRST), StartCall::Fork);
            let at = Nanos(u64::from(number));
            writer.record(&Record::Start { process, pid: number, parent, how, at });
        }
    });
}

fn changes_and_blinds(file: &Path) {
    let mounts = vec![Mount { point: "/".into(), fs: "ext4".into(), source: "x".into() }];
    forge(file, &Header { mounts, ..Header::default() }, |writer| {
        (1..100_000).for_each(|at| writer.record(&change(at)));
        let blind = Record::Blind(Blind::OtherRoot { process: FIRST });
        (0..100_000).for_each(|_| writer.record(&blind));
    });
}
