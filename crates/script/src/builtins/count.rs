//! How many starts the shells of a command avoid: numbers in a file that all of them map.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

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

/// A file that shells count in. It is removed when this is dropped; shells that run on keep it
/// until they end, and others go without.
pub struct CountFile(PathBuf);

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
    /// Makes a file for this process's command, on this node.
    ///
    /// # Errors
    /// None of the directories of [`prepare`](super::prepare) can be written to.
    pub fn new() -> Result<CountFile, BuiltinsError> {
        CountFile::named("count")
    }

    pub(super) fn named(name: &str) -> Result<CountFile, BuiltinsError> {
        let mut failed = BuiltinsError::NotBuilt;
        for place in directory::places() {
            match make(&place, name) {
                Ok(path) => return Ok(CountFile(path)),
                Err(why) => failed = why,
            }
        }
        Err(failed)
    }

    /// The value of [`VARIABLE`].
    pub fn file(&self) -> &OsStr {
        self.0.as_os_str()
    }

    /// The numbers at this moment.
    ///
    /// # Errors
    /// The file is not there any more, or not what it was.
    pub fn read(&self) -> Result<CountedStarts, BuiltinsError> {
        let bytes = fs::read(&self.0).map_err(BuiltinsError::at(&self.0))?;
        if bytes.len() != numbers() * 8 {
            let cut = std::io::Error::other("not what becalm has made");
            return Err(BuiltinsError::at(&self.0)(cut));
        }
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

impl Drop for CountFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn make(place: &Path, name: &str) -> Result<PathBuf, BuiltinsError> {
    let path = directory::own(place)?.join(format!("{name}-{}", std::process::id()));
    // One of an earlier process of this id, that was killed.
    let _ = fs::remove_file(&path);
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    // Written, not only made so long: where the disk is full, a shell that maps it would be killed.
    let zeros = vec![0; numbers() * 8];
    if let Err(error) = file.and_then(|mut file| file.write_all(&zeros)) {
        let _ = fs::remove_file(&path);
        return Err(BuiltinsError::at(&path)(error));
    }
    Ok(path)
}
