//! What a call asks for by a path.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;

use super::LeftBecause;
use super::policy::{EnteredCall, PendingQuestion as Question, unrepeatable};
use super::process::ProcessRole;
use crate::arch::LARGE_FILE;
use crate::{TOLD, memory};

/// How a path begins that is a note in one name.
const TOLD_AT_ROOT: &[u8] = b"/.becalm:";

/// Open flags that change nothing, and that a file's attributes stand for.
const READING: u64 =
    (libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_DIRECTORY | libc::O_NOCTTY | libc::O_NOATIME)
        as u64
        | LARGE_FILE;

/// The null device.
const NULL: &[u8] = b"/dev/null";

/// Open flags that change nothing of a device.
const WRITING: u64 = (libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC | libc::O_APPEND) as u64;

impl EnteredCall<'_> {
    pub(super) fn open(&mut self, at: i32, path: u64, flags: u64) -> Result<Question, LeftBecause> {
        if self.temporary.is_made_by(flags) {
            return self.path(at, path, Question::MakeTemporary);
        }
        if self.temporary.is_left()
            && CString::new(self.text(path)?).is_ok_and(|path| self.temporary.is_one(&path))
        {
            return Ok(Question::Nothing);
        }
        if flags & !READING != 0 {
            if flags & !READING & !WRITING == 0 && self.text(path)? == NULL {
                return Ok(Question::OpenNull);
            }
            return Err(unrepeatable("it opens a file to write it, or in another special way"));
        }
        self.path(at, path, |path| match path.as_bytes() == NULL {
            true => Question::OpenNull,
            false => Question::Open(path),
        })
    }

    pub(super) fn attributes_at(
        &mut self,
        fd: i32,
        path: u64,
        flags: u64,
        at: u64,
        is_statx: bool,
    ) -> Result<Question, LeftBecause> {
        const KNOWN: i32 = libc::AT_SYMLINK_NOFOLLOW | libc::AT_NO_AUTOMOUNT | libc::AT_EMPTY_PATH;
        if flags & !(KNOWN as u64) & !(libc::AT_STATX_SYNC_TYPE as u64) != 0 {
            return Err(unrepeatable("it asks for attributes in a special way"));
        }
        let by_descriptor =
            flags & libc::AT_EMPTY_PATH as u64 != 0 && (path == 0 || self.text(path)?.is_empty());
        if by_descriptor {
            return self.open_file(fd);
        }
        let follow = flags & libc::AT_SYMLINK_NOFOLLOW as u64 == 0;
        self.path(fd, path, |path| Question::Attributes { path, follow, at, is_statx })
    }

    pub(super) fn attributes(
        &mut self,
        fd: i32,
        path: u64,
        follow: bool,
        at: u64,
    ) -> Result<Question, LeftBecause> {
        self.path(fd, path, |path| Question::Attributes { path, follow, at, is_statx: false })
    }

    pub(super) fn access(
        &mut self,
        fd: i32,
        path: u64,
        mode: u64,
        flags: u64,
    ) -> Result<Question, LeftBecause> {
        if flags & !(libc::AT_EACCESS as u64) != 0 {
            return Err(unrepeatable("it asks for permissions in a special way"));
        }
        let (mode, effective) = (mode as u32, flags != 0);
        self.path(fd, path, |path| Question::Access { path, mode, effective })
    }

    pub(super) fn link(
        &mut self,
        fd: i32,
        path: u64,
        at: u64,
        room: u64,
    ) -> Result<Question, LeftBecause> {
        self.path(fd, path, |path| Question::Link { path, at, room })
    }

    /// A path that is asked for, from the root; a note, if it is one.
    pub(super) fn path(
        &mut self,
        at: i32,
        address: u64,
        question: impl FnOnce(CString) -> Question,
    ) -> Result<Question, LeftBecause> {
        let raw = self.text(address)?;
        if let Some(note) = note(&raw) {
            return match self.role {
                ProcessRole::Tool => Ok(Question::Note(note)),
                _ => Err(unrepeatable("what it starts leaves notes")),
            };
        }
        let is_prelude = self
            .preludes
            .iter()
            .any(|prelude| self.is_way_to(prelude.as_os_str().as_bytes(), &raw));
        if is_prelude || self.is_way_to(TOLD.as_bytes(), &raw) {
            return Ok(Question::Nothing);
        }
        if raw.starts_with(b"/proc/") {
            return Err(unrepeatable("it looks into /proc"));
        }
        let full = match raw.first() {
            Some(b'/') => raw,
            // As the kernel has it.
            None => return Err(unrepeatable("it asks for a path without a name")),
            Some(_) if at == libc::AT_FDCWD => {
                *self.uses_directory = true;
                let mut full = crate::files::proc_link(self.tid, "cwd")
                    .ok_or_else(|| unrepeatable("its working directory has no path"))?;
                full.push(b'/');
                full.extend(raw);
                full
            }
            Some(_) => return Err(unrepeatable("it asks for paths below an open directory")),
        };
        // A string that was read up to its zero byte has none.
        let path = CString::new(full).unwrap_or_default();
        let is_temporary = self.temporary.is_one(&path);
        match question(path) {
            Question::RemoveTemporary(_) if !is_temporary => Err(unrepeatable("it removes a file")),
            question @ (Question::MakeTemporary(_) | Question::RemoveTemporary(_)) => Ok(question),
            _ if is_temporary => Err(unrepeatable("it looks at a file that it has made")),
            question => Ok(question),
        }
    }

    /// Whether a path is becalm's own, or a directory above, which an interpreter may look at first.
    pub(super) fn is_way_to(&self, own: &[u8], path: &[u8]) -> bool {
        own.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
    }

    pub(super) fn text(&self, address: u64) -> Result<Vec<u8>, LeftBecause> {
        let mut raw = Vec::with_capacity(256);
        memory::read_string(self.tid, address, &mut raw)
            .map_err(|_| unrepeatable("a path that it asks for cannot be read"))?;
        Ok(raw)
    }
}

/// The note that a path is: below [`TOLD`], or right below the root with `:` in the place of `/`.
fn note(path: &[u8]) -> Option<Vec<u8>> {
    if let Some(note) = path.strip_prefix(TOLD.as_bytes()) {
        return Some(note.to_vec());
    }
    let note = path.strip_prefix(TOLD_AT_ROOT)?;
    Some(note.iter().map(|byte| if *byte == b':' { b'/' } else { *byte }).collect())
}
