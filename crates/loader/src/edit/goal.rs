//! What the file shall say: the request, entry by entry.

use std::collections::{BTreeMap, BTreeSet};

use ::object::elf;

use super::elf::ElfFile;
use super::hazard::is_loader;
use super::records::DynamicEntry;
use super::references::References;
use super::{EditRequest, Hazard, NeededEdit, Refused, SearchPathEdit};

/// The entries and version needs of the file afterwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Goal {
    /// The dynamic entries, without the DT_NULL at the end.
    pub(super) entries: Vec<(elf::DynamicTag, FieldValue)>,
    /// The version needs' files, in their order.
    pub(super) providers: Vec<FieldValue>,
}

/// What a field shall hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FieldValue {
    /// What it holds now.
    Same(u64),
    /// The offset of this text, wherever that will be.
    Text(Vec<u8>),
}

impl Goal {
    pub(super) fn of(
        elf: &ElfFile<'_>,
        references: &References,
        request: &EditRequest,
    ) -> Result<Self, Refused> {
        let mut entries: Vec<_> = elf.dynamic.entries.iter().copied().map(same).collect();
        let renamed = set_needed(elf, &mut entries, &request.needed)?;
        set_search(elf, &mut entries, &request.search)?;
        if entries.len() != elf.dynamic.entries.len()
            && elf.dynamic.value(elf::DT_POSFLAG_1).is_some()
        {
            return Err(Hazard::Positional.into());
        }
        if entries.len() >= elf.dynamic.capacity {
            let missing = entries.len() + 1 - elf.dynamic.capacity;
            return Err(Refused::NoSpareEntry { missing });
        }
        let providers = references
            .providers
            .iter()
            .map(|provider| {
                let value = match renamed.get(elf.text(provider.name)?) {
                    Some(Some(text)) => FieldValue::Text(text.clone()),
                    Some(None) => return Err(Hazard::AmbiguousVersion.into()),
                    None => FieldValue::Same(provider.name),
                };
                Ok(value)
            })
            .collect::<Result<_, Refused>>()?;
        Ok(Self { entries, providers })
    }

    /// Whether the file says it already.
    pub(super) fn is_met(&self, elf: &ElfFile<'_>) -> bool {
        let same: Vec<_> = elf.dynamic.entries.iter().copied().map(same).collect();
        self.entries == same
            && self.providers.iter().all(|provider| matches!(provider, FieldValue::Same(_)))
    }

    /// The texts that shall be there, each once.
    pub(super) fn texts(&self) -> BTreeSet<&[u8]> {
        self.values()
            .filter_map(|value| match value {
                FieldValue::Text(text) => Some(&text[..]),
                FieldValue::Same(_) => None,
            })
            .collect()
    }

    fn values(&self) -> impl Iterator<Item = &FieldValue> {
        self.entries.iter().map(|(_, value)| value).chain(&self.providers)
    }

    /// The offsets of the texts that stay, by entry and by version need.
    pub(super) fn kept(&self) -> impl Iterator<Item = u64> {
        let entries = self.entries.iter().filter_map(|(tag, value)| match value {
            FieldValue::Same(offset) if super::references::is_text(*tag) => Some(*offset),
            _ => None,
        });
        let providers = self.providers.iter().filter_map(|value| match value {
            FieldValue::Same(offset) => Some(*offset),
            FieldValue::Text(_) => None,
        });
        entries.chain(providers)
    }
}

fn same(entry: DynamicEntry) -> (elf::DynamicTag, FieldValue) {
    (entry.tag, FieldValue::Same(entry.value))
}

/// New names by old one; none where it has two.
type Renamed = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// Sets the DT_NEEDED entries.
fn set_needed(
    elf: &ElfFile<'_>,
    entries: &mut Vec<(elf::DynamicTag, FieldValue)>,
    needed: &NeededEdit,
) -> Result<Renamed, Refused> {
    let places: Vec<usize> =
        (0..entries.len()).filter(|index| entries[*index].0 == elf::DT_NEEDED).collect();
    match needed {
        NeededEdit::Keep => Ok(Renamed::new()),
        NeededEdit::Replace(names) => {
            if let Some((position, _)) = names.range(places.len()..).next() {
                return Err(Refused::NoSuchNeeded { position: *position });
            }
            replace(elf, entries, &places, names)
        }
        NeededEdit::List { names, providers } => {
            list(elf, entries, &places, names)?;
            for name in providers.iter().flat_map(|(old, new)| [old, new]) {
                check_name(name)?;
                check_not_loader(elf, name)?;
            }
            let differing = providers.iter().filter(|(old, new)| old != new);
            Ok(differing.map(|(old, new)| (old.clone(), Some(new.clone()))).collect())
        }
    }
}

fn replace(
    elf: &ElfFile<'_>,
    entries: &mut [(elf::DynamicTag, FieldValue)],
    places: &[usize],
    names: &BTreeMap<usize, Vec<u8>>,
) -> Result<Renamed, Refused> {
    let mut renamed = Renamed::new();
    for (position, index) in places.iter().enumerate() {
        let old = elf.text(elf.dynamic.entries[*index].value)?;
        let new = names.get(&position).map_or(old, |name| &name[..]);
        if new != old {
            check_name(new)?;
            check_not_loader(elf, old)?;
            check_not_loader(elf, new)?;
            entries[*index].1 = FieldValue::Text(new.to_vec());
        }
        renamed
            .entry(old.to_vec())
            .and_modify(|known| {
                if known.as_deref() != Some(new) {
                    *known = None;
                }
            })
            .or_insert_with(|| Some(new.to_vec()));
    }
    renamed.retain(|old, new| new.as_ref() != Some(old));
    Ok(renamed)
}

fn list(
    elf: &ElfFile<'_>,
    entries: &mut Vec<(elf::DynamicTag, FieldValue)>,
    places: &[usize],
    names: &[Vec<u8>],
) -> Result<(), Refused> {
    for (index, name) in places.iter().zip(names) {
        if elf.text(elf.dynamic.entries[*index].value)? != &name[..] {
            check_name(name)?;
            check_not_other_loader(elf, name)?;
            entries[*index].1 = FieldValue::Text(name.clone());
        }
    }
    for index in places.iter().skip(names.len()).rev() {
        entries.remove(*index);
    }
    let more = names.get(places.len()..).unwrap_or_default();
    // Where nothing is added, entries were perhaps removed: the last place may be beyond the end.
    let behind = places.last().map_or(0, |last| last + 1).min(entries.len());
    for name in more {
        check_name(name)?;
        check_not_other_loader(elf, name)?;
    }
    let entry = |name: &Vec<u8>| (elf::DT_NEEDED, FieldValue::Text(name.clone()));
    entries.splice(behind..behind, more.iter().map(entry));
    Ok(())
}

/// Sets DT_RPATH and DT_RUNPATH. The first of them that is there keeps its place.
fn set_search(
    elf: &ElfFile<'_>,
    entries: &mut Vec<(elf::DynamicTag, FieldValue)>,
    search: &SearchPathEdit,
) -> Result<(), Refused> {
    let wanted = match search {
        SearchPathEdit::Keep => return Ok(()),
        SearchPathEdit::Remove => None,
        SearchPathEdit::Rpath(list) => Some((elf::DT_RPATH, list)),
        SearchPathEdit::Runpath(list) => Some((elf::DT_RUNPATH, list)),
    };
    let is_search = |tag| [elf::DT_RPATH, elf::DT_RUNPATH].contains(&tag);
    let first = entries.iter().position(|(tag, _)| is_search(*tag));
    let Some((tag, text)) = wanted else {
        entries.retain(|(tag, _)| !is_search(*tag));
        return Ok(());
    };
    // An empty list is byte 0 of the table, which is a NUL (gABI, String Table).
    let made = match text.is_empty() && elf.text(0)?.is_empty() {
        true => FieldValue::Same(0),
        false => {
            check_name(text)?;
            FieldValue::Text(text.clone())
        }
    };
    let Some(first) = first else {
        entries.push((tag, made));
        return Ok(());
    };
    let FieldValue::Same(offset) = entries[first].1 else {
        return Err(Refused::SelfCheck("a search list that was set twice"));
    };
    let is_there = elf.text(offset)? == &text[..];
    let value = if is_there { FieldValue::Same(offset) } else { made };
    let before = entries.split_off(first);
    entries.push((tag, value));
    entries.extend(before.into_iter().filter(|(tag, _)| !is_search(*tag)));
    Ok(())
}

fn check_name(name: &[u8]) -> Result<(), Refused> {
    if name.is_empty() || name.contains(&0) {
        return Err(Refused::BadName(String::from_utf8_lossy(name).into_owned()));
    }
    Ok(())
}

fn check_not_loader(elf: &ElfFile<'_>, name: &[u8]) -> Result<(), Refused> {
    if is_loader(name, elf.interpreter()) { Err(Hazard::LoaderName.into()) } else { Ok(()) }
}

/// In a list the loader may stand, by its own name or by PT_INTERP's path: glibc knows it by
/// these two, and loads it again by any other.
fn check_not_other_loader(elf: &ElfFile<'_>, name: &[u8]) -> Result<(), Refused> {
    if !name.contains(&b'/') || elf.interpreter() == Some(name) {
        return Ok(());
    }
    check_not_loader(elf, name)
}
