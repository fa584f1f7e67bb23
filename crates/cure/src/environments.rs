//! The environments that a command's programs were started in, as far as loaders read them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use loader::bind::StartEnvironment;
use recording::{Exec, Recording};

/// What loaders read (ld.so(8)).
const READ: &[&str] =
    &["LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT", "LD_HWCAP_MASK", "GLIBC_TUNABLES"];

/// Those in which something is set, in the order in which they were seen, each with its programs.
pub(crate) fn seen_in(recording: &Recording) -> Vec<StartEnvironment> {
    let mut seen: Vec<StartEnvironment> = Vec::new();
    let execs = recording.processes.iter().flat_map(|process| &process.execs);
    for exec in execs {
        let variables = variables(exec);
        let image = Path::new(OsStr::from_bytes(recording.path(exec.image)));
        let program: PathBuf = image.canonicalize().unwrap_or_else(|_| image.to_owned());
        if variables.is_empty() {
            continue;
        }
        match seen.iter_mut().find(|known| known.variables == variables) {
            Some(known) => drop(known.programs.insert(program)),
            None => {
                seen.push(StartEnvironment { variables, programs: BTreeSet::from([program]) });
            }
        }
    }
    seen
}

fn variables(exec: &Exec) -> BTreeMap<OsString, OsString> {
    let read = exec.env.iter().filter(|(name, _)| READ.contains(&name.as_str()));
    read.map(|(name, value)| (name.into(), exact(name, value))).collect()
}

/// A recording keeps a value as text, and no more than the begin of a long one: where it is
/// becalm's own, that is known whole.
fn exact(name: &str, recorded: &str) -> OsString {
    let own = std::env::var_os(name);
    let own = own.filter(|own| own.to_string_lossy().starts_with(recorded));
    own.unwrap_or_else(|| recorded.into())
}
