//! Reads what was written, before anyone else does.
//!
//! This always runs. Whatever is wrong in the modules that place and write, an edit that changes
//! a name that is in use never leaves this crate.

use std::ops::Range;

use ::object::elf;

use super::Refused;
use super::elf::ElfFile;
use super::format::{slice, write};
use super::goal::{FieldValue, Goal};
use super::patch::BytePatch;
use super::records::{ElfProgramHeader, Section};
use super::references::{References, is_text, live_ranges};
use super::yielding::{VERSION_TAGS, is_version_table};

/// Whether `new` says what `goal` wants, and everything else as `old` did.
pub(super) fn check(
    old: &ElfFile<'_>,
    references: &References,
    goal: &Goal,
    new: &[u8],
    patches: &[BytePatch],
) -> Result<(), Refused> {
    let new = ElfFile::parse(new)?;
    let now = References::of(&new)?;
    check_entries(old, goal, &new)?;
    check_versions(old, references, goal, &new, &now)?;
    check_symbols(old, references, &new, &now)?;
    check_segments(old, &new)?;
    check_sections(old, &new)?;
    check_version_tables(old, references, &new)?;
    check_bytes(old, references, patches)
}

fn ensure(holds: bool, what: &'static str) -> Result<(), Refused> {
    if holds { Ok(()) } else { Err(Refused::SelfCheck(what)) }
}

fn text_of<'a>(old: &ElfFile<'a>, value: &'a FieldValue) -> Result<&'a [u8], Refused> {
    match value {
        FieldValue::Same(offset) => old.text(*offset),
        FieldValue::Text(text) => Ok(text),
    }
}

/// Every dynamic entry, by its text where it has one.
fn check_entries(old: &ElfFile<'_>, goal: &Goal, new: &ElfFile<'_>) -> Result<(), Refused> {
    ensure(new.dynamic.at == old.dynamic.at, "the dynamic section moved")?;
    ensure(new.dynamic.entries.len() == goal.entries.len(), "the number of dynamic entries")?;
    for (entry, (tag, value)) in new.dynamic.entries.iter().zip(&goal.entries) {
        ensure(entry.tag == *tag, "a dynamic entry's tag")?;
        if is_text(*tag) {
            ensure(new.text(entry.value)? == text_of(old, value)?, "a dynamic entry's text")?;
        } else if !may_move(*tag) {
            ensure(*value == FieldValue::Same(entry.value), "a dynamic entry's value")?;
        }
    }
    Ok(())
}

/// Whether the value of `tag` may change: what it points to is checked on its own.
fn may_move(tag: elf::DynamicTag) -> bool {
    let strings = [elf::DT_STRTAB, elf::DT_STRSZ];
    strings.iter().chain(VERSION_TAGS).any(|moving| *moving == tag)
}

/// The version needs' files; the versions themselves stay where they are.
fn check_versions(
    old: &ElfFile<'_>,
    references: &References,
    goal: &Goal,
    new: &ElfFile<'_>,
    now: &References,
) -> Result<(), Refused> {
    ensure(now.versions == references.versions, "a version's name")?;
    ensure(now.providers.len() == goal.providers.len(), "the number of version needs")?;
    for (provider, value) in now.providers.iter().zip(&goal.providers) {
        ensure(new.text(provider.name)? == text_of(old, value)?, "a version need's file")?;
    }
    Ok(())
}

/// Names of symbols and versions: at the same offsets, and there the same bytes.
fn check_symbols(
    old: &ElfFile<'_>,
    references: &References,
    new: &ElfFile<'_>,
    now: &References,
) -> Result<(), Refused> {
    ensure(now.symbols == references.symbols, "a symbol's name")?;
    for range in live_ranges(old, &references.offsets(std::iter::empty()))? {
        let size = range.end - range.start;
        let before = slice(old.bytes, old.strings.offset + range.start, size)?;
        let after = slice(new.bytes, new.strings.offset + range.start, size)?;
        ensure(before == after, "a name in use")?;
    }
    Ok(())
}

/// Every segment is there, as it was or longer; at most one is new, for one that was spared.
fn check_segments(old: &ElfFile<'_>, new: &ElfFile<'_>) -> Result<(), Refused> {
    let same = |before: &ElfProgramHeader, after: &ElfProgramHeader| {
        let grown = after.file_size - before.file_size.min(after.file_size);
        after.file_size >= before.file_size
            && *after
                == ElfProgramHeader {
                    file_size: before.file_size.wrapping_add(grown),
                    memory_size: before.memory_size.wrapping_add(grown),
                    ..before.clone()
                }
            && (grown == 0 || before.kind == elf::PT_LOAD)
    };
    let lost =
        old.segments.iter().filter(|before| !new.segments.iter().any(|after| same(before, after)));
    let spared: Vec<_> = lost.collect();
    let spare = |segment: &&ElfProgramHeader| matches!(segment.kind, elf::PT_NULL | elf::PT_NOTE);
    ensure(spared.len() <= 1 && spared.iter().all(spare), "a segment")?;
    ensure(new.segments.len() == old.segments.len(), "the number of segments")
}

/// Every section is as it was, save the string tables'.
fn check_sections(old: &ElfFile<'_>, new: &ElfFile<'_>) -> Result<(), Refused> {
    let added = new.sections.len().wrapping_sub(old.sections.len());
    ensure(added <= 1, "the number of sections")?;
    let own = [old.strings.section, old.strings.slack_section, Some(usize::from(old.header.names))];
    for (index, (before, after)) in old.sections.iter().zip(&new.sections).enumerate() {
        let placed = Section {
            offset: after.offset,
            address: after.address,
            size: after.size,
            ..before.clone()
        };
        let may_change = own.contains(&Some(index)) || is_version_table(before);
        ensure(after == if may_change { &placed } else { before }, "a section")?;
    }
    Ok(())
}

/// The version tables hold what they held, except the names of files, and the loader finds them
/// where the section headers do.
fn check_version_tables(
    old: &ElfFile<'_>,
    references: &References,
    new: &ElfFile<'_>,
) -> Result<(), Refused> {
    for tag in VERSION_TAGS {
        let (before, after) = (old.dynamic.value(*tag), new.dynamic.value(*tag));
        let table = old
            .sections
            .iter()
            .position(|section| is_version_table(section) && Some(section.address) == before);
        let Some(index) = table else {
            ensure(before == after, "a version table moved without its section")?;
            continue;
        };
        let (was, is) = (&old.sections[index], &new.sections[index]);
        ensure(after == Some(is.address) && was.size == is.size, "a version table's place")?;
        ensure(new.file_offset(is.address)?.0 == is.offset, "a version table's place in memory")?;
        let mut expected = slice(old.bytes, was.offset, was.size)?.to_vec();
        for provider in &references.providers {
            let field = provider.field.wrapping_sub(was.offset);
            if field < was.size {
                let now = slice(new.bytes, is.offset + field, 4)?;
                write(&mut expected, field, now)?;
            }
        }
        ensure(slice(new.bytes, is.offset, is.size)? == expected, "a version table")?;
    }
    Ok(())
}

/// No patch touches a byte of anything else.
fn check_bytes(
    old: &ElfFile<'_>,
    references: &References,
    patches: &[BytePatch],
) -> Result<(), Refused> {
    let ours = own_ranges(old, references);
    for patch in patches {
        let range = patch.offset..patch.offset + patch.old.len() as u64;
        let meets = |other: &Range<u64>| other.start < range.end && range.start < other.end;
        let differs = |at: u64| {
            let index = (at - patch.offset) as usize;
            patch.old.get(index) != patch.new.get(index)
        };
        let sections =
            old.sections_in_file().map(|(_, section)| section.offset..section.file_end());
        let loads = old.loads().map(|load| load.offset..load.file_end());
        // With section headers, these say what is used; without, all that is loaded is.
        let used: Vec<Range<u64>> =
            if old.sections.is_empty() { loads.collect() } else { sections.collect() };
        for used in used.iter().filter(|used| meets(used)) {
            let from = used.start.max(range.start);
            let end = used.end.min(range.end);
            let stray = (from..end)
                .filter(|at| differs(*at))
                .any(|at| !ours.iter().any(|own| own.contains(&at)));
            ensure(!stray, "a byte of something else")?;
        }
    }
    Ok(())
}

/// What an edit may write to.
fn own_ranges(old: &ElfFile<'_>, references: &References) -> Vec<Range<u64>> {
    let mut ranges = vec![
        0..u64::from(old.header.size),
        old.segment_table(),
        old.section_table(),
        old.dynamic.range(old.format),
    ];
    let names = usize::from(old.header.names);
    let own = [old.strings.section, old.strings.slack_section, Some(names)];
    let sections = own.into_iter().flatten().filter_map(|index| old.sections.get(index));
    ranges.extend(sections.map(|section| section.offset..section.file_end()));
    let tables = old.sections.iter().filter(|section| is_version_table(section));
    ranges.extend(tables.map(|section| section.offset..section.file_end()));
    if old.sections.is_empty() {
        ranges.push(old.strings.offset..old.strings.offset + old.strings.size);
    }
    ranges.extend(references.providers.iter().map(|provider| provider.field..provider.field + 4));
    ranges
}
