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
use super::yielding::{TABLE_TAGS, follows, may_move, tag_of};

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
    check_moved(old, references, &new)?;
    check_bytes(old, &new, references, patches)
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
        } else if !may_change(*tag) {
            ensure(*value == FieldValue::Same(entry.value), "a dynamic entry's value")?;
        }
    }
    Ok(())
}

/// Whether the value of `tag` may change: what it points to is checked on its own.
fn may_change(tag: elf::DynamicTag) -> bool {
    let strings = [elf::DT_STRTAB, elf::DT_STRSZ];
    strings.iter().chain(TABLE_TAGS).any(|moving| *moving == tag)
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

/// Every segment is there, as it was, longer, or where its bytes went; at most one is new, for
/// one that was spared or behind the others.
fn check_segments(old: &ElfFile<'_>, new: &ElfFile<'_>) -> Result<(), Refused> {
    let more = new.segments.len().wrapping_sub(old.segments.len());
    let there = |before: &ElfProgramHeader| {
        let mut all = new.segments.iter();
        all.any(|after| is_longer(before, after, more) || is_moved(before, after, old, new))
    };
    let spared: Vec<_> = old.segments.iter().filter(|before| !there(before)).collect();
    let spare = |segment: &&ElfProgramHeader| matches!(segment.kind, elf::PT_NULL | elf::PT_NOTE);
    ensure(spared.len() + more <= 1 && spared.iter().all(spare), "a segment")?;
    let table = new.load_of(new.segment_table().start);
    let loaded = table.is_none_or(|load| new.segment_table().end <= new.segments[load].file_end());
    ensure(loaded, "a table of segments that is not loaded as a whole")
}

/// Whether a segment is as it was, or has more bytes at its end: a loaded one, and the table of
/// all by `more` headers.
fn is_longer(before: &ElfProgramHeader, after: &ElfProgramHeader, more: usize) -> bool {
    let grown = after.file_size.wrapping_sub(before.file_size);
    let as_before = ElfProgramHeader {
        file_size: before.file_size.wrapping_add(grown),
        memory_size: before.memory_size.wrapping_add(grown),
        ..before.clone()
    };
    let may_grow = match before.kind {
        elf::PT_LOAD => after.file_size >= before.file_size,
        elf::PT_PHDR => grown == 0 || more > 0,
        _ => grown == 0,
    };
    *after == as_before && may_grow
}

/// Whether a header shows, elsewhere, the bytes that it showed.
fn is_moved(
    before: &ElfProgramHeader,
    after: &ElfProgramHeader,
    old: &ElfFile<'_>,
    new: &ElfFile<'_>,
) -> bool {
    let ElfProgramHeader { offset, address, physical, .. } = *after;
    let there =
        new.file_offset(address).is_ok_and(|(at, left)| at == offset && left >= after.file_size);
    let was = slice(old.bytes, before.offset, before.file_size);
    follows(before)
        && *after == ElfProgramHeader { offset, address, physical, ..before.clone() }
        && there
        && was.is_ok_and(|was| slice(new.bytes, offset, after.file_size) == Ok(was))
}

/// Every section is as it was, save the string tables', and where those are that may move.
fn check_sections(old: &ElfFile<'_>, new: &ElfFile<'_>) -> Result<(), Refused> {
    let added = new.sections.len().wrapping_sub(old.sections.len());
    ensure(added <= 1, "the number of sections")?;
    let own = [old.strings.section, old.strings.slack_section, Some(usize::from(old.header.names))];
    for (index, (before, after)) in old.sections.iter().zip(&new.sections).enumerate() {
        let placed = Section { offset: after.offset, address: after.address, ..before.clone() };
        let resized = Section { size: after.size, ..placed.clone() };
        let expected = match own.contains(&Some(index)) {
            true => &resized,
            false if may_move(old, before) => &placed,
            false => before,
        };
        ensure(after == expected, "a section")?;
    }
    Ok(())
}

/// What may move holds what it held, except the names of files, and the loader finds the tables
/// where the section headers do.
fn check_moved(
    old: &ElfFile<'_>,
    references: &References,
    new: &ElfFile<'_>,
) -> Result<(), Refused> {
    for tag in TABLE_TAGS {
        let (before, after) = (old.dynamic.value(*tag), new.dynamic.value(*tag));
        let table = old
            .sections
            .iter()
            .position(|section| tag_of(section) == Some(*tag) && Some(section.address) == before);
        let expected = table.map_or(before, |index| Some(new.sections[index].address));
        ensure(after == expected, "a table moved without its section")?;
    }
    for (was, is) in moved(old, new) {
        ensure(new.file_offset(is.address)?.0 == is.offset, "a section's place in memory")?;
        let mut expected = slice(old.bytes, was.offset, was.size)?.to_vec();
        for provider in &references.providers {
            let field = provider.field.wrapping_sub(was.offset);
            if field < was.size {
                let now = slice(new.bytes, is.offset + field, 4)?;
                write(&mut expected, field, now)?;
            }
        }
        ensure(slice(new.bytes, is.offset, is.size)? == expected, "a section that moved")?;
    }
    Ok(())
}

/// The sections that are elsewhere, before and after, without the string tables.
fn moved<'a>(
    old: &'a ElfFile<'_>,
    new: &'a ElfFile<'_>,
) -> impl Iterator<Item = (&'a Section, &'a Section)> {
    let pairs = old.sections.iter().zip(&new.sections);
    pairs.filter(|(was, is)| was.offset != is.offset && may_move(old, was))
}

/// No patch touches a byte of anything else.
fn check_bytes(
    old: &ElfFile<'_>,
    new: &ElfFile<'_>,
    references: &References,
    patches: &[BytePatch],
) -> Result<(), Refused> {
    let mut ours = own_ranges(old, references);
    ours.extend(moved(old, new).map(|(section, _)| section.offset..section.file_end()));
    let sections = old.sections_in_file().map(|(_, section)| section.offset..section.file_end());
    let loads = old.loads().map(|load| load.offset..load.file_end());
    // With section headers, these say what is used; without, all that is loaded is.
    let used: Vec<Range<u64>> =
        if old.sections.is_empty() { loads.collect() } else { sections.collect() };
    for patch in patches {
        let range = patch.offset..patch.offset + patch.old.len() as u64;
        let meets = |other: &Range<u64>| other.start < range.end && range.start < other.end;
        let differs = |at: u64| {
            let index = (at - patch.offset) as usize;
            patch.old.get(index) != patch.new.get(index)
        };
        for used in used.iter().filter(|used| meets(used)) {
            let from = used.start.max(range.start);
            let end = used.end.min(range.end);
            if ours.iter().any(|own| own.start <= from && end <= own.end) {
                continue;
            }
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
    if old.sections.is_empty() {
        ranges.push(old.strings.offset..old.strings.offset + old.strings.size);
    }
    ranges.extend(references.providers.iter().map(|provider| provider.field..provider.field + 4));
    ranges
}
