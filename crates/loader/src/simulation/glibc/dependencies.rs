//! Breadth first over what each object needs (`_dl_map_object_deps` in elf/dl-deps.c).

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use super::tokens::has_token;
use super::{GlibcLoader, PROGRAM};
use crate::object::{Dependency, Tag};
use crate::simulation::{Edge, Missing, MissingReason};

/// One place in the order of symbol lookup.
struct ScopePosition {
    map: usize,
    done: bool,
}

impl GlibcLoader<'_> {
    /// Loads all that the program and the preloaded objects need. Gives the order of symbol lookup.
    pub(super) fn load_dependencies(&mut self) -> Vec<usize> {
        let preloaded = super::KERNEL + 1..self.maps.len();
        let first = std::iter::once(PROGRAM).chain(preloaded);
        // Without what is missing no program starts, but all of it is told, as `ldd` does.
        let lose = |loader: &mut Self, missing| {
            loader.lose(missing);
            Ok(())
        };
        self.load_needs_of(first, &lose).unwrap_or_default()
    }

    /// Loads all that these objects need, until `lose` ends it for something that is missing.
    pub(super) fn load_needs_of(
        &mut self,
        first: impl Iterator<Item = usize>,
        lose: &dyn Fn(&mut Self, Missing) -> Result<(), Missing>,
    ) -> Result<Vec<usize>, Missing> {
        let mut order: Vec<ScopePosition> =
            first.map(|map| ScopePosition { map, done: false }).collect();
        let mut at = 0;
        while at < order.len() && !self.probes.are_too_many() {
            if order[at].done {
                at += 1;
                continue;
            }
            order[at].done = true;
            let map = order[at].map;
            let mut here = at;
            let object = self.maps[map].object.clone();
            // What was loaded before is gone through again where something opens it (dlopen).
            let is_new = self.maps[map].edges.is_empty();
            for dependency in &object.dependencies {
                if self.probes.are_too_many() {
                    break;
                }
                let to = match self.load(map, dependency, is_new) {
                    Ok(Some(to)) => to,
                    Ok(None) => continue,
                    Err(missing) => {
                        lose(self, missing)?;
                        continue;
                    }
                };
                if dependency.tag == Tag::Needed {
                    if !order.iter().any(|place| place.map == to) {
                        order.push(ScopePosition { map: to, done: false });
                    }
                } else {
                    here = self.put_before(&mut order, here, to);
                }
            }
        }
        Ok(order.into_iter().map(|place| place.map).collect())
    }

    /// One dependency of `map`; nothing if there is nothing to go on with.
    fn load(
        &mut self,
        map: usize,
        dependency: &Dependency,
        is_new: bool,
    ) -> Result<Option<usize>, Missing> {
        let Dependency { tag, name } = dependency;
        let to = match self.dependency_name(map, dependency) {
            Ok(None) => return Ok(None),
            Ok(Some(name)) => self.map_object(&name, map, false),
            Err(why) => Err(why),
        };
        if is_new {
            let edge = Edge { name: name.clone(), to: to.as_ref().ok().copied(), kind: *tag };
            self.maps[map].edges.push(edge);
        }
        let why = match to {
            Ok(to) => return Ok(Some(to)),
            Err(why) => why,
        };
        let missing = Missing { name: name.clone(), needed_by: map, kind: *tag, why };
        match tag {
            Tag::Auxiliary if missing.why != MissingReason::SecureToken => {
                self.missing.push(missing);
                Ok(None)
            }
            _ => Err(missing),
        }
    }

    /// The name with its tokens replaced (`expand_dst`). What a token makes empty is passed
    /// over, but ends the run if it is AUXILIARY: so the macro's arguments stand.
    fn dependency_name(
        &mut self,
        map: usize,
        dependency: &Dependency,
    ) -> Result<Option<OsString>, MissingReason> {
        let name = &dependency.name;
        if !has_token(name.as_bytes()) {
            return Ok(Some(name.clone()));
        }
        if self.setting.secure {
            return Err(MissingReason::SecureToken);
        }
        let expanded = self.expand(name.as_bytes(), map);
        match expanded.is_empty() {
            false => Ok(Some(OsString::from_vec(expanded))),
            true if dependency.tag == Tag::Auxiliary => Err(MissingReason::EmptyToken),
            true => Ok(None),
        }
    }

    /// Puts a filtee just before the object at `here`, unless it stands earlier already; in the
    /// chain, too. Gives the new place of the object.
    fn put_before(&mut self, order: &mut Vec<ScopePosition>, here: usize, filtee: usize) -> usize {
        match order.iter().position(|place| place.map == filtee) {
            Some(earlier) if earlier <= here => return here,
            Some(later) => drop(order.remove(later)),
            None => {}
        }
        let map = order[here].map;
        order.insert(here, ScopePosition { map: filtee, done: false });
        self.chain.put_before(filtee, map);
        here + 1
    }
}
