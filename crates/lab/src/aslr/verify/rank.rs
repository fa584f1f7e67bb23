//! One rank: where its memory lies, and what that depends on.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use launch::Command;
use launch::layout::{self, LayoutError, MemoryLayout, Untouched};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::aslr::log::Address;

/// What a line's `schema` says.
pub const SCHEMA: &str = "becalm.lab.aslr.verify.rank/1";

/// One rank's line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RankLayout {
    /// [`SCHEMA`].
    pub schema: String,
    /// Its number.
    pub rank: u32,
    /// Where it ran.
    pub node: String,
    /// A hash of all of `maps`.
    pub layout: String,
    /// Where what begins, by the end of its path; `[stack]` is the stack pointer at the entry.
    pub maps: BTreeMap<String, Address>,
    /// What the layout depends on.
    pub facts: BTreeMap<String, String>,
}

/// Starts a command up to its entry, looks, and ends it: nothing of the program itself runs.
///
/// # Errors
/// [`LayoutError`]; that it ended before its entry is one of its `Command` errors.
pub fn look(
    command: &Command,
    layout: Option<MemoryLayout>,
    rank: u32,
    node: String,
) -> Result<RankLayout, LayoutError> {
    let program = command.file()?;
    let changes = layout::untouched(&program) == Some(Untouched::Setuid);
    let child = layout::start(command, layout)?;
    let (maps, facts) = seen(&child, command, &program, changes)
        .map_err(|error| LayoutError::Command(error.into()))?;
    Ok(RankLayout { schema: SCHEMA.to_owned(), rank, node, layout: hash(&maps), maps, facts })
}

type MapsAndSizes = (BTreeMap<String, Address>, BTreeMap<String, String>);

fn seen(
    child: &layout::AtExec,
    command: &Command,
    program: &Path,
    changes: bool,
) -> io::Result<MapsAndSizes> {
    let stack = child.to_entry()?;
    let proc = |file: &str| format!("/proc/{}/{file}", child.pid());
    let mut maps = beginnings(&fs::read_to_string(proc("maps"))?);
    maps.insert("[stack]".to_owned(), Address(stack));
    let status = fs::read_to_string(proc("status"))?;
    let limits = fs::read_to_string(proc("limits"))?;
    let variable = |name| std::env::var(name).unwrap_or_default();
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let named = |text: &str, name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let facts = [
        ("argv[0]", command.argv.first().map(|word| word.to_string_lossy().into_owned())),
        ("arguments", Some(format!("{} bytes", fs::read(proc("cmdline"))?.len()))),
        ("environment", Some(format!("{} bytes", fs::read(proc("environ"))?.len()))),
        ("program", Some(format!("{} {}", program.display(), state(program)))),
        ("ld.so.cache", Some(state(Path::new("/etc/ld.so.cache")))),
        ("LD_LIBRARY_PATH", Some(variable("LD_LIBRARY_PATH"))),
        ("LD_PRELOAD", Some(variable("LD_PRELOAD"))),
        ("GLIBC_TUNABLES", Some(variable("GLIBC_TUNABLES"))),
        ("stack limit", Some(named(&limits, "Max stack size"))),
        ("personality", Some(text(&proc("personality")))),
        ("setuid", Some(if changes { "yes" } else { "no" }.to_owned())),
        ("seccomp", Some(named(&status, "Seccomp:"))),
        ("kernel", Some(text("/proc/sys/kernel/osrelease"))),
        ("randomize_va_space", Some(text("/proc/sys/kernel/randomize_va_space"))),
        ("legacy_va_layout", Some(text("/proc/sys/vm/legacy_va_layout"))),
    ];
    let facts = facts.into_iter().map(|(name, value)| (name.to_owned(), value.unwrap_or_default()));
    Ok((maps, facts.collect()))
}

/// The first address of each thing that has a name (proc_pid_maps(5)).
pub(crate) fn beginnings(maps: &str) -> BTreeMap<String, Address> {
    let mut found = BTreeMap::new();
    for line in maps.lines() {
        let name = line.splitn(6, ' ').nth(5).unwrap_or_default().trim();
        // The system call page of old is at one address in every process.
        if name.is_empty() || name == "[vsyscall]" {
            continue;
        }
        let from = line.split('-').next().and_then(|digits| u64::from_str_radix(digits, 16).ok());
        let name = name.rsplit('/').next().unwrap_or(name).to_owned();
        found.entry(name).or_insert(Address(from.unwrap_or_default()));
    }
    found
}

/// Size and time of a file, which tell on another node whether it is the same.
fn state(path: &Path) -> String {
    match fs::metadata(path) {
        Ok(file) => format!("{} bytes of {}", file.size(), file.mtime()),
        Err(error) => error.to_string(),
    }
}

/// A hash of addresses and what is there.
pub(crate) fn hash(maps: &BTreeMap<String, Address>) -> String {
    let mut digest = Sha256::new();
    for (name, address) in maps {
        digest.update(format!("{name}\0{:x}\n", address.0));
    }
    digest.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}
