//! What a start does, by the word of the program, of the loader and of strace.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::super::arch::LOADER;
use super::super::run;

/// A program in an environment where nothing steers the loader.
fn plain(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).env_clear().env("LC_ALL", "C");
    command
}

/// What can be told of a start that works: what it says, and the files that it loads.
#[derive(Debug, PartialEq, Eq)]
pub struct Shown {
    /// Its standard output.
    pub says: String,
    /// The files, without symbolic links in their paths, in the order of ldd.
    pub loads: Vec<PathBuf>,
}

/// Runs a program, and lists what it loads.
#[track_caller]
pub fn shown(program: &str, arguments: &[&str]) -> Shown {
    Shown { says: says(program, arguments), loads: loads(program, &[]) }
}

/// What a program prints. It must succeed without complaint.
#[track_caller]
pub fn says(program: &str, arguments: &[&str]) -> String {
    says_with(program, arguments, &[])
}

/// The same in an environment with more variables.
#[track_caller]
pub fn says_with(program: &str, arguments: &[&str], more: &[(&str, &str)]) -> String {
    let ran = run(plain(program, arguments).envs(more.iter().copied()));
    assert_eq!((ran.code(), ran.err()), (0, String::new()), "{program} {arguments:?}");
    ran.out()
}

/// The files that a program or library loads, by glibc's own word (ldd(1)), in the order of the
/// link map and without symbolic links; a closure library, which holds no code, left out.
#[track_caller]
pub fn loads(file: &str, more: &[(&str, &str)]) -> Vec<PathBuf> {
    let mut command = plain(file, &[]);
    if Path::new(file).file_name().unwrap().to_str().unwrap().contains(".so") {
        command = plain(LOADER, &[file]);
    }
    let ran = run(command.env("LD_TRACE_LOADED_OBJECTS", "1").envs(more.iter().copied()));
    let out = ran.out();
    let path = |line: &str| {
        let line = line.trim();
        let line = line.split_once(" (0x").map_or(line, |(line, _)| line);
        let path = line.split_once(" => ").map_or(line, |(_, path)| path);
        match Path::new(path) {
            path if path.is_absolute() => Some(path.canonicalize().unwrap()),
            _ if path == "not found" => Some(PathBuf::from(line)),
            _ => None,
        }
    };
    let own = |path: &PathBuf| !path.to_str().unwrap().contains("/libbecalm-closure-");
    out.lines().filter_map(path).filter(own).collect()
}

/// What strace counts of a start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Start {
    /// open and openat.
    pub opens: u64,
    /// Those that fail.
    pub failed_opens: u64,
    /// stat by path.
    pub stats: u64,
    /// Those that fail.
    pub failed_stats: u64,
    /// mmap.
    pub mmaps: u64,
}

impl Start {
    /// Opens and stats that fail.
    pub fn in_vain(&self) -> u64 {
        self.failed_opens + self.failed_stats
    }

    /// As becalm's JSON has it.
    pub fn to_json(self) -> Value {
        json!({
            "opens": self.opens,
            "failed_opens": self.failed_opens,
            "stats": self.stats,
            "failed_stats": self.failed_stats,
        })
    }
}

/// Counts the calls of a program that says nothing by itself: those of its loader.
#[track_caller]
pub fn start(program: &str, arguments: &[&str]) -> Start {
    start_with(program, arguments, &[])
}

/// Counts the calls of the loader alone, whatever the program does.
#[track_caller]
pub fn start_of_loader(program: &str) -> Start {
    start_with(program, &[], &[("LD_TRACE_LOADED_OBJECTS", "1")])
}

#[track_caller]
fn start_with(program: &str, arguments: &[&str], more: &[(&str, &str)]) -> Start {
    sum(&asked(program, arguments, more))
}

/// What calls come to.
pub fn sum(all: &[LoaderCall]) -> Start {
    let mut sum = Start::default();
    for asked in all {
        let failed = u64::from(asked.error.is_some());
        match asked.call {
            "open" => (sum.opens, sum.failed_opens) = (sum.opens + 1, sum.failed_opens + failed),
            "stat" => (sum.stats, sum.failed_stats) = (sum.stats + 1, sum.failed_stats + failed),
            _ => sum.mmaps += 1,
        }
    }
    sum
}

/// One call of a loader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoaderCall {
    /// `open`, `stat` (by path; not of an open file) or `mmap`.
    pub call: &'static str,
    /// What it is about.
    pub path: String,
    /// The error's name.
    pub error: Option<String>,
}

/// The calls of a program, by strace.
#[track_caller]
pub fn asked(program: &str, arguments: &[&str], more: &[(&str, &str)]) -> Vec<LoaderCall> {
    asked_until(0, program, arguments, more)
}

/// The same of a program that ends with this status: 127, where its loader gives up.
#[track_caller]
pub fn asked_until(
    status: i32,
    program: &str,
    arguments: &[&str],
    more: &[(&str, &str)],
) -> Vec<LoaderCall> {
    let log = tempfile::NamedTempFile::new().unwrap();
    let calls = "trace=open,openat,stat,newfstatat,mmap,?stat64,?fstatat64,?statx,?mmap2";
    let mut command = Command::new("strace");
    command.args(["-qq", "-s", "65536", "-e", calls, "-e", "signal=none", "-o"]).arg(log.path());
    // Set by strace itself: its own loader must not see what steers the program's.
    let set = more.iter().flat_map(|(name, value)| ["-E".to_owned(), format!("{name}={value}")]);
    command.args(set).arg("--").arg(program).args(arguments);
    let ran = run(command.env_clear().env("LC_ALL", "C"));
    assert_eq!(ran.code(), status, "{program}: {}{}", ran.out(), ran.err());
    fs::read_to_string(log.path()).unwrap().lines().filter_map(call).collect()
}

/// One line of the log: `openat(AT_FDCWD, "/a", O_RDONLY|O_CLOEXEC) = -1 ENOENT (No such …)`.
fn call(line: &str) -> Option<LoaderCall> {
    let (name, rest) = line.split_once('(')?;
    let call = match name {
        "mmap" | "mmap2" => "mmap",
        "open" | "openat" => "open",
        _ => "stat",
    };
    let path = rest.split('"').nth(1).unwrap_or_default().to_owned();
    let error = rest.rsplit_once(" = -1 ").and_then(|(_, error)| error.split(' ').next());
    // Of an open file: no lookup.
    if call == "stat" && path.is_empty() {
        return None;
    }
    Some(LoaderCall { call, path, error: error.map(str::to_owned) })
}
