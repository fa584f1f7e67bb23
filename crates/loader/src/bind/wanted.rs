//! The edits that binding asks for.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::collect::{ElfFileNames, OWN_DIRECTORY};
use super::farm::{Farms, root_of};
use super::movable::by_paths;
use super::own::OwnLists;
use super::packed::PackedPaths;
use super::pins::{Pin, Pins, needed};
use super::places::{RELOCATABLE, list_depends_on_place};
use super::resolve::{LoaderRun, ResolvedBy};
use super::union::Union;
use super::variants::Variants;
use super::working::{WORKING_DIRECTORY, has_such_list};
use super::{BindMode, BindOptions, KeepRpath, UnboundFile, closure, dlopen};
use crate::edit::{EditRequest, NeededEdit, SearchPathEdit};
use crate::{FileId, World};

/// What is known when edits are asked for.
pub(super) struct BindFacts<'a> {
    /// What `remedy` found out about files that can be changed.
    pub checked: &'a remedy::CheckedFiles,
    pub world: &'a dyn World,
    /// Roots whose own directory is another user's to change.
    pub distrusted: &'a BTreeMap<PathBuf, UnboundFile>,
    pub files: &'a [ElfFileNames],
    pub programs: &'a [LoaderRun],
    pub alone: &'a [LoaderRun],
    /// What lists lead to.
    pub own: &'a OwnLists<'a>,
    pub pins: &'a Pins,
    pub options: &'a BindOptions,
    /// The paths that are packed, where files are bound in an image.
    pub packed: &'a PackedPaths<'a>,
    /// The paths that the user named.
    pub named: &'a [PathBuf],
    /// Objects that call dlopen, or need one that does.
    pub dlopens: &'a HashSet<FileId>,
    /// Files that may be edited: something is to be gained, nothing forbids it.
    pub candidates: &'a HashSet<usize>,
    pub variants: &'a Variants<'a>,
    /// Where each file is in the starts.
    pub places: &'a StartIndex<'a>,
    /// Files that musl's loader loads.
    pub musl: &'a HashSet<usize>,
    /// Files that programs load only in an environment.
    pub brought: &'a HashSet<FileId>,
    /// Files that programs load only while they run.
    pub later: &'a HashSet<FileId>,
}

/// Where each file is in the starts: as which member of which.
#[derive(Debug)]
pub(super) struct StartIndex<'a>(HashMap<FileId, Vec<(&'a LoaderRun, usize)>>);

impl<'a> StartIndex<'a> {
    pub fn in_starts(runs: impl Iterator<Item = &'a LoaderRun>) -> StartIndex<'a> {
        let mut places: HashMap<FileId, Vec<(&LoaderRun, usize)>> = HashMap::new();
        for run in runs {
            for (number, member) in run.members.iter().enumerate() {
                places.entry(member.id).or_default().push((run, number));
            }
        }
        StartIndex(places)
    }

    fn knows(&self, id: FileId) -> bool {
        self.0.contains_key(&id)
    }

    pub fn of(&self, id: FileId) -> impl Iterator<Item = (&'a LoaderRun, usize)> {
        self.0.get(&id).into_iter().flatten().copied()
    }
}

/// What an earlier attempt has taught about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Caution {
    /// It has little room: names that another object brings in first stay.
    Spare,
    /// Its list of directories has to stay.
    KeepList,
    /// It has to stay as it is.
    Leave,
}

/// Edits, and what has to be there for them.
#[derive(Debug, Default)]
pub(super) struct BindEdits {
    pub requests: BTreeMap<usize, EditRequest>,
    pub farms: Farms,
    /// Closure libraries: path and content.
    pub stubs: BTreeMap<PathBuf, Vec<u8>>,
    /// Files that a mode cannot do anything for, and why.
    pub refused: Vec<(usize, String)>,
}

/// The edits, given what earlier attempts taught.
pub(super) fn wanted(known: &BindFacts<'_>, cautions: &HashMap<usize, Caution>) -> BindEdits {
    let mut wanted = BindEdits::default();
    let mut union: Option<Union> = None;
    for number in sorted(known.candidates) {
        let caution = cautions.get(&number).copied();
        if caution == Some(Caution::Leave) {
            continue;
        }
        let mode = known.mode_of(number);
        let request = match mode {
            BindMode::Farm | BindMode::Closure
                if known.distrusted.contains_key(&known.root(number)) =>
            {
                EditRequest::default()
            }
            BindMode::Needed => known.needed_request(number, caution, &mut wanted.farms),
            BindMode::Farm => {
                let union = union.get_or_insert_with(|| Union::of(known));
                known.farm_request(number, caution, union, &mut wanted)
            }
            BindMode::Closure => closure::request(known, number, caution, &mut wanted),
        };
        let is_brought = known.brought.contains(&known.files[number].id);
        if request != EditRequest::default() && known.files[number].is_in_several_places() {
            let reason = "has names in several directories, and finds libraries through $ORIGIN";
            wanted.refused.push((number, reason.to_owned()));
        } else if mode == BindMode::Farm && request != EditRequest::default() && is_brought {
            let reason = "only the environment of this start brings it in: others may rely on it";
            wanted.refused.push((number, reason.to_owned()));
        } else if request != EditRequest::default() {
            wanted.requests.insert(number, request);
        }
    }
    wanted
}

fn sorted(numbers: &HashSet<usize>) -> Vec<usize> {
    let mut numbers: Vec<usize> = numbers.iter().copied().collect();
    numbers.sort_unstable();
    numbers
}

impl BindFacts<'_> {
    pub fn mode_of(&self, number: usize) -> BindMode {
        let usual = if self.musl.contains(&number) { BindMode::Farm } else { BindMode::Needed };
        let usual = if self.packed.is_image() { BindMode::Needed } else { usual };
        self.options.mode.unwrap_or(usual)
    }

    pub fn root(&self, number: usize) -> PathBuf {
        root_of(self.files[number].path(), self.named)
    }

    /// Every entry that is pinned, by its position, and the path that it shall name.
    fn paths(&self, number: usize) -> BTreeMap<usize, Vec<u8>> {
        let pins = self.pins.by_file.get(&number).map_or(&[][..], Vec::as_slice);
        let path = |(entry, pin): (usize, &Pin)| match pin {
            Pin::To(id) => {
                if (self.packed.is_image() || self.is_seen_later(number))
                    && let Some(beside) = self.beside(number, entry)
                {
                    return Some((entry, beside));
                }
                let path = self.pins.names.get(id)?;
                if self.packed.is_image() && !self.packed.hold(path) {
                    return None;
                }
                Some((entry, path.as_os_str().as_bytes().to_vec()))
            }
            _ => None,
        };
        pins.iter().enumerate().filter_map(path).collect()
    }

    fn needed_request(
        &self,
        number: usize,
        caution: Option<Caution>,
        farms: &mut Farms,
    ) -> EditRequest {
        let mut paths = self.paths(number);
        if caution == Some(Caution::Spare) {
            paths.retain(|entry, _| !self.is_brought(number, *entry));
        }
        let needed = by_paths(&self.files[number], paths);
        // A file of which no name could be bound searches on, as it did.
        let search = match needed == NeededEdit::Keep && self.has_open(number) {
            true => SearchPathEdit::Keep,
            false => self.search(number, caution, farms),
        };
        EditRequest { needed, search }
    }

    /// Whether a need is one of the system's libraries, which the file's own list has no say in,
    /// and which in every start another object asks for first: the loader knows the name then.
    fn is_brought(&self, number: usize, entry: usize) -> bool {
        let id = self.files[number].id;
        let is_brought = |(run, member): (&LoaderRun, usize)| {
            let target = run.members[member].needed.get(entry).copied().flatten();
            target.map(|target| &run.members[target]).is_some_and(|target| {
                target.found == ResolvedBy::BySystem && target.asked_by != Some(member)
            })
        };
        self.places.knows(id) && self.places.of(id).all(is_brought)
    }

    /// Whether the directories of a list offer no name that the file and its needs have not brought
    /// in themselves: whoever opens one of these by name gets it without a search.
    pub fn is_all_loaded(&self, number: usize, list: &[u8], farms: &mut Farms) -> bool {
        let Some(offered) = farms.all_offered(self.world, &self.root(number), list) else {
            return false;
        };
        let all_known = |(run, member): (&LoaderRun, usize)| {
            let known: HashSet<&OsStr> =
                run.below(member).filter_map(|member| member.object.soname.as_deref()).collect();
            offered.iter().all(|name| known.contains(&**name))
        };
        let id = self.files[number].id;
        self.places.knows(id) && self.places.of(id).all(all_known)
    }

    fn has_open(&self, number: usize) -> bool {
        let pins = self.pins.by_file.get(&number);
        pins.is_some_and(|pins| pins.iter().any(|pin| matches!(pin, Pin::Open(_))))
    }

    /// What becomes of the list of directories.
    pub fn search(
        &self,
        number: usize,
        caution: Option<Caution>,
        farms: &mut Farms,
    ) -> SearchPathEdit {
        let file = &self.files[number];
        let Some((list, kind)) = list(file) else { return SearchPathEdit::Keep };
        let keeps = self.options.keep_rpath == KeepRpath::All
            || caution.is_some_and(|caution| caution > Caution::Spare);
        if keeps || list.is_empty() {
            return SearchPathEdit::Keep;
        }
        if self.is_seen_later(number) && list_depends_on_place(list) && self.leads_no_more(number) {
            return self.without_list(number);
        }
        let has_open = match self.packed.is_image() {
            true => self.leads_by_list(number),
            false => self.has_open(number),
        };
        let relied_on = has_open
            || self.dlopens.contains(&file.id)
                && !self.is_all_loaded(number, list.as_bytes(), farms)
            || file.is_program() && farms.offer(self.world, list.as_bytes(), is_for_libc);
        if !relied_on {
            return self.without_list(number);
        }
        if self.packed.is_image() {
            return SearchPathEdit::Keep;
        }
        if self.options.keep_rpath == KeepRpath::None {
            let has_open = self.has_open(number);
            return if has_open { SearchPathEdit::Keep } else { self.without_list(number) };
        }
        let root = self.root(number);
        if self.distrusted.contains_key(&root) || self.brought.contains(&file.id) {
            return SearchPathEdit::Keep;
        }
        match farms.instead_of(self.world, &root, list.as_bytes()) {
            None => SearchPathEdit::Keep,
            Some(text) if text.is_empty() => self.without_list(number),
            Some(text) => kind(text),
        }
    }

    /// A list that goes. Of a DT_RUNPATH an empty one stays where something may still be searched for the
    /// file: without any, the DT_RPATHs of who loaded it are searched, too (ld.so(8)).
    fn without_list(&self, number: usize) -> SearchPathEdit {
        let file = &self.files[number];
        let searches_on = file.may_dlopen != Some(false) || self.has_open(number);
        let keeps_out = file.object.runpath.is_some() && !file.is_program();
        match keeps_out && searches_on && !self.musl.contains(&number) {
            true => SearchPathEdit::Runpath(Vec::new()),
            false => SearchPathEdit::Remove,
        }
    }

    /// One farm beside each prefix: each file that has a list gets the farm in its place.
    fn farm_request(
        &self,
        number: usize,
        caution: Option<Caution>,
        union: &mut Union,
        wanted: &mut BindEdits,
    ) -> EditRequest {
        let file = &self.files[number];
        let Some((list, kind)) = list(file) else { return EditRequest::default() };
        // A farm is kept, even where new files would make another one.
        let first = list.as_bytes().split(|byte| *byte == b':').next().unwrap_or_default();
        let first = Path::new(OsStr::from_bytes(first));
        if first.components().any(|part| part.as_os_str() == OWN_DIRECTORY) {
            return EditRequest::default();
        }
        if has_such_list(&file.object) {
            wanted.refused.push((number, WORKING_DIRECTORY.to_owned()));
            return EditRequest::default();
        }
        if !self.options.absolute && list_depends_on_place(list) {
            wanted.refused.push((number, RELOCATABLE.to_owned()));
            return EditRequest::default();
        }
        let pins = self.pins.by_file.get(&number).map_or(&[][..], Vec::as_slice);
        let in_farm = |(entry, name): (usize, &OsStr)| {
            let settled = pins.get(entry) == Some(&Pin::Settled);
            settled || name.as_bytes().contains(&b'/') || union.links.contains_key(name)
        };
        let searches_on = caution.is_some()
            || self.options.keep_rpath == KeepRpath::All
            || !needed(file).enumerate().all(in_farm);
        let directory = union.directory(self.root(number), &mut wanted.farms);
        let mut text = directory.as_os_str().as_bytes().to_vec();
        let mut append = |list: &[u8]| {
            text.push(b':');
            text.extend_from_slice(list);
        };
        if searches_on {
            append(list.as_bytes());
        } else if let SearchPathEdit::Rpath(rest) | SearchPathEdit::Runpath(rest) =
            self.rest(number, &mut wanted.farms)
        {
            append(&rest);
        }
        let gives_way =
            self.options.overridable && !self.hands_on(number, list.as_bytes(), &mut wanted.farms);
        let search = if gives_way { SearchPathEdit::Runpath(text) } else { kind(text) };
        EditRequest { needed: NeededEdit::Keep, search }
    }

    /// What a farmed file keeps for dlopen.
    fn rest(&self, number: usize, farms: &mut Farms) -> SearchPathEdit {
        match self.search(number, None, farms) {
            SearchPathEdit::Keep => {
                let list = list(&self.files[number]).map(|(list, _)| list.as_bytes().to_vec());
                list.map_or(SearchPathEdit::Keep, SearchPathEdit::Rpath)
            }
            other => other,
        }
    }
}

/// Makes a list of the same kind: DT_RPATH or DT_RUNPATH.
type MakeList = fn(Vec<u8>) -> SearchPathEdit;

/// A file's list of directories, and what makes a list of the same kind.
pub(super) fn list(file: &ElfFileNames) -> Option<(&OsStr, MakeList)> {
    match (&file.object.runpath, &file.object.rpath) {
        (Some(list), _) => Some((list, SearchPathEdit::Runpath)),
        (None, Some(list)) => Some((list, SearchPathEdit::Rpath)),
        (None, None) => None,
    }
}

/// What glibc opens by name when it is asked to (nss/nss_module.c,
/// sysdeps/nptl/unwind-forcedunwind.c, inet/idna.c): in the program's own list first.
fn is_for_libc(name: &OsStr) -> bool {
    let name = name.as_bytes();
    name.starts_with(b"libnss_") || name == b"libgcc_s.so.1" || name == b"libidn2.so.0"
}

/// The objects that call dlopen, or need, at whatever distance, one that does. The C library
/// does not count: every program needs it.
pub(super) fn dlopens<'a>(
    files: &[ElfFileNames],
    runs: impl Iterator<Item = &'a LoaderRun> + Clone,
) -> HashSet<FileId> {
    let known: HashMap<FileId, bool> =
        files.iter().filter_map(|file| Some((file.id, file.may_dlopen?))).collect();
    let members = runs.clone().flat_map(|run| &run.members);
    let by_id: HashMap<FileId, &Path> = members
        .filter(|member| member.found != ResolvedBy::Kernel && !is_c_library(&member.path))
        .map(|member| (member.id, &*member.path))
        .collect();
    let calls = |(id, path): (FileId, &Path)| {
        let known = known.get(&id).copied();
        known.unwrap_or_else(|| dlopen::may_be_called_in_file(path)).then_some(id)
    };
    let calling: HashSet<FileId> = by_id.into_par_iter().filter_map(calls).collect();
    let reaching = |run: &'a LoaderRun| run.reaching(|member| calling.contains(&member.id));
    runs.flat_map(reaching).map(|member| member.id).collect()
}

fn is_c_library(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_bytes();
    name.starts_with(b"libc.so") || name.starts_with(b"ld-") || name.starts_with(b"libc.musl")
}
