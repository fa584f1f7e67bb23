//! Libraries searched over long lists, at the start or later: the files name them by full path.
//!
//! In place where the files are this user's; else in copies that `becalm run` shows to the command
//! alone; and where that is not allowed, or for everyone, by who owns them. Which entries of
//! LD_LIBRARY_PATH another start needs, no recording of this one tells.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use explain::{Finding, LoaderSource, SourcePath, Storm, StormSource};
use loader::bind::{BindError, Binding, INHERITED};
use loader::edit::Tier;
use recording::{Name, Recording};
use term::number::counted;

use crate::binding::{
    BoundAs, belongs_to_the_system, effect, loaded, named_and_not_shown, simulated,
};
use crate::cure::{Cure, CureActor, CureChange, RefusedCure, StormCures};
use crate::environments::library_paths;
use crate::grow;
use crate::image_cure::{PackableDirectories, WantedImage};
use crate::launched_image::{IN_AN_IMAGE, launched_image};
use crate::machine::{FileWriter, Machine};
use crate::pack;
use crate::plan::PlanInput;
use crate::prediction::CureEffect;

/// What binding does to a start, in each way that is open to this user.
#[derive(Default)]
pub(crate) struct BoundFiles {
    /// In place.
    pub in_place: Binding,
    /// In copies.
    pub copies: Binding,
    /// In place, by who owns the files, or the administrator.
    owners: Binding,
    /// The cures, the best first.
    pub cures: Vec<Cure>,
    /// Why what gains something is not chosen.
    pub not_chosen: Vec<RefusedCure>,
}

/// Of each copy `becalm run` looks at the file and at the copy, which the server is asked for.
const ASKED_A_COPY: u64 = 2;
/// Then the client's cache tells: whether it may be read, where the two are, and the mount.
const SHOWN_A_COPY: u64 = 6;
/// What is asked once: namespaces, other ranks, the calm file.
const SHOWN: u64 = 80;
/// In place is good enough where it takes away so much of what copies of all files would.
const MOST: f64 = 0.8;

impl BoundFiles {
    /// The ways to bind what the command loads, if that can gain anything.
    pub(crate) fn of(input: &PlanInput) -> BoundFiles {
        match can_gain(input) {
            true => BoundFiles::planned(input).unwrap_or_else(|error| BoundFiles {
                not_chosen: vec![refused(error.to_string())],
                ..BoundFiles::default()
            }),
            false => BoundFiles::default(),
        }
    }

    fn planned(input: &PlanInput) -> Result<BoundFiles, BindError> {
        let PlanInput { recording, machine, options, predictor, .. } = input;
        let files = loaded_files(recording);
        let others = others(&files, machine);
        let mut all = BoundFiles::default();
        if others.len() < files.len() {
            all.in_place = simulated(recording, &files, options, BoundAs::Yours)?;
        }
        let in_place = effect(recording, &all.in_place);
        let mut copied = CureEffect::default();
        if !others.is_empty() {
            all.copies = simulated(recording, &files, options, BoundAs::Copies)?;
            all.owners = simulated(recording, &files, options, BoundAs::Owners)?;
            copied = effect(recording, &all.copies);
            let files = all.copies.changes.len() as u64;
            let named = named_and_not_shown(&all.copies).len() as u64;
            copied.looked_at = ASKED_A_COPY * files + named;
            copied.added = SHOWN + SHOWN_A_COPY * files;
        }
        let spared = |effect: &CureEffect| predictor.predict(effect).spared() as f64;
        let is_enough = spared(&in_place) >= MOST * spared(&copied);
        all.take(input, is_enough, in_place, copied, &others);
        if all.in_place.cramped > 0 {
            let grown = grow::cure(input, &files, &all)?;
            all.cures.extend(grown);
        }
        if all.cures.is_empty() && all.not_chosen.is_empty() {
            let why = all.why_none(&files);
            all.not_chosen.push(refused(why));
        }
        Ok(all)
    }

    /// Why none of these files is bound.
    fn why_none(&self, files: &[PathBuf]) -> String {
        if files.is_empty() {
            return "they are the operating system's: its package manager would put them back"
                .into();
        }
        let left = self.in_place.left_out.iter().chain(&self.copies.left_out);
        match left.into_iter().find(|left| files.contains(&left.path)) {
            Some(left) => format!("{}: {}", term::plain(&left.path.to_string_lossy()), left.reason),
            None => "nothing that it searches for is named in them".to_owned(),
        }
    }

    /// Where names stay that other programs may find elsewhere: what would know of these.
    fn inherited(&self) -> Option<String> {
        let left = self.in_place.names_left.iter().chain(&self.copies.names_left);
        let left = left.into_iter().find(|left| left.reason == INHERITED)?;
        let plain = |name: &OsStr| term::plain(&name.to_string_lossy());
        Some(format!(
            "{} needs {}: {INHERITED}; becalm elf bind knows, given all programs that load it",
            plain(left.file.file_name().unwrap_or_default()),
            plain(&left.name),
        ))
    }

    /// The cures, of what was simulated.
    fn take(
        &mut self,
        input: &PlanInput,
        in_place_is_enough: bool,
        in_place: CureEffect,
        copied: CureEffect,
        others: &[(PathBuf, FileWriter)],
    ) {
        let bound =
            (!self.in_place.changes.is_empty()).then(|| bind(input, &self.in_place, in_place));
        let is_beside = self.copies.directories.is_empty() && self.copies.files.is_empty();
        let copies = (!self.copies.changes.is_empty() && is_beside).then_some(copied);
        let shown = copies.filter(|_| (input.machine.can_mount)());
        let shown = shown.map(|effect| show(input, &self.copies, effect));
        let asked = ask(input, &self.owners, effect(input.recording, &self.owners), others);
        let own = match in_place_is_enough {
            true => [bound, shown],
            false => [shown, bound],
        };
        let own: Vec<_> = own.into_iter().flatten().collect();
        let (mut cures, small): (Vec<_>, Vec<_>) =
            own.into_iter().chain(asked).partition(|cure| cure.predicted.is_worth_it());
        // Files that are another's are better bound by that one, but not where one's own are enough.
        cures.truncate(if in_place_is_enough { 1 } else { 3 });
        if cures.is_empty() {
            let why =
                |cure: &Cure| refused(self.inherited().unwrap_or(cure.predicted.too_little()));
            let why = small.first().map(why);
            self.not_chosen.extend(why);
        } else if let Some(why) = self.inherited() {
            let text = "Bind the names that stay".to_owned();
            self.not_chosen.push(RefusedCure { storm: Storm::Loader, text, why });
        }
        self.cures = cures;
    }
}

fn refused(why: String) -> RefusedCure {
    RefusedCure { storm: Storm::Loader, text: "Bind the files".to_owned(), why }
}

/// Whether failed lookups of the loader are a tenth of what the start does, or a storm.
fn can_gain(input: &PlanInput) -> bool {
    let is_storm = |finding: &Finding| matches!(finding.storm, Storm::Loader | Storm::Dlopen);
    let events = input.recording.events.iter();
    let failed = events.filter(|event| event.in_loader && event.is_missing()).count() as u64;
    failed > 0
        && (failed * 10 >= input.findings.totals.metadata_ops
            || input.findings.storms.iter().any(is_storm))
}

/// What the command loads, that is there and not the system's.
pub fn loaded_files(recording: &Recording) -> Vec<PathBuf> {
    let files = loaded(recording, |path| !belongs_to_the_system(path));
    files.iter().map(|file| file.path().to_owned()).filter(|path| path.is_file()).collect()
}

/// The files that this user cannot change, each with who can.
fn others(files: &[PathBuf], machine: &Machine) -> Vec<(PathBuf, FileWriter)> {
    let each = files.iter().map(|file| (file.clone(), (machine.file_writer)(file)));
    each.filter(|(_, writer)| *writer != FileWriter::You).collect()
}

/// The sources of a storm and what can be done about it.
pub(crate) fn cures(input: &PlanInput, finding: &Finding, bound: &BoundFiles) -> StormCures {
    let as_of = |cure: &Cure| Cure { storm: finding.storm, ..cure.clone() };
    // What `becalm fix` does of both storms is told of both; a line to paste once.
    let is_of_loader = |it: &&Finding| matches!(it.storm, Storm::Loader | Storm::Dlopen);
    let first = input.findings.storms.iter().find(is_of_loader);
    let is_first = first.is_some_and(|it| it.storm == finding.storm);
    let told = bound.cures.iter().filter(|cure| is_first || !cure.goes_further());
    let mut all = StormCures { cures: told.map(as_of).collect(), ..Default::default() };
    all.cures.extend(pack::cure(input).filter(|cure| cure.storm == finding.storm));
    let is_by_variable = finding
        .sources
        .iter()
        .any(|source| matches!(source, StormSource::Loader(LoaderSource::LdLibraryPath { .. })));
    if is_by_variable {
        match library_path_image(input, finding.storm) {
            Ok(image) => all.add_image(image),
            Err(why) => all.not_chosen.push(RefusedCure {
                storm: finding.storm,
                text: "An image of the directories of LD_LIBRARY_PATH".to_owned(),
                why,
            }),
        }
        all.not_chosen.push(RefusedCure {
            storm: finding.storm,
            text: "A shorter LD_LIBRARY_PATH, or one directory of links for all of it".to_owned(),
            why:
                "every program that starts there searches it: which directories another needs, no \
                  recording of this one tells"
                    .to_owned(),
        });
    }
    let not_chosen = bound.not_chosen.iter().cloned();
    all.not_chosen
        .extend(not_chosen.map(|refused| RefusedCure { storm: finding.storm, ..refused }));
    all
}

impl StormCures {
    /// Adds an image: before what binds files, if that takes away considerably less.
    fn add_image(&mut self, image: Cure) {
        let spared = |cure: &Cure| cure.predicted.spared() as f64;
        let is_enough = |cure: &Cure| spared(cure) >= MOST * spared(&image);
        let first = self.cures.iter().find(|cure| cure.is_appliable());
        let at = if first.is_some_and(is_enough) { self.cures.len() } else { 0 };
        self.cures.insert(at, image);
    }
}

pub(crate) fn changed(binding: &Binding) -> Vec<SourcePath> {
    let files = binding.changes.iter();
    files.map(|change| SourcePath { id: None, name: Name::of(&change.path) }).collect()
}

/// An image of what LD_LIBRARY_PATH names: its lists stay as they are, and are searched on the node.
fn library_path_image(input: &PlanInput, storm: Storm) -> Result<Cure, String> {
    if launched_image(input.recording).is_some() {
        return Err(IN_AN_IMAGE.to_owned());
    }
    let packed = PackableDirectories::of_own(input, library_paths(input.recording))?;
    let directories = &packed.directories;
    let of = counted(directories.len() as u64, "directory", "directories");
    let of = format!("{of} of LD_LIBRARY_PATH{}", packed.without());
    let (file, looked_at) = ("libraries.sqsh", packed.looked_at);
    WantedImage { storm, of: &of, file, directories, looked_at }.cure(input)
}

fn files_of(binding: &Binding) -> String {
    counted(binding.changes.len() as u64, "file", "files")
}

fn bind(input: &PlanInput, binding: &Binding, effect: CureEffect) -> Cure {
    Cure {
        storm: Storm::Loader,
        text: format!(
            "Bind {}: each then names its libraries by full path, and nothing is searched; becalm \
             undo takes it back",
            files_of(binding)
        ),
        command: Some(format!("becalm fix --apply -- {}", input.line)),
        actor: CureActor::You,
        owner: None,
        change: CureChange::BindFiles { files: changed(binding) },
        risk: Some(
            "a library that is moved is no longer found by its name; what verifies files sees that \
             they changed"
                .to_owned(),
        ),
        predicted: input.predictor.predict(&effect),
        effect,
    }
}

fn show(input: &PlanInput, binding: &Binding, effect: CureEffect) -> Cure {
    Cure {
        storm: Storm::Loader,
        text: format!(
            "Launch it with copies of {} shown in their place, which name their libraries by full \
             path: the files stay as they are",
            files_of(binding)
        ),
        command: Some(input.fix_with_calm_file()),
        actor: CureActor::You,
        owner: None,
        change: CureChange::ShowBoundCopies { files: changed(binding) },
        risk: Some(
            "copies of files that are updated are stale: becalm run says so, and then make the calm \
             file anew; LD_LIBRARY_PATH, and what is installed later where it was searched first, \
             replace no library of theirs"
                .to_owned(),
        ),
        predicted: input.predictor.predict(&effect),
        effect,
    }
}

/// The same, by who owns the files.
fn ask(
    input: &PlanInput,
    binding: &Binding,
    effect: CureEffect,
    others: &[(PathBuf, FileWriter)],
) -> Option<Cure> {
    let is_changed = |path: &Path| binding.changes.iter().any(|change| change.path == path);
    let real = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
    let writers = others.iter().filter(|(path, _)| is_changed(&real(path)));
    let (_, writer) = writers.into_iter().find(|(_, writer)| *writer != FileWriter::Nobody)?;
    let (actor, owner) = match writer {
        FileWriter::Owner(name) => (CureActor::Owner, name.clone()),
        FileWriter::Root => (CureActor::Root, None),
        FileWriter::You | FileWriter::Nobody => return None,
    };
    let who = match (&owner, actor) {
        (_, CureActor::Root) => "the administrator".to_owned(),
        (Some(name), _) => format!("{}, who owns them,", term::plain(name)),
        (None, _) => "their owner".to_owned(),
    };
    let is_grown = binding.changes.iter().any(|change| change.tier == Tier::Grown);
    let grow = if is_grown { " --grow" } else { "" };
    Some(Cure {
        storm: Storm::Loader,
        text: format!("Ask {who} to bind {}, for everyone who starts it", files_of(binding)),
        command: Some(format!("becalm fix --apply{grow} -- {}", input.line)),
        actor,
        owner,
        change: CureChange::BindFiles { files: changed(binding) },
        risk: None,
        predicted: input.predictor.predict(&effect),
        effect,
    })
}
