//! The links that stand for the lists of all farmed files.

use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use super::BindMode;
use super::farm::Farms;
use super::own::ListPositions;
use super::places::depends_on_place;
use super::resolve::{LoaderRunObject, ResolvedBy};
use super::through::Through;
use super::wanted::BindFacts;
use crate::FileId;

/// The links of all farmed files. They are the same below each root, so that no file relies on a
/// directory of another's.
pub(super) struct Union {
    pub links: BTreeMap<OsString, PathBuf>,
    directories: HashMap<PathBuf, PathBuf>,
}

impl Union {
    pub fn of(known: &BindFacts<'_>) -> Union {
        Union { links: searched_names(known), directories: HashMap::new() }
    }

    /// The farm below a root.
    pub fn directory(&mut self, root: PathBuf, farms: &mut Farms) -> PathBuf {
        let links = &self.links;
        let farm = |root: &PathBuf| farms.of(root, links.clone());
        self.directories.entry(root).or_insert_with_key(farm).clone()
    }
}

/// The names that all starts of farmed programs ask for, be it without an environment or in one,
/// each with the one file that serves it.
fn searched_names(known: &BindFacts<'_>) -> BTreeMap<OsString, PathBuf> {
    let mut served: BTreeMap<&OsStr, HashSet<FileId>> = BTreeMap::new();
    let mut stay: HashSet<&OsStr> = HashSet::new();
    let mut plain: HashSet<&OsStr> = HashSet::new();
    // A link would be another place, and lead to one place from all.
    let stays = |target: &LoaderRunObject| {
        let moves = match target.found {
            ResolvedBy::ByList { through: Through::Plain, .. } => false,
            ResolvedBy::ByList { through: Through::Origin, .. } => !known.options.absolute,
            ResolvedBy::ByList { .. } | ResolvedBy::ByEnvironment => true,
            _ => false,
        };
        moves || depends_on_place(&target.object)
    };
    for run in known.programs.iter().chain(known.alone) {
        let root = &known.files[run.root];
        if known.mode_of(run.root) != BindMode::Farm || known.brought.contains(&root.id) {
            continue;
        }
        for (name, member, target) in run.searched() {
            served.entry(name).or_default().insert(target.id);
            if run.environment.is_none() {
                plain.insert(name);
            }
            if stays(target) || known.pins.closed.is_closed(target.id, member.id) {
                stay.insert(name);
            }
        }
    }
    served.retain(|name, _| plain.contains(name) && !stay.contains(name));
    let lists = OnceCell::new();
    let positions = |number: &usize| known.own.positions_of_opener(&known.files[*number]);
    // Whoever opens such a name through a list, or something that needs it, gets what that leads to.
    let is_elsewhere = |name: &OsStr, ids: &HashSet<FileId>| {
        let lists: &Vec<ListPositions> =
            lists.get_or_init(|| known.candidates.iter().map(positions).collect());
        let mut led = lists.iter().filter_map(|list| known.own.leads_to(list, name));
        led.any(|id| !ids.contains(&id))
    };
    served.retain(|name, ids| !(known.own.hold_another(name, ids) && is_elsewhere(name, ids)));
    let one = |(name, ids): (&OsStr, HashSet<FileId>)| {
        let mut ids = ids.into_iter();
        let (Some(id), None) = (ids.next(), ids.next()) else { return None };
        Some((name.to_owned(), known.pins.names.get(&id)?.clone()))
    };
    served.into_iter().filter_map(one).collect()
}

impl BindFacts<'_> {
    /// Whether others may find by a file's DT_RPATH what they open by name, or what that needs: a
    /// DT_RUNPATH is not inherited (ld.so(8)).
    pub fn hands_on(&self, number: usize, list: &[u8], farms: &mut Farms) -> bool {
        let file = &self.files[number];
        file.object.runpath.is_none()
            && !self.musl.contains(&number)
            && self.dlopens.contains(&file.id)
            && !self.is_all_loaded(number, list, farms)
    }
}
