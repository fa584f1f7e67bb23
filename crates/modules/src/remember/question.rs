//! What is asked, and in which surroundings.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use proc::ProcessStatus;
use recording::shown_name;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use watch::dependencies::descriptor_kind;

use super::ToolLanguage;

/// A question to a tool.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ModuleQuestion {
    /// The tool's script.
    pub script: PathBuf,
    /// The shell, and the words after `module`.
    pub words: Vec<OsString>,
}

/// What of the surroundings decided the answers to a question so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DecidingSurroundings {
    pub variables: BTreeSet<Vec<u8>>,
    pub whole_environment: bool,
    pub working_directory: bool,
}

impl DecidingSurroundings {
    /// Takes in what decided another answer; whether that is new.
    pub fn take_in(&mut self, other: &DecidingSurroundings) -> bool {
        let before = self.clone();
        self.variables.extend(other.variables.iter().cloned());
        self.whole_environment |= other.whole_environment;
        self.working_directory |= other.working_directory;
        *self != before
    }

    /// All that an answer depends on beside files, in words: these, and what each answer depends on.
    pub fn said(&self) -> Vec<String> {
        let variable = |name: &Vec<u8>| format!("${}", shown_name(OsStr::from_bytes(name)));
        let mut said: Vec<String> = match self.whole_environment {
            true => vec!["all variables of the environment".to_owned()],
            false => self.variables.iter().map(variable).collect(),
        };
        said.extend(unnoticed_variables().map(|with| format!("${with}*")));
        if self.working_directory {
            said.push("the working directory".to_owned());
        }
        said.extend(ProcessSurroundings::SAID.map(str::to_owned));
        said
    }
}

/// What the kernel knows of this process that decides what it may do and what it is told.
#[derive(Clone, Debug)]
pub(super) struct ProcessSurroundings(Sha256);

/// Fields of /proc/PID/status.
const STATUS: [&str; 13] = [
    "Umask",
    "Uid",
    "Gid",
    "Groups",
    "SigBlk",
    "SigIgn",
    "CapInh",
    "CapPrm",
    "CapEff",
    "CapBnd",
    "CapAmb",
    "NoNewPrivs",
    "Seccomp",
];

impl ProcessSurroundings {
    /// What they are, in words.
    const SAID: [&str; 3] = [
        "the user, groups, rights, umask, limits and blocked signals of who asks",
        "the name and kernel of this machine",
        "what kind of file each of the three standard descriptors is",
    ];

    /// Those of this process; none where it cannot know itself, or files may not be long: what exceeds
    /// that ends the tool (SIGXFSZ), and not becalm. The standard descriptors' kinds
    /// are among them, so that a terminal's answers and a pipe's do not take turns.
    pub fn own() -> Option<ProcessSurroundings> {
        ProcessSurroundings::with([0, 1, 2].map(descriptor_kind))
    }

    /// The same, whatever the standard descriptors are.
    pub fn of_any_descriptors() -> impl Iterator<Item = ProcessSurroundings> {
        let each = || [0, libc::S_IFCHR, libc::S_IFIFO, libc::S_IFREG, libc::S_IFSOCK].into_iter();
        let kinds = each().flat_map(move |input| {
            each().flat_map(move |output| each().map(move |error| [input, output, error]))
        });
        kinds.filter_map(ProcessSurroundings::with)
    }

    fn with(descriptors: [u32; 3]) -> Option<ProcessSurroundings> {
        let mut digest = Sha256::new();
        let mut add = |bytes: &[u8]| add(&mut digest, bytes);
        let status = ProcessStatus::own()?;
        for field in STATUS {
            add(status.field(field).unwrap_or_default().as_bytes());
        }
        add(&limits()?);
        let system = rustix::system::uname();
        for name in [system.nodename(), system.release(), system.version(), system.machine()] {
            add(name.to_bytes());
        }
        add(system.domainname().to_bytes());
        for kind in descriptors {
            add(&kind.to_ne_bytes());
        }
        Some(ProcessSurroundings(digest))
    }
}

/// All limits, soft and hard (proc_pid_limits(5)): they decide what can be read and written, and
/// posix.getrlimit of Lua tells any. The kernel writes them in one read.
fn limits() -> Option<Vec<u8>> {
    let mut text = vec![0; 8192];
    let length = File::open("/proc/self/limits").ok()?.read(&mut text).ok()?;
    text.truncate(length);
    may_be_long(&text).then_some(text)
}

/// Whether files may be as long as anybody likes, by the table of limits.
fn may_be_long(limits: &[u8]) -> bool {
    let mut lines = limits.split(|byte| *byte == b'\n');
    let soft = lines.find_map(|line| line.strip_prefix(b"Max file size"));
    soft.is_some_and(|limits| limits.trim_ascii_start().starts_with(b"unlimited"))
}

/// What the C library reads of the environment without anybody's noticing.
pub(super) const C_LIBRARY: [&str; 8] =
    ["LD_", "LC_", "LANG", "MALLOC_", "GLIBC_TUNABLES", "GCONV_PATH", "LOCPATH", "TZ"];

/// How the names begin of variables that are read without anybody's noticing.
fn unnoticed_variables() -> impl Iterator<Item = &'static &'static str> {
    C_LIBRARY.iter().chain(ToolLanguage::VARIABLES)
}

impl ModuleQuestion {
    /// Of this tool, for a shell.
    pub fn new(script: &Path, words: Vec<OsString>) -> ModuleQuestion {
        ModuleQuestion { script: script.to_owned(), words }
    }

    /// The name under which it is kept what decides its answers.
    pub(super) fn name(&self) -> String {
        name('q', &self.digest())
    }

    /// The name under which the answer is kept that it has here.
    pub(super) fn name_here(
        &self,
        surroundings: &ProcessSurroundings,
        deciding: &DecidingSurroundings,
    ) -> String {
        let mut digest = self.digest();
        let mut add = |bytes: &[u8]| add(&mut digest, bytes);
        add(&surroundings.0.clone().finalize());
        // Each name counts, set or not: an answer that did not ask for one is another answer.
        for name in &deciding.variables {
            add(name);
            match std::env::var_os(OsStr::from_bytes(name)) {
                Some(value) => add(&[b"=", value.as_bytes()].concat()),
                None => add(b""),
            }
        }
        add(&[deciding.whole_environment.into(), deciding.working_directory.into()]);
        if deciding.whole_environment {
            // In its order, which decides that of the names in Tcl, and with what has no name.
            add(&std::fs::read("/proc/self/environ").unwrap_or_default());
        }
        let is_unnoticed = |name: &OsString| {
            unnoticed_variables().any(|with| name.as_bytes().starts_with(with.as_bytes()))
        };
        let mut variables: Vec<_> = std::env::vars_os()
            .filter(|(name, _)| deciding.whole_environment || is_unnoticed(name))
            .collect();
        variables.sort();
        for (name, value) in variables {
            add(name.as_bytes());
            add(value.as_bytes());
        }
        if deciding.working_directory {
            add(std::env::current_dir().unwrap_or_default().as_os_str().as_bytes());
        }
        name('a', &digest)
    }

    fn digest(&self) -> Sha256 {
        let mut digest = Sha256::new();
        add(&mut digest, env!("CARGO_PKG_VERSION").as_bytes());
        add(&mut digest, self.script.as_os_str().as_bytes());
        add(&mut digest, &self.words.len().to_ne_bytes());
        self.words.iter().for_each(|word| add(&mut digest, word.as_bytes()));
        digest
    }
}

/// With its length, so that no two lists are one text.
fn add(digest: &mut Sha256, bytes: &[u8]) {
    digest.update(bytes.len().to_ne_bytes());
    digest.update(bytes);
}

fn name(kind: char, digest: &Sha256) -> String {
    let hash = digest.clone().finalize();
    let hex: String = hash[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{kind}-{hex}")
}
