//! Where new names go: where the same text is already, then into dead bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use rustc_hash::FxHashMap;

use super::Refused;
use super::elf::ElfFile;
use super::format::slice;
use super::goal::Goal;
use super::references::{References, is_text, live_ranges};

/// The new names and their places: offsets into the string table, in bytes.
#[derive(Debug, Clone, Default)]
pub(super) struct NewStrings {
    at: BTreeMap<Vec<u8>, u64>,
    /// What has to be written, without the NULs behind.
    fresh: Vec<(u64, Vec<u8>)>,
    /// What has no place yet; longest first.
    rest: Vec<Vec<u8>>,
    /// Names that are the end of another: `(name, the other)`, the other resolved before.
    suffixes: Vec<(Vec<u8>, Vec<u8>)>,
}

impl NewStrings {
    /// Finds places for the texts of `goal` in the bytes of the string table as it is.
    pub(super) fn place(
        elf: &ElfFile<'_>,
        references: &References,
        goal: &Goal,
    ) -> Result<Self, Refused> {
        let known = known(elf, references)?;
        let mut names = Self::default();
        let wanted: Vec<&[u8]> = goal.texts().into_iter().collect();
        names.reuse(elf, &known, &wanted)?;
        let kept = goal.kept().chain(names.at.values().copied());
        let live = live_ranges(elf, &references.offsets(kept))?;
        names.share(wanted);
        names.fill(&without(&known, &live));
        names.resolve_suffixes();
        Ok(names)
    }

    /// Takes the texts that the table holds already, as a text or the end of one.
    fn reuse(
        &mut self,
        elf: &ElfFile<'_>,
        known: &[Range<u64>],
        wanted: &[&[u8]],
    ) -> Result<(), Refused> {
        let mut by_end: FxHashMap<&[u8], Vec<&[u8]>> = FxHashMap::default();
        for text in wanted {
            by_end.entry(end_of(text, KEY)).or_default().push(text);
        }
        let lengths: BTreeSet<usize> = by_end.keys().map(|end| end.len()).collect();
        for range in known {
            let bytes =
                slice(elf.bytes, elf.strings.offset + range.start, range.end - range.start)?;
            let mut end = range.start;
            for run in bytes.split_inclusive(|byte| *byte == 0) {
                end += run.len() as u64;
                let Some(run) = run.strip_suffix(&[0]) else { continue };
                for length in lengths.iter().filter(|length| (1..=run.len()).contains(length)) {
                    let Some(candidates) = by_end.get(end_of(run, *length)) else { continue };
                    for text in candidates.iter().filter(|text| run.ends_with(text)) {
                        let at = end - 1 - text.len() as u64;
                        self.at.entry(text.to_vec()).or_insert(at);
                    }
                }
            }
        }
        Ok(())
    }

    /// Sorts what is left into names of their own, and names that are the end of another.
    fn share(&mut self, mut wanted: Vec<&[u8]>) {
        wanted.retain(|text| !self.at.contains_key(*text));
        // Sorted from their ends, a name is followed by one that it is the end of, if any.
        wanted.sort_by(|a, b| a.iter().rev().cmp(b.iter().rev()));
        for index in (0..wanted.len()).rev() {
            let text = wanted[index];
            match wanted.get(index + 1) {
                Some(other) if other.ends_with(text) => {
                    self.suffixes.push((text.to_vec(), other.to_vec()));
                }
                _ => self.rest.push(text.to_vec()),
            }
        }
        self.rest.sort_by_key(|text| std::cmp::Reverse(text.len()));
    }

    /// Puts names into the gaps: the longest first, each into the smallest that holds it.
    fn fill(&mut self, gaps: &[Range<u64>]) {
        let mut by_size: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for gap in gaps {
            by_size.entry(gap.end - gap.start).or_default().push(gap.start);
        }
        for text in std::mem::take(&mut self.rest) {
            let needs = text.len() as u64 + 1;
            let Some((size, at)) = take(&mut by_size, needs) else {
                self.rest.push(text);
                continue;
            };
            if size > needs {
                by_size.entry(size - needs).or_default().push(at + needs);
            }
            self.set(at, text);
        }
    }

    fn set(&mut self, at: u64, text: Vec<u8>) {
        self.at.insert(text.clone(), at);
        self.fresh.push((at, text));
    }

    fn resolve_suffixes(&mut self) {
        for (text, other) in &self.suffixes {
            if let Some(at) = self.at.get(other) {
                let at = at + (other.len() - text.len()) as u64;
                self.at.insert(text.clone(), at);
            }
        }
    }

    /// How many bytes lack a place.
    pub(super) fn missing(&self) -> u64 {
        self.rest.iter().map(|text| text.len() as u64 + 1).sum()
    }

    /// Puts the rest one after the other from `at`, where there is room.
    pub(super) fn append(mut self, mut at: u64) -> Self {
        for text in std::mem::take(&mut self.rest) {
            let size = text.len() as u64 + 1;
            self.set(at, text);
            at += size;
        }
        self.resolve_suffixes();
        self
    }

    /// Where `text` is.
    pub(super) fn at(&self, text: &[u8]) -> Result<u64, Refused> {
        self.at.get(text).copied().ok_or(Refused::SelfCheck("a name without a place"))
    }

    /// What has to be written, and where.
    pub(super) fn fresh(&self) -> &[(u64, Vec<u8>)] {
        &self.fresh
    }
}

/// Names are looked up by this many bytes of their end.
const KEY: usize = 8;

fn end_of(text: &[u8], length: usize) -> &[u8] {
    &text[text.len() - length.min(text.len())..]
}

fn take(by_size: &mut BTreeMap<u64, Vec<u64>>, needs: u64) -> Option<(u64, u64)> {
    let (size, places) = by_size.range_mut(needs..).next()?;
    let (size, at) = (*size, places.pop()?);
    if places.is_empty() {
        by_size.remove(&size);
    }
    Some((size, at))
}

/// The bytes that surely belong to names, relative to the table: its sections, or where there
/// are no section headers, what is referred to. (DT_STRSZ may span more: an earlier edit
/// stretched it over what lies between the table and the slack.)
fn known(elf: &ElfFile<'_>, references: &References) -> Result<Vec<Range<u64>>, Refused> {
    let own: Vec<_> = [elf.strings.section, elf.strings.slack_section]
        .into_iter()
        .flatten()
        .map(|index| &elf.sections[index])
        .map(|section| {
            let from = section.offset - elf.strings.offset;
            from..from + section.size
        })
        .collect();
    if !own.is_empty() {
        return Ok(own);
    }
    let tags = elf.dynamic.entries.iter().filter(|entry| is_text(entry.tag));
    let providers = references.providers.iter().map(|provider| provider.name);
    let offsets = references.offsets(tags.map(|entry| entry.value).chain(providers));
    live_ranges(elf, &offsets)
}

/// What of `known` (sorted) is not in `live` (sorted).
fn without(known: &[Range<u64>], live: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut gaps = Vec::new();
    for range in known {
        let mut from = range.start;
        let first = live.partition_point(|live| live.end <= range.start);
        for live in live[first..].iter().take_while(|live| live.start < range.end) {
            if from < live.start {
                gaps.push(from..live.start);
            }
            from = from.max(live.end);
        }
        if from < range.end {
            gaps.push(from..range.end);
        }
    }
    gaps
}
