//! A big recording: many starts of a program that searches its libraries over long RPATHs and
//! its Python modules over many prefixes, as on a cluster without binding.

use recording::{
    ByteUnits, Call, Event, Exec, ExitStatus, Micros, Nanos, Outcome, PathId, Phase, ProcessId,
    Record, StartCall, Usage, Writer,
};
use stats::Random;

use super::ENOENT;

/// Packages, and libraries that each start searches for in them.
const PACKAGES: u64 = 120;
const LIBRARIES: u64 = 60;
const MODULES: u64 = 400;

struct StormWriter<'a> {
    writer: &'a mut Writer,
    random: Random,
    now: u64,
    calls: u64,
    loader: PathId,
    libc: PathId,
}

/// Records `calls` calls of one process after the other; returns when the last one ended.
pub fn record(writer: &mut Writer, calls: u64) -> Nanos {
    let loader = writer.path(b"/lib64/ld-linux-x86-64.so.2");
    let libc = writer.path(b"/usr/lib/x86_64-linux-gnu/libc.so.6");
    let mut storm = StormWriter { writer, random: Random::seeded(1), now: 0, calls, loader, libc };
    let mut process = 0;
    while storm.calls > 0 {
        storm.start(ProcessId(process));
        process += 1;
    }
    Nanos(storm.now)
}

impl StormWriter<'_> {
    fn start(&mut self, process: ProcessId) {
        let parent = (process.0 > 0).then_some(ProcessId(0));
        let how = if parent.is_some() { StartCall::Vfork } else { StartCall::Command };
        let pid = 4_000 + process.0;
        let at = Nanos(self.now);
        self.writer.record(&Record::Start { process, pid, parent, how, at });
        let path = self.writer.path(b"/opt/spack/opt/linux/python-3.11.7-abcdefg/bin/python3.11");
        let exec = Exec {
            at,
            path,
            image: path,
            argv: vec!["python3".into(), "-c".into(), "import numpy, scipy".into()],
            exact_argv: Vec::new(),
            cwd: self.writer.path(b"/home/me/work"),
            loader: Some(self.loader),
            env: vec![("PATH".into(), "/usr/bin:/bin".into())],
        };
        self.writer.record(&Record::Exec { process, exec });
        for library in 0..LIBRARIES {
            let home = self.random.below(PACKAGES);
            for package in 0..=home {
                let path = format!("{}/lib/lib{library}.so.1", package_directory(package));
                self.lookup(process, "openat", &path, package < home, true);
            }
            let path = format!("{}/lib/lib{library}.so.1", package_directory(home));
            for call in ["read", "newfstatat", "mmap", "mmap", "close"] {
                self.descriptor(process, call, &path);
            }
        }
        for module in 0..MODULES {
            for package in 0..self.random.below(8) {
                let path = format!("{}/lib/python3.11/site-packages", package_directory(package));
                self.lookup(process, "newfstatat", &path, false, false);
            }
            let directory = format!(
                "{}/lib/python3.11/site-packages/p{module}",
                package_directory(module % PACKAGES)
            );
            self.lookup(process, "newfstatat", &format!("{directory}/__init__.py"), false, false);
            let cached = format!("{directory}/__pycache__/__init__.cpython-311.pyc");
            self.lookup(process, "openat", &cached, false, false);
            for call in ["newfstatat", "read", "close"] {
                self.descriptor(process, call, &cached);
            }
        }
        let usage =
            Usage { user: Micros(200_000), system: Micros(90_000), max_rss: ByteUnits(1 << 26) };
        let status = ExitStatus::Exited(0);
        self.writer.record(&Record::End { process, at: Nanos(self.now), status, usage });
    }

    fn lookup(&mut self, process: ProcessId, call: &str, path: &str, missing: bool, loads: bool) {
        let outcome = if missing { Outcome::Failed(ENOENT) } else { Outcome::Returned(3) };
        let flags = if call == "openat" { 0o2000000 } else { 0 };
        self.call(process, call, path, outcome, flags, None, loads);
    }

    fn descriptor(&mut self, process: ProcessId, call: &str, path: &str) {
        self.call(process, call, path, Outcome::Returned(832), 0, Some(3), true);
    }

    #[allow(clippy::too_many_arguments)]
    fn call(
        &mut self,
        process: ProcessId,
        call: &str,
        path: &str,
        outcome: Outcome,
        flags: u64,
        fd: Option<i32>,
        loads: bool,
    ) {
        if self.calls == 0 {
            return;
        }
        self.calls -= 1;
        self.now += 2_000 + self.random.below(30_000);
        let took = 6_000 + self.random.below(9_000);
        let event = Event {
            start: Nanos(self.now),
            took: Nanos(took),
            process,
            thread: 4_000 + process.0,
            call: Call::named(call).expect("a known call"),
            outcome,
            path: Some(self.writer.path(path.as_bytes())),
            other_path: None,
            fd,
            flags,
            site: Some(if loads { self.loader } else { self.libc }),
            in_loader: loads,
            phase: if loads { Phase::Loading } else { Phase::Running },
            by_descriptor: call == "newfstatat" && fd.is_some(),
        };
        self.now += took;
        self.writer.call(event);
    }
}

fn package_directory(package: u64) -> String {
    let hash = package.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!("/opt/spack/opt/linux-x86_64/gcc-12.3.0/package{package}-1.{package}-{hash:016x}")
}
