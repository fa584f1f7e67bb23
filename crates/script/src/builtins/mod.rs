//! Programs that bash runs in its own process, or starts without a copy of itself; the script
//! stays as it is.
//!
//! bash reads the file that `BASH_ENV` names before a script. Ours loads a library (loadable/)
//! whose builtins have the names of programs. Each does at once what the program would do, as
//! long as that succeeds in silence; all else, every complaint included, is the program's own,
//! started by posix_spawn. Shells that such a shell starts, dash among them, have their library by
//! `LD_PRELOAD`.
//!
//! | room | what it holds |
//! |---|---|
//! | `count` | how many starts that avoids |
//! | `directory` | where the libraries lie, on this node, for this user alone |
//! | `hosts` | shells, and what starts shells, that a library is loaded into |
//! | `kept` | what was found out about programs and shells, for the next start |
//! | `leftover` | what earlier starts have left behind |
//! | `programs` | which programs those are, and whether the ones here are known |
//! | `script` | what bash reads |
//! | `shell` | which shell runs a command, and whether it reads that |
//! | `words` | which starts a shell would do itself, by their words |

mod count;
mod directory;
mod hosts;
mod kept;
mod leftover;
mod programs;
mod script;
mod shell;
mod words;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use access::{ForeignPath, OwnDirectory};
use hosts::Host;
use kept::FoundPrograms;
use programs::SearchPath;

pub use count::{
    CountFile, CountedProgram, CountedStarts, StartOutcomes, VARIABLE as COUNT_VARIABLE,
};
pub use hosts::starts_shells;
pub use programs::{BuiltinProgram, ProgramMatch};
pub use shell::without_effect;
pub use words::{
    InsideByWords, has_builtins, inside_by_words, is_always_inside, is_for_programs,
    is_of_another_locale,
};

/// bash's library. Empty if there was no compiler for it.
const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/builtins.so"));

/// How the files beside the libraries are written: another becalm's are in another directory.
const FORMAT: &[u8] = b"2";

/// What a command is to be started with.
pub struct Prepared {
    /// The value of `BASH_ENV`.
    pub bash_env: OsString,
    found: FoundPrograms,
    directory: PathBuf,
}

impl Prepared {
    /// The programs that bash may do in its own process.
    pub fn programs(&self) -> &[BuiltinProgram] {
        &self.found.programs
    }

    /// The library that the program, which runs a command, is to be started with, as the value of
    /// `LD_PRELOAD`; shells that it starts have theirs by that.
    pub fn preload(&self, command: &launch::Command) -> Option<OsString> {
        if shell::loader_is_told() {
            return None;
        }
        let host = hosts::of(&command.file().ok()?, &self.found.hosts)?;
        Some(self.directory.join(host.library()).into())
    }
}

/// Why bash cannot have the builtins.
#[derive(Debug, thiserror::Error)]
pub enum BuiltinsError {
    /// The library is not part of this program.
    #[error("this becalm was built without its library for bash (no C compiler)")]
    NotBuilt,
    /// There is no bash, or it does not run.
    #[error("bash: {0}")]
    NoBash(#[source] io::Error),
    /// bash would not load the library; it says why.
    #[error("bash does not take the library {library}: {why} (bash 5.1, 5.2 or 5.3 is needed)")]
    Refused {
        /// The library's path.
        library: String,
        /// What bash said.
        why: String,
    },
    /// The library cannot be stored.
    #[error("{path}: {source}")]
    Store {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The file that counts starts.
    #[error("starts are not counted: {0}")]
    NoCount(#[source] io::Error),
    /// The file that this process's own `BASH_ENV` names is not as becalm has made it.
    #[error("{0}: is not as becalm has made it")]
    Damaged(PathBuf),
    /// A directory of that name is not this user's alone.
    #[error("{0}: not a directory of mode 0700 that is this user's own")]
    NotOurs(PathBuf),
    /// Somebody else could put other libraries in their place.
    #[error("{0}: what bash reads is not put there")]
    Foreign(#[from] ForeignPath),
    /// The same of what this process's own `BASH_ENV` names.
    #[error("{0}: the BASH_ENV there is not read")]
    ForeignShell(#[source] ForeignPath),
}

impl BuiltinsError {
    /// Whether it is of this start, its limits and what lies in its directories: the next may have the
    /// builtins.
    pub fn is_of_this_start(&self) -> bool {
        match self {
            Self::NotBuilt => false,
            Self::NoBash(why) => why.kind() != io::ErrorKind::NotFound,
            Self::Refused { .. } => kept::is_limited(),
            _ => true,
        }
    }

    fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Store { path, source }
    }
}

/// Whether bash would do a program of this name in its own process, or start it without a fork.
pub fn knows(name: &str) -> bool {
    programs::names().any(|known| known == name)
}

/// Whether a shell would do what a program of this name does itself, where it can.
pub fn is_done_inside(name: &str) -> bool {
    programs::inside().any(|known| known == name)
}

/// Stores the library for this node and user, and sees that bash takes it.
///
/// `users` is the user's own `BASH_ENV`, which goes on to be read.
///
/// # Errors
/// [`BuiltinsError`].
pub fn prepare(users: Option<&OsStr>) -> Result<Prepared, BuiltinsError> {
    if LIBRARY.is_empty() {
        return Err(BuiltinsError::NotBuilt);
    }
    let path = SearchPath::here();
    let seen = kept::seen(&path);
    if let Some(bash_env) = users.filter(|value| script::is_ours(value)) {
        let (directory, found) = below(Path::new(bash_env), &path, &seen)?;
        return Ok(Prepared { bash_env: bash_env.into(), found, directory });
    }
    let mut found = None;
    let mut failed = BuiltinsError::NotBuilt;
    for place in directory::places() {
        let mut look = || found.get_or_insert_with(|| look(&path)).clone();
        match store(&place, &seen, users, &mut look) {
            Ok((directory, found)) => {
                let bash_env = directory.join("bash_env").into();
                return Ok(Prepared { bash_env, found, directory });
            }
            Err(why) => failed = why,
        }
    }
    Err(failed)
}

/// A command's command: what it was given is used again, and made whole where it is not.
fn below(
    bash_env: &Path,
    path: &SearchPath,
    seen: &str,
) -> Result<(PathBuf, FoundPrograms), BuiltinsError> {
    // What the user's own BASH_ENV was is in it alone.
    if !script::is_whole(bash_env) {
        return Err(BuiltinsError::Damaged(bash_env.to_path_buf()));
    }
    let directory = bash_env.parent().map(Path::to_path_buf).unwrap_or_default();
    OwnDirectory::at(&directory).map_err(BuiltinsError::ForeignShell)?;
    if let Some(found) = kept::read(&directory, seen) {
        return Ok((directory, found));
    }
    hosts::keep(&directory)?;
    let mut found = look(path);
    found.hosts.retain(|(host, file)| hosts::works(*host, file, &directory));
    directory::keep(&directory.join(hosts::LIST), &hosts::list(&directory, &hosts::known(&found)))?;
    Ok((directory, found))
}

fn look(path: &SearchPath) -> FoundPrograms {
    FoundPrograms { programs: programs::look(path), hosts: hosts::look(path) }
}

/// Returns where all is, and what is known, of hosts those that take their libraries.
fn store(
    place: &Path,
    seen: &str,
    users: Option<&OsStr>,
    look: &mut dyn FnMut() -> FoundPrograms,
) -> Result<(PathBuf, FoundPrograms), BuiltinsError> {
    let libraries = Host::ALL.map(Host::content);
    let parts = [FORMAT, seen.as_bytes(), bytes(users)];
    let directory = directory::of_content(place, &libraries, &parts)?;
    if let Some(found) = kept::read(&directory, seen) {
        leftover::note_use(&directory);
        return Ok((directory, found));
    }
    leftover::clear(&directory::own(place)?);
    let mut found = look();
    let library = directory.join(Host::Bash.library());
    hosts::keep(&directory)?;
    directory::keep(&directory.join("bash_env"), &script::text(&library, users))?;
    try_out(&library)?;
    // What a host is tried with knows of no other.
    let hosts = std::mem::take(&mut found.hosts);
    let list = directory.join(hosts::LIST);
    directory::keep(&list, &hosts::list(&directory, &hosts::known(&found)))?;
    let works = |host: &(Host, PathBuf)| hosts::works(host.0, &host.1, &directory);
    found.hosts = hosts.into_iter().filter(works).collect();
    directory::keep(&list, &hosts::list(&directory, &hosts::known(&found)))?;
    kept::keep(&directory, seen, &found)?;
    Ok((directory, found))
}

fn bytes(text: Option<&OsStr>) -> &[u8] {
    text.map_or(&[], std::os::unix::ffi::OsStrExt::as_bytes)
}

/// The directory may forbid execution, and bash may be of another version.
fn try_out(library: &Path) -> Result<(), BuiltinsError> {
    let tried = Command::new("bash")
        .args(["-c", "enable -f \"$0\" dirname"])
        .arg(library)
        .env_remove("BASH_ENV")
        .env_remove(COUNT_VARIABLE)
        .env("LC_ALL", "C")
        .output()
        .map_err(BuiltinsError::NoBash)?;
    if tried.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&tried.stderr);
    Err(BuiltinsError::Refused {
        library: library.to_string_lossy().into_owned(),
        why: why.trim().to_owned(),
    })
}

/// Whether a regular file begins as ours do. Of what is none, nothing is taken: a FIFO's content is for
/// one reader.
fn begins_with(path: &Path, start: &[u8]) -> bool {
    let mut there = vec![0; start.len()];
    let is_file = |file: &File| file.metadata().is_ok_and(|about| about.is_file());
    let opened = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    let read = opened.ok().filter(is_file).and_then(|mut file| file.read_exact(&mut there).ok());
    read.is_some() && there == start
}
