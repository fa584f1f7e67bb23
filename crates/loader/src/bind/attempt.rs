//! Edits made, simulated, and compared with today: what is not the same is not kept.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File as Handle;
use std::io::Read;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::collect::{Collected, collect};
use super::compare::{Compared, compare};
use super::outcome::finish;
use super::pins::{Rules, decide};
use super::resolve::Resolver;
use super::store_of;
use super::today::{Today, eligible};
use super::variants::Variants;
use super::wanted::{Caution, Known, Places, Wanted, dlopens, wanted};
use super::{BindError, Binding, Effect, Leave, LeftOut, Options, Progress, Store};
use crate::edit::{Edited, PatchError, Refused, Request, Room, apply, edit};
use crate::{ElfError, Object, Overlay, World};

/// How often edits are taken back and tried anew. Each time at least one file is treated with
/// more caution; in practice the second attempt holds.
const ATTEMPTS: usize = 6;

pub(super) fn plan(
    world: &dyn World,
    paths: &[PathBuf],
    options: &Options,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Binding, BindError> {
    let paths = &real(paths)?;
    refuse_immutable(paths.iter().filter_map(|path| store_of(path)), options)?;
    progress(Progress::Looking);
    let Collected { files, left_out, stores } = collect(paths)?;
    refuse_immutable(stores.iter().cloned(), options)?;
    let stores: BTreeSet<Store> =
        paths.iter().filter_map(|path| store_of(path)).chain(stores).collect();
    let stores = stores.into_iter().collect();
    let mut binding = Binding { left_out, stores, ..Binding::default() };
    files.iter().for_each(|file| file.tell(world));
    let leave = Leave::with(&options.leave);
    let eligible = eligible(&files, &leave, &mut binding.left_out);
    let resolver = Resolver::new(world, &files, options.library_path.clone());
    let today = Today::of(&resolver, &eligible, &mut binding.left_out, progress);
    let variants = &Variants::new(world);
    let absolute = options.absolute;
    let rules = Rules { files: &files, leave: &leave, variants, absolute };
    let pins = decide(&rules, &today.programs, &today.alone, &today.own);
    let candidates = today.candidates(&files, &eligible);
    binding.calm = eligible.len() - candidates.len();
    let known = Known {
        files: &files,
        programs: &today.programs,
        alone: &today.alone,
        pins: &pins,
        options,
        named: paths,
        dlopens: &dlopens(today.in_use(&candidates)),
        candidates: &candidates,
        variants,
        places: &Places::in_starts(today.programs.iter().chain(&today.alone)),
        musl: &today.musl(&files),
    };
    let attempted = attempt(&resolver, &known, &mut binding.left_out, progress);
    Ok(finish(binding, &known, attempted))
}

/// The paths without symbolic links in them.
fn real(paths: &[PathBuf]) -> Result<Vec<PathBuf>, BindError> {
    let each = |path: &PathBuf| {
        path.canonicalize().map_err(|error| BindError::Path { path: path.clone(), error })
    };
    paths.iter().map(each).collect()
}

/// Fails for a store that must not change, unless that was asked for.
fn refuse_immutable(
    mut stores: impl Iterator<Item = Store>,
    options: &Options,
) -> Result<(), BindError> {
    match stores.find(|store| store.manager.is_immutable() && !options.immutable) {
        Some(Store { manager, root }) => Err(BindError::Immutable { path: root, manager }),
        None => Ok(()),
    }
}

/// What an attempt came to.
pub(super) struct Attempted {
    pub wanted: Wanted,
    pub edits: Vec<Made>,
    pub programs: Vec<Effect>,
    pub libraries: Vec<Effect>,
}

/// One file's edit, and the file as it would then be.
pub(super) struct Made {
    pub number: usize,
    pub seen: remedy::Seen,
    pub edited: Edited,
    pub object: Object,
}

fn attempt(
    resolver: &Resolver<'_>,
    known: &Known<'_>,
    left_out: &mut Vec<LeftOut>,
    progress: &(dyn Fn(Progress) + Sync),
) -> Attempted {
    let mut cautions: HashMap<usize, Caution> = HashMap::new();
    for round in 0..ATTEMPTS {
        progress(Progress::Editing);
        let wanted = wanted(known, &cautions);
        let (edits, refused) = make(known, &wanted);
        progress(Progress::Checking);
        let differing = if refused.is_empty() {
            let world = overlay(resolver.world, known, &wanted, &edits);
            match compare(resolver, known, &world, &edits) {
                Ok(Compared { programs, libraries, idle }) if idle.is_empty() => {
                    leave_refused(known, &wanted, left_out);
                    return Attempted { wanted, edits, programs, libraries };
                }
                Ok(Compared { idle, .. }) => {
                    cautions.extend(idle.into_iter().map(|number| (number, Caution::Leave)));
                    continue;
                }
                Err(differing) => differing,
            }
        } else {
            Vec::new()
        };
        for (number, refused) in refused {
            let lacks_room = matches!(refused, Unmade::Refused(Refused::NoRoom { .. }));
            if lacks_room && cautions.insert(number, Caution::Spare).is_none() {
                continue;
            }
            cautions.insert(number, Caution::Leave);
            let reason = refused.to_string();
            left_out.push(LeftOut { path: known.files[number].path().to_owned(), reason });
        }
        let edited: HashSet<usize> = edits.iter().map(|made| made.number).collect();
        for number in differing.into_iter().filter(|number| edited.contains(number)) {
            let next = match cautions.get(&number) {
                None | Some(Caution::Spare) if round + 2 < ATTEMPTS => Caution::KeepList,
                _ => Caution::Leave,
            };
            if cautions.insert(number, next) != Some(next) && next == Caution::Leave {
                let reason = "edited, it would make a start load something else than today".into();
                left_out.push(LeftOut { path: known.files[number].path().to_owned(), reason });
            }
        }
    }
    let nothing = Wanted::default();
    Attempted { wanted: nothing, edits: Vec::new(), programs: Vec::new(), libraries: Vec::new() }
}

fn leave_refused(known: &Known<'_>, wanted: &Wanted, left_out: &mut Vec<LeftOut>) {
    for (number, reason) in &wanted.refused {
        let path = known.files[*number].path().to_owned();
        left_out.push(LeftOut { path, reason: reason.clone() });
    }
}

/// Makes the edits that are asked for; files that an edit is refused for, with the reason.
fn make(known: &Known<'_>, wanted: &Wanted) -> (Vec<Made>, Vec<(usize, Unmade)>) {
    let room = Room { grow: known.options.grow };
    let each = |(number, request): (&usize, &Request)| {
        let path = known.files[*number].path();
        match made(*number, path, request, room) {
            Ok(made) if made.edited.patches.is_empty() => None,
            Ok(made) => Some(Ok(made)),
            Err(reason) => Some(Err((*number, reason))),
        }
    };
    let requests: Vec<_> = wanted.requests.iter().collect();
    let all: Vec<_> = requests.into_par_iter().filter_map(each).collect();
    let (mut edits, mut refused) = (Vec::new(), Vec::new());
    for each in all {
        match each {
            Ok(made) => edits.push(made),
            Err(why) => refused.push(why),
        }
    }
    (edits, refused)
}

/// Why there is no edit of a file.
#[derive(Debug, thiserror::Error)]
enum Unmade {
    #[error("it cannot be read: {0}")]
    Read(#[from] std::io::Error),
    #[error("{0}")]
    Refused(#[from] Refused),
    #[error("{0}")]
    Patch(#[from] PatchError),
    #[error("{0}")]
    Elf(#[from] ElfError),
}

fn made(number: usize, path: &Path, request: &Request, room: Room) -> Result<Made, Unmade> {
    let read = || {
        let mut file = Handle::open(path)?;
        let seen = remedy::Seen::from_metadata(&file.metadata()?);
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok::<_, std::io::Error>((seen, bytes))
    };
    let (seen, bytes) = read()?;
    let edited = edit(&bytes, request, room)?;
    let after = apply(&bytes, &edited.patches)?;
    let object = Object::parse(&after)?;
    Ok(Made { number, seen, edited, object })
}

/// The world once all is applied.
fn overlay<'a>(
    world: &'a dyn World,
    known: &Known<'_>,
    wanted: &Wanted,
    edits: &[Made],
) -> Overlay<'a> {
    let mut overlay = Overlay::new(world);
    for made in edits {
        overlay.replace(known.files[made.number].id, made.object.clone());
    }
    for (folder, links) in &wanted.farms.made {
        overlay.folder(folder);
        links.iter().for_each(|(name, target)| overlay.link(&folder.join(name), target));
    }
    for (path, content) in &wanted.stubs {
        if let Ok(object) = Object::parse(content) {
            path.parent().into_iter().for_each(|folder| overlay.folder(folder));
            overlay.file(path, object);
        }
    }
    overlay
}
