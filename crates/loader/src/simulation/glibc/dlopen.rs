//! Objects that a running program opens (`dl_open_worker_begin` in elf/dl-open.c).

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use super::GlibcLoader;
use crate::setting::GlibcProfile;
use crate::simulation::probes::{Keep, Probes};
use crate::simulation::{
    Dlopen, Missing, ProbeCall, ProbeResult, RecordedProbe, SearchProbe, UnexplainedProbe,
};
use crate::{ElfObject, FileId, LoaderSetting, OpenedFile, World};

impl GlibcLoader<'_> {
    /// One call: the object and all that it needs, or what was loaded for it is dropped again.
    pub(super) fn dlopen(&mut self, call: &Dlopen) {
        // It is not kept beyond a start or a call (`_dl_unload_cache`).
        self.cache = None;
        let loaded = self.maps.len();
        let opened = self.map_of(call.caller).and_then(|caller| {
            let opened = self.map_object(&call.name, caller, false).ok()?;
            let stop = |_: &mut Self, missing: Missing| Err(missing);
            self.load_needs_of(std::iter::once(opened), &stop).ok()?;
            Some(opened)
        });
        if opened.is_none() {
            self.chain.drop_from(loaded);
        }
        self.opened.push(opened);
    }

    /// The objects that are there beside these, in the order in which they were loaded.
    pub(super) fn loaded_later(&self, first: &[usize]) -> Vec<usize> {
        let mut later: Vec<usize> = self.chain.iter().filter(|map| !first.contains(map)).collect();
        // The loader and the kernel's library are in the chain, and in no order of lookup.
        later.retain(|map| *map > super::KERNEL);
        later.sort_unstable();
        later
    }

    fn map_of(&self, id: FileId) -> Option<usize> {
        self.chain.iter().find(|map| self.file_of(*map) == Some(id))
    }

    fn file_of(&self, map: usize) -> Option<FileId> {
        let map = &self.maps[map];
        map.id.or(map.shown.as_ref().map(|(_, id)| *id))
    }
}

/// Which calls of dlopen explain what was recorded of a run: every lookup of its start, and every one
/// after it, must be one that the simulation makes, in the same order and with the same answer. A
/// recording does not say who called, nor by which name.
pub(in crate::simulation) fn infer(
    world: &dyn World,
    program: &Path,
    opened: &OpenedFile,
    object: Arc<ElfObject>,
    (setting, profile): (&LoaderSetting, &GlibcProfile),
    (start, later): (&[RecordedProbe], &[RecordedProbe]),
) -> Result<Vec<Dlopen>, UnexplainedProbe> {
    let mut loader = GlibcLoader::new(world, program, setting, profile, Keep::All);
    loader.start(opened, object);
    let same = loader.explains(start);
    if same != start.len() || same != loader.probes.list().len() {
        return Err(loader.unexplained(start, same));
    }
    let (mut calls, mut at) = (Vec::new(), 0);
    while at < later.len() {
        let Some((call, tried)) = loader.best_call(&later[at..]) else {
            return Err(loader.unexplained(later, at));
        };
        at += tried.probes.list().len();
        loader = tried;
        calls.push(call);
    }
    Ok(calls)
}

impl GlibcLoader<'_> {
    /// The call that explains most of what follows, all lookups of it; of equals, the most direct one.
    fn best_call(&self, later: &[RecordedProbe]) -> Option<(Dlopen, Self)> {
        let callers = self.callers();
        let calls = self.names(later).into_iter().flat_map(|name| {
            let call = move |caller: &FileId| Dlopen { name: name.clone(), caller: *caller };
            callers.iter().map(call).collect::<Vec<_>>()
        });
        let mut best: Option<(Dlopen, Self)> = None;
        for call in calls {
            let mut tried = self.clone();
            tried.probes = Probes::new(Keep::All);
            tried.dlopen(&call);
            // What is opened once more was closed, and is searched anew.
            if tried.opened.last().copied().flatten().is_some_and(|map| map < self.maps.len()) {
                continue;
            }
            let made = tried.probes.list().len();
            let most = best.as_ref().map_or(0, |(_, best)| best.probes.list().len());
            if made > most && tried.explains(later) == made {
                best = Some((call, tried));
            }
        }
        best
    }

    /// How many of the probes, from the first on, are those that were recorded.
    fn explains(&self, recorded: &[RecordedProbe]) -> usize {
        let probes = self.probes.list().iter().zip(recorded);
        probes.take_while(|(probe, recorded)| self.is_same(probe, recorded)).count()
    }

    fn is_same(&self, probe: &SearchProbe, recorded: &RecordedProbe) -> bool {
        let error = match probe.answer {
            ProbeResult::Refused(errno) => Some(errno),
            ProbeResult::Found | ProbeResult::Rejected(_) => None,
        };
        probe.call == recorded.call
            && error == recorded.error
            && self.setting.working_directory.join(&probe.path) == recorded.path
    }

    fn unexplained(&self, recorded: &[RecordedProbe], at: usize) -> UnexplainedProbe {
        UnexplainedProbe { at, path: recorded.get(at).map(|probe| probe.path.clone()) }
    }

    /// One file of each kind that code may call from: what it calls for is looked for by the same
    /// lists. The program is the first.
    fn callers(&self) -> Vec<FileId> {
        let mut kinds = Vec::new();
        let mut callers = Vec::new();
        for map in self.chain.met() {
            let kind = self.lists_of(*map);
            if let (false, Some(id)) = (kinds.contains(&kind), self.file_of(*map)) {
                kinds.push(kind);
                callers.push(id);
            }
        }
        callers
    }

    /// The lists that a name is looked for in on behalf of an object, with where they are from.
    fn lists_of(&self, map: usize) -> Vec<(&OsStr, &OsStr)> {
        let object = &self.maps[map].object;
        let own = object.runpath.as_deref().map(|list| (list, self.place_of(map)));
        let mut next = Some(map).filter(|_| own.is_none());
        let mut lists: Vec<_> = own.into_iter().collect();
        while let Some(map) = next {
            let object = &self.maps[map].object;
            let rpath = object.rpath.as_deref().filter(|_| object.runpath.is_none());
            lists.extend(rpath.map(|list| (list, self.place_of(map))));
            next = self.maps[map].loader;
        }
        lists
    }

    fn place_of(&self, map: usize) -> &OsStr {
        Path::new(&self.maps[map].path).parent().unwrap_or(Path::new("")).as_os_str()
    }

    /// The names that a call may have had whose lookups begin so: a path, the same from the working
    /// directory, which a recording does not tell apart, or what was looked for.
    fn names(&self, later: &[RecordedProbe]) -> Vec<OsString> {
        let is_open = |probe: &&RecordedProbe| probe.call == ProbeCall::Open;
        let is_cache = |probe: &RecordedProbe| self.profile.cache.as_ref() == Some(&probe.path);
        let direct = later.first().filter(is_open).filter(|probe| !is_cache(probe));
        let direct = direct.map(|probe| probe.path.as_path());
        let below = direct.and_then(|it| it.strip_prefix(&self.setting.working_directory).ok());
        let is_path = |it: &&Path| it.as_os_str().as_bytes().contains(&b'/');
        let searched = later.iter().filter(is_open).find(|probe| !is_cache(probe));
        // Where all is known of the directories of a list, a name is opened there at once, as a path is.
        // What is bound may change that, for a name only: so a name is assumed first.
        let names = [
            searched.and_then(|probe| probe.path.file_name()).map(OsStr::to_owned),
            direct.map(|it| it.as_os_str().to_owned()),
            below.map(|it| Path::new(".").join(it).into_os_string()),
            below.filter(is_path).map(|it| it.as_os_str().to_owned()),
        ];
        names.into_iter().flatten().collect()
    }
}
