//! The real loader under strace(1), and the model beside it.

#![allow(dead_code)] // Each test program uses a part.

pub mod build;
pub mod say;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use loader::simulation::{ProbeCall, ProbeResult, SearchProbe};
use loader::{Disk, Libc, LoaderSetting, Simulation, simulate};

/// A probe as strace prints it: call, path, and the error's name if it fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub call: String,
    pub path: PathBuf,
    pub error: Option<String>,
}

/// One start of a program.
#[derive(Debug, Clone, Default)]
pub struct Run {
    pub program: PathBuf,
    pub arguments: Vec<&'static str>,
    pub environment: Vec<(&'static str, OsString)>,
    /// The working directory; by default a scratch directory.
    pub directory: Option<PathBuf>,
    /// What is mounted over /etc.
    pub etc: Option<PathBuf>,
}

impl Run {
    pub fn of(program: impl Into<PathBuf>) -> Run {
        Run { program: program.into(), ..Run::default() }
    }

    pub fn with(mut self, name: &'static str, value: impl Into<OsString>) -> Run {
        self.environment.push((name, value.into()));
        self
    }

    pub fn within(mut self, directory: impl Into<PathBuf>) -> Run {
        self.directory = Some(directory.into());
        self
    }

    pub fn over_etc(mut self, etc: impl Into<PathBuf>) -> Run {
        self.etc = Some(etc.into());
        self
    }

    /// The setting that the model is told.
    pub fn setting(&self, disk: &Disk) -> LoaderSetting {
        let program = self.directory.as_deref().unwrap_or(Path::new("/")).join(&self.program);
        let mut setting = LoaderSetting::for_program(disk, &program).unwrap();
        setting.working_directory = self.directory.clone().unwrap_or_else(|| "/".into());
        setting.with_environment(|name| {
            let mut all = self.environment.iter().rev();
            all.find(|(known, _)| *known == name).map(|(_, value)| value.clone())
        })
    }

    /// What the model says.
    pub fn predict(&self, disk: &Disk) -> Simulation {
        simulate(disk, &self.program, &self.setting(disk)).unwrap()
    }

    /// The model's probes, in strace's words.
    pub fn predicted(&self, disk: &Disk) -> Vec<Seen> {
        let setting = self.setting(disk);
        words(&simulate(disk, &self.program, &setting).unwrap(), &setting)
    }

    /// What strace sees up to the first constructor. `LD_DEBUG=files` makes glibc's loader say
    /// when that is; musl's probes are the program's first calls of this kind.
    pub fn observed(&self) -> Vec<Seen> {
        let scratch = tempfile::tempdir().unwrap();
        let log = scratch.path().join("strace");
        let mut command = Command::new("timeout");
        // Some programs wait for ever; the loader is long done by then.
        command.args(["-s", "KILL", "10"]);
        if let Some(etc) = &self.etc {
            let mount = "mount --bind \"$0\" /etc && exec \"$@\"";
            command.args(["unshare", "--mount", "sh", "-c", mount]).arg(etc);
        }
        command.args(["strace", "-s", "4096", "-o"]).arg(&log);
        command.args([
            "-e",
            "trace=?open,openat,?stat,?stat64,statx,newfstatat,?access,faccessat,?readlink,readlinkat,write,writev,prlimit64",
        ]);
        command.args(["-E", "LD_DEBUG=files"]);
        for (name, value) in &self.environment {
            let mut pair = OsString::from(format!("{name}="));
            pair.push(value);
            command.arg("-E").arg(pair);
        }
        command.arg(&self.program).args(&self.arguments).env_clear();
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", scratch.path());
        command.current_dir(self.directory.as_deref().unwrap_or(Path::new("/")));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().unwrap();
        let log = std::fs::read(&log).unwrap();
        assert!(!log.is_empty(), "strace said nothing of {}", self.program.display());
        let secure = self.setting(&Disk::new()).secure;
        let lines = log.split(|byte| *byte == b'\n');
        let up_to = lines.take_while(|line| !starts_constructors(line, secure));
        up_to.filter_map(|line| parse(&String::from_utf8_lossy(line))).collect()
    }

    /// Fails with the first difference between the model and the real loader.
    pub fn assert_true(&self) {
        let (predicted, observed) = (self.predicted(&Disk::new()), self.observed());
        if let Some(difference) = difference(&predicted, &observed) {
            panic!("{}: {difference}", self.program.display());
        }
    }
}

/// The model's probes in strace's words.
pub fn words(simulation: &Simulation, setting: &LoaderSetting) -> Vec<Seen> {
    simulation.probes.iter().map(|probe| worded(probe, setting)).collect()
}

/// The model's probe in strace's words.
fn worded(probe: &SearchProbe, setting: &LoaderSetting) -> Seen {
    Seen {
        call: setting.system_call(probe.call).to_owned(),
        path: probe.path.clone(),
        error: match &probe.answer {
            ProbeResult::Refused(errno) => Some(errno.to_string()),
            ProbeResult::Found | ProbeResult::Rejected(_) => None,
        },
    }
}

/// The first difference, with what stands around it.
pub fn difference(predicted: &[Seen], observed: &[Seen]) -> Option<String> {
    let same = predicted.iter().zip(observed).take_while(|(one, other)| one == other).count();
    if same == predicted.len() && same == observed.len() {
        return None;
    }
    let show =
        |list: &[Seen]| format!("{:#?}", &list[same.saturating_sub(1)..list.len().min(same + 2)]);
    Some(format!(
        "after {same} of {} predicted and {} observed probes\npredicted {}\nobserved {}",
        predicted.len(),
        observed.len(),
        show(predicted),
        show(observed)
    ))
}

const CONSTRUCTORS: [&str; 4] =
    ["calling init: ", "calling preinit: ", "initialize program: ", "transferring control: "];

/// Where rights are gained, LD_DEBUG is ignored. There the C library's first call counts, which
/// it makes before all constructors (`__libc_early_init`).
pub fn starts_constructors(line: &[u8], secure: bool) -> bool {
    let line = String::from_utf8_lossy(line);
    if secure && line.starts_with("prlimit64(0, RLIMIT_STACK") {
        return true;
    }
    line.starts_with("write") && CONSTRUCTORS.iter().any(|mark| line.contains(mark))
}

/// A line of strace's; nothing if it is not about a path.
pub fn parse(line: &str) -> Option<Seen> {
    let (call, rest) = line.split_once('(')?;
    if call.starts_with("write") || call == "prlimit64" || rest.contains("AT_EMPTY_PATH") {
        return None;
    }
    let rest = rest.strip_prefix("AT_FDCWD, ").unwrap_or(rest);
    let (path, rest) = unquote(rest.strip_prefix('"')?)?;
    let result = rest.rsplit_once(" = ")?.1;
    let error = result.strip_prefix("-1 ").map(|error| error.split(' ').next().unwrap().to_owned());
    Some(Seen { call: call.to_owned(), path, error })
}

/// The text up to the closing quote, with C's escapes resolved.
fn unquote(text: &str) -> Option<(PathBuf, &str)> {
    let mut bytes = Vec::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((OsString::from_vec(bytes).into(), &text[at + 1..])),
            '\\' => match letters.next()?.1 {
                'n' => bytes.push(b'\n'),
                't' => bytes.push(b'\t'),
                digit @ '0'..='7' => {
                    let mut value = digit.to_digit(8)?;
                    let rest = text[at + 2..].chars().take(2);
                    for digit in rest.map_while(|letter| letter.to_digit(8)) {
                        value = value * 8 + digit;
                        letters.next();
                    }
                    bytes.push(value as u8);
                }
                other => bytes.extend(other.to_string().bytes()),
            },
            _ => bytes.extend(letter.to_string().bytes()),
        }
    }
    None
}

/// Whether the program's loader is glibc's.
pub fn is_glibc(setting: &LoaderSetting) -> bool {
    matches!(setting.libc, Libc::Glibc(_))
}

/// The names of the calls, to see that a test meets what it is about.
pub fn count(seen: &[Seen], call: ProbeCall, setting: &LoaderSetting) -> usize {
    seen.iter().filter(|probe| probe.call == setting.system_call(call)).count()
}
