//! Recordings made up for tests: what a test says happened, written through the real writer.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use recording::{
    Abi, ByteUnits, Call, Event, Exec, ExitStatus, Header, Micros, Mount, Nanos, Outcome, Phase,
    ProcessEnd, ProcessId, Record, Recording, Sink, StartCall, Usage, Writer,
};

pub mod every_kind;
pub mod read;
pub mod storm;

/// The error of a path that is not there.
pub const ENOENT: u16 = 2;

/// A sink whose bytes can be looked at while the writer has it.
#[derive(Clone, Default)]
pub struct Shared(Arc<Mutex<Vec<u8>>>);

impl Shared {
    /// For a writer.
    pub fn sink(&self) -> Sink {
        Box::new(self.clone())
    }

    /// The bytes so far.
    pub fn take(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The header of a recording that an ordinary user made.
pub fn header() -> Header {
    Header {
        becalm: "0.1.0".into(),
        host: "node1".into(),
        kernel: "6.18.0".into(),
        machine: "x86_64".into(),
        started_unix: 1_700_000_000,
        started_nanos: 123_456_789,
        argv: vec!["demo".into(), "--version".into()],
        cwd: "/home/me".into(),
        uid: 1000,
        all_syscalls: false,
        backend: "ptrace+seccomp".into(),
        mounts: vec![Mount { point: "/".into(), fs: "ext4".into(), source: "/dev/sda1".into() }],
        ..Header::default()
    }
}

/// A call that a test says was made.
#[derive(Clone)]
pub struct Ask<'a> {
    path: Option<&'a [u8]>,
    other: Option<&'a [u8]>,
    site: Option<&'a [u8]>,
    event: Event,
}

/// A call that worked; say otherwise with the methods.
pub fn ask<'a, P: AsRef<[u8]> + ?Sized>(name: &str, path: &'a P) -> Ask<'a> {
    Ask { path: Some(path.as_ref()).filter(|path| !path.is_empty()), ..bare(name) }
}

/// A call without a path.
pub fn bare(name: &str) -> Ask<'static> {
    let call = Call::named(name).expect("a call of x86-64's table");
    let event = Event { took: Nanos(10_000), ..Event::new(call, Outcome::Returned(0)) };
    Ask { path: None, other: None, site: Some(b"/lib/libc.so.6"), event }
}

impl<'a> Ask<'a> {
    /// On a path that is not there.
    pub fn missing(self) -> Ask<'a> {
        self.failed(ENOENT)
    }

    /// That failed with this errno.
    pub fn failed(mut self, errno: u16) -> Ask<'a> {
        self.event.outcome = Outcome::Failed(errno);
        self
    }

    /// That returned this.
    pub fn returned(mut self, value: i64) -> Ask<'a> {
        self.event.outcome = Outcome::Returned(value);
        self
    }

    /// With these flags.
    pub fn flags(mut self, flags: u64) -> Ask<'a> {
        self.event.flags = flags;
        self
    }

    /// On this descriptor.
    pub fn fd(mut self, fd: i32) -> Ask<'a> {
        self.event.fd = Some(fd);
        self
    }

    /// With this second path.
    pub fn other(self, path: &'a str) -> Ask<'a> {
        self.other_bytes(path.as_bytes())
    }

    /// The same, of any bytes.
    pub fn other_bytes(mut self, path: &'a [u8]) -> Ask<'a> {
        self.other = Some(path);
        self
    }

    /// By this call of this table.
    pub fn abi(mut self, abi: Abi, number: u64) -> Ask<'a> {
        self.event.call = Call::new(abi, number);
        self
    }

    /// By this thread; the process's first, if not given.
    pub fn thread(mut self, thread: u32) -> Ask<'a> {
        self.event.thread = thread;
        self
    }

    /// Nanoseconds from the recording's start; the next 20 microseconds, if not given.
    pub fn at(mut self, start: u64) -> Ask<'a> {
        self.event.start = Nanos(start);
        self
    }

    /// That took so many nanoseconds.
    pub fn took(mut self, took: u64) -> Ask<'a> {
        self.event.took = Nanos(took);
        self
    }

    /// By the dynamic loader, before the program began.
    pub fn loading(mut self) -> Ask<'a> {
        self.event.in_loader = true;
        self.event.phase = Phase::Loading;
        self.site = Some(b"/lib64/ld-linux-x86-64.so.2");
        self
    }

    /// By the dynamic loader, for the running program.
    pub fn dlopen(mut self) -> Ask<'a> {
        self.event.phase = Phase::Running;
        self.event.in_loader = true;
        self
    }

    /// Of a descriptor, by a call that could have taken a path.
    pub fn by_descriptor(mut self) -> Ask<'a> {
        self.event.by_descriptor = true;
        self
    }
}

/// A recording that is being made up. Every step takes 20 microseconds.
pub struct Made {
    /// What writes it.
    pub writer: Writer,
    /// What has been written.
    pub bytes: Shared,
    /// The time of the last step, in nanoseconds.
    pub now: u64,
    processes: u32,
}

impl Made {
    /// One that has just begun.
    pub fn new() -> Made {
        Made::with(&header())
    }

    /// The same with this header.
    pub fn with(header: &Header) -> Made {
        let bytes = Shared::default();
        let writer = Writer::new(bytes.sink(), header).unwrap();
        Made { writer, bytes, now: 0, processes: 0 }
    }

    fn tick(&mut self) -> Nanos {
        self.now += 20_000;
        Nanos(self.now)
    }

    /// Starts a process; it runs what its parent ran. Its pid is 1000 and its number.
    pub fn start(&mut self, parent: Option<ProcessId>) -> ProcessId {
        let process = ProcessId(self.processes);
        self.processes += 1;
        let how = if parent.is_some() { StartCall::Fork } else { StartCall::Command };
        let at = self.tick();
        let pid = 1000 + process.0;
        self.writer.record(&Record::Start { process, pid, parent, how, at });
        process
    }

    /// A process becomes a program: the first argument's is the path's own.
    pub fn exec(&mut self, process: ProcessId, path: &str, image: &str, argv: &[&str]) {
        self.exec_with(process, path, image, argv, &[]);
    }

    /// The same, with these variables.
    pub fn exec_with(
        &mut self,
        process: ProcessId,
        path: &str,
        image: &str,
        argv: &[&str],
        env: &[(&str, &str)],
    ) {
        let exec = Exec {
            at: self.tick(),
            path: self.writer.path(path.as_bytes()),
            image: self.writer.path(image.as_bytes()),
            argv: argv.iter().map(|word| (*word).into()).collect(),
            exact_argv: Vec::new(),
            cwd: self.writer.path(b"/home/me"),
            loader: Some(self.writer.path(b"/lib64/ld-linux-x86-64.so.2")),
            env: env.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
        };
        self.writer.record(&Record::Exec { process, exec });
    }

    /// The command: one process that becomes a program.
    pub fn command(&mut self, path: &str) -> ProcessId {
        let process = self.start(None);
        self.exec(process, path, path, &[path]);
        process
    }

    /// A process makes a call.
    pub fn call(&mut self, process: ProcessId, ask: Ask) {
        let start = if ask.event.start.0 == 0 { self.tick() } else { ask.event.start };
        let mut path = |bytes: Option<&[u8]>| bytes.map(|bytes| self.writer.path(bytes));
        let event = Event {
            start,
            process,
            thread: if ask.event.thread == 0 { 1000 + process.0 } else { ask.event.thread },
            path: path(ask.path),
            other_path: path(ask.other),
            site: path(ask.site),
            ..ask.event
        };
        self.writer.call(event);
    }

    /// A process ends.
    pub fn end(&mut self, process: ProcessId, status: ExitStatus) {
        let usage =
            Usage { user: Micros(1000), system: Micros(2000), max_rss: ByteUnits(4096 * 1024) };
        let end = ProcessEnd { at: self.tick(), status, usage };
        self.writer.record(&Record::End { process, at: end.at, status, usage });
    }

    /// The file's bytes, ended.
    pub fn finish(mut self) -> Vec<u8> {
        let ended = self.tick();
        self.writer.finish(ended).unwrap();
        self.bytes.take()
    }

    /// The recording, ended and read back.
    pub fn recording(self) -> Recording {
        Recording::read(&self.finish()[..]).unwrap()
    }
}
