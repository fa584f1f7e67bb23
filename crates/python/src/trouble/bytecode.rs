//! Bytecode that does not help: missing, stale, unwritable, written by several at once.
//!
//! CPython's SourceLoader opens the `.pyc`, and reads the source only if there is none or if it
//! does not fit; then it compiles, and writes `FILE.pyc.NUMBER`, which it renames (importlib's
//! `_write_atomic`).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use recording::query::python::directory_and_stem;
use recording::{Kind, Outcome};
use term::number::counted;

use super::{PythonTrouble, PythonTroubleKind, trouble};
use crate::attribute::PlacedOperation;
use crate::runs::PythonRunId;
use recording::module_search::LookupReason;

/// The errors of what may not be written (errno(3)): EPERM, EACCES, EROFS.
const REFUSED: [u16; 3] = [1, 13, 30];

#[derive(Default)]
struct Modules<'a> {
    /// Sources that were read although there was bytecode.
    stale: BTreeSet<&'a [u8]>,
    /// Sources that were read because there was none.
    missing: BTreeSet<&'a [u8]>,
    reads: [u64; 2],
    /// Of each bytecode file, who wrote it.
    writers: BTreeMap<&'a [u8], BTreeSet<PythonRunId>>,
    renames: u64,
    creates: u64,
    /// What could not be written.
    refused: BTreeSet<&'a [u8]>,
    refusals: u64,
    writes: u64,
}

pub(super) fn troubles(placed: &[PlacedOperation]) -> Vec<PythonTrouble> {
    let modules = Modules::of(placed);
    let mut troubles = Vec::new();
    let written = match (modules.renames, modules.refusals) {
        (0, 0) => "and not written",
        (0, _) => "and cannot be written, so it is at every start",
        _ => "and written",
    };
    let mut sources = |kind, sources: &BTreeSet<&[u8]>, reads: u64, why: &str| {
        if sources.is_empty() {
            return;
        }
        let number = sources.len() as u64;
        let text = format!(
            "{} {why}: compiled at this start, {written}",
            counted(number, "module", "modules"),
        );
        let numbers =
            [("modules", number), ("created", modules.creates), ("renamed", modules.renames)];
        let metadata_ops = reads + modules.writes;
        troubles.push(trouble(kind, text, metadata_ops, &numbers, sources.iter().copied()));
    };
    sources(
        PythonTroubleKind::StaleBytecode,
        &modules.stale,
        modules.reads[0],
        "with bytecode that does not fit the source (its time or size is another: copied \
         without times, as cp -r does, or edited)",
    );
    sources(
        PythonTroubleKind::MissingBytecode,
        &modules.missing,
        modules.reads[1],
        "without bytecode",
    );
    troubles.extend(modules.unwritable());
    troubles.extend(modules.race());
    troubles
}

impl<'a> Modules<'a> {
    fn of(placed: &[PlacedOperation<'a>]) -> Modules<'a> {
        let mut modules = Modules::default();
        // Of each thread: the bytecode that it asked for last.
        let mut last: HashMap<(PythonRunId, u32), &PlacedOperation> = HashMap::new();
        for placed in placed {
            let ask = &placed.ask;
            let thread = (ask.run, ask.event.thread);
            match placed.reason {
                LookupReason::Bytecode if ask.kind == Kind::Open => {
                    last.insert(thread, placed);
                }
                LookupReason::SourceRead if ask.is_yes() => {
                    let of_it = |bytecode: &&PlacedOperation| {
                        directory_and_stem(bytecode.ask.path) == directory_and_stem(ask.path)
                    };
                    if let Some(bytecode) = last.remove(&thread).filter(of_it) {
                        modules.read(ask.path, bytecode.ask.is_yes());
                    }
                }
                LookupReason::BytecodeWrite => modules.write(placed),
                _ => {}
            }
        }
        modules
    }

    fn read(&mut self, source: &'a [u8], was_there: bool) {
        self.reads[usize::from(!was_there)] += 1;
        match was_there {
            true => self.stale.insert(source),
            false => self.missing.insert(source),
        };
    }

    fn write(&mut self, placed: &PlacedOperation<'a>) {
        let ask = &placed.ask;
        self.writes += 1;
        if !ask.event.is_change() {
            return;
        }
        let file = file_of(ask.path);
        if matches!(ask.event.outcome, Outcome::Failed(error) if REFUSED.contains(&error)) {
            self.refusals += 1;
            self.refused.insert(file);
        } else if ask.is_yes() && ask.kind == Kind::Open {
            self.creates += 1;
        } else if ask.is_yes() && is_rename(placed) {
            self.renames += 1;
            self.writers.entry(file).or_default().insert(ask.run);
        }
    }

    fn unwritable(&self) -> Option<PythonTrouble> {
        let text = format!(
            "bytecode cannot be written ({} refused): every start compiles again what has none \
             that fits",
            counted(self.refusals, "attempt", "attempts")
        );
        let numbers = [("refused", self.refusals)];
        let refused = self.refused.iter().copied();
        let kind = PythonTroubleKind::UnwritableBytecode;
        (self.refusals > 0).then(|| trouble(kind, text, self.writes, &numbers, refused))
    }

    fn race(&self) -> Option<PythonTrouble> {
        let raced: Vec<_> = self.writers.iter().filter(|(_, runs)| runs.len() > 1).collect();
        let writes: usize = raced.iter().map(|(_, runs)| runs.len()).sum();
        let processes = raced.iter().map(|(_, runs)| runs.len()).max()? as u64;
        let files = raced.len() as u64;
        let text = format!(
            "{} written by up to {} each: starts at the same time race for it, and each writes \
             all of it",
            counted(files, "bytecode file was", "bytecode files were"),
            counted(processes, "process", "processes")
        );
        let numbers = [("files", files), ("processes", processes), ("writes", writes as u64)];
        let files = raced.iter().map(|(file, _)| **file);
        Some(trouble(PythonTroubleKind::BytecodeRace, text, writes as u64 * 2, &numbers, files))
    }
}

fn is_rename(placed: &PlacedOperation) -> bool {
    placed.ask.event.call.known_name().is_some_and(|name| name.starts_with("rename"))
}

/// The bytecode file that a temporary one becomes: without `.NUMBER`.
fn file_of(path: &[u8]) -> &[u8] {
    let end = path.windows(5).rposition(|window| window == b".pyc.");
    end.map_or(path, |end| &path[..end + 4])
}
