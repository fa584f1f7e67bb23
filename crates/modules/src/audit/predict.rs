//! How many system calls a command makes on a tree, from the tree and the release alone.
//!
//! The model is that of `findModules` and of the library in C that Modules loads for its I/O
//! (lib/envmodules.c: `getFilesInDirectory`, `readFile`). It holds for a Modules that has this
//! library and reads no cache; the tests hold it against the real commands.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::TreeCalls;
use crate::site::{ModulesSite, Release};
use crate::tree::{Cookie, ModulepathTree, TreeEntry, TreeEntryKind};

/// `readFile` reads in pieces of this many bytes (`READ_BUFFER_SIZE`).
const PIECE: u64 = 4096;
/// The C library lists directories in pieces of this many bytes.
const LISTING: u64 = 32768;

/// What is asked of Modules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModuleCommand {
    /// `module avail`
    Avail,
    /// `module whatis`
    Whatis,
    /// `module load NAME`, of a name without a version: its default is to be found.
    Load(String),
}

impl ModuleCommand {
    /// As one types it after `module`.
    pub fn words(&self) -> Vec<&str> {
        match self {
            ModuleCommand::Avail => vec!["avail"],
            ModuleCommand::Whatis => vec!["whatis"],
            ModuleCommand::Load(name) => vec!["load", name],
        }
    }
}

/// What a command would do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommandPrediction {
    /// Its calls on the trees.
    pub calls: TreeCalls,
    /// Whether there are more: a loop is walked until the kernel refuses, and what the walk did
    /// not see is not counted.
    pub at_least: bool,
    /// Whether it never ends: it opens a FIFO, and waits for somebody to write.
    pub hangs: bool,
}

/// What of a site makes a difference.
struct SiteRules {
    /// Modules before 5.6 asks whether an rc file is a directory.
    stats_rc: bool,
    /// From 5.3 on, it asks for `.modulecache`.
    asks_for_cache: bool,
    /// From 5.6 on, it asks for the top's `.modulerc` by itself.
    asks_for_top_rc: bool,
    /// `mcookie_check` is `always`: every file is opened.
    opens_all: bool,
}

impl SiteRules {
    fn of(site: &ModulesSite) -> SiteRules {
        let number = site.release.number();
        SiteRules {
            stats_rc: number < (5, 6),
            asks_for_cache: number >= (5, 3),
            asks_for_top_rc: number >= (5, 6),
            opens_all: site.setting("mcookie_check") != Some("eval"),
        }
    }
}

/// What a command does on these trees, without a cache.
pub fn predict(
    ask: &ModuleCommand,
    trees: &[&ModulepathTree],
    site: &ModulesSite,
) -> CommandPrediction {
    let rules = SiteRules::of(site);
    let mut prediction = CommandPrediction::default();
    for tree in trees {
        let mut one =
            One { ask, rules: &rules, release: &site.release, prediction: &mut prediction };
        one.tree(tree);
        // The first modulepath that has the module is the last that is looked at.
        if matches!(ask, ModuleCommand::Load(_)) && one.has_it(tree) {
            break;
        }
    }
    prediction
}

struct One<'a> {
    ask: &'a ModuleCommand,
    rules: &'a SiteRules,
    release: &'a Release,
    prediction: &'a mut CommandPrediction,
}

impl One<'_> {
    fn tree(&mut self, tree: &ModulepathTree) {
        self.prediction.at_least |= tree.is_cut;
        let calls = &mut self.prediction.calls;
        calls.accesses += u64::from(self.rules.asks_for_cache);
        if !tree.is_listed() {
            calls.opens += 1;
            return;
        }
        calls.accesses += u64::from(self.rules.asks_for_top_rc);
        let listings = listings(tree);
        self.opened_directory(listings.get(Path::new("")).copied().unwrap_or(1));
        for entry in &tree.entries {
            if self.is_wanted(entry) {
                self.entry(entry, &listings);
            }
        }
    }

    /// `load` looks at what begins with its name, and at the rc file at the top.
    fn is_wanted(&self, entry: &TreeEntry) -> bool {
        let ModuleCommand::Load(name) = self.ask else { return true };
        let mut parts = entry.name.iter();
        let first = parts.next();
        let is_top_rc = parts.next().is_none() && matches!(entry.kind, TreeEntryKind::Rc(..));
        is_top_rc || first == Some(OsStr::new(name))
    }

    fn has_it(&self, tree: &ModulepathTree) -> bool {
        tree.entries.iter().any(|entry| {
            let takes =
                matches!(&entry.kind, TreeEntryKind::File(cookie) if cookie.is_valid_for(self.release));
            takes && self.is_wanted(entry)
        })
    }

    fn entry(&mut self, entry: &TreeEntry, listings: &HashMap<&Path, u64>) {
        let calls = &mut self.prediction.calls;
        match &entry.kind {
            TreeEntryKind::Directory { .. } => {
                calls.stats += 1;
                self.opened_directory(listings.get(entry.name.as_path()).copied().unwrap_or(1));
            }
            TreeEntryKind::Rc(_, cookie) => self.rc(entry, cookie),
            TreeEntryKind::File(cookie) => self.file(entry, cookie),
            TreeEntryKind::Unreadable { is_directory, .. } => match rc_name(entry) {
                true if is_at_top(entry, b".version") => {}
                true => calls.accesses += 1,
                false => {
                    calls.stats += 1;
                    calls.opens += u64::from(*is_directory || self.rules.opens_all);
                }
            },
            TreeEntryKind::Dangling => {
                calls.stats += 1;
                calls.opens += u64::from(self.rules.opens_all);
            }
            TreeEntryKind::Loop { .. } => {
                calls.stats += 1;
                self.prediction.at_least = true;
            }
            TreeEntryKind::Special => {
                calls.stats += 1;
                self.prediction.hangs |= self.rules.opens_all && is_fifo(entry);
            }
            TreeEntryKind::Cache if self.rules.asks_for_cache => calls.stats += 1,
            TreeEntryKind::Cache => self.file(entry, &Cookie::Plain),
            TreeEntryKind::IgnoredFile if is_at_top(entry, b".version") => {}
            TreeEntryKind::IgnoredFile | TreeEntryKind::IgnoredDirectory => calls.stats += 1,
        }
    }

    fn opened_directory(&mut self, lists: u64) {
        let calls = &mut self.prediction.calls;
        calls.opens += 1;
        // opendir(3) asks for the kind of what it opened.
        calls.others += 1;
        calls.lists += lists;
        calls.closes += 1;
    }

    fn rc(&mut self, entry: &TreeEntry, cookie: &Cookie) {
        let is_at_top = is_at_top(entry, b".modulerc");
        let calls = &mut self.prediction.calls;
        calls.accesses += 1;
        calls.stats += u64::from(self.rules.stats_rc || is_at_top);
        calls.opens += 1;
        calls.data_reads += reads(entry, cookie, true);
        calls.closes += 1;
    }

    fn file(&mut self, entry: &TreeEntry, cookie: &Cookie) {
        let is_opened = self.rules.opens_all || self.evaluates(cookie);
        let calls = &mut self.prediction.calls;
        calls.stats += 1;
        if !is_opened {
            return;
        }
        calls.opens += 1;
        calls.data_reads += reads(entry, cookie, !matches!(self.ask, ModuleCommand::Avail));
        calls.closes += 1;
    }

    /// Whether a modulefile is evaluated, besides being looked at.
    fn evaluates(&self, cookie: &Cookie) -> bool {
        *self.ask == ModuleCommand::Whatis && cookie.is_valid_for(self.release)
    }
}

/// How many reads a file takes: one for its cookie, or all of it and the one that says that it is
/// the end; of a file without a cookie only the first piece.
fn reads(entry: &TreeEntry, cookie: &Cookie, whole: bool) -> u64 {
    let size = entry.stamp.map_or(0, |stamp| stamp.size);
    if !whole || *cookie == Cookie::Missing || size == 0 { 1 } else { size.div_ceil(PIECE) + 1 }
}

fn rc_name(entry: &TreeEntry) -> bool {
    matches!(entry.file_name().as_bytes(), b".modulerc" | b".version")
}

fn is_at_top(entry: &TreeEntry, name: &[u8]) -> bool {
    entry.name.as_os_str().as_bytes() == name
}

fn is_fifo(entry: &TreeEntry) -> bool {
    entry.stamp.is_some_and(|stamp| stamp.mode & 0o170_000 == 0o010_000)
}

/// How many getdents64(2) a directory takes, the one that says that it is the end included.
fn listings(tree: &ModulepathTree) -> HashMap<&Path, u64> {
    // The records of `.` and `..`.
    let mut filled: HashMap<&Path, u64> = HashMap::from([(Path::new(""), 48)]);
    for entry in &tree.entries {
        if matches!(entry.kind, TreeEntryKind::Directory { .. }) {
            filled.insert(&entry.name, 48);
        }
    }
    for entry in &tree.entries {
        // struct linux_dirent64: 19 bytes, the name, a NUL, padded to 8.
        let record = (entry.file_name().len() as u64 + 20).next_multiple_of(8);
        let directory = entry.name.parent().unwrap_or(Path::new(""));
        if let Some(bytes) = filled.get_mut(directory) {
            *bytes += record;
        }
    }
    filled.values_mut().for_each(|bytes| *bytes = bytes.div_ceil(LISTING) + 1);
    filled
}
