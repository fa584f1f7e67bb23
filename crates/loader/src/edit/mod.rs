//! Edits of an ELF file in place: what it needs and where it searches.
//!
//! An edit is a list of [`BytePatch`]es: small, reviewable, reversible. Nothing that the file does not
//! use any more is wasted: names go where dead names were ([`Tier::DeadBytes`]), then where the
//! page of a read-only segment has slack ([`Tier::Slack`]), and only where the caller allows it
//! into a segment of their own ([`Tier::Grown`]).
//!
//! Nothing here opens a file: bytes in, patches out.

use std::collections::BTreeMap;
use std::sync::Arc;

mod check;
mod draft;
mod elf;
mod format;
mod goal;
mod grow;
mod hazard;
mod identity;
mod names;
mod patch;
mod records;
mod references;
mod refused;
mod slack;
mod stub;
mod widen;
mod yielding;

use draft::Draft;
use elf::ElfFile;
use goal::Goal;
use names::NewStrings;
use references::References;

pub use identity::ElfIdentity;
pub use patch::{BytePatch, PatchError, apply, reverse};
pub use refused::{Hazard, Refused};
pub use stub::stub;

/// What a file shall say of its own search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EditRequest {
    /// Its DT_NEEDED entries.
    pub needed: NeededEdit,
    /// Its DT_RPATH and DT_RUNPATH.
    pub search: SearchPathEdit,
}

/// The DT_NEEDED entries afterwards.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum NeededEdit {
    /// As they are.
    #[default]
    Keep,
    /// New names, by position among the DT_NEEDED entries; the others stay. A version need
    /// (`vn_file`) follows the name it was bound to.
    Replace(BTreeMap<usize, Vec<u8>>),
    /// A list of its own: for an executable that shall need but one closure library.
    List {
        /// All names, in order. More than now where the table has spare DT_NULL entries.
        names: Vec<Vec<u8>>,
        /// For the version needs (`vn_file`): old name to new. A name that is not here stays.
        providers: BTreeMap<Vec<u8>, Vec<u8>>,
    },
}

/// DT_RPATH and DT_RUNPATH afterwards.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SearchPathEdit {
    /// As they are.
    #[default]
    Keep,
    /// Neither.
    Remove,
    /// This DT_RPATH alone: inherited by what the file needs.
    Rpath(Vec<u8>),
    /// This DT_RUNPATH alone: for the file's own needs, after LD_LIBRARY_PATH.
    Runpath(Vec<u8>),
}

/// How much room an edit may take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EditRoom {
    /// Allow a new PT_LOAD at the end of the file, where nothing smaller does.
    pub grow: bool,
}

/// Where the new names went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// Into bytes of the string table that nothing read any more, or nowhere: nothing new.
    DeadBytes,
    /// Into the last page of a read-only segment, behind its bytes.
    Slack,
    /// Into a new segment at the end of the file.
    Grown,
}

/// An edit, ready to be applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edited {
    /// What changes: sorted by offset, not overlapping. Empty where the file already says what
    /// was asked.
    pub patches: Arc<[BytePatch]>,
    /// Where the new names went.
    pub tier: Tier,
    /// The file's size before, in bytes.
    pub bytes_before: u64,
    /// The file's size afterwards, in bytes.
    pub bytes_after: u64,
}

/// The patches that make `file` say what `request` asks.
///
/// # Errors
/// [`Refused`]: the file is left alone.
pub fn edit(file: &[u8], request: &EditRequest, room: EditRoom) -> Result<Edited, Refused> {
    let elf = ElfFile::parse(file)?;
    hazard::check(&elf)?;
    let references = References::of(&elf)?;
    let goal = Goal::of(&elf, &references, request)?;
    let size = file.len() as u64;
    if goal.is_met(&elf) {
        let tier = Tier::DeadBytes;
        return Ok(Edited { patches: Arc::default(), tier, bytes_before: size, bytes_after: size });
    }
    let names = NewStrings::place(&elf, &references, &goal)?;
    let (draft, names, tier) = make_room(&elf, &references, names, room)?;
    let new = draft.finish(&elf, &references, &goal, &names)?;
    let patches = patch::difference(file, &new);
    check::check(&elf, &references, &goal, &new, &patches)?;
    Ok(Edited { patches: patches.into(), tier, bytes_before: size, bytes_after: new.len() as u64 })
}

/// Places the names that dead bytes do not hold, with the least means.
fn make_room(
    elf: &ElfFile<'_>,
    references: &References,
    names: NewStrings,
    room: EditRoom,
) -> Result<(Draft, NewStrings, Tier), Refused> {
    let missing = names.missing();
    if missing == 0 {
        return Ok((Draft::of(elf), names, Tier::DeadBytes));
    }
    if let Some((draft, at)) = slack::stretch(elf, references, missing)? {
        return Ok((draft, names.append(at), Tier::Slack));
    }
    if !room.grow {
        let missing = missing.saturating_sub(slack::most(elf)).max(1);
        return Err(Refused::NoRoom { missing });
    }
    let (draft, at) = grow::grow(elf, references, missing)?;
    Ok((draft, names.append(at), Tier::Grown))
}
