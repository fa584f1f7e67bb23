//! Edits made, simulated, and compared with today: what is not the same is not kept.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;
use remedy::CheckedFiles;

use super::collect::{Collected, ElfFileNames, ReadFile, add_programs, collect};
use super::compare::{Compared, compare};
use super::copies::LibraryCopies;
use super::farm::root_of;
use super::known_by::NameLoss;
use super::lessons::Lessons;
use super::openers::Openers;
use super::outcome::finish;
use super::packed::PackedPaths;
use super::pins::{PinRules, decide};
use super::resolve::Resolver;
use super::store_of;
use super::today::{EligibleFiles, Today};
use super::trust::distrusted;
use super::variants::Variants;
use super::wanted::{BindEdits, BindFacts, Caution, StartIndex, dlopens, wanted};
use super::working::with_such_lists;
use super::{
    BindError, BindOptions, BindProgress, Binding, Effect, Leave, PackageStore, UnboundFile,
};
use crate::edit::{EditRequest, EditRoom, Edited, PatchError, Refused, apply, edit};
use crate::source::{self, open_unnoticed};
use crate::{ElfError, ElfObject, PlannedWorld, World};

/// How often the files are looked for because of which a start differs. After that all edited files
/// of such a start are left as they are; in practice the second attempt holds.
const ROUNDS: usize = 32;

pub(super) fn plan(
    world: &dyn World,
    checked: CheckedFiles,
    paths: &[PathBuf],
    options: &BindOptions,
    progress: &(dyn Fn(BindProgress) + Sync),
) -> Result<Binding, BindError> {
    let paths = &real(paths)?;
    refuse_immutable(paths.iter().filter_map(|path| store_of(path)), options)?;
    progress(BindProgress::Looking);
    let Collected { mut files, left_out, stores } = collect(world, &checked, paths)?;
    add_programs(&mut files, &options.environments);
    refuse_immutable(stores.iter().cloned(), options)?;
    let stores: BTreeSet<PackageStore> =
        paths.iter().filter_map(|path| store_of(path)).chain(stores).collect();
    let stores = stores.into_iter().collect();
    let mut lessons = Lessons { left_out, ..Lessons::default() };
    files.iter().for_each(|file| file.tell(world));
    let leave = Leave::with(&options.leave);
    let eligible = EligibleFiles::of(&files, &leave, &mut lessons.left_out);
    let resolver = Resolver::new(world, &files, &options.environments);
    let today = Today::of(&resolver, &eligible, &mut lessons.left_out, progress);
    let variants = &Variants::new(world);
    let (absolute, others_load) = (options.absolute, options.others_load);
    let name_copies = options.name_copies;
    let packed = &PackedPaths::new(&options.packed);
    let name_loss = &NameLoss::of(options, &files, &today.programs, &today.alone);
    let rules = PinRules {
        files: &files,
        leave: &leave,
        variants,
        absolute,
        name_copies,
        others_load,
        packed,
        name_loss,
        later: &today.later,
        copies: &LibraryCopies::new(world, &files),
        openers: &Openers::of(&files, &today.programs, &today.own),
        in_working_directory: &with_such_lists(today.programs.iter().chain(&today.alone)),
    };
    let pins = decide(&rules, &today.programs, &today.alone, &today.own);
    let candidates = today.searching(&files, &eligible.changeable);
    let fixed = today.searching(&files, &eligible.fixed).into_iter();
    lessons.barred.extend(fixed.filter(|number| pins.binds(*number)));
    let roots: BTreeSet<PathBuf> =
        candidates.iter().map(|number| root_of(files[*number].path(), paths)).collect();
    let distrusted: BTreeMap<PathBuf, UnboundFile> =
        roots.into_iter().filter_map(|root| Some((root.clone(), distrusted(&root)?))).collect();
    lessons.left_out.extend(distrusted.values().cloned());
    let known = BindFacts {
        world,
        checked: &checked,
        distrusted: &distrusted,
        files: &files,
        programs: &today.programs,
        alone: &today.alone,
        own: &today.own,
        pins: &pins,
        options,
        packed,
        named: paths,
        dlopens: &dlopens(&files, today.in_use(&candidates)),
        candidates: &candidates,
        variants,
        places: &StartIndex::in_starts(today.programs.iter().chain(&today.alone)),
        musl: &today.musl(&files),
        brought: &today.brought,
        later: &today.later,
    };
    let mut made = MadeEdits::new();
    let binding = loop {
        let attempted = attempt(&resolver, &known, &mut lessons, &mut made, progress);
        let binding = finish(&known, attempted);
        if options.for_copies || !lessons.take_obstacles(&known, &binding) {
            break binding;
        }
    };
    let calm = eligible.changeable.len() - candidates.len();
    let (barred, cramped) = (lessons.barred.len(), lessons.cramped.len());
    Ok(Binding {
        stores,
        calm,
        barred,
        cramped,
        left_out: lessons.into_left_out(),
        checked,
        ..binding
    })
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
    mut stores: impl Iterator<Item = PackageStore>,
    options: &BindOptions,
) -> Result<(), BindError> {
    let allowed = options.immutable || options.for_copies;
    match stores.find(|store| store.manager.is_immutable() && !allowed) {
        Some(PackageStore { manager, root }) => Err(BindError::Immutable { path: root, manager }),
        None => Ok(()),
    }
}

/// What an attempt came to.
pub(super) struct Attempted {
    pub wanted: BindEdits,
    pub edits: Vec<Arc<BindAttempt>>,
    pub programs: Vec<Effect>,
    pub libraries: Vec<Effect>,
}

/// The edits of earlier attempts: what is asked for again is not made again.
type MadeEdits = HashMap<usize, Arc<BindAttempt>>;

/// One file's edit, and the file as it would then be.
pub(super) struct BindAttempt {
    pub number: usize,
    request: EditRequest,
    pub seen: remedy::Seen,
    pub edited: Edited,
    pub object: Arc<ElfObject>,
}

/// Edits that agree with today. Each time that they do not, at least one file is treated with more
/// caution, so that this comes to an end: with what agrees, be it nothing.
fn attempt(
    resolver: &Resolver<'_>,
    known: &BindFacts<'_>,
    lessons: &mut Lessons,
    made: &mut MadeEdits,
    progress: &(dyn Fn(BindProgress) + Sync),
) -> Attempted {
    let mut round = 0;
    loop {
        progress(BindProgress::Editing);
        let wanted = wanted(known, &lessons.cautions);
        let (edits, refused) = make(known, &wanted, made);
        progress(BindProgress::Checking);
        round += 1;
        if !refused.is_empty() {
            lessons.take_refused(known, refused);
            continue;
        }
        let with = |is_in: &dyn Fn(usize) -> bool| {
            overlay(resolver.world, known, &wanted, edits.iter().filter(|made| is_in(made.number)))
        };
        let precisely = round < ROUNDS;
        match compare(resolver, known, &with, &edits, precisely) {
            Ok(Compared { programs, libraries, idle, costly })
                if idle.is_empty() && costly.is_empty() =>
            {
                for (number, reason) in &wanted.refused {
                    lessons.leave_out(known, *number, reason.clone());
                }
                return Attempted { wanted, edits, programs, libraries };
            }
            Ok(Compared { idle, costly, .. }) => {
                lessons.take_costly(known, &costly);
                let leave = idle.into_iter().map(|number| (number, Caution::Leave));
                lessons.cautions.extend(leave);
            }
            Err(files) if precisely => lessons.take_differing(known, &files),
            Err(files) => lessons.leave_differing(known, &files),
        }
    }
}

/// Makes the edits that are asked for; files that an edit is refused for, with the reason.
fn make(
    known: &BindFacts<'_>,
    wanted: &BindEdits,
    made: &mut MadeEdits,
) -> (Vec<Arc<BindAttempt>>, Vec<(usize, Unmade)>) {
    let room = EditRoom { grow: known.options.grow };
    let each = |(number, request): (&usize, &EditRequest)| {
        if let Some(earlier) = made.get(number).filter(|earlier| earlier.request == *request) {
            return Ok(Arc::clone(earlier));
        }
        edited(known.checked, (*number, &known.files[*number]), request, room)
            .map(Arc::new)
            .map_err(|reason| (*number, reason))
    };
    let requests: Vec<_> = wanted.requests.iter().collect();
    let all: Vec<_> = requests.into_par_iter().map(each).collect();
    let (mut edits, mut refused) = (Vec::new(), Vec::new());
    for each in all {
        match each {
            Ok(edit) => {
                made.insert(edit.number, Arc::clone(&edit));
                edits.push(edit);
            }
            Err(why) => refused.push(why),
        }
    }
    edits.retain(|edit| !edit.edited.patches.is_empty());
    (edits, refused)
}

/// Why there is no edit of a file.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unmade {
    #[error("it cannot be read: {0}")]
    Read(#[from] std::io::Error),
    #[error("{0}")]
    Refused(#[from] Refused),
    #[error("{0}")]
    Patch(#[from] PatchError),
    #[error("{0}")]
    Elf(#[from] ElfError),
}

fn edited(
    checked: &CheckedFiles,
    (number, file): (usize, &ElfFileNames),
    request: &EditRequest,
    room: EditRoom,
) -> Result<BindAttempt, Unmade> {
    let read = match file.take_read() {
        Some(read) => read,
        None => read_again(checked, file.path())?,
    };
    let ReadFile { seen, content } = read;
    let edited = edit(&content, request, room)?;
    let after = apply(&content, &edited.patches)?;
    let object = Arc::new(ElfObject::parse(&after)?);
    Ok(BindAttempt { number, request: request.clone(), seen, edited, object })
}

/// Reads a file that was not kept, and finds out what changing it takes.
fn read_again(checked: &CheckedFiles, path: &Path) -> Result<ReadFile, Unmade> {
    let (file, found) = open_unnoticed(path)?;
    let seen = remedy::Seen::from_metadata(&found);
    let content = source::read(&file, 0, seen.size.0 as usize)?;
    checked.look(path, &file, &found);
    Ok(ReadFile { seen, content })
}

/// The world once these edits, and all that is new, are applied.
fn overlay<'a, 'b>(
    world: &'a dyn World,
    known: &BindFacts<'_>,
    wanted: &BindEdits,
    edits: impl Iterator<Item = &'b Arc<BindAttempt>>,
) -> PlannedWorld<'a> {
    let mut overlay = PlannedWorld::new(world);
    for made in edits {
        overlay.replace(known.files[made.number].id, Arc::clone(&made.object));
    }
    for (directory, links) in &wanted.farms.made {
        overlay.directory(directory);
        links.iter().for_each(|(name, target)| overlay.link(&directory.join(name), target));
    }
    for (path, content) in &wanted.stubs {
        if let Ok(object) = ElfObject::parse(content) {
            path.parent().into_iter().for_each(|directory| overlay.directory(directory));
            overlay.file(path, object);
        }
    }
    overlay
}
