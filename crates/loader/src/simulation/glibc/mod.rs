//! The GNU C library's loader, from elf/rtld.c on. The files here follow its sources; what they
//! cite is of version 2.36 unless said otherwise.

mod cached;
mod chain;
mod dependencies;
mod directories;
mod dlopen;
mod map;
mod preload;
mod search;
mod tokens;
mod verify;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chain::Chain;
use directories::SearchDirectories;
use map::LinkMap;

use super::probes::{Keep, Probes};
use super::{Dlopen, Fatal, FoundBy, Missing, ProbeCall, ProbeResult, SearchProbe, Simulation};
use crate::setting::GlibcProfile;
use crate::{ElfObject, Errno, FileId, LoaderSetting, OpenedFile, World, cache};

pub(super) use dlopen::infer;

/// The loader's state, while it loads.
#[derive(Clone)]
struct GlibcLoader<'a> {
    world: &'a dyn World,
    setting: &'a LoaderSetting,
    profile: &'a GlibcProfile,
    program: &'a Path,
    /// Every object, in the order of loading; the indices of all that follows.
    maps: Vec<LinkMap>,
    chain: Chain,
    directories: SearchDirectories,
    cache: Option<Option<cache::LdSoCache>>,
    probes: Probes,
    missing: Vec<Missing>,
    fatal: Option<Fatal>,
    /// What the calls of dlopen came to.
    opened: Vec<Option<usize>>,
}

/// How [`World::bytes`] says that a path leads to a directory or a device.
const NO_FILE: [i32; 2] = [libc::EISDIR, libc::EINVAL];

/// Which map is whose, always.
const PROGRAM: usize = 0;
const INTERPRETER: usize = 1;
const KERNEL: usize = 2;

/// Starts `program`, which is `opened` and says `object`, and which then calls dlopen. Nothing if
/// the probes are too many.
pub(super) fn start(
    world: &dyn World,
    program: &Path,
    opened: &OpenedFile,
    object: Arc<ElfObject>,
    (setting, profile, keep, calls): (&LoaderSetting, &GlibcProfile, Keep, &[Dlopen]),
) -> Option<Simulation> {
    let mut loader = GlibcLoader::new(world, program, setting, profile, keep);
    let mut order = loader.start(opened, object);
    if loader.fatal.is_none() {
        calls.iter().for_each(|call| loader.dlopen(call));
        order.extend(loader.loaded_later(&order));
    }
    loader.finish(&order)
}

impl<'a> GlibcLoader<'a> {
    fn new(
        world: &'a dyn World,
        program: &'a Path,
        setting: &'a LoaderSetting,
        profile: &'a GlibcProfile,
        keep: Keep,
    ) -> GlibcLoader<'a> {
        GlibcLoader {
            world,
            setting,
            profile,
            program,
            maps: Vec::new(),
            chain: Chain::default(),
            directories: SearchDirectories::new(profile),
            cache: None,
            probes: Probes::new(keep),
            missing: Vec::new(),
            fatal: None,
            opened: Vec::new(),
        }
    }

    /// All that is done before the program runs. Gives the order of symbol lookup.
    fn start(&mut self, opened: &OpenedFile, object: Arc<ElfObject>) -> Vec<usize> {
        self.add_first(opened, object);
        self.init_paths();
        self.preload();
        self.load_dependencies()
    }
}

impl GlibcLoader<'_> {
    /// The objects that are there before anything is searched: the program, the loader itself
    /// under the name that the program calls it, and the kernel's own library.
    fn add_first(&mut self, opened: &OpenedFile, object: Arc<ElfObject>) {
        let mut program = LinkMap::new(OsString::new(), OsString::new(), object, FoundBy::Program);
        // The loader does not know which file the program is (rtld.c: "in a bit of trouble").
        program.shown = Some((self.program.to_owned(), opened.id));
        program.add_name(OsString::new());
        let name = self.setting.interpreter.clone().into_os_string();
        let itself = self.world.open(&self.setting.interpreter);
        let id = itself.as_ref().map_or(FileId { device: 0, inode: 0 }, |opened| opened.id);
        let says = itself.ok().and_then(|opened| opened.object.ok());
        let mut interpreter = LinkMap::new(
            name.clone(),
            name.clone(),
            says.unwrap_or_default(),
            FoundBy::Interpreter,
        );
        interpreter.shown = Some((self.setting.interpreter.clone(), id));
        let vdso = self.profile.vdso.clone();
        let mut kernel = LinkMap::new(vdso.clone(), vdso.clone(), Arc::default(), FoundBy::Kernel);
        kernel.shown = Some((PathBuf::from(vdso), FileId { device: 0, inode: 0 }));
        self.maps = vec![program, interpreter, kernel];
        for number in [PROGRAM, INTERPRETER, KERNEL] {
            self.chain.push(number, &self.maps[number]);
        }
    }

    /// Prepares the lists of directories (`_dl_init_paths` in elf/dl-load.c).
    fn init_paths(&mut self) {
        self.probe_suid_debug();
        if self.probe_nohwcap(PROGRAM, &Arc::default()) {
            self.directories.only_bare();
        }
        self.read_lists(PROGRAM);
        let list = self.setting.library_path.clone().filter(|_| !self.setting.secure);
        if let Some(list) = list.filter(|list| !list.is_empty()) {
            let elements = self.elements(&list, b":;", PROGRAM);
            self.directories.set_library_path(elements);
        }
    }

    /// Where rights were gained, `process_envvars` (elf/rtld.c) asks for this file, and since
    /// 2.26 `__tunables_init` (elf/dl-tunables.c) before it. Version 2.39 knows it no more.
    fn probe_suid_debug(&mut self) {
        let times = match self.profile.version {
            _ if !self.setting.secure => 0,
            (2, ..26) => 1,
            (2, 26..39) => 2,
            _ => 0,
        };
        for _ in 0..times {
            self.probe_access(Path::new("/etc/suid-debug"), PROGRAM, &Arc::default());
        }
    }

    /// Asks whether a file is there.
    fn probe_access(&mut self, path: &Path, map: usize, name: &Arc<OsString>) -> bool {
        // What is no regular file is there, too, though it cannot be read.
        let answer = match self.world.bytes(path) {
            Err(errno) if !NO_FILE.contains(&errno.0) => ProbeResult::Refused(errno),
            _ => ProbeResult::Found,
        };
        let found = answer == ProbeResult::Found;
        self.probe(ProbeCall::Access, path, answer, map, name);
        found
    }

    /// Debian's former patch local-ldso-disable-hwcap.diff.
    fn probe_nohwcap(&mut self, map: usize, name: &Arc<OsString>) -> bool {
        self.profile.nohwcap && self.probe_access(Path::new("/etc/ld.so.nohwcap"), map, name)
    }

    fn probe(
        &mut self,
        call: ProbeCall,
        path: &Path,
        answer: ProbeResult,
        map: usize,
        name: &Arc<OsString>,
    ) {
        let name = name.clone();
        self.probes
            .push(path, SearchProbe { call, path: PathBuf::new(), answer, for_object: map, name });
    }

    /// A path as the kernel takes it.
    fn open(&self, path: &Path) -> Result<OpenedFile, Errno> {
        if path.is_absolute() {
            self.world.open(path)
        } else if path.as_os_str().is_empty() {
            Err(Errno(libc::ENOENT))
        } else {
            self.world.open(&self.setting.working_directory.join(path))
        }
    }

    /// Notes that `missing` keeps the program from starting. What else it needs is told as by
    /// `ldd`, and counted apart.
    fn lose(&mut self, missing: Missing) {
        let at = self.missing.len();
        self.missing.push(missing);
        self.fatal.get_or_insert(Fatal { after: self.probes.len(), missing: at });
        self.probes.fail();
    }

    /// Puts the objects into the order of symbol lookup, and says all indices in it.
    fn finish(mut self, order: &[usize]) -> Option<Simulation> {
        let mut place = vec![usize::MAX; self.maps.len()];
        for (at, map) in order.iter().enumerate() {
            place[*map] = at;
        }
        // What a dlopen that failed had loaded is gone: it stands for who asked for it.
        for map in 0..place.len() {
            let mut stays = map;
            while let (usize::MAX, Some(loader)) = (place[stays], self.maps[stays].loader) {
                stays = loader;
            }
            place[map] = place[stays];
        }
        let mut maps: Vec<Option<LinkMap>> = self.maps.drain(..).map(Some).collect();
        let loaded = order.iter().filter_map(|map| maps[*map].take());
        let (mut probes, counts, when_whole) = self.probes.into_list()?;
        for probe in &mut probes {
            probe.for_object = place[probe.for_object];
        }
        for missing in &mut self.missing {
            missing.needed_by = place[missing.needed_by];
        }
        Some(Simulation {
            objects: loaded.map(|map| map.loaded(&place)).collect(),
            probes,
            counts,
            when_whole,
            missing: self.missing,
            fatal: self.fatal,
            opened: self.opened.into_iter().map(|to| to.map(|map| place[map])).collect(),
        })
    }
}
