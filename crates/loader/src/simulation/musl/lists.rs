//! Where musl looks: LD_LIBRARY_PATH, the lists of those who ask, the path file.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{MuslLoader, NAME_MAX};
use crate::simulation::{FoundBy, MissingReason, ProbeCall, ProbeResult};
use crate::{Errno, OpenedFile};

/// `load_library` builds paths in a buffer of this size; what does not fit is passed over.
const BUFFER: usize = 2 * NAME_MAX + 2;

/// What a search came to: a file, nothing, or an error that forbids to go on.
enum MuslSearch {
    Found(PathBuf, OpenedFile),
    Nothing,
    End,
}

impl MuslLoader<'_> {
    /// LD_LIBRARY_PATH, then the lists of who asks and of all who asked before, then the
    /// system's.
    pub(super) fn search(
        &mut self,
        name: &Arc<OsString>,
        needed_by: Option<usize>,
    ) -> Result<(PathBuf, OpenedFile, FoundBy), MissingReason> {
        let list = self.setting.library_path.clone().filter(|_| !self.setting.secure);
        let mut result = match list {
            Some(list) => (self.path_open(&list, name, needed_by), FoundBy::LibraryPath),
            None => (MuslSearch::Nothing, FoundBy::LibraryPath),
        };
        let mut next = needed_by;
        while let (MuslSearch::Nothing, Some(of)) = (&result.0, next) {
            if !self.fix_rpath(of, needed_by, name) {
                return Err(MissingReason::NotFound(Errno(self.last_errno())));
            }
            if let Some(list) = self.more[of].rpath.clone() {
                result = (self.path_open(&list, name, needed_by), FoundBy::Rpath { of });
            }
            next = self.objects[of].loader;
        }
        if let MuslSearch::Nothing = result.0 {
            let list = self.system_path(name, needed_by);
            result = (self.path_open(&list, name, needed_by), FoundBy::Default);
        }
        match result {
            (MuslSearch::Found(path, opened), how) => Ok((path, opened, how)),
            (MuslSearch::Nothing | MuslSearch::End, _) => {
                Err(MissingReason::NotFound(Errno(self.last_errno())))
            }
        }
    }

    fn last_errno(&self) -> i32 {
        match self.probes.last().map(|probe| &probe.answer) {
            Some(ProbeResult::Refused(errno)) => errno.0,
            _ => libc::ENOENT,
        }
    }

    /// Tries every directory of a list, separated by colons or line ends; empty ones do not count
    /// (`path_open`).
    fn path_open(&mut self, list: &OsStr, name: &Arc<OsString>, map: Option<usize>) -> MuslSearch {
        for directory in list.as_bytes().split(|byte| b":\n".contains(byte)) {
            if self.probes.are_too_many() {
                return MuslSearch::End;
            }
            if directory.is_empty() || directory.len() + 1 + name.len() >= BUFFER {
                continue;
            }
            let path = [directory, b"/", name.as_bytes()].concat();
            let path = PathBuf::from(OsString::from_vec(path));
            match self.open(&path, map, name) {
                Ok(opened) => return MuslSearch::Found(path, opened),
                Err(Errno(libc::ENOENT | libc::ENOTDIR | libc::EACCES | libc::ENAMETOOLONG)) => {}
                Err(_) => return MuslSearch::End,
            }
        }
        MuslSearch::Nothing
    }

    /// Replaces `$ORIGIN` in the list of an object; any other token voids the list
    /// (`fixup_rpath`). False if the search must end.
    fn fix_rpath(&mut self, of: usize, map: Option<usize>, name: &Arc<OsString>) -> bool {
        let object = self.objects[of].object.clone();
        let Some(list) = object.runpath.as_ref().or(object.rpath.as_ref()) else { return true };
        if self.more[of].rpath.is_some() {
            return true;
        }
        let text = list.as_bytes();
        if !text.contains(&b'$') {
            self.more[of].rpath = Some(list.clone());
            return true;
        }
        let mut dollars = (0..text.len()).filter(|at| text[*at] == b'$');
        let origin_at =
            |at: usize| text[at..].starts_with(b"$ORIGIN") || text[at..].starts_with(b"${ORIGIN}");
        if !dollars.all(origin_at) {
            return true;
        }
        let origin = match self.origin(of, map, name) {
            Ok(Some(origin)) => origin,
            Ok(None) => return true,
            Err(()) => return false,
        };
        if self.setting.secure && !origin.starts_with(b"/") {
            return true;
        }
        let mut fixed = Vec::with_capacity(text.len() + origin.len());
        let mut at = 0;
        while at < text.len() {
            if text[at] == b'$' {
                fixed.extend_from_slice(&origin);
                at += if text[at + 1] == b'{' { 9 } else { 7 };
            } else {
                fixed.push(text[at]);
                at += 1;
            }
        }
        self.more[of].rpath = Some(OsString::from_vec(fixed));
        true
    }

    /// What `$ORIGIN` stands for; nothing if the list is not to be used; an error ends the
    /// search.
    fn origin(
        &mut self,
        of: usize,
        map: Option<usize>,
        name: &Arc<OsString>,
    ) -> Result<Option<Vec<u8>>, ()> {
        let path = if of == 0 {
            if self.setting.secure {
                return Ok(None);
            }
            let real = self.world.real_path(self.program);
            let answer =
                real.as_ref().map_or_else(|e| ProbeResult::Refused(*e), |_| ProbeResult::Found);
            self.probe(ProbeCall::Readlink, Path::new("/proc/self/exe"), answer, map, name);
            match real {
                Ok(real) if real.as_os_str().len() >= BUFFER => return Ok(None),
                Ok(real) => real,
                Err(Errno(libc::ENOENT | libc::ENOTDIR | libc::EACCES)) => return Ok(None),
                Err(_) => return Err(()),
            }
        } else {
            self.objects[of].path.clone()
        };
        let path = path.as_os_str().as_bytes();
        Ok(Some(match path.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => path[..slash].to_vec(),
            None => b".".to_vec(),
        }))
    }

    /// The content of the path file, or the default where there is none. It is read once.
    fn system_path(&mut self, name: &Arc<OsString>, map: Option<usize>) -> OsString {
        if let Some(known) = &self.system_path {
            return known.clone();
        }
        let file = self.path_file();
        let content = self.world.bytes(&file);
        let answer =
            content.as_ref().map_or_else(|e| ProbeResult::Refused(*e), |_| ProbeResult::Found);
        self.probe(ProbeCall::Open, &file, answer, map, name);
        let path = match content {
            Ok(content) => {
                let text = content.split(|byte| *byte == 0).next().unwrap_or_default();
                OsString::from_vec(text.to_vec())
            }
            Err(Errno(libc::ENOENT)) => self.musl.default_path.clone(),
            Err(_) => OsString::new(),
        };
        self.system_path = Some(path.clone());
        path
    }

    /// `/etc/ld-musl-$ARCH.path`, below the directory that the loader's own `lib` is in.
    fn path_file(&self) -> PathBuf {
        let loader = self.setting.interpreter.as_os_str().as_bytes();
        let mut slashes = loader.iter().enumerate().rev().filter(|(_, byte)| **byte == b'/');
        let second_last = slashes.nth(1).map_or(0, |(at, _)| at);
        let prefix = if loader.starts_with(b"/") { &loader[..second_last] } else { b"" };
        let mut path = [prefix, b"/etc/ld-musl-"].concat();
        path.extend_from_slice(self.musl.arch.as_bytes());
        path.extend_from_slice(b".path");
        OsString::from_vec(path).into()
    }
}
