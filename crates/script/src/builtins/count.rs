//! How many starts the shells of a command avoid: numbers in memory that all of them map.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use schemars::JsonSchema;
use serde::Serialize;

use super::{BuiltinsError, directory, programs};

/// The variable that names the file to shells (loadable/count.c).
pub const VARIABLE: &str = "BECALM_BUILTINS_COUNT";

/// How a start of a program that is known can go, as loadable/count.h has it.
const OUTCOMES: usize = 6;

/// As many numbers as loadable/count.c has: shells, other programs, and each program's outcomes.
fn numbers() -> usize {
    2 + programs::names().count() * OUTCOMES
}

/// A file that shells count in, of this process's own memory: it has no name that could stay behind,
/// and nobody can make it shorter, which would end whoever has it mapped. When this is dropped, shells
/// that run on keep it until they end, and others go without.
pub struct CountFile {
    numbers: File,
    name: OsString,
}

/// What shells that took the library did when a program was to be started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CountedStarts {
    /// Shells that took the library. All numbers are of these alone.
    pub shells: u64,
    /// Starts of programs that the library does not know.
    pub others: u64,
    /// Starts of those that it knows.
    #[serde(flatten)]
    pub known: StartOutcomes,
    /// The same for each program that was to be started, the most frequent first.
    pub programs: Vec<CountedProgram>,
}

/// One program's starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CountedProgram {
    /// Its name.
    pub name: &'static str,
    /// How they went.
    #[serde(flatten)]
    pub starts: StartOutcomes,
}

/// How starts of programs that the library knows went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StartOutcomes {
    /// Starts that were avoided: done in the shell's own process.
    pub avoided: u64,
    /// Starts of programs that are always started.
    pub only_started: u64,
    /// Starts since the program found was not the one that the library knows.
    pub unknown: u64,
    /// Starts where the script could have told the difference: a CHLD trap, a limit, variables for
    /// one command, some redirections.
    pub shell: u64,
    /// Starts since exported variables, or so many arguments, are the program's to deal with.
    pub variables: u64,
    /// Starts since only the program has such options, or such an outcome.
    pub request: u64,
}

impl CountFile {
    /// Makes a file for this process's command.
    ///
    /// # Errors
    /// There is no room for it, by a limit or in memory.
    pub fn new() -> Result<CountFile, BuiltinsError> {
        let made = make().map_err(BuiltinsError::NoCount)?;
        let name = format!("/proc/{}/fd/{}", std::process::id(), made.as_raw_fd()).into();
        Ok(CountFile { numbers: made, name })
    }

    /// The value of [`VARIABLE`].
    pub fn file(&self) -> &OsStr {
        &self.name
    }

    /// The numbers at this moment.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn read(&self) -> Result<CountedStarts, BuiltinsError> {
        let mut bytes = vec![0; numbers() * 8];
        self.numbers.read_exact_at(&mut bytes, 0).map_err(BuiltinsError::NoCount)?;
        let mut numbers = bytes
            .chunks_exact(8)
            .map(|bytes| bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)));
        let mut next = || numbers.next().unwrap_or_default();
        let mut counted =
            CountedStarts { shells: next(), others: next(), ..CountedStarts::default() };
        for name in programs::names() {
            let [avoided, only_started, unknown, shell, variables, request] =
                std::array::from_fn(|_| next());
            let starts =
                StartOutcomes { avoided, only_started, unknown, shell, variables, request };
            counted.known.add(&starts);
            if starts.all() > 0 {
                counted.programs.push(CountedProgram { name, starts });
            }
        }
        counted.programs.sort_by_key(|program| std::cmp::Reverse(program.starts.all()));
        Ok(counted)
    }
}

impl StartOutcomes {
    /// All of them.
    pub fn all(&self) -> u64 {
        self.avoided + self.started()
    }

    /// Starts that were not avoided.
    pub fn started(&self) -> u64 {
        self.only_started + self.unknown + self.shell + self.variables + self.request
    }

    fn add(&mut self, more: &StartOutcomes) {
        self.avoided += more.avoided;
        self.only_started += more.only_started;
        self.unknown += more.unknown;
        self.shell += more.shell;
        self.variables += more.variables;
        self.request += more.request;
    }
}

fn make() -> io::Result<File> {
    let length = numbers() * 8;
    directory::is_allowed(length)?;
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // A system may want it said that it is no program (vm.memfd_noexec); Linux before 6.3 does not
    // know how.
    let made = memfd_create("becalm-count", flags | MemfdFlags::NOEXEC_SEAL);
    let file = File::from(made.or_else(|_| memfd_create("becalm-count", flags))?);
    // Written, not only made so long: where memory is full, a shell that maps it would be killed.
    file.write_all_at(&vec![0; length], 0)?;
    // Shells tell it by these from any other file (loadable/count.c).
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)?;
    Ok(file)
}
