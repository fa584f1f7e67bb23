//! What the loader will do up to the program's entry: which objects it loads, in which order,
//! and every path it asks the kernel for.
//!
//! | file | what it holds |
//! |---|---|
//! | `glibc/map` | one entry of the link map |
//! | `glibc/directories` | search directories, and what was learnt of them |
//! | `glibc/tokens` | `$ORIGIN`, `$LIB`, `$PLATFORM`; lists of directories |
//! | `glibc/search` | from a name to an object |
//! | `glibc/verify` | which files are taken |
//! | `glibc/cached` | ld.so.cache, as the search uses it |
//! | `glibc/preload` | LD_PRELOAD, /etc/ld.so.preload |
//! | `glibc/dlopen` | what a running program opens; which calls explain a recording |
//! | `glibc/dependencies` | breadth first over what each object needs |
//! | `later` | what running programs open, and were seen to ask for |
//! | `probes` | the list of probes, within a limit |
//! | `musl` | musl's loader |
//! | `musl/lists` | where it looks |

mod glibc;
mod later;
mod musl;
mod probes;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use later::{Dlopen, RecordedProbe, UnexplainedProbe};
use probes::Keep;
pub use remedy::Counts;

use crate::object::{ElfClass, Tag};
use crate::{ElfError, ElfObject, Errno, FileId, Libc, LoaderSetting, OpenedFile, World};

/// What the loader did to start a program.
#[derive(Debug, Clone)]
pub struct Simulation {
    /// The objects, in the order of the link map: the program first. This is the order in which
    /// symbols are looked up.
    pub objects: Vec<LoadedObject>,
    /// Every path that the loader asks for, in order, up to the end of the start: where it
    /// fails, to what ends it. Empty after [`outline`].
    pub probes: Vec<SearchProbe>,
    /// How many of these there are: opens, and stats by path.
    pub counts: Counts,
    /// How many `ldd` makes, which goes on after what is missing: as many as a start would in
    /// which something else finds that.
    pub when_whole: Counts,
    /// What was not found, or cannot be loaded. After what ends the start, as `ldd` says it; so
    /// are [`objects`](Simulation::objects).
    pub missing: Vec<Missing>,
    /// What ends the start, if it fails.
    pub fatal: Option<Fatal>,
    /// What each call of dlopen came to, as an index into [`Simulation::objects`]; none where it
    /// failed. What they loaded comes behind what the start did, in the order of loading.
    pub opened: Vec<Option<usize>>,
}

/// One object in memory.
#[derive(Debug, Clone)]
pub struct LoadedObject {
    /// The path by which it was opened (`l_name`); may be relative.
    pub path: PathBuf,
    /// Which file it is.
    pub id: FileId,
    /// What it says.
    pub object: Arc<ElfObject>,
    /// The object that asked for it first, as an index into [`Simulation::objects`].
    pub loader: Option<usize>,
    /// The name that was asked for.
    pub asked_as: OsString,
    /// How it was found.
    pub how: FoundBy,
    /// What it needs, and what that came to.
    pub edges: Vec<Edge>,
}

/// One dependency of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    /// The name as written.
    pub name: OsString,
    /// The object that serves it, as an index into [`Simulation::objects`]; none if missing.
    pub to: Option<usize>,
    /// By which tag.
    pub kind: Tag,
}

/// How an object was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FoundBy {
    /// It is the program itself.
    Program,
    /// It is the program's interpreter, that is, the loader.
    Interpreter,
    /// It is the kernel's own library, of no file (vdso(7)).
    Kernel,
    /// By a name with a slash: no search.
    Path,
    /// In a directory of `DT_RPATH` of the object with index `of`.
    Rpath {
        /// Whose DT_RPATH, as an index into [`Simulation::objects`].
        of: usize,
    },
    /// In a directory of the requester's `DT_RUNPATH`.
    Runpath,
    /// In a directory of `LD_LIBRARY_PATH`.
    LibraryPath,
    /// By ld.so.cache.
    Cache,
    /// In a system directory.
    Default,
}

/// Which system call asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProbeCall {
    /// `open` or `openat`.
    Open,
    /// `stat` or `newfstatat`.
    Stat,
    /// `access`.
    Access,
    /// `readlink`.
    Readlink,
}

/// What became of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeResult {
    /// The call succeeded, and the loader takes what it got.
    Found,
    /// The call failed.
    Refused(Errno),
    /// The call succeeded, but the loader does not take the file.
    Rejected(Rejection),
}

/// Why the loader does not take a file that it could open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejection {
    /// For other addresses or another machine: the search goes on.
    Foreign,
    /// The file is loaded already, under another name.
    Known,
    /// No library at all, or damaged: the loader gives up.
    Unfit(&'static str),
}

/// One path that the loader asks the kernel for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchProbe {
    /// By which call.
    pub call: ProbeCall,
    /// The path, as passed to the kernel.
    pub path: PathBuf,
    /// What came of it.
    pub answer: ProbeResult,
    /// The object whose dependency is searched, as an index into [`Simulation::objects`].
    pub for_object: usize,
    /// The name that is searched; empty if none is.
    pub name: Arc<OsString>,
}

/// A dependency that could not be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The name as written.
    pub name: OsString,
    /// The object that needs it, as an index into [`Simulation::objects`].
    pub needed_by: usize,
    /// By which tag.
    pub kind: Tag,
    /// Why.
    pub why: MissingReason,
}

/// Why a dependency could not be loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MissingReason {
    /// Found nowhere; the error of the last attempt.
    #[error("not found: {0}")]
    NotFound(Errno),
    /// Found only for other addresses (32-bit instead of 64-bit, or the reverse).
    #[error("found only for other addresses")]
    OtherClass,
    /// Found, but the loader cannot take it.
    #[error("{0}: {1}")]
    Unfit(PathBuf, &'static str),
    /// A dynamic string token stands for nothing.
    #[error("a dynamic string token stands for nothing")]
    EmptyToken,
    /// A dynamic string token in a program that runs with other rights.
    #[error("a dynamic string token in a program that gains rights")]
    SecureToken,
}

/// Where and why a start fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fatal {
    /// After how many probes: all of [`Simulation::probes`].
    pub after: usize,
    /// The index of the reason in [`Simulation::missing`].
    pub missing: usize,
}

/// Why nothing can be said.
#[derive(Debug, thiserror::Error)]
pub enum SimulateError {
    /// The program cannot be opened.
    #[error("cannot open {0}: {1}")]
    Open(PathBuf, Errno),
    /// The program is no ELF file, or damaged.
    #[error("{0}: {1}")]
    Elf(PathBuf, Arc<ElfError>),
    /// It asks for more paths than memory holds: no real program does.
    #[error("{0} asks for more paths than can be listed")]
    Excessive(PathBuf),
    /// The loader would load auditing libraries, which may change every step.
    #[error("{0} is audited: auditing libraries may change what the loader does")]
    Audited(PathBuf),
    /// What it was seen to load is not what a simulation loads.
    #[error("{0}: {1}")]
    Unexplained(PathBuf, UnexplainedProbe),
    /// Of musl's loader, the start alone is simulated.
    #[error("{0}: what musl's loader opens while a program runs is not simulated")]
    MuslDlopen(PathBuf),
}

impl LoaderSetting {
    /// The name of the system call that the loader makes.
    ///
    /// 64-bit Arm has only the calls that take a directory. On x86,
    /// glibc opens by `openat` since 2.26 and asks by `newfstatat` since 2.33; 32-bit programs
    /// ask by `stat64` before that and by `statx` since. The program's own path is read by
    /// `readlinkat` in 2.41, and by `readlink` in 2.36. (The versions between were not run.)
    pub fn system_call(&self, call: ProbeCall) -> &'static str {
        let (version, narrow) = match &self.libc {
            Libc::Glibc(profile) => (profile.version, profile.class == ElfClass::Elf32),
            Libc::Musl(_) => ((0, 0), false),
        };
        if self.is_arm() {
            return match call {
                ProbeCall::Open => "openat",
                ProbeCall::Stat => "newfstatat",
                ProbeCall::Access => "faccessat",
                ProbeCall::Readlink => "readlinkat",
            };
        }
        match call {
            ProbeCall::Open if version >= (2, 26) => "openat",
            ProbeCall::Open => "open",
            ProbeCall::Stat if narrow && version >= (2, 33) => "statx",
            ProbeCall::Stat if narrow => "stat64",
            ProbeCall::Stat if version >= (2, 33) => "newfstatat",
            ProbeCall::Stat => "stat",
            ProbeCall::Access => "access",
            ProbeCall::Readlink if version >= (2, 41) => "readlinkat",
            ProbeCall::Readlink => "readlink",
        }
    }

    fn is_arm(&self) -> bool {
        match &self.libc {
            Libc::Glibc(profile) => profile.machine == crate::setting::machine::AARCH64,
            Libc::Musl(musl) => musl.arch == "aarch64",
        }
    }
}

/// Says what the loader does to start `program`, without running anything.
///
/// # Errors
/// [`SimulateError`]. What is missing is no error: it is in [`Simulation::missing`].
pub fn simulate(
    world: &dyn World,
    program: &Path,
    setting: &LoaderSetting,
) -> Result<Simulation, SimulateError> {
    start(world, program, setting, (Keep::All, &[]))
}

/// The same, with the probes counted and not kept: for thousands of programs.
///
/// # Errors
/// As [`simulate`].
pub fn outline(
    world: &dyn World,
    program: &Path,
    setting: &LoaderSetting,
) -> Result<Simulation, SimulateError> {
    start(world, program, setting, (Keep::Counts, &[]))
}

/// The same as [`simulate`], and then the program calls dlopen so.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_run(
    world: &dyn World,
    program: &Path,
    setting: &LoaderSetting,
    calls: &[Dlopen],
) -> Result<Simulation, SimulateError> {
    start(world, program, setting, (Keep::All, calls))
}

/// The same as [`outline`], and then the program calls dlopen so.
///
/// # Errors
/// As [`simulate`].
pub fn outline_run(
    world: &dyn World,
    program: &Path,
    setting: &LoaderSetting,
    calls: &[Dlopen],
) -> Result<Simulation, SimulateError> {
    start(world, program, setting, (Keep::Counts, calls))
}

/// The calls of dlopen that a run made, by all that its loader was seen to ask for, at the start and
/// later. Each of these lookups is then one that [`simulate_run`] makes.
///
/// # Errors
/// Why they are not known: [`SimulateError`].
pub fn inferred_calls(
    world: &dyn World,
    program: &Path,
    setting: &LoaderSetting,
    recorded: (&[RecordedProbe], &[RecordedProbe]),
) -> Result<Vec<Dlopen>, SimulateError> {
    let (absolute, opened, object) = opened(world, program, setting)?;
    match &setting.libc {
        Libc::Glibc(profile) => {
            glibc::infer(world, &absolute, &opened, object, (setting, profile), recorded)
                .map_err(|why| SimulateError::Unexplained(program.to_owned(), why))
        }
        Libc::Musl(_) => Err(SimulateError::MuslDlopen(program.to_owned())),
    }
}

fn start(
    world: &dyn World,
    program: &Path,
    setting: &LoaderSetting,
    (keep, calls): (Keep, &[Dlopen]),
) -> Result<Simulation, SimulateError> {
    let (absolute, opened, object) = opened(world, program, setting)?;
    let simulation = match &setting.libc {
        Libc::Glibc(profile) => {
            glibc::start(world, &absolute, &opened, object, (setting, profile, keep, calls))
        }
        Libc::Musl(_) if !calls.is_empty() => {
            return Err(SimulateError::MuslDlopen(program.to_owned()));
        }
        Libc::Musl(profile) => {
            musl::start(world, &absolute, &opened, object, (setting, profile, keep))
        }
    };
    simulation.ok_or_else(|| SimulateError::Excessive(program.to_owned()))
}

/// The program, and what its file says, where its loader can be simulated.
fn opened(
    world: &dyn World,
    program: &Path,
    setting: &LoaderSetting,
) -> Result<(PathBuf, OpenedFile, Arc<ElfObject>), SimulateError> {
    let absolute = setting.working_directory.join(program);
    let opened =
        world.open(&absolute).map_err(|errno| SimulateError::Open(program.to_owned(), errno))?;
    let object = opened.object.clone();
    let object = object.map_err(|error| SimulateError::Elf(program.to_owned(), error))?;
    let audited = setting.audit.as_ref().is_some_and(|list| !list.is_empty() && !setting.secure);
    let is_glibc = matches!(setting.libc, Libc::Glibc(_));
    match is_glibc && (audited || !object.audit.is_empty()) {
        true => Err(SimulateError::Audited(program.to_owned())),
        false => Ok((absolute, opened, object)),
    }
}
