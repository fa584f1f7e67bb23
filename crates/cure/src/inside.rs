//! Which processes `becalm run --builtins` takes away for certain.
//!
//! bash does a program's work itself only for options that the library knows, and only where that
//! succeeds in silence; all else is run as before, and the look at the programs that comes
//! first is then paid for nothing. So a process counts where its own words and its end say that it
//! is of the first kind. `cat` never does: what it reads from may be a pipe.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use recording::{Exec, ExitStatus, Process, Recording};

use crate::machine::Machine;

/// How many processes of the recording bash would do without.
pub(crate) fn processes(recording: &Recording, machine: &Machine) -> u64 {
    let is_inside = |process: &&Process| {
        is_succeeded(process)
            && process.execs.first().is_some_and(|exec| is_known(recording, exec))
            && started_by(recording, process).is_some_and(|bash| reads_our_file(recording, bash))
    };
    let inside: Vec<_> = recording.processes.iter().filter(is_inside).collect();
    let scripts = inside.iter().filter_map(|process| {
        let bash = started_by(recording, process)?;
        (bash.path != bash.image).then(|| recording.path(bash.path))
    });
    let mut scripts: Vec<_> = scripts.collect();
    scripts.sort_unstable();
    scripts.dedup();
    let taken =
        |script: &&[u8]| (machine.takes_builtins)(Some(Path::new(OsStr::from_bytes(script))));
    match !inside.is_empty() && (machine.takes_builtins)(None) && scripts.iter().all(taken) {
        true => inside.len() as u64,
        false => 0,
    }
}

fn is_succeeded(process: &Process) -> bool {
    process.end.is_some_and(|end| end.status == ExitStatus::Exited(0))
}

fn started_by<'r>(recording: &'r Recording, process: &Process) -> Option<&'r Exec> {
    recording.program(process.parent?, process.started)
}

/// Whether it is a program with words that the library knows.
fn is_known(recording: &Recording, exec: &Exec) -> bool {
    let Some(options) = options(base_name(recording.path(exec.path))) else { return false };
    // By its path it is always the program.
    if exec.argv.first().is_none_or(|word| word.contains('/')) {
        return false;
    }
    let mut words = exec.argv.iter().skip(1).map(String::as_str);
    words.all(|word| !word.starts_with('-') || options.contains(&word))
}

/// The options with which bash does a program itself for certain; none of another program.
pub(crate) fn options(name: &[u8]) -> Option<&'static [&'static str]> {
    Some(match name {
        b"basename" | b"dirname" | b"touch" | b"rmdir" | b"mv" | b"realpath" => &[],
        b"mkdir" => &["-p"],
        b"rm" | b"readlink" => &["-f"],
        _ => return None,
    })
}

/// Whether it is a bash that reads the file that BASH_ENV names: not as `sh`, with its user's
/// privileges, for a script.
fn reads_our_file(recording: &Recording, exec: &Exec) -> bool {
    let name = |path| base_name(recording.path(path));
    let is_script = exec.path != exec.image;
    let own = name(exec.image) == b"bash" && (is_script || name(exec.path) == b"bash");
    let mut options = exec.argv.iter().skip(1).take_while(|word| word.starts_with(['-', '+']));
    own && options.all(|word| !word.starts_with("--") && !word.contains(['p', 'i', 'r']))
}

fn base_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}
