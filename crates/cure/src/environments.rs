//! The environments that a command's programs were started in, as far as loaders read them, and what
//! these programs opened while they ran.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use loader::bind::StartEnvironment;
use loader::{Disk, RecordedProbe, recorded_searches};
use recording::query::clean;
use recording::{Exec, Recording};

/// What loaders read (ld.so(8)).
const READ: &[&str] =
    &["LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT", "LD_HWCAP_MASK", "GLIBC_TUNABLES"];

/// How programs were seen to start, and to go on.
#[derive(Debug, Default)]
pub struct SeenStarts {
    /// Those in which something is set, or opened later, in the order in which they were seen, each
    /// with its programs.
    pub environments: Vec<StartEnvironment>,
    /// Programs of which it is not known what they opened while they ran, and why.
    pub unexplained: Vec<(PathBuf, String)>,
}

/// One start, with all that its loader looked up.
type SeenStart = (PathBuf, BTreeMap<OsString, OsString>, Vec<RecordedProbe>);

/// The environments and later opens of all programs of a recording.
pub fn seen_starts(recording: &Recording) -> SeenStarts {
    let disk = Disk::new();
    let mut seen = SeenStarts::default();
    // The same start is seen once for each rank: it is explained once.
    let mut known: HashSet<SeenStart> = HashSet::new();
    for search in recorded_searches(recording) {
        let variables = variables(search.exec);
        let image = Path::new(OsStr::from_bytes(recording.path(search.exec.image)));
        let program: PathBuf = image.canonicalize().unwrap_or_else(|_| image.to_owned());
        let lookups = search.start.iter().chain(&search.later).cloned().collect();
        if !known.insert((program.clone(), variables.clone(), lookups)) {
            continue;
        }
        let opens = search.calls(recording, &disk, &program, &variables).unwrap_or_else(|why| {
            if !seen.unexplained.iter().any(|(known, _)| *known == program) {
                seen.unexplained.push((program.clone(), why));
            }
            Vec::new()
        });
        if !variables.is_empty() || !opens.is_empty() {
            seen.add(StartEnvironment { variables, programs: BTreeSet::from([program]), opens });
        }
    }
    seen
}

impl SeenStarts {
    fn add(&mut self, start: StartEnvironment) {
        let is_same = |known: &&mut StartEnvironment| {
            known.variables == start.variables && known.opens == start.opens
        };
        match self.environments.iter_mut().find(is_same) {
            Some(known) => known.programs.extend(start.programs),
            None => self.environments.push(start),
        }
    }
}

fn variables(exec: &Exec) -> BTreeMap<OsString, OsString> {
    let read = exec.env.iter().filter(|(name, _)| READ.contains(&name.as_str()));
    read.map(|(name, value)| (name.into(), exact(name, value))).collect()
}

/// The directories that the programs' LD_LIBRARY_PATHs name by full paths, each once.
pub(crate) fn library_paths(recording: &Recording) -> BTreeSet<PathBuf> {
    let execs = recording.processes.iter().flat_map(|process| &process.execs);
    let values: BTreeSet<OsString> =
        execs.filter_map(|exec| variables(exec).remove(OsStr::new("LD_LIBRARY_PATH"))).collect();
    let entries = values.iter().flat_map(|value| value.as_bytes().split(|b| b":;".contains(b)));
    let absolute = entries.filter(|entry| entry.starts_with(b"/")).map(clean);
    absolute.map(|entry| PathBuf::from(OsStr::from_bytes(&entry))).collect()
}

/// A recording keeps a value as text, and no more than the begin of a long one: where it is
/// becalm's own, that is known whole.
fn exact(name: &str, recorded: &str) -> OsString {
    let own = std::env::var_os(name);
    let own = own.filter(|own| own.to_string_lossy().starts_with(recorded));
    own.unwrap_or_else(|| recorded.into())
}
