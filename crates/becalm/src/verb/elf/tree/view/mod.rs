//! What `becalm elf tree` answers.
//!
//! | file | what it holds |
//! |---|---|
//! | `data` | the whole as JSON |
//! | `tree` | the dependencies as a tree, what repeats folded |
//! | `probes` | every path that the loader asks for, in order |

pub mod data;
mod probes;
mod tree;

use std::path::Path;

use loader::object::Tag;
use loader::setting::Cpu;
use loader::simulation::{FoundBy, LoadedObject, ProbeCall, ProbeResult, Rejection, Simulation};
use term::number::{count, counted};

/// What a program's loader does, as it is shown.
pub struct LibraryTree<'a> {
    file: &'a Path,
    simulation: &'a Simulation,
}

impl<'a> LibraryTree<'a> {
    /// What was simulated of this file.
    pub fn of(file: &'a Path, simulation: &'a Simulation) -> LibraryTree<'a> {
        LibraryTree { file, simulation }
    }

    /// Whether all that is needed was found.
    pub fn is_complete(&self) -> bool {
        self.simulation.missing.iter().all(|missing| missing.kind == Tag::Auxiliary)
    }

    /// Whether it is for another processor than this machine's.
    pub fn is_of_another_processor(&self) -> bool {
        self.simulation.objects.first().is_some_and(|first| !Cpu::runs(first.object.machine))
    }

    /// What ends a start that fails, in a line; none where it does not fail.
    pub fn end(&self) -> Option<String> {
        let missing = self.simulation.missing.get(self.simulation.fatal.as_ref()?.missing)?;
        let name = missing.name.to_string_lossy();
        Some(format!("{}: the start ends here: {name}: {}", self.file.display(), missing.why))
    }

    /// What it loads, and with how many metadata operations.
    fn headline(&self) -> String {
        let searches = self.simulation.counts;
        let of_files =
            |loaded: &&LoadedObject| !matches!(loaded.how, FoundBy::Program | FoundBy::Kernel);
        let libraries = self.simulation.objects.iter().filter(of_files).count() as u64;
        let operations = searches.opens + searches.stats;
        let failed = searches.failed_opens + searches.failed_stats;
        let name = self.file.file_name().unwrap_or(self.file.as_os_str()).to_string_lossy();
        let is_program =
            self.simulation.objects.first().is_some_and(|first| first.object.interpreter.is_some());
        let loads = match &self.simulation.fatal {
            None => format!("{name} loads {}", counted(libraries, "library", "libraries")),
            // What follows in the tree is what ldd would say.
            Some(_) if is_program => format!("{name} does not start"),
            Some(_) => format!("{name} does not load by itself"),
        };
        let missing = self.simulation.missing.len() as u64;
        let lacks = match missing {
            0 => String::new(),
            _ => format!(
                "; {} {} not found",
                count(missing),
                if missing == 1 { "is" } else { "are" }
            ),
        };
        let operations = counted(operations, "metadata operation", "metadata operations");
        match failed {
            0 => format!("{loads}, with {operations}, none of which failed{lacks}"),
            _ => format!("{loads}, with {operations}, of which {} failed{lacks}", count(failed)),
        }
    }
}

fn tag(tag: Tag) -> &'static str {
    match tag {
        Tag::Needed => "NEEDED",
        Tag::Filter => "FILTER",
        Tag::Auxiliary => "AUXILIARY",
    }
}

fn call(call: ProbeCall) -> &'static str {
    match call {
        ProbeCall::Open => "open",
        ProbeCall::Stat => "stat",
        ProbeCall::Access => "access",
        ProbeCall::Readlink => "readlink",
    }
}

/// How an object was found, in a word.
fn found_by(how: &FoundBy) -> &'static str {
    match how {
        FoundBy::Program => "program",
        FoundBy::Interpreter => "interpreter",
        FoundBy::Path => "path",
        FoundBy::Rpath { .. } => "rpath",
        FoundBy::Runpath => "runpath",
        FoundBy::LibraryPath => "LD_LIBRARY_PATH",
        FoundBy::Cache => "ld.so.cache",
        FoundBy::Default => "default path",
        FoundBy::Kernel => "kernel",
    }
}

fn answer(answer: &ProbeResult) -> String {
    match answer {
        ProbeResult::Found => "found".to_owned(),
        ProbeResult::Refused(errno) => errno.to_string(),
        ProbeResult::Rejected(Rejection::Foreign) => "for another machine".to_owned(),
        ProbeResult::Rejected(Rejection::Known) => "loaded already".to_owned(),
        ProbeResult::Rejected(Rejection::Unfit(why)) => (*why).to_owned(),
    }
}
