//! From a name to an object (`_dl_map_object` in elf/dl-load.c).

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::Arc;

use super::directories::{DirectoryStatus, SearchDirectoryList};
use super::map::LinkMap;
use super::verify::{Attempt, unmappable};
use super::{GlibcLoader, PROGRAM};
use crate::simulation::{FoundBy, MissingReason, ProbeCall, ProbeResult, Rejection};
use crate::{ElfObject, Errno, OpenedFile};

/// A name that is being looked for.
pub(super) struct Quest {
    /// On whose behalf.
    pub(super) map: usize,
    pub(super) name: Arc<OsString>,
    /// Whether a file for other addresses was met.
    other_class: bool,
    /// What `errno` is now.
    errno: Errno,
    /// Only files with the set-user-id bit count (preloading where rights were gained).
    pub(super) only_set_user_id: bool,
}

/// A file that was found, or why the search was given up.
type SearchOutcome = Result<Option<(OsString, OpenedFile, FoundBy)>, MissingReason>;

impl GlibcLoader<'_> {
    /// The object that `name` means to `map`, which is loaded if need be.
    pub(super) fn map_object(
        &mut self,
        name: &OsStr,
        map: usize,
        preload: bool,
    ) -> Result<usize, MissingReason> {
        if let Some(known) = self.chain.named(name, &self.maps) {
            self.add_name(known, name);
            return Ok(known);
        }
        let mut quest = Quest {
            map,
            name: Arc::new(name.to_owned()),
            other_class: false,
            errno: Errno(0),
            only_set_user_id: preload && self.setting.secure,
        };
        let found = if name.as_bytes().contains(&b'/') {
            self.open_path_name(&mut quest)
        } else {
            self.search(&mut quest)
        };
        match found? {
            Some((path, opened, how)) => self.take(&quest, path, opened, how),
            None if quest.other_class => Err(MissingReason::OtherClass),
            None => Err(MissingReason::NotFound(quest.errno)),
        }
    }

    /// A name with a slash: tokens are replaced, and one file is opened.
    fn open_path_name(&mut self, quest: &mut Quest) -> SearchOutcome {
        let path = OsString::from_vec(self.expand(quest.name.as_bytes(), quest.map));
        let opened = self.attempt(quest, Path::new(&path))?;
        Ok(opened.map(|opened| (path, opened, FoundBy::Path)))
    }

    /// A name without a slash: the lists in their order.
    fn search(&mut self, quest: &mut Quest) -> SearchOutcome {
        if self.maps[quest.map].object.runpath.is_none()
            && let Some(found) = self.search_rpaths(quest)?
        {
            return Ok(Some(found));
        }
        let list = self.directories.library_path.clone();
        if let Some((path, opened)) = self.search_list(quest, &list)?.0 {
            return Ok(Some((path, opened, FoundBy::LibraryPath)));
        }
        self.read_lists(quest.map);
        let list = self.maps[quest.map].runpath.clone();
        let (found, exists) = self.search_list(quest, &list)?;
        if !exists {
            self.maps[quest.map].runpath = SearchDirectoryList::None;
        }
        if let Some((path, opened)) = found {
            return Ok(Some((path, opened, FoundBy::Runpath)));
        }
        if let Some(path) = self.cached(quest)
            && let Some(opened) = self.attempt(quest, Path::new(&path))?
        {
            return Ok(Some((path, opened, FoundBy::Cache)));
        }
        if self.maps[quest.map].object.flags_1 & ElfObject::NODEFLIB != 0 {
            return Ok(None);
        }
        let list = self.directories.system.clone();
        let found = self.search_list(quest, &list)?.0;
        Ok(found.map(|(path, opened)| (path, opened, FoundBy::Default)))
    }

    /// DT_RPATH of who asks, of who loaded it, and so on up; then of the program.
    fn search_rpaths(&mut self, quest: &mut Quest) -> SearchOutcome {
        let mut next = Some(quest.map);
        let mut met_program = false;
        while let Some(map) = next.or((!met_program).then_some(PROGRAM)) {
            met_program |= map == PROGRAM || next.is_none();
            next = next.and_then(|map| self.maps[map].loader);
            self.read_lists(map);
            let list = self.maps[map].rpath.clone();
            let (found, exists) = self.search_list(quest, &list)?;
            if !exists {
                self.maps[map].rpath = SearchDirectoryList::None;
            }
            if let Some((path, opened)) = found {
                return Ok(Some((path, opened, FoundBy::Rpath { of: map })));
            }
        }
        Ok(None)
    }

    /// Looks into every directory of the list, and says whether any of them exists (`open_path`).
    fn search_list(
        &mut self,
        quest: &mut Quest,
        list: &SearchDirectoryList,
    ) -> Result<(Option<(OsString, OpenedFile)>, bool), MissingReason> {
        let SearchDirectoryList::Of(list) = list else { return Ok((None, false)) };
        let mut any = false;
        for directory in list.iter() {
            let (found, here) = self.search_directory(quest, *directory)?;
            if found.is_some() {
                return Ok((found, true));
            }
            if self.probes.are_too_many() || (here && !self.profile.goes_on_after(quest.errno)) {
                return Ok((None, true));
            }
            any |= here;
        }
        Ok((None, any))
    }

    /// Looks into a directory's sub-directories, then into the directory itself. Says whether any
    /// exists.
    fn search_directory(
        &mut self,
        quest: &mut Quest,
        directory: usize,
    ) -> Result<(Option<(OsString, OpenedFile)>, bool), MissingReason> {
        let (name, subdirectories) =
            (self.directories.all[directory].name.clone(), self.directories.subdirectories.clone());
        let mut here = false;
        for (at, subdirectory) in subdirectories.iter().enumerate() {
            let status = self.directories.all[directory].status[at];
            if status == DirectoryStatus::Nonexisting {
                continue;
            }
            if at == 0 && status == DirectoryStatus::Unknown {
                self.world.expect(Path::new(OsStr::from_bytes(&name)));
            }
            let mut path = Vec::with_capacity(name.len() + subdirectory.len() + quest.name.len());
            path.extend_from_slice(&name);
            path.extend_from_slice(subdirectory.as_bytes());
            let length = path.len();
            path.extend_from_slice(quest.name.as_bytes());
            let path = OsString::from_vec(path);
            if status == DirectoryStatus::Unknown && self.lacks(&name, subdirectory) {
                self.miss(quest, Path::new(&path), &path.as_bytes()[..length]);
                self.directories.all[directory].status[at] = DirectoryStatus::Nonexisting;
                continue;
            }
            let opened = self.attempt(quest, Path::new(&path))?;
            if status == DirectoryStatus::Unknown {
                self.directories.all[directory].status[at] = match &opened {
                    Some(_) => DirectoryStatus::Existing,
                    None => self.stat(quest, &path.as_bytes()[..length]),
                };
            }
            here |= self.directories.all[directory].status[at] != DirectoryStatus::Nonexisting;
            if let Some(opened) = opened {
                if !quest.only_set_user_id || opened.set_user_id {
                    return Ok((Some((path, opened)), true));
                }
                quest.errno = Errno(libc::ENOENT);
            }
        }
        Ok((None, here))
    }

    /// Whether it is known that `directory` has no such sub-directory.
    fn lacks(&self, directory: &[u8], subdirectory: &OsStr) -> bool {
        let first = subdirectory.as_bytes().split(|byte| *byte == b'/').next().unwrap_or_default();
        let directory = Path::new(OsStr::from_bytes(directory));
        !first.is_empty() && self.world.lacks(directory, OsStr::from_bytes(first))
    }

    /// What happens at a path in a directory that is not there: it is opened, then the directory
    /// asked for.
    fn miss(&mut self, quest: &mut Quest, path: &Path, directory: &[u8]) {
        quest.errno = Errno(libc::ENOENT);
        let answer = || ProbeResult::Refused(Errno(libc::ENOENT));
        self.probe(ProbeCall::Open, path, answer(), quest.map, &quest.name);
        let asked = self.as_asked(directory);
        self.probe(ProbeCall::Stat, asked, answer(), quest.map, &quest.name);
    }

    /// A directory as stat is asked for it. Older versions cut the slash, so that the root becomes
    /// an empty path.
    fn as_asked<'f>(&self, directory: &'f [u8]) -> &'f Path {
        let asked = match directory {
            directory if self.profile.stats_with_slash() => directory,
            directory => &directory[..directory.len() - 1],
        };
        Path::new(OsStr::from_bytes(asked))
    }

    /// Asks whether a directory exists, because a file in it could not be opened.
    fn stat(&mut self, quest: &mut Quest, directory: &[u8]) -> DirectoryStatus {
        let asked = self.as_asked(directory);
        let answer = match asked.as_os_str().is_empty() {
            true => Err(Errno(libc::ENOENT)),
            false => self.world.is_directory(asked),
        };
        // With a slash at its end, a path that leads to something else is none.
        let answer = match answer {
            Ok(false) if self.profile.stats_with_slash() => Err(Errno(libc::ENOTDIR)),
            answer => answer,
        };
        let (said, status) = match answer {
            Ok(true) => (ProbeResult::Found, DirectoryStatus::Existing),
            Ok(false) => (ProbeResult::Found, DirectoryStatus::Nonexisting),
            Err(errno) => {
                quest.errno = errno;
                (ProbeResult::Refused(errno), DirectoryStatus::Nonexisting)
            }
        };
        self.probe(ProbeCall::Stat, asked, said, quest.map, &quest.name);
        status
    }

    /// Opens one path. Nothing if the search goes on.
    fn attempt(
        &mut self,
        quest: &mut Quest,
        path: &Path,
    ) -> Result<Option<OpenedFile>, MissingReason> {
        let opened = self.open(path);
        let (attempt, mut answer) = self.verify(opened, &mut quest.other_class);
        if let Attempt::Fit(opened) = &attempt
            && self.loaded_as(opened).is_some()
        {
            answer = ProbeResult::Rejected(Rejection::Known);
        }
        self.probe(ProbeCall::Open, path, answer, quest.map, &quest.name);
        match attempt {
            Attempt::Fit(opened) => Ok(Some(opened)),
            Attempt::Unfit(why) => Err(MissingReason::Unfit(path.to_owned(), why)),
            Attempt::Next(errno) => {
                quest.errno = errno;
                Ok(None)
            }
        }
    }

    fn loaded_as(&self, opened: &OpenedFile) -> Option<usize> {
        self.chain.of_file(opened.id)
    }

    fn add_name(&mut self, map: usize, name: &OsStr) {
        self.maps[map].add_name(name.to_owned());
        self.chain.add_name(map, name);
    }

    /// Maps the file, unless it is there already (`_dl_map_object_from_fd`).
    fn take(
        &mut self,
        quest: &Quest,
        path: OsString,
        opened: OpenedFile,
        how: FoundBy,
    ) -> Result<usize, MissingReason> {
        if let Some(known) = self.loaded_as(&opened) {
            self.add_name(known, &quest.name);
            return Ok(known);
        }
        let Ok(object) = opened.object else { return Err(MissingReason::NotFound(quest.errno)) };
        if let Some(why) = unmappable(&object, self.profile) {
            if let Some(probe) = self.probes.last_mut() {
                probe.answer = ProbeResult::Rejected(Rejection::Unfit(why));
            }
            return Err(MissingReason::Unfit(path.into(), why));
        }
        let mut map = LinkMap::new(path, quest.name.as_ref().clone(), object, how);
        map.id = Some(opened.id);
        map.loader = Some(quest.map);
        let number = self.maps.len();
        self.chain.push(number, &map);
        self.maps.push(map);
        Ok(number)
    }
}
