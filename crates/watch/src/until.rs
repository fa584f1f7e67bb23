//! When the start of a program is over: what `--until` says.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

/// One thing that ends the watching, the first of several that comes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Until {
    /// The return of MPI_Init from the last process that has one; where none has, [`Until::Quiet`].
    #[default]
    Start,
    /// The return of MPI_Init from the last process that has one.
    MpiInit,
    /// Nothing new is opened or asked for, no part of a large mapped file touched, and no process born,
    /// during [`QUIET`].
    Quiet,
    /// So much time has passed since the start.
    Passed(Duration),
    /// A program of this name is executed; of this path, where it has a slash.
    Exec(String),
    /// A file is opened whose path, or whose name where the pattern has no slash, matches.
    Open(GlobPattern),
    /// The end of the last process.
    Exit,
}

/// The longest pause within a start that was measured: node 219 ms, mpirun 102, R 72; 200 ms lost
/// nothing of R, Java and MPI programs.
pub const QUIET: Duration = Duration::from_millis(500);

/// Why a text is no condition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("give mpi-init, quiet, a number of seconds, exec:NAME, open:GLOB, start or exit")]
pub struct UntilError;

impl FromStr for Until {
    type Err = UntilError;

    fn from_str(text: &str) -> Result<Until, UntilError> {
        let named = |rest: &str| (!rest.is_empty()).then(|| rest.to_owned()).ok_or(UntilError);
        match text {
            "start" => Ok(Until::Start),
            "mpi-init" => Ok(Until::MpiInit),
            "quiet" => Ok(Until::Quiet),
            "exit" => Ok(Until::Exit),
            _ => match text.split_once(':') {
                Some(("exec", name)) => named(name).map(Until::Exec),
                Some(("open", glob)) => Ok(Until::Open(GlobPattern(
                    CString::new(named(glob)?).map_err(|_| UntilError)?,
                ))),
                Some(_) => Err(UntilError),
                None => seconds(text).map(Until::Passed),
            },
        }
    }
}

fn seconds(text: &str) -> Result<Duration, UntilError> {
    let seconds: f64 = text.trim_end_matches('s').parse().map_err(|_| UntilError)?;
    Duration::try_from_secs_f64(seconds).map_err(|_| UntilError)
}

impl Until {
    /// Whether these conditions let go of a program before its end.
    pub fn let_go(conditions: &[Until]) -> bool {
        conditions.iter().any(|condition| *condition != Until::Exit)
    }
}

/// A pattern as the shell has it, in which `*` takes slashes, too (fnmatch(3)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GlobPattern(CString);

impl GlobPattern {
    /// Whether a path, or its name where the pattern has no slash, matches.
    pub(crate) fn matches(&self, path: &[u8]) -> bool {
        let text = match self.0.as_bytes().contains(&b'/') {
            true => path,
            false => name_of(path),
        };
        let Ok(text) = CString::new(text) else { return false };
        // SAFETY: both are strings that end with a zero byte and outlive the call.
        unsafe { libc::fnmatch(self.0.as_ptr(), text.as_ptr(), 0) == 0 }
    }
}

/// Whether a program at a path is the one that is named.
pub(crate) fn is_program(wanted: &str, path: &[u8]) -> bool {
    let wanted = wanted.as_bytes();
    if wanted.contains(&b'/') { path == wanted } else { name_of(path) == wanted }
}

fn name_of(path: &[u8]) -> &[u8] {
    Path::new(OsStr::from_bytes(path)).file_name().map_or(b"", |name| name.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_condition_is_read_and_anything_else_refused() {
        let of = |text: &str| text.parse::<Until>();
        assert_eq!(of("mpi-init"), Ok(Until::MpiInit));
        assert_eq!(of("quiet"), Ok(Until::Quiet));
        assert_eq!(of("1.5"), Ok(Until::Passed(Duration::from_millis(1500))));
        assert_eq!(of("20s"), Ok(Until::Passed(Duration::from_secs(20))));
        assert_eq!(of("exec:app"), Ok(Until::Exec("app".into())));
        assert!(matches!(of("open:*.nml"), Ok(Until::Open(_))));
        for bad in ["", "-1", "nan", "inf", "soon", "exec:", "open:", "close:x", "exec"] {
            assert_eq!(of(bad), Err(UntilError), "{bad}");
        }
    }

    #[test]
    fn a_pattern_or_name_without_a_slash_is_of_the_last_name() {
        let glob = |pattern: &str| match format!("open:{pattern}").parse() {
            Ok(Until::Open(glob)) => glob,
            other => panic!("{other:?}"),
        };
        assert!(glob("*.nml").matches(b"/run/in.nml") && !glob("*.nml").matches(b"/a.nml/b"));
        assert!(glob("/run/*").matches(b"/run/a/b") && !glob("/run/*").matches(b"/x/run/a"));
        assert!(is_program("app", b"/opt/bin/app") && !is_program("app", b"/opt/app/x"));
        assert!(is_program("/opt/app", b"/opt/app") && !is_program("/opt/app", b"/app"));
    }
}
