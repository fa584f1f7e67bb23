//! Edits made, simulated, and compared with today: what is not the same is not kept.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::File as Handle;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use super::collect::{Collected, File, collect};
use super::own::{Own, is_plain};
use super::pins::{Rules, decide, needed};
use super::resolve::{Found, Member, Resolver, Run};
use super::store_of;
use super::wanted::{Caution, Known, Places, Wanted, dlopens, wanted};
use super::{BindError, Binding, Change, Effect, Leave, LeftOut, Mode, Options, Progress, Store};
use crate::edit::{Edited, PatchError, Refused, Request, Room, apply, edit};
use crate::{ElfError, FileId, Object, Overlay, World};

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
    let stores = stores(paths, options)?;
    progress(Progress::Looking);
    let Collected { files, left_out } = collect(paths)?;
    let mut binding = Binding { left_out, stores, ..Binding::default() };
    let leave = Leave::with(&options.leave);
    let eligible = eligible(&files, &leave, &mut binding.left_out);
    let resolver = Resolver::new(world, &files, options.library_path.clone());
    let today = Today::of(&resolver, &eligible, &mut binding.left_out, progress);
    let rules = Rules { files: &files, leave: &leave, absolute: options.absolute };
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
        places: &Places::in_starts(today.programs.iter().chain(&today.alone)),
        musl: &today.musl(&files),
    };
    let attempted = attempt(&resolver, &known, &mut binding.left_out, progress);
    finish(binding, &known, attempted)
}

/// The paths without symbolic links in them.
fn real(paths: &[PathBuf]) -> Result<Vec<PathBuf>, BindError> {
    let each = |path: &PathBuf| {
        path.canonicalize().map_err(|error| BindError::Path { path: path.clone(), error })
    };
    paths.iter().map(each).collect()
}

/// The stores that the paths lie in, where they may be changed.
fn stores(paths: &[PathBuf], options: &Options) -> Result<Vec<Store>, BindError> {
    let mut stores = BTreeSet::new();
    for path in paths {
        let real =
            path.canonicalize().map_err(|error| BindError::Path { path: path.clone(), error })?;
        let Some(store) = store_of(&real) else { continue };
        if store.manager.is_immutable() && !options.immutable {
            return Err(BindError::Immutable { path: path.clone(), manager: store.manager });
        }
        stores.insert((store.manager, store.root));
    }
    Ok(stores.into_iter().map(|(manager, root)| Store { manager, root }).collect())
}

/// The files that may be edited as far as they themselves are concerned.
fn eligible(files: &[File], leave: &Leave, left_out: &mut Vec<LeftOut>) -> HashSet<usize> {
    let mut eligible = HashSet::new();
    for (number, file) in files.iter().enumerate() {
        match why_not(file, leave) {
            None => drop(eligible.insert(number)),
            Some(reason) => left_out.push(LeftOut { path: file.path().to_owned(), reason }),
        }
    }
    eligible
}

fn why_not(file: &File, leave: &Leave) -> Option<String> {
    let name = file.path().file_name().unwrap_or_default();
    let soname = file.object.soname.as_deref().unwrap_or(name);
    if !file.object.is_dynamic {
        return Some("statically linked: nothing is searched for it".into());
    }
    if is_loader(soname) {
        return Some("the dynamic loader itself".into());
    }
    if let Some(pattern) = leave.pattern(soname).or_else(|| leave.pattern(name)) {
        return Some(format!("on the list of libraries that are left as they are ({pattern})"));
    }
    if file.mode & 0o6000 != 0 {
        return Some("setuid or setgid: the loader searches for it by other rules".into());
    }
    let here = file.names.len() as u64;
    (file.links > here).then(|| {
        let elsewhere = file.links - here;
        format!(
            "{elsewhere} more of its names (hard links) are not in the given paths: name them, too"
        )
    })
}

fn is_loader(soname: &OsStr) -> bool {
    let soname = soname.as_bytes();
    [&b"ld-linux"[..], b"ld-musl", b"ld64.so", b"ld.so", b"libc.musl"]
        .iter()
        .any(|start| soname.starts_with(start))
}

/// What is loaded today.
struct Today<'a> {
    programs: Vec<Run>,
    /// Libraries that no program loads, each loaded as if nothing else were.
    alone: Vec<Run>,
    own: Own<'a>,
}

impl<'a> Today<'a> {
    fn of(
        resolver: &Resolver<'a>,
        eligible: &HashSet<usize>,
        left_out: &mut Vec<LeftOut>,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Today<'a> {
        let files = resolver.files;
        let mut numbers: Vec<usize> = eligible.iter().copied().collect();
        numbers.sort_unstable();
        let (programs, libraries): (Vec<usize>, Vec<usize>) =
            numbers.into_iter().partition(|number| files[*number].is_program());
        let count = AtomicUsize::new(0);
        let run = |numbers: &[usize]| {
            let of = numbers.len();
            resolver.runs(numbers, &|| {
                let done = count.fetch_add(1, Ordering::Relaxed) + 1;
                progress(Progress::Simulating { done, of });
            })
        };
        let (programs, cannot) = run(&programs);
        left_out.extend(cannot);
        let loaded: HashSet<FileId> =
            programs.iter().flat_map(|run| &run.members).map(|member| member.id).collect();
        let (by_program, others): (Vec<usize>, Vec<usize>) = libraries
            .into_iter()
            .partition(|number| loaded.contains(&files[*number].id) && is_plain(&files[*number]));
        count.store(0, Ordering::Relaxed);
        let (alone, cannot) = run(&others);
        left_out.extend(cannot);
        let by_program: Vec<&File> = by_program.iter().map(|number| &files[*number]).collect();
        Today { programs, alone, own: Own::of(resolver, &by_program) }
    }

    /// The numbers of files whose start, or a start that they are part of, searches in vain.
    fn candidates(&self, files: &[File], eligible: &HashSet<usize>) -> HashSet<usize> {
        let numbers: HashMap<FileId, usize> =
            files.iter().enumerate().map(|(number, file)| (file.id, number)).collect();
        let (mut gain, mut in_programs): (HashSet<usize>, HashSet<usize>) = Default::default();
        for run in &self.programs {
            let members = run.members.iter().filter_map(|member| numbers.get(&member.id));
            if searches_in_vain(run) {
                gain.extend(members.clone());
            }
            in_programs.extend(members);
        }
        let alone = self.alone.iter().filter(|run| !in_programs.contains(&run.root));
        gain.extend(alone.filter(|run| searches_in_vain(run)).map(|run| run.root));
        gain.intersection(eligible).copied().collect()
    }

    fn musl(&self, files: &[File]) -> HashSet<usize> {
        let numbers: HashMap<FileId, usize> =
            files.iter().enumerate().map(|(number, file)| (file.id, number)).collect();
        let runs = self.programs.iter().chain(&self.alone).filter(|run| run.is_musl);
        runs.flat_map(|run| &run.members)
            .filter_map(|member| numbers.get(&member.id).copied())
            .collect()
    }

    /// The starts that edits of these files concern.
    fn in_use<'b>(
        &'b self,
        candidates: &'b HashSet<usize>,
    ) -> impl Iterator<Item = &'b Run> + Clone {
        let concerned = |run: &&Run| candidates.contains(&run.root) || searches_in_vain(run);
        self.programs.iter().chain(&self.alone).filter(concerned)
    }
}

fn searches_in_vain(run: &Run) -> bool {
    run.counts.failed_opens + run.counts.failed_stats > 0
}

/// What an attempt came to.
struct Attempted {
    wanted: Wanted,
    edits: Vec<Made>,
    programs: Vec<Effect>,
    libraries: Vec<Effect>,
}

/// One file's edit, and the file as it would then be.
struct Made {
    number: usize,
    seen: remedy::Seen,
    edited: Edited,
    object: Object,
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
                Ok((programs, libraries)) => {
                    leave_refused(known, &wanted, left_out);
                    return Attempted { wanted, edits, programs, libraries };
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

/// The starts with edits in them, before and after; or the files of starts that would differ.
fn compare(
    resolver: &Resolver<'_>,
    known: &Known<'_>,
    world: &Overlay<'_>,
    edits: &[Made],
) -> Result<(Vec<Effect>, Vec<Effect>), Vec<usize>> {
    let numbers: HashMap<FileId, usize> =
        edits.iter().map(|made| (known.files[made.number].id, made.number)).collect();
    let concerned = |run: &&Run| run.members.iter().any(|member| numbers.contains_key(&member.id));
    let effects = |runs: &[Run]| {
        let runs: Vec<&Run> = runs.iter().filter(concerned).collect();
        runs.into_par_iter()
            .map(|before| {
                let after = resolver.run(world, before.root);
                let same = after.as_ref().is_ok_and(|after| is_same(before, after));
                match after {
                    Ok(after) if same => Ok(effect(known.files, before, &after)),
                    _ => Err(members(before, &numbers)),
                }
            })
            .collect::<Vec<Result<Effect, Vec<usize>>>>()
    };
    let (programs, alone) = (effects(known.programs), effects(known.alone));
    let relying = relying(known, edits);
    let (relying, _) = resolver.runs(&relying, &|| ());
    let relying = effects(&relying);
    let differing: Vec<usize> = programs
        .iter()
        .chain(&alone)
        .chain(&relying)
        .filter_map(|each| each.as_ref().err())
        .flatten()
        .copied()
        .collect();
    if !differing.is_empty() {
        return Err(differing);
    }
    let good = |all: Vec<Result<Effect, _>>| all.into_iter().filter_map(Result::ok);
    let in_programs: HashSet<FileId> =
        known.programs.iter().flat_map(|run| &run.members).map(|member| member.id).collect();
    let by_path: HashMap<&Path, FileId> =
        known.files.iter().map(|file| (file.path(), file.id)).collect();
    let unused =
        |effect: &Effect| by_path.get(&*effect.path).is_some_and(|id| !in_programs.contains(id));
    Ok((good(programs).collect(), good(alone).filter(unused).collect()))
}

/// Libraries that programs load and whose list of folders changes, though something that they
/// need searches on and may look there: in another process than those that are known, too.
fn relying(known: &Known<'_>, edits: &[Made]) -> Vec<usize> {
    let closed: HashMap<FileId, bool> = edits
        .iter()
        .map(|made| {
            let bare = |name: &OsString| !name.as_bytes().contains(&b'/') && !is_loader(name);
            (known.files[made.number].id, !names(&made.object).any(bare))
        })
        .collect();
    let searches_on = |member: &Member| {
        let is_closed = closed.get(&member.id).copied().unwrap_or(member.is_closed);
        !is_closed && member.found != Found::Kernel
    };
    let open: HashSet<FileId> = known
        .programs
        .iter()
        .flat_map(|run| run.reaching(searches_on))
        .map(|member| member.id)
        .collect();
    let alone: HashSet<usize> = known.alone.iter().map(|run| run.root).collect();
    let relies = |made: &&Made| {
        let file = &known.files[made.number];
        let (was, is) = (&file.object, &made.object);
        let other_list = (&was.rpath, &was.runpath) != (&is.rpath, &is.runpath);
        other_list && !file.is_program() && open.contains(&file.id) && !alone.contains(&made.number)
    };
    edits.iter().filter(relies).map(|made| made.number).collect()
}

fn members(run: &Run, edited: &HashMap<FileId, usize>) -> Vec<usize> {
    run.members.iter().filter_map(|member| edited.get(&member.id)).copied().collect()
}

/// Whether the same files come in the same order, and the same serves each need. A closure
/// library, which holds no code, does not count.
fn is_same(before: &Run, after: &Run) -> bool {
    let (mut was, mut is) = (served(before), served(after));
    // A program with a closure library needs that alone.
    if after.members.iter().any(|member| is_closure(&member.path)) {
        let programs = was.first_mut().into_iter().chain(is.first_mut());
        programs.for_each(|(_, needs)| needs.clear());
    }
    // A library alone may now find what only programs could find for it.
    if !before.is_program && !before.missing.is_empty() {
        let is: HashMap<_, _> = is.into_iter().collect();
        return was.iter().all(|(id, needs)| {
            let Some(now) = is.get(id) else { return false };
            needs.iter().zip(now).all(|(was, is)| was.is_none() || was == is)
        });
    }
    before.missing == after.missing && was == is
}

/// Every object in its order, and what serves its needs.
fn served(run: &Run) -> Vec<(FileId, Vec<Option<FileId>>)> {
    let to = |to: &Option<usize>| to.map(|to| run.members[to].id);
    let real = run.members.iter().filter(|member| !is_closure(&member.path));
    let all = real.map(|member| (member.id, member.needed.iter().map(to).collect()));
    all.collect()
}

fn is_closure(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_bytes().starts_with(b"libbecalm-closure-"))
}

fn effect(files: &[File], before: &Run, after: &Run) -> Effect {
    Effect {
        path: before.path(files).to_owned(),
        objects: before.members.len(),
        before: before.counts,
        after: after.counts,
        missing: before.missing.iter().map(|name| name.to_string_lossy().into_owned()).collect(),
    }
}

/// Puts the result together.
fn finish(
    mut binding: Binding,
    known: &Known<'_>,
    attempted: Attempted,
) -> Result<Binding, BindError> {
    let Attempted { wanted, edits, programs, libraries } = attempted;
    let used = used_texts(&edits);
    binding.changes = edits.into_iter().map(|made| change(known, made)).collect();
    binding.calm += known.candidates.len().saturating_sub(binding.changes.len());
    let mut folders = BTreeSet::new();
    for (folder, links) in &wanted.farms.made {
        if !used.iter().any(|text| contains(text, folder.as_os_str().as_bytes())) {
            continue;
        }
        add_folders(folder, &mut folders);
        for (name, target) in links {
            let link = folder.join(name);
            if std::fs::read_link(&link).ok().as_ref() != Some(target) {
                binding.links.push((link, target.clone()));
            }
        }
    }
    for (path, content) in wanted.stubs {
        let is_used = used.iter().any(|text| contains(text, path.as_os_str().as_bytes()));
        if is_used && std::fs::read(&path).ok().as_ref() != Some(&content) {
            path.parent().into_iter().for_each(|folder| add_folders(folder, &mut folders));
            binding.files.push((path, content));
        }
    }
    binding.folders = folders.into_iter().collect();
    binding.conflicts = known.pins.conflicts.clone();
    binding.risks = risks(known, &binding);
    (binding.programs, binding.libraries) = (programs, libraries);
    Ok(binding)
}

/// The texts that edited files hold afterwards.
fn used_texts(edits: &[Made]) -> Vec<Vec<u8>> {
    let texts = |made: &Made| {
        let object = &made.object;
        let needed = object.dependencies.iter().map(|entry| entry.name.clone());
        let lists = object.rpath.iter().chain(&object.runpath).cloned();
        needed.chain(lists).map(OsStringExt::into_vec).collect::<Vec<_>>()
    };
    let mut all: Vec<Vec<u8>> = edits.iter().flat_map(texts).collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// A folder that is not there, and those above it that are not.
fn add_folders(folder: &Path, folders: &mut BTreeSet<PathBuf>) {
    let absent = folder.ancestors().take_while(|folder| !folder.exists());
    folders.extend(absent.map(Path::to_path_buf));
}

fn change(known: &Known<'_>, made: Made) -> Change {
    let file = &known.files[made.number];
    let after: Vec<&OsString> = names(&made.object).collect();
    let pairs = needed(file).map(OsStr::to_os_string).zip(after.into_iter().cloned());
    let list =
        |object: &Object| object.runpath.clone().or(object.rpath.clone()).unwrap_or_default();
    let (before, now) = (list(&file.object), list(&made.object));
    Change {
        path: file.path().to_owned(),
        also: file.names[1..].to_vec(),
        seen: made.seen,
        needed: pairs.filter(|(old, new)| old != new).collect(),
        search: (before != now).then_some((before, now)),
        tier: made.edited.tier,
        patches: made.edited.patches,
    }
}

fn names(object: &Object) -> impl Iterator<Item = &OsString> {
    let needed = |entry: &&crate::object::Dependency| entry.tag == crate::object::Tag::Needed;
    object.dependencies.iter().filter(needed).map(|entry| &entry.name)
}

fn risks(known: &Known<'_>, binding: &Binding) -> Vec<String> {
    let mut risks = Vec::new();
    if binding.changes.is_empty() {
        return risks;
    }
    risks.push(
        "Checksums and signatures of the changed files no longer match what their package \
         manager or IMA keeps of them."
            .to_owned(),
    );
    let modes: HashSet<Mode> =
        known.candidates.iter().map(|number| known.mode_of(*number)).collect();
    if modes.contains(&Mode::Needed) || modes.contains(&Mode::Closure) {
        risks.push(
            "A bound library is no longer replaced by LD_LIBRARY_PATH, and one preloaded from \
             another place is loaded besides."
                .to_owned(),
        );
    }
    if let Some(path) = outside(known, binding) {
        risks.push(format!(
            "Programs are bound to libraries outside the given paths, such as {}: they start \
             only where these lie at the same place (another image, a container, an upgrade).",
            path.display()
        ));
    }
    let relies = !binding.links.is_empty() || !binding.files.is_empty();
    if relies {
        risks.push("The new folder .becalm is part of the installation from then on.".to_owned());
    }
    risks
}

/// A library outside the named paths that something was bound to.
fn outside(known: &Known<'_>, binding: &Binding) -> Option<PathBuf> {
    let targets = binding.changes.iter().flat_map(|change| &change.needed);
    let mut paths = targets.map(|(_, new)| Path::new(new)).filter(|path| path.is_absolute());
    let within = |path: &Path| known.named.iter().any(|named| path.starts_with(named));
    paths.find(|path| !within(path)).map(Path::to_path_buf)
}
