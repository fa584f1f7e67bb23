//! What each program, and each library alone, loads today.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rayon::prelude::*;

use super::collect::ElfFileNames;
use super::through::Through;
use super::{Counts, StartEnvironment, UnboundFile};
use crate::object::Tag;
use crate::simulation::{Edge, FoundBy, LoadedObject};
use crate::{
    Dlopen, ElfObject, FileId, Identity, Libc, LoaderSetting, PlannedWorld, Simulation, World,
    outline, outline_run, simulate_run,
};

/// One start, reduced to what binding needs: a store has thousands of them.
#[derive(Debug)]
pub(super) struct LoaderRun {
    /// The file that is started, as an index into the collected files.
    pub root: usize,
    /// Whether it is a program; else a library, loaded as if nothing else were.
    pub is_program: bool,
    pub is_musl: bool,
    pub members: Vec<LoaderRunObject>,
    /// The calls that its start makes: up to the end, or to the first name that is missing.
    pub counts: Counts,
    /// Those that it makes once nothing is missing, by LD_LIBRARY_PATH perhaps.
    pub when_whole: Counts,
    /// Names that were not found.
    pub missing: Vec<OsString>,
    /// The environment that it has, by its number; none in the start of anyone else.
    pub environment: Option<usize>,
    /// What the program opens while it runs.
    pub opens: Vec<Dlopen>,
    /// What each of these came to; none where it failed.
    pub opened: Vec<Option<FileId>>,
    /// Whether it stands for the file's starts where these are counted: it is the one that was seen.
    pub is_told: bool,
}

/// One object of a start.
#[derive(Debug)]
pub(super) struct LoaderRunObject {
    /// The path by which it was opened.
    pub path: PathBuf,
    pub id: FileId,
    /// How it was found.
    pub found: ResolvedBy,
    pub object: Arc<ElfObject>,
    /// The member that serves each DT_NEEDED.
    pub needed: Vec<Option<usize>>,
    /// The name that it was asked for by.
    pub asked_as: OsString,
    /// The member that asked for it first.
    pub asked_by: Option<usize>,
    /// Whether nothing is searched for it: its needs are paths, or the loader.
    pub is_closed: bool,
}

/// How an object was found, as far as binding cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResolvedBy {
    /// It is the loader itself.
    Loader,
    /// It is the kernel's own library, of no file.
    Kernel,
    /// By a name with a slash, or as the program.
    Directly,
    /// In a list that the object with this number brings along.
    ByList { of: usize, through: Through },
    /// Where the machine keeps its libraries.
    BySystem,
    /// By LD_LIBRARY_PATH, or by the list of what only LD_PRELOAD brings in.
    ByEnvironment,
}

/// Simulates starts, each loader's setting made once.
pub(super) struct Resolver<'a> {
    pub world: &'a dyn World,
    pub files: &'a [ElfFileNames],
    /// Files that may find others from each of their names.
    linked: HashSet<FileId>,
    /// The loaders that programs here name.
    loaders: HashMap<Identity, PathBuf>,
    environments: &'a [StartEnvironment],
    settings: Mutex<HashMap<(PathBuf, Identity), Result<LoaderSetting, String>>>,
}

impl<'a> Resolver<'a> {
    pub fn new(
        world: &'a dyn World,
        files: &'a [ElfFileNames],
        environments: &'a [StartEnvironment],
    ) -> Resolver<'a> {
        let programs = files.iter().filter(|file| file.is_program());
        let loader = |file: &ElfFileNames| {
            Some((file.object.identity(), PathBuf::from(file.object.interpreter.as_ref()?)))
        };
        // Of several, the first by path: planning twice comes to the same.
        let loaders = programs.rev().filter_map(loader).collect();
        let linked = files.iter().filter(|file| file.is_in_several_places());
        let linked = linked.map(|file| file.id).collect();
        Resolver { world, files, linked, loaders, environments, settings: Mutex::default() }
    }

    /// The starts of the files with these numbers, and those that cannot be simulated.
    pub fn runs(
        &self,
        numbers: &[usize],
        done: &(dyn Fn() + Sync),
    ) -> (Vec<LoaderRun>, Vec<UnboundFile>) {
        let each = |number: &usize| {
            let starts = self.starts_of(*number);
            done();
            starts.map_err(|reason| UnboundFile {
                path: self.files[*number].path().to_owned(),
                reason,
            })
        };
        let all: Vec<_> = numbers.par_iter().map(each).collect();
        let (mut runs, mut left_out) = (Vec::new(), Vec::new());
        for each in all {
            match each {
                Ok(starts) => runs.extend(starts),
                Err(left) => left_out.push(left),
            }
        }
        (runs, left_out)
    }

    /// The starts of one file: without an environment, then in each that makes a difference; and where
    /// it was seen to open something, the same with that.
    fn starts_of(&self, number: usize) -> Result<Vec<LoaderRun>, String> {
        let file = &self.files[number];
        let plain = self.setting_of(number, None)?;
        let mut starts = vec![PlannedStart { environment: None, setting: &plain, opens: &[] }];
        let own = self.environments.iter().enumerate().filter(|(_, it)| it.concerns(file));
        let own: Vec<_> = own
            .map(|(at, environment)| Ok((at, environment, self.setting_of(number, Some(at))?)))
            .collect::<Result<_, String>>()?;
        for (at, StartEnvironment { opens, .. }, setting) in &own {
            let opens = if file.is_program() { &opens[..] } else { &[] };
            let environment = (*setting != plain).then_some(*at);
            for (environment, setting) in [(None, &plain), (environment, setting)] {
                let is_known = |it: &PlannedStart| it.setting == setting && it.opens == opens;
                if !starts.iter().any(is_known) {
                    starts.push(PlannedStart { environment, setting, opens });
                }
            }
        }
        let last = starts.len() - 1;
        let opens = starts.iter().any(|start| !start.opens.is_empty());
        // A run that was seen is told, be it in an environment or not; else the last start.
        let is_seen = |start: &PlannedStart| {
            let seen = |(_, seen, setting): &(usize, &StartEnvironment, LoaderSetting)| {
                setting == start.setting && seen.opens == start.opens
            };
            !start.opens.is_empty() && own.iter().any(seen)
        };
        let start = |(at, planned): (usize, &PlannedStart)| {
            let is_told = if opens { is_seen(planned) } else { at == last };
            let start = self.start(self.world, number, planned.setting, planned.opens)?;
            Ok(LoaderRun { environment: planned.environment, is_told, ..start })
        };
        starts.iter().enumerate().map(start).collect()
    }

    /// The same start in another world.
    pub fn again(&self, world: &dyn World, run: &LoaderRun) -> Result<LoaderRun, String> {
        self.start(world, run.root, &self.setting_of(run.root, run.environment)?, &run.opens)
    }

    /// One start. Of a set-user-id program, as others start it.
    fn start(
        &self,
        world: &dyn World,
        number: usize,
        setting: &LoaderSetting,
        opens: &[Dlopen],
    ) -> Result<LoaderRun, String> {
        let simulation = outline_run(world, self.files[number].path(), setting, opens)
            .map_err(|error| error.to_string())?;
        Ok(LoaderRun { opens: opens.to_vec(), ..self.reduced(number, setting, simulation) })
    }

    /// What a start looks up that is no object it loads, in order: names that are not there,
    /// directories, and the loader's cache.
    pub fn search_lookups(
        &self,
        world: &dyn World,
        run: &LoaderRun,
    ) -> Result<impl Iterator<Item = PathBuf>, String> {
        let setting = self.setting_of(run.root, run.environment)?;
        let simulation = simulate_run(world, self.files[run.root].path(), &setting, &run.opens)
            .map_err(|error| error.to_string())?;
        let loaded: HashSet<PathBuf> = simulation.objects.into_iter().map(|it| it.path).collect();
        let looked_up = simulation.probes.into_iter().map(|probe| probe.path);
        Ok(looked_up.filter(move |path| !loaded.contains(path)))
    }

    fn setting_of(
        &self,
        number: usize,
        environment: Option<usize>,
    ) -> Result<LoaderSetting, String> {
        let file = &self.files[number];
        let mut setting = self.setting(&file.object)?;
        setting.secure =
            file.mode & 0o6000 != 0 || file.is_program() && self.world.gains_rights(file.path());
        Ok(match environment {
            Some(at) => self.environments[at].applied_to(setting),
            None => setting,
        })
    }

    /// What an object that is no file comes to load for each of its needs: without an environment,
    /// and in each.
    pub fn needs_of(&self, object: ElfObject) -> Result<Vec<HashMap<OsString, FileId>>, String> {
        let plain = self.setting(&object)?;
        let path = Path::new("/nowhere/needs");
        let mut world = PlannedWorld::new(self.world);
        path.parent().into_iter().for_each(|directory| world.directory(directory));
        world.file(path, object);
        let needs = |setting: LoaderSetting| {
            let simulation = outline(&world, path, &setting).map_err(|error| error.to_string())?;
            let Some(first) = simulation.objects.first() else { return Ok(HashMap::new()) };
            let found = |edge: &Edge| Some((edge.name.clone(), simulation.objects[edge.to?].id));
            Ok(first.edges.iter().filter_map(found).collect())
        };
        let theirs = self.environments.iter().map(|theirs| theirs.applied_to(plain.clone()));
        let settings: Vec<LoaderSetting> = theirs.collect();
        std::iter::once(plain).chain(settings).map(needs).collect()
    }

    fn setting(&self, object: &ElfObject) -> Result<LoaderSetting, String> {
        let interpreter = match &object.interpreter {
            Some(interpreter) => PathBuf::from(interpreter),
            None => self.loader_for(object)?,
        };
        let mut settings = self.settings.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let identity = object.identity();
        let made = settings.entry((interpreter.clone(), identity)).or_insert_with(|| {
            LoaderSetting::for_interpreter(self.world, &interpreter, identity)
                .map_err(|error| error.to_string())
        });
        made.clone()
    }

    /// The loader of the programs that a library is for: that of a program beside it, else the
    /// machine's own.
    fn loader_for(&self, object: &ElfObject) -> Result<PathBuf, String> {
        let own = || LoaderSetting::usual_interpreter(object).map(PathBuf::from);
        let identity = object.identity();
        self.loaders.get(&identity).cloned().or_else(own).ok_or_else(|| foreign(identity))
    }

    fn reduced(&self, root: usize, setting: &LoaderSetting, simulation: Simulation) -> LoaderRun {
        let missing = simulation.missing.iter().map(|missing| missing.name.clone()).collect();
        let found = |number: usize| {
            let loaded = &simulation.objects[number];
            let list = |of: usize| {
                let LoadedObject { object, id, .. } = &simulation.objects[of];
                if self.linked.contains(id) {
                    return ResolvedBy::ByList { of, through: Through::Linked };
                }
                let list = object.runpath.as_ref().or(object.rpath.as_ref());
                let list = list.map(|list| list.as_bytes()).unwrap_or_default();
                ResolvedBy::ByList { of, through: Through::of(list, &loaded.path) }
            };
            match loaded.how {
                FoundBy::Interpreter => ResolvedBy::Loader,
                FoundBy::Kernel => ResolvedBy::Kernel,
                FoundBy::Rpath { of } => list(of),
                FoundBy::Runpath => list(loaded.loader.unwrap_or(0)),
                FoundBy::Cache | FoundBy::Default => ResolvedBy::BySystem,
                FoundBy::LibraryPath => ResolvedBy::ByEnvironment,
                _ if loaded.path == setting.interpreter => ResolvedBy::Loader,
                _ => ResolvedBy::Directly,
            }
        };
        let all: Vec<ResolvedBy> = (0..simulation.objects.len()).map(found).collect();
        let members = simulation.objects.iter().zip(&all).map(|(loaded, found)| {
            let needed = loaded.edges.iter().filter(|edge| edge.kind == Tag::Needed);
            let is_settled = |edge: &Edge| {
                let is_loader = edge.to.is_some_and(|to| all[to] == ResolvedBy::Loader);
                is_loader || edge.name.as_bytes().contains(&b'/')
            };
            LoaderRunObject {
                path: loaded.path.clone(),
                id: loaded.id,
                found: *found,
                object: Arc::clone(&loaded.object),
                needed: needed.map(|edge| edge.to).collect(),
                asked_as: loaded.asked_as.clone(),
                asked_by: loaded.loader,
                is_closed: loaded.edges.iter().all(is_settled),
            }
        });
        let members = members.collect();
        let is_musl = matches!(setting.libc, Libc::Musl(_));
        let opened = simulation.opened.iter().map(|to| Some(simulation.objects[(*to)?].id));
        let (opens, opened) = (Vec::new(), opened.collect());
        let Simulation { counts, when_whole, .. } = simulation;
        let is_program = self.files[root].is_program();
        let (environment, is_told) = (None, true);
        LoaderRun {
            root,
            is_program,
            is_musl,
            members,
            counts,
            when_whole,
            missing,
            environment,
            opens,
            opened,
            is_told,
        }
    }
}

/// A start that is to be simulated.
struct PlannedStart<'a> {
    environment: Option<usize>,
    setting: &'a LoaderSetting,
    opens: &'a [Dlopen],
}

/// Why a file for another machine stays as it is.
pub(super) fn foreign(identity: Identity) -> String {
    format!("it is for {}: the loader of that machine is not known", identity.machine_name())
}

impl LoaderRun {
    /// The numbers of the member that asked for an object, of the one that asked for that, and so on up to the program.
    pub fn askers(&self, of: &LoaderRunObject) -> impl Iterator<Item = usize> + Clone + use<'_> {
        std::iter::successors(of.asked_by, |by| self.members[*by].asked_by)
    }

    /// A member and all that it needs, at whatever distance.
    pub fn below(&self, member: usize) -> impl Iterator<Item = &LoaderRunObject> {
        let mut left = vec![member];
        let mut seen: HashSet<usize> = HashSet::from([member]);
        while let Some(number) = left.pop() {
            let needed = self.members[number].needed.iter().flatten();
            left.extend(needed.filter(|number| seen.insert(**number)));
        }
        seen.into_iter().map(|number| &self.members[number])
    }

    /// The members that need, at whatever distance, one that is marked; and these themselves.
    pub fn reaching(
        &self,
        is_marked: impl Fn(&LoaderRunObject) -> bool,
    ) -> impl Iterator<Item = &LoaderRunObject> {
        let mut needed_by: Vec<Vec<usize>> = vec![Vec::new(); self.members.len()];
        for (number, member) in self.members.iter().enumerate() {
            member.needed.iter().flatten().for_each(|to| needed_by[*to].push(number));
        }
        let numbers = 0..self.members.len();
        let mut left: Vec<usize> =
            numbers.filter(|number| is_marked(&self.members[*number])).collect();
        let mut seen: HashSet<usize> = left.iter().copied().collect();
        while let Some(number) = left.pop() {
            left.extend(needed_by[number].iter().filter(|above| seen.insert(**above)));
        }
        seen.into_iter().map(|number| &self.members[number])
    }

    /// The names that are searched, each with who needs it and what serves it.
    pub fn searched(&self) -> impl Iterator<Item = (&OsStr, &LoaderRunObject, &LoaderRunObject)> {
        self.members.iter().flat_map(|member| {
            let served = |(name, to): (_, &Option<usize>)| Some((name, &self.members[(*to)?]));
            member.object.needed().zip(&member.needed).filter_map(served).filter_map(
                move |(name, target): (_, &LoaderRunObject)| {
                    let is_path = name.as_bytes().contains(&b'/');
                    (!is_path && target.found != ResolvedBy::Loader)
                        .then_some((&**name, member, target))
                },
            )
        })
    }

    pub fn path<'a>(&self, files: &'a [ElfFileNames]) -> &'a Path {
        files[self.root].path()
    }
}
