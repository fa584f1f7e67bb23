//! Recordings written by hand, and the real binary run on them.

pub mod forged;

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use recording::{
    Blind, ByteUnits, Call, Event, Exec, ExitStatus, Header, Micros, Nanos, Outcome, Phase,
    ProcessId, Record, StartCall, Usage, Writer,
};

pub const FOUND: Outcome = Outcome::Returned(3);
pub const MISSING: Outcome = Outcome::Failed(2);
/// A name that is no UTF-8, and one that would clear the screen and break the line.
pub const NO_TEXT: &[u8] = b"/data/caf\xe9";
pub const HOSTILE: &[u8] = b"/data/a\nb\x1b[2J\xc2\x9bc";
/// A path of the kind that Spack makes.
pub const LONG: &[u8] = b"/opt/spack/linux-debian12-x86_64/gcc-12.2.0/zlib-1.3.1-abcdefghijklmnopqrstuvwxyz012345/lib/libz.so.1";

/// A recording that is being made of one process.
pub struct Sample {
    writer: Writer,
    now: u64,
}

impl Sample {
    /// A recording in `file` of a command that became `program`.
    pub fn new(file: &Path, program: &str, argv: &[&str]) -> Sample {
        let argv: Vec<String> = argv.iter().map(|word| word.to_string()).collect();
        let header = Header {
            becalm: "0.1.0".into(),
            host: "node17".into(),
            kernel: "6.1.0".into(),
            machine: "x86_64".into(),
            started_unix: 1_760_000_000,
            argv: argv.clone(),
            cwd: "/home/me".into(),
            backend: "ptrace+seccomp".into(),
            ..Header::default()
        };
        Sample::with_header(file, program, argv, &header)
    }

    pub fn with_header(file: &Path, program: &str, argv: Vec<String>, header: &Header) -> Sample {
        let sink = Box::new(File::create(file).unwrap());
        let mut writer = Writer::new(sink, header).unwrap();
        let (path, cwd) = (writer.path(program.as_bytes()), writer.path(b"/home/me"));
        let loader = Some(writer.path(b"/lib64/ld-linux-x86-64.so.2"));
        let process = ProcessId(0);
        let start = Record::Start {
            process,
            pid: 4711,
            parent: None,
            how: StartCall::Command,
            at: Nanos(0),
        };
        writer.record(&start);
        let exec = Exec { argv, loader, ..Exec::new(path, cwd) };
        writer.record(&Record::Exec { process, exec });
        Sample { writer, now: 0 }
    }

    /// A call of the program itself.
    pub fn call(&mut self, name: &str, path: &[u8], outcome: Outcome) -> &mut Sample {
        self.event(name, path, outcome, None)
    }

    /// A call of the dynamic loader before the program began.
    pub fn loader(&mut self, name: &str, path: &[u8], outcome: Outcome) -> &mut Sample {
        self.event(name, path, outcome, Some("/lib64/ld-linux-x86-64.so.2"))
    }

    fn event(
        &mut self,
        name: &str,
        path: &[u8],
        outcome: Outcome,
        loader: Option<&str>,
    ) -> &mut Sample {
        let site = self.writer.path(loader.unwrap_or("/usr/bin/program").as_bytes());
        let path = Some(self.writer.path(path));
        self.writer.call(Event {
            start: Nanos(self.now),
            took: Nanos(10_000),
            thread: 4711,
            path,
            site: Some(site),
            in_loader: loader.is_some(),
            phase: if loader.is_some() { Phase::Loading } else { Phase::Running },
            ..Event::new(Call::named(name).unwrap(), outcome)
        });
        self.now += 100_000;
        self
    }

    /// A process started io_uring.
    pub fn io_uring(&mut self) -> &mut Sample {
        self.writer.record(&Record::Blind(Blind::IoUring { process: ProcessId(0) }));
        self
    }

    /// Ends the process and the recording.
    pub fn end(mut self) {
        self.end_process();
        let now = Nanos(self.now);
        self.writer.finish(now).unwrap();
    }

    /// Ends the recording while the process still runs.
    pub fn end_early(self) {
        self.writer.finish(Nanos(self.now)).unwrap();
    }

    /// The recorder is killed: what was recorded is there, the end is not.
    pub fn cut(mut self) {
        self.writer.flush();
        drop(self.writer);
    }

    fn end_process(&mut self) {
        let usage =
            Usage { user: Micros(12_000), system: Micros(3_400), max_rss: ByteUnits(24 << 20) };
        let (process, at) = (ProcessId(0), Nanos(self.now));
        self.writer.record(&Record::End { process, at, status: ExitStatus::Exited(0), usage });
    }
}

/// The start of an emacs whose libz is looked for in three directories. It makes 9 metadata
/// operations, 4 of them are answered 'no such file'; the close is none.
pub fn emacs(sample: &mut Sample) {
    sample
        .loader("openat", b"/opt/a/lib/libz.so.1", MISSING)
        .loader("newfstatat", b"/opt/a/lib", MISSING)
        .loader("openat", b"/opt/b/lib/libz.so.1", MISSING)
        .loader("openat", LONG, FOUND)
        .call("close", LONG, Outcome::Returned(0))
        .call("openat", b"/usr/share/emacs/site-lisp/subdirs.el", FOUND)
        .call("newfstatat", b"/usr/share/emacs/29.1/lisp", Outcome::Returned(0))
        .call("newfstatat", b"/usr/share/emacs/none", MISSING)
        .call("openat", NO_TEXT, FOUND)
        .call("openat", HOSTILE, FOUND);
}

/// A whole recording of [`emacs`].
pub fn emacs_recording(directory: &Path) -> PathBuf {
    let file = directory.join("emacs.becalm");
    let mut sample = Sample::new(&file, "/usr/bin/emacs", &["emacs", "--version"]);
    emacs(&mut sample);
    sample.end();
    file
}

/// Runs becalm where standard output is a pipe.
pub fn becalm<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Output {
    command(args).output().unwrap()
}

/// The same, in a terminal of so many columns as far as `COLUMNS` goes.
pub fn becalm_in<S: AsRef<OsStr>>(columns: usize, args: impl IntoIterator<Item = S>) -> Output {
    command(args).env("COLUMNS", columns.to_string()).output().unwrap()
}

pub fn command<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_becalm"));
    command.args(args).env_remove("COLUMNS").env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE");
    command
}

pub fn stdout(output: &Output) -> String {
    testkit::answer::check(&output.stdout);
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Standard output of a run that must have succeeded and warned of nothing.
pub fn quiet_success(output: &Output) -> String {
    assert_eq!((output.status.code(), stderr(output).as_str()), (Some(0), ""));
    stdout(output)
}

pub fn json(output: &Output) -> serde_json::Value {
    testkit::answer::parse(&output.stdout)
}

/// The one line that a failure says.
pub fn failure(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{}", stderr(output));
    assert_eq!(stdout(output), "");
    let said = stderr(output);
    assert_eq!(said.lines().count(), 1, "{said}");
    said
}

/// What becalm says on a terminal of so many columns.
pub fn on_a_terminal(columns: usize, directory: &Path, arguments: &str) -> String {
    shell_on_a_terminal(columns, directory, &format!("becalm {arguments}"))
}

/// What a shell's command says on a terminal of so many columns, given to it by script(1).
pub fn shell_on_a_terminal(columns: usize, directory: &Path, command: &str) -> String {
    let line = format!(
        "becalm() {{ '{}' \"$@\"; }}; stty rows 50 cols {columns}; cd '{}'; {command}",
        env!("CARGO_BIN_EXE_becalm"),
        directory.display(),
    );
    let output = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .env_remove("COLUMNS")
        .env_remove("NO_COLOR")
        .env("TERM", "xterm-256color")
        .output()
        .unwrap();
    stdout(&output).replace("\r\n", "\n")
}
