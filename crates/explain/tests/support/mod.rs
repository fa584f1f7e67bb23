//! Recordings told call by call.

#![allow(dead_code, clippy::unwrap_used)] // Each test program uses a part of it.

use cost::{CostModel, FilesystemProfile};
use explain::{ExplainOptions, Finding, Findings, Storm};
use recording::{
    ByteUnits, Call, Event, Exec, ExitStatus, Header, MappedElf, Micros, Mount, Nanos, Outcome,
    Phase, ProcessId, Record, Recording, StartCall, Usage, Writer,
};
use testkit::made::Shared;

pub const YES: Outcome = Outcome::Returned(3);
pub const NO: Outcome = Outcome::Failed(2);
pub const DENIED: Outcome = Outcome::Failed(13);
const LOADER: &[u8] = b"/lib64/ld-linux-x86-64.so.2";
pub const O_DIRECTORY: u64 = 0o200000;
pub const NOFOLLOW: u64 = 0x100;

/// A recording that is being told.
pub struct Tale {
    bytes: Shared,
    writer: Writer,
    now: u64,
    processes: u32,
    ended: Vec<u32>,
}

impl Tale {
    /// Of a command that became this program.
    pub fn of(program: &str, argv: &[&str], env: &[(&str, &str)]) -> Tale {
        let mut tale = Tale::without_program(argv);
        tale.start(None, StartCall::Command);
        tale.exec(0, program, program, argv, env);
        tale
    }

    /// Of a program that has no shell's or interpreter's part.
    pub fn of_app() -> Tale {
        Tale::of("/opt/app/bin/app", &["app"], &[])
    }

    pub fn without_program(argv: &[&str]) -> Tale {
        let mount = |point: &str, fs: &str| Mount {
            point: point.into(),
            fs: fs.into(),
            source: String::new(),
        };
        let header = Header {
            argv: argv.iter().map(|word| word.to_string()).collect(),
            mounts: vec![mount("/", "nfs4"), mount("/proc", "proc"), mount("/dev/shm", "tmpfs")],
            ..Header::default()
        };
        let bytes = Shared::default();
        let writer = Writer::new(bytes.sink(), &header).unwrap();
        Tale { bytes, writer, now: 0, processes: 0, ended: Vec::new() }
    }

    /// A new process; its number.
    pub fn start(&mut self, parent: Option<u32>, how: StartCall) -> u32 {
        let process = self.processes;
        self.processes += 1;
        let at = Nanos(self.tick(1000));
        self.writer.record(&Record::Start {
            process: ProcessId(process),
            pid: 1000 + process,
            parent: parent.map(ProcessId),
            how,
            at,
        });
        process
    }

    /// A process becomes a program; `path` is what was executed, `image` what runs.
    pub fn exec(
        &mut self,
        process: u32,
        path: &str,
        image: &str,
        argv: &[&str],
        env: &[(&str, &str)],
    ) {
        self.call_of(process, "execve", path, Outcome::Returned(0));
        let at = Nanos(self.tick(1000));
        let exec = Exec {
            at,
            path: self.writer.path(path.as_bytes()),
            image: self.writer.path(image.as_bytes()),
            argv: argv.iter().map(|word| word.to_string()).collect(),
            exact_argv: Vec::new(),
            cwd: self.writer.path(b"/home/me"),
            loader: Some(self.writer.path(LOADER)),
            env: env.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
        };
        self.writer.record(&Record::Exec { process: ProcessId(process), exec });
    }

    /// A process ends after so many microseconds more, having used so many of CPU.
    pub fn end(&mut self, process: u32, after: u64, cpu: u64) {
        let at = Nanos(self.tick(after * 1000));
        let usage = Usage { user: Micros(cpu), system: Micros(0), max_rss: ByteUnits(0) };
        let (process_id, status) = (ProcessId(process), ExitStatus::Exited(0));
        self.writer.record(&Record::End { process: process_id, at, status, usage });
        self.ended.push(process);
    }

    /// A child that becomes a program and ends: what `$(program …)` does.
    pub fn child(&mut self, parent: u32, program: &str, opens: &[(&str, Outcome)]) -> u32 {
        let child = self.start(Some(parent), StartCall::Fork);
        // By its name alone, as a script has it.
        let name = program.rsplit('/').next().unwrap();
        self.exec(child, program, program, &[name], &[]);
        for (path, outcome) in opens {
            self.call_of(child, "openat", path, *outcome);
        }
        self.end(child, 500, 900);
        child
    }

    /// A call of the command itself.
    pub fn call(&mut self, name: &str, path: &str, outcome: Outcome) -> &mut Tale {
        self.call_of(0, name, path, outcome)
    }

    /// The same call so many times.
    pub fn times(&mut self, times: usize, name: &str, path: &str, outcome: Outcome) {
        for _ in 0..times {
            self.call(name, path, outcome);
        }
    }

    /// A call with flags.
    pub fn call_with(&mut self, name: &str, path: &str, outcome: Outcome, flags: u64) -> &mut Tale {
        self.event(0, name, path.as_bytes(), outcome, flags, None)
    }

    pub fn call_of(&mut self, process: u32, name: &str, path: &str, outcome: Outcome) -> &mut Tale {
        self.event(process, name, path.as_bytes(), outcome, 0, None)
    }

    pub fn call_on_bytes(&mut self, name: &str, path: &[u8], outcome: Outcome) -> &mut Tale {
        self.event(0, name, path, outcome, 0, None)
    }

    /// A call of the loader before the program began.
    pub fn loading(&mut self, name: &str, path: &str, outcome: Outcome) -> &mut Tale {
        self.event(0, name, path.as_bytes(), outcome, 0, Some(Phase::Loading))
    }

    /// A call of the loader of another process.
    pub fn loading_of(&mut self, process: u32, path: &str, outcome: Outcome) -> &mut Tale {
        self.event(process, "openat", path.as_bytes(), outcome, 0, Some(Phase::Loading))
    }

    /// A call of the loader while the program runs.
    pub fn dlopening(&mut self, name: &str, path: &str, outcome: Outcome) -> &mut Tale {
        self.event(0, name, path.as_bytes(), outcome, 0, Some(Phase::Running))
    }

    fn event(
        &mut self,
        process: u32,
        name: &str,
        path: &[u8],
        outcome: Outcome,
        flags: u64,
        loader: Option<Phase>,
    ) -> &mut Tale {
        let start = Nanos(self.tick(100_000));
        let event = Event {
            start,
            took: Nanos(10_000),
            process: ProcessId(process),
            thread: 1000 + process,
            path: Some(self.writer.path(path)),
            flags,
            in_loader: loader.is_some(),
            phase: loader.unwrap_or(Phase::Running),
            ..Event::new(Call::named(name).unwrap(), outcome)
        };
        self.writer.call(event);
        self
    }

    /// What a mapped file says of its search.
    pub fn image(&mut self, path: &str, needed: &[&str], rpath: &[String], runpath: &[String]) {
        let image = MappedElf {
            needed: needed.iter().map(|name| name.to_string()).collect(),
            rpath: rpath.to_vec(),
            runpath: runpath.to_vec(),
            ..MappedElf::default()
        };
        let path = self.writer.path(path.as_bytes());
        self.writer.record(&Record::Image { path, image });
    }

    pub fn record(&mut self, record: &Record) {
        self.writer.record(record);
    }

    /// The recording, ended in order.
    pub fn told(mut self) -> Recording {
        for process in (0..self.processes).rev() {
            if !self.ended.contains(&process) {
                self.end(process, 1, 1000);
            }
        }
        let now = Nanos(self.now);
        self.writer.finish(now).unwrap();
        read(&self.bytes)
    }

    /// The recording, its command still running.
    pub fn told_while_running(self) -> Recording {
        self.writer.finish(Nanos(self.now)).unwrap();
        read(&self.bytes)
    }

    /// The recording of a recorder that was killed.
    pub fn cut(mut self) -> Recording {
        self.writer.flush();
        drop(self.writer);
        read(&self.bytes)
    }

    /// What the recording means.
    pub fn explained(self) -> Findings {
        explained(&self.told())
    }

    fn tick(&mut self, by: u64) -> u64 {
        self.now += by;
        self.now
    }
}

fn read(bytes: &Shared) -> Recording {
    Recording::read(&bytes.take()[..]).unwrap()
}

pub fn explained(recording: &Recording) -> Findings {
    explain::explain(recording, &ExplainOptions { model: uncached(), ..ExplainOptions::default() })
}

/// A filesystem whose clients cache nothing: each call waits, so that it is the calls that make a
/// storm.
pub fn uncached() -> CostModel {
    let text = "name = 'uncached'\n[mds]\nround_trip = '480us'\nservice = '20us'\n\
                [cache]\nentries = '0'\nnegatives = '0'\nopen = 'revalidated'\n\
                list = 'revalidated'";
    let profile = FilesystemProfile::parse(text, "test").unwrap();
    CostModel { profile, ..CostModel::default() }
}

/// The only storm there is, which must be this one.
#[track_caller]
pub fn only(findings: &Findings, storm: Storm) -> &Finding {
    let storms: Vec<_> = findings.storms.iter().map(|finding| finding.storm).collect();
    assert_eq!(storms, [storm], "{findings:#?}");
    &findings.storms[0]
}

/// The first source of that kind, as JSON has it.
#[track_caller]
pub fn source(finding: &Finding, kind: &str) -> serde_json::Value {
    let sources = finding.sources.iter().map(|source| serde_json::to_value(source).unwrap());
    let found = sources.into_iter().find(|source| source["kind"] == kind);
    found.unwrap_or_else(|| panic!("no {kind} among {:#?}", finding.sources))
}

/// `prefix0`, `prefix1`…
pub fn numbered(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{prefix}{number}")).collect()
}
