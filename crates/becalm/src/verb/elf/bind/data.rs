//! The whole as JSON: docs/schema/becalm.elf.bind.md.

use std::ffi::OsStr;
use std::path::PathBuf;

use loader::bind::{BindChange, Binding, Conflict, Effect, NameLeft, PackageStore, UnboundFile};
use loader::edit::Tier;
use recording::shown_name;
use remedy::PredictedCounts;
use schemars::JsonSchema;
use serde::Serialize;

use super::view::Bound;

/// What `becalm elf bind --json` answers.
#[derive(Serialize, JsonSchema)]
pub struct ElfBind<'a> {
    /// `becalm.elf.bind/1`.
    schema: &'static str,
    /// The name in the journal, for `becalm undo`; null where nothing was written.
    applied: Option<&'a str>,
    /// The files that change, sorted by path.
    changes: Vec<ChangedElf>,
    /// New directories, for links.
    directories: Vec<String>,
    /// New symbolic links.
    links: usize,
    /// New files: closure libraries.
    files: Vec<String>,
    /// Programs whose start was simulated, before and after.
    programs: &'a [Effect],
    /// Libraries that no program loads, each loaded alone, before and after.
    libraries: &'a [Effect],
    /// All programs together, before and after.
    predicted: PredictedCounts,
    /// ELF files that are bound already, or whose start searches for nothing.
    calm: usize,
    /// What stays as it is, and why.
    left_out: &'a [UnboundFile],
    /// Names that two programs find in two places; they stay names.
    conflicts: Vec<ConflictingName>,
    /// Names that are still searched, and why.
    names_left: Vec<SearchedName>,
    /// The stores that the paths lie in.
    stores: &'a [PackageStore],
    /// What may go wrong once it is applied, one sentence each.
    risks: &'a [String],
}

/// A file that changes.
#[derive(Serialize, JsonSchema)]
struct ChangedElf {
    /// The file.
    path: String,
    /// Its other names (hard links).
    also: Vec<String>,
    /// Needed names that become others.
    needed: Vec<ChangedText>,
    /// The list of directories (DT_RPATH or DT_RUNPATH), where it changes.
    search: Option<ChangedText>,
    /// Where the new names go: `dead bytes`, `slack`, `grown`.
    room: &'static str,
    /// Places in the file that are written.
    patches: usize,
    /// Bytes that are written.
    bytes: usize,
}

/// A text that becomes another.
#[derive(Serialize, JsonSchema)]
struct ChangedText {
    /// What is there.
    old: String,
    /// What will be.
    new: String,
}

/// A name that two programs find in two places.
#[derive(Serialize, JsonSchema)]
struct ConflictingName {
    /// The library that needs it.
    file: String,
    /// The name.
    name: String,
    /// The two programs.
    sides: Vec<ConflictSide>,
}

/// What one program finds under a name.
#[derive(Serialize, JsonSchema)]
struct ConflictSide {
    /// The program.
    program: String,
    /// What it finds; null where it finds nothing.
    finds: Option<String>,
}

/// A name that is still searched.
#[derive(Serialize, JsonSchema)]
struct SearchedName {
    /// The file.
    file: String,
    /// The name.
    name: String,
    /// Why.
    reason: &'static str,
}

impl<'a> Bound<'a> {
    /// The whole as data.
    pub fn data(&self) -> ElfBind<'a> {
        let Binding { changes, directories, links, files, programs, .. } = self.binding;
        let Binding { libraries, calm, left_out, conflicts, names_left, .. } = self.binding;
        ElfBind {
            schema: "becalm.elf.bind/1",
            applied: self.applied,
            changes: changes.iter().map(ChangedElf::of).collect(),
            directories: directories.iter().map(shown_name).collect(),
            links: links.len(),
            files: files.iter().map(|(file, _)| shown_name(file)).collect(),
            programs,
            libraries,
            predicted: self.binding.predicted(),
            calm: *calm,
            left_out,
            conflicts: conflicts.iter().map(ConflictingName::of).collect(),
            names_left: names_left.iter().map(SearchedName::of).collect(),
            stores: &self.binding.stores,
            risks: &self.binding.risks,
        }
    }
}

impl ChangedElf {
    fn of(change: &BindChange) -> ChangedElf {
        ChangedElf {
            path: shown_name(&change.path),
            also: change.also.iter().map(shown_name).collect(),
            needed: change.needed.iter().map(|(old, new)| ChangedText::of(old, new)).collect(),
            search: change.search.as_ref().map(|list| ChangedText::of(list.before(), list.after())),
            room: match change.tier {
                Tier::DeadBytes => "dead bytes",
                Tier::Slack => "slack",
                Tier::Grown => "grown",
            },
            patches: change.patches.len(),
            bytes: change.patches.iter().map(|patch| patch.new.len()).sum(),
        }
    }
}

impl ChangedText {
    fn of(old: &OsStr, new: &OsStr) -> ChangedText {
        ChangedText { old: shown_name(old), new: shown_name(new) }
    }
}

impl ConflictingName {
    fn of(conflict: &Conflict) -> ConflictingName {
        let side = |(program, finds): &(PathBuf, Option<PathBuf>)| ConflictSide {
            program: shown_name(program),
            finds: finds.as_ref().map(shown_name),
        };
        ConflictingName {
            file: shown_name(&conflict.file),
            name: shown_name(&conflict.name),
            sides: conflict.sides.iter().map(side).collect(),
        }
    }
}

impl SearchedName {
    fn of(left: &NameLeft) -> SearchedName {
        let (file, name) = (shown_name(&left.file), shown_name(&left.name));
        SearchedName { file, name, reason: left.reason }
    }
}
