//! musl's loader (ldso/dynlink.c, version 1.2.3).
//!
//! It knows libraries by the file name under which it found them, never by DT_SONAME; has no
//! cache and no sub-directories; and goes on after what is missing, to end the run only then.

mod lists;

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::probes::{Keep, Probes};
use super::{
    Edge, Fatal, FoundBy, LoadedObject, Missing, MissingReason, ProbeCall, ProbeResult, Rejection,
    SearchProbe, Simulation,
};
use crate::object::Tag;
use crate::setting::Musl;
use crate::{ElfObject, Errno, FileId, LoaderSetting, OpenedFile, World};

/// Names that mean the C library itself, which is the loader: `lib` and one of these.
const RESERVED: [&str; 7] = ["c.", "pthread.", "rt.", "m.", "dl.", "util.", "xnet."];
const NAME_MAX: usize = 255;

/// The loader's state, while it loads.
struct MuslLoader<'a> {
    world: &'a dyn World,
    setting: &'a LoaderSetting,
    musl: &'a Musl,
    program: &'a Path,
    objects: Vec<LoadedObject>,
    more: Vec<More>,
    /// Where the loader itself stands among the objects, once something needs it.
    itself: Option<usize>,
    by_file: HashMap<FileId, usize>,
    system_path: Option<OsString>,
    probes: Probes,
    missing: Vec<Missing>,
}

/// What the loader keeps of an object beside what is shown.
#[derive(Default)]
struct More {
    /// `shortname`: the file name it was found under, unless it was asked for by a path.
    short_name: Option<OsString>,
    /// `rpath`: DT_RUNPATH or DT_RPATH, `$ORIGIN` replaced, once that is done.
    rpath: Option<OsString>,
}

/// Starts `program`, which is `opened` and says `object`. Nothing if the probes are too many.
pub(super) fn start(
    world: &dyn World,
    program: &Path,
    opened: &OpenedFile,
    object: Arc<ElfObject>,
    (setting, musl, keep): (&LoaderSetting, &Musl, Keep),
) -> Option<Simulation> {
    let first = LoadedObject {
        path: program.to_owned(),
        id: opened.id,
        object,
        loader: None,
        asked_as: OsString::new(),
        how: FoundBy::Program,
        edges: Vec::new(),
    };
    let mut loader = MuslLoader {
        world,
        setting,
        musl,
        program,
        objects: vec![first],
        more: vec![More::default()],
        itself: None,
        by_file: HashMap::new(),
        system_path: None,
        probes: Probes::new(keep),
        missing: Vec::new(),
    };
    loader.preload();
    loader.load_dependencies();
    let after = loader.probes.len();
    let (probes, counts, when_whole) = loader.probes.into_list()?;
    Some(Simulation {
        opened: Vec::new(),
        fatal: (!loader.missing.is_empty()).then_some(Fatal { after, missing: 0 }),
        objects: loader.objects,
        probes,
        counts,
        when_whole,
        missing: loader.missing,
    })
}

impl MuslLoader<'_> {
    /// `load_preload`: names separated by white space or colons. What is missing is passed over.
    fn preload(&mut self) {
        let list = self.setting.preload.clone().filter(|_| !self.setting.secure);
        let Some(list) = list else { return };
        let separates = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r' | b':');
        for name in list.as_bytes().split(separates) {
            // An empty name is an error, which is passed over, too.
            let _ = self.load_library(OsStr::from_bytes(name), None);
        }
    }

    /// `load_deps`: breadth first, as the list of objects grows. Only DT_NEEDED counts.
    fn load_dependencies(&mut self) {
        let mut at = 0;
        while at < self.objects.len() && !self.probes.are_too_many() {
            let object = self.objects[at].object.clone();
            // The loader needs nothing, whatever its file says.
            for name in object.needed().take(if self.itself == Some(at) { 0 } else { usize::MAX }) {
                let (to, why) = match self.load_library(name, Some(at)) {
                    Ok(to) => (Some(to), None),
                    Err(why) => (None, Some(why)),
                };
                let kind = Tag::Needed;
                self.objects[at].edges.push(Edge { name: name.clone(), to, kind });
                self.missing.extend(why.map(|why| Missing {
                    name: name.clone(),
                    needed_by: at,
                    kind,
                    why,
                }));
            }
            at += 1;
        }
    }

    /// The object that `name` means, which is loaded if need be.
    fn load_library(
        &mut self,
        name: &OsStr,
        needed_by: Option<usize>,
    ) -> Result<usize, MissingReason> {
        let text = name.as_bytes();
        if text.is_empty() {
            return Err(MissingReason::NotFound(Errno(libc::EINVAL)));
        }
        let rest = text.strip_prefix(b"lib");
        let reserved =
            |rest: &[u8]| RESERVED.iter().any(|start| rest.starts_with(start.as_bytes()));
        if rest.is_some_and(reserved) || name == self.setting.interpreter {
            return Ok(self.put_itself(name, needed_by));
        }
        let named = Arc::new(name.to_owned());
        if text.contains(&b'/') {
            let path = Path::new(name);
            let opened = self.open(path, needed_by, &named);
            let opened = opened.map_err(MissingReason::NotFound)?;
            return self.take(path.to_owned(), opened, FoundBy::Path, &named, needed_by);
        }
        let short = |more: &More| more.short_name.as_deref() == Some(name);
        if let Some(known) = self.more.iter().skip(1).position(short) {
            return Ok(known + 1);
        }
        if text.len() > NAME_MAX {
            return Err(MissingReason::NotFound(Errno(libc::ENOENT)));
        }
        let (path, opened, how) = self.search(&named, needed_by)?;
        self.take(path, opened, how, &named, needed_by)
    }

    /// Maps the file, unless it is there already.
    fn take(
        &mut self,
        path: PathBuf,
        opened: OpenedFile,
        how: FoundBy,
        name: &Arc<OsString>,
        needed_by: Option<usize>,
    ) -> Result<usize, MissingReason> {
        let short_name = (how != FoundBy::Path).then(|| file_name(&path));
        if let Some(known) = self.by_file.get(&opened.id).copied() {
            self.reject(Rejection::Known);
            if self.more[known].short_name.is_none() && short_name.is_some() {
                self.more[known].short_name = Some(file_name(&self.objects[known].path));
            }
            return Ok(known);
        }
        let object = match opened.object {
            Ok(object) if object.is_dynamic && matches!(object.kind, 2 | 3) => object,
            _ => {
                let why = "Exec format error";
                self.reject(Rejection::Unfit(why));
                return Err(MissingReason::Unfit(path, why));
            }
        };
        if self.is_libc(opened.id, &object) {
            self.reject(Rejection::Known);
            return Ok(self.put_itself(name, needed_by));
        }
        let asked_as = name.as_ref().clone();
        let edges = Vec::new();
        let id = opened.id;
        self.objects.push(LoadedObject {
            path,
            id,
            object,
            loader: needed_by,
            asked_as,
            how,
            edges,
        });
        self.more.push(More { short_name, rpath: None });
        self.by_file.insert(id, self.objects.len() - 1);
        Ok(self.objects.len() - 1)
    }

    /// Whether a file that was opened under another name is a C library, which is never loaded a
    /// second time. The loader looks for two symbols; by the file and the SONAME it is told here.
    fn is_libc(&self, id: FileId, object: &ElfObject) -> bool {
        let itself = self.world.open(&self.setting.interpreter).map(|opened| opened.id);
        let soname = object.soname.as_ref().map_or(&b""[..], |soname| soname.as_bytes());
        itself == Ok(id) || soname.starts_with(b"libc.so") || soname.starts_with(b"libc.musl-")
    }

    /// The loader itself, which stands in the list from when it is first needed.
    fn put_itself(&mut self, name: &OsStr, needed_by: Option<usize>) -> usize {
        if let Some(known) = self.itself {
            return known;
        }
        let opened = self.world.open(&self.setting.interpreter);
        let nothing = FileId { device: 0, inode: 0 };
        self.objects.push(LoadedObject {
            path: self.setting.interpreter.clone(),
            id: opened.as_ref().map_or(nothing, |opened| opened.id),
            object: opened.ok().and_then(|opened| opened.object.ok()).unwrap_or_default(),
            loader: needed_by,
            asked_as: name.to_owned(),
            how: FoundBy::Interpreter,
            edges: Vec::new(),
        });
        self.more.push(More { short_name: Some("libc.so".into()), rpath: None });
        *self.itself.insert(self.objects.len() - 1)
    }

    fn open(
        &mut self,
        path: &Path,
        map: Option<usize>,
        name: &Arc<OsString>,
    ) -> Result<OpenedFile, Errno> {
        let opened = self.world.open(&self.setting.working_directory.join(path));
        let answer =
            opened.as_ref().map_or_else(|e| ProbeResult::Refused(*e), |_| ProbeResult::Found);
        self.probe(ProbeCall::Open, path, answer, map, name);
        opened
    }

    fn probe(
        &mut self,
        call: ProbeCall,
        path: &Path,
        answer: ProbeResult,
        map: Option<usize>,
        name: &Arc<OsString>,
    ) {
        let (name, for_object) = (name.clone(), map.unwrap_or(0));
        self.probes
            .push(path, SearchProbe { call, path: PathBuf::new(), answer, for_object, name });
    }

    /// The last file that was opened is not taken.
    fn reject(&mut self, why: Rejection) {
        if let Some(probe) = self.probes.last_mut() {
            probe.answer = ProbeResult::Rejected(why);
        }
    }
}

fn file_name(path: &Path) -> OsString {
    let path = path.as_os_str().as_bytes();
    OsStr::from_bytes(path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()).to_owned()
}
