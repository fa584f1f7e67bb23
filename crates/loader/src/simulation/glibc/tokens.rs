//! Dynamic string tokens: `$ORIGIN`, `$LIB`, `$PLATFORM`, and `${…}`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::Arc;

use super::directories::{SearchDirectoryList, with_slash};
use super::{GlibcLoader, PROGRAM};
use crate::simulation::{ProbeCall, ProbeResult};

/// What a token stands for.
#[derive(Clone, Copy)]
enum Token {
    Origin,
    Platform,
    Lib,
}

/// The token at the start of `text`, which follows a dollar sign, and its length (`is_dst` in
/// elf/dl-load.c).
fn token(text: &[u8]) -> Option<(Token, usize)> {
    let curly = text.starts_with(b"{");
    let text = if curly { &text[1..] } else { text };
    let tokens = [(Token::Origin, "ORIGIN"), (Token::Platform, "PLATFORM"), (Token::Lib, "LIB")];
    let (token, name) = tokens.into_iter().find(|(_, name)| text.starts_with(name.as_bytes()))?;
    let next = text.get(name.len()).copied().unwrap_or(0);
    if (curly && next != b'}') || next.is_ascii_alphanumeric() || next == b'_' {
        return None;
    }
    Some((token, name.len() + if curly { 2 } else { 0 }))
}

/// Whether `text` has a token (`_dl_dst_count`).
pub(super) fn has_token(text: &[u8]) -> bool {
    let mut rest = text;
    while let Some(dollar) = rest.iter().position(|byte| *byte == b'$') {
        rest = &rest[dollar + 1..];
        if token(rest).is_some() {
            return true;
        }
    }
    false
}

impl GlibcLoader<'_> {
    /// `text` with its tokens replaced, on behalf of `map`; empty if one stands for nothing
    /// (`_dl_dst_substitute`).
    pub(super) fn expand(&mut self, text: &[u8], map: usize) -> Vec<u8> {
        if !has_token(text) {
            return text.to_vec();
        }
        // DL_DST_REQUIRED (elf/dl-dst.h) finds the origin out, whatever token it is.
        let origin = self.origin(map);
        let mut result = Vec::with_capacity(text.len() + 64);
        let mut check_trust = false;
        let mut at = 0;
        while let Some(byte) = text.get(at) {
            at += 1;
            let found = if *byte == b'$' { token(&text[at..]) } else { None };
            let Some((token, length)) = found else {
                result.push(*byte);
                continue;
            };
            let value = match token {
                Token::Origin => {
                    let rest = text.get(at + length).copied();
                    let first = at == 1 && matches!(rest, None | Some(b'/'));
                    check_trust = self.setting.secure && map == PROGRAM;
                    origin.clone().filter(|_| first || !self.setting.secure)
                }
                Token::Platform => self.profile.platform.clone(),
                Token::Lib => Some(self.profile.lib.clone()),
            };
            let Some(value) = value else { return Vec::new() };
            result.extend(value.as_bytes());
            at += length;
        }
        if check_trust && !self.trusts(&result) { Vec::new() } else { result }
    }

    /// `l_origin`: the directory that `$ORIGIN` stands for. Of the program it is asked of the
    /// kernel when first needed (`_dl_get_origin`), of others it is where they were opened.
    fn origin(&mut self, map: usize) -> Option<OsString> {
        if let Some(known) = &self.maps[map].origin {
            return known.clone();
        }
        let origin = if map == PROGRAM {
            let real = self.world.real_path(self.program);
            let answer =
                real.as_ref().map_or_else(|e| ProbeResult::Refused(*e), |_| ProbeResult::Found);
            let exe = Path::new("/proc/self/exe");
            self.probe(ProbeCall::Readlink, exe, answer, PROGRAM, &Arc::default());
            real.ok().map(|path| directory_of(path.as_os_str().as_bytes()))
        } else {
            let path = Path::new(&self.maps[map].path);
            // Nothing is cut from it but the name: `/a/../b` stays.
            let path = match path.is_absolute() {
                true => path.as_os_str().as_bytes().to_vec(),
                false => {
                    let mut whole = self.setting.working_directory.as_os_str().as_bytes().to_vec();
                    if !whole.ends_with(b"/") {
                        whole.push(b'/');
                    }
                    whole.extend(path.as_os_str().as_bytes());
                    whole
                }
            };
            Some(directory_of(&path))
        };
        self.maps[map].origin = Some(origin.clone());
        origin
    }

    /// Whether a path lies in a system directory, by its text (`is_trusted_path_normalize`).
    fn trusts(&self, path: &[u8]) -> bool {
        let mut parts: Vec<&[u8]> = Vec::new();
        for part in path.split(|byte| *byte == b'/') {
            match part {
                b"" | b"." => {}
                b".." => drop(parts.pop()),
                part => parts.push(part),
            }
        }
        let mut normal = vec![b'/'];
        for part in parts {
            normal.extend(part);
            normal.push(b'/');
        }
        let system = self.profile.system_directories.iter();
        !path.is_empty()
            && system
                .map(|directory| with_slash(directory.as_os_str().as_bytes().to_vec()))
                .any(|directory| normal.starts_with(&directory))
    }

    /// The directories of a list, tokens replaced, each with a slash at its end; empty elements
    /// stay, elements that tokens make empty go (`fillin_rpath`).
    pub(super) fn elements(&mut self, list: &OsStr, separators: &[u8], map: usize) -> Vec<Vec<u8>> {
        let split = list.as_bytes().split(|byte| separators.contains(byte));
        let elements = split.filter_map(|element| {
            if element.is_empty() {
                return Some(Vec::new());
            }
            let expanded = self.expand(element, map);
            (!expanded.is_empty()).then(|| with_slash(expanded))
        });
        elements.collect()
    }

    /// Reads DT_RPATH and DT_RUNPATH of `map`, if that has not been done (`cache_rpath`,
    /// `decompose_rpath`). An object with a RUNPATH has no RPATH (elf/get-dynamic-info.h).
    pub(super) fn read_lists(&mut self, map: usize) {
        let object = self.maps[map].object.clone();
        let rpath = object.rpath.as_ref().filter(|_| object.runpath.is_none());
        if matches!(self.maps[map].runpath, SearchDirectoryList::Unread) {
            self.maps[map].runpath = self.read_list(object.runpath.as_deref(), map);
        }
        if matches!(self.maps[map].rpath, SearchDirectoryList::Unread) {
            self.maps[map].rpath = self.read_list(rpath.map(OsString::as_os_str), map);
        }
    }

    fn read_list(&mut self, list: Option<&OsStr>, map: usize) -> SearchDirectoryList {
        match list.filter(|list| !list.is_empty()) {
            None => SearchDirectoryList::None,
            // Every object of a store names the same directories: most are known by then.
            Some(list) if memchr::memchr(b'$', list.as_bytes()).is_none() => {
                self.directories.list_of(list.as_bytes())
            }
            Some(list) => {
                let elements = self.elements(list, b":", map);
                self.directories.list(elements)
            }
        }
    }
}

/// The path without its last name; the root stays.
fn directory_of(path: &[u8]) -> OsString {
    let slash = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    OsString::from_vec(path[..slash.max(1)].to_vec())
}
