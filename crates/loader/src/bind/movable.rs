//! Trees that find themselves by `$ORIGIN` and were seen in use: plug-ins, extension modules of Python
//! and the libraries that a wheel brings for them. They stay movable.
//!
//! What a file's own list finds is named by `$ORIGIN`. What the machine has stays a name: once nothing
//! is left that the list leads to, it goes, and no directory of the tree is searched in vain.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::collect::entries;
use super::farm::FOR_HARDWARE;
use super::packed::directories_of;
use super::pins::Pin;
use super::resolve::LoaderRunObject;
use super::wanted::BindFacts;
use crate::object::is_library_name;
use crate::{FileId, World};

impl BindFacts<'_> {
    /// Whether a file was seen to be loaded by running programs only, and is bound so that its tree can
    /// be moved.
    pub fn is_seen_later(&self, number: usize) -> bool {
        let is_later = self.later.contains(&self.files[number].id);
        is_later && !self.options.absolute && !self.packed.is_image()
    }

    /// Whether nothing is left that a file's list leads to: neither a name of its own, nor one of what
    /// it needs, which would inherit the list, nor what may be opened by name.
    pub fn leads_no_more(&self, number: usize) -> bool {
        let id = self.files[number].id;
        self.places.of(id).all(|(run, member)| {
            let Some(offered) = offered(self.world, &run.members[member]) else { return false };
            let needs = |it: &LoaderRunObject, name: &OsString, entry: usize| match it.id == id {
                true => !self.names(id, entry),
                false => inherits(self.world, it, name) && !self.names(it.id, entry),
            };
            let looks = |it: &LoaderRunObject| {
                let mut names = it.object.needed().enumerate();
                names.any(|(entry, name)| offered.contains(name) && needs(it, name, entry))
            };
            let sonames = run.below(member).filter_map(|it| it.object.soname.clone());
            let may_open = self.dlopens.contains(&id);
            !run.below(member).any(looks)
                && (!may_open || offered.is_subset(&sonames.collect::<HashSet<_>>()))
        })
    }

    /// Whether a file is to name what serves a need.
    fn names(&self, id: FileId, entry: usize) -> bool {
        let number = self.files.iter().position(|file| file.id == id);
        let pin = number.and_then(|number| self.pins.by_file.get(&number)?.get(entry));
        matches!(pin, Some(Pin::To(_) | Pin::Settled))
    }
}

/// Whether an object looks for a name by the lists of those that loaded it: it has no DT_RUNPATH, and
/// its own list, which comes first, does not lead to it.
fn inherits(world: &dyn World, object: &LoaderRunObject, name: &OsString) -> bool {
    let own = || offered(world, object).is_some_and(|own| own.contains(name));
    object.object.runpath.is_none() && !own()
}

/// The libraries that an object's list offers where it is; none where that is not known, or depends on
/// the processor.
fn offered(world: &dyn World, object: &LoaderRunObject) -> Option<HashSet<OsString>> {
    let list = object.object.search_path();
    if list.is_empty() {
        return Some(HashSet::new());
    }
    let mut all = HashSet::new();
    for directory in directories_of(list, &object.path) {
        if !directory.is_absolute() {
            return None;
        }
        all.extend(libraries(world, &directory)?);
    }
    Some(all)
}

fn libraries(world: &dyn World, directory: &Path) -> Option<Vec<OsString>> {
    let entries = match entries(world, directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        Err(_) => return None,
    };
    let names: Vec<OsString> = entries.into_iter().map(|(name, _)| name).collect();
    let is_variant = |name: &OsString| FOR_HARDWARE.iter().any(|it| name == OsStr::new(it));
    if names.iter().any(is_variant) {
        return None;
    }
    Some(names.into_iter().filter(|name| is_library_name(name.as_bytes())).collect())
}
