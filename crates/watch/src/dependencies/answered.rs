//! Calls that are answered where they are about to be made: what a path leads to is asked for here,
//! and the process told the same. So it need not stop once more, and what is kept is what it was told.

use std::ffi::{CStr, CString};

use super::follow::{FollowedCommand, disturbed};
use super::held::HeldOutput;
use super::policy::{PendingQuestion, unrepeatable};
use super::process::ProcessRole;
use super::{AnswerDependency, LeftBecause, StatAttributes, filled};
use crate::decode::CallEntry;
use crate::memory;
use crate::ptrace::StoppedThread;

/// The longest that a link leads to, or a path.
const PATH_MOST: usize = 4096;

/// What a path's end may be said to be by all who ask for it, whatever they want of it.
const OF_WAY: [i32; 4] = [libc::ENOENT, libc::ENOTDIR, libc::EACCES, libc::ELOOP];

impl FollowedCommand<'_> {
    /// Answers a question by an absolute path, if it can be; else it is pending.
    pub(super) fn answered(
        &mut self,
        thread: &StoppedThread,
        question: PendingQuestion,
        (entry, role): (&CallEntry, ProcessRole),
    ) -> Result<Option<PendingQuestion>, LeftBecause> {
        use PendingQuestion as Question;
        let is_tool = role == ProcessRole::Tool;
        let question = match question {
            // As long as an interpreter is made: its own code may read the same file.
            Question::Open(path) if is_tool && self.asks_for_user => {
                self.read_in_place(thread, path, entry)?
            }
            question => question,
        };
        let result = match question {
            Question::Nothing | Question::Note(_) => return Ok(None),
            Question::Open(path) => match StatAttributes::of(&path, true) {
                Err(error) if OF_WAY.contains(&error.raw_os_error()) => {
                    let told = Err(error.raw_os_error());
                    self.add(AnswerDependency::Attributes { path, follow: true, told });
                    -i64::from(error.raw_os_error())
                }
                told => {
                    may_open(&path, told.ok())?;
                    let is_relied_on =
                        is_tool && self.ways.is_relied_on(&path, self.began, &mut self.margins);
                    let Some(told) = told.ok().filter(|_| is_relied_on) else {
                        return Ok(Some(Question::Open(path)));
                    };
                    // Whether it can be opened, its attributes say, too.
                    self.content_of(path.clone(), &path, told)?;
                    return Ok(None);
                }
            },
            Question::Attributes { path, follow, at, is_statx } => {
                let mut raw = [0; filled::ATTRIBUTES_MOST];
                let size = filled::attributes_size(is_statx);
                let result = repeated(entry, &path, &mut raw[..size]);
                let told = match result {
                    0 => Ok(filled::attributes_of(&raw, is_statx)),
                    error => Err(-error as i32),
                };
                if result == 0 {
                    tell(thread, at, &raw[..size])?;
                }
                let is_directory =
                    told.is_ok_and(|it: StatAttributes| it.mode & libc::S_IFMT == libc::S_IFDIR);
                if self.temporary.is_expected() && is_directory {
                    self.add(directory_for_files(&path));
                // Name services look whether their root is still the one that they know.
                } else if !(self.asks_for_user && path.as_bytes() == b"/") {
                    self.add(AnswerDependency::Attributes { path, follow, told });
                }
                result
            }
            Question::Access { path, mode, effective } => {
                let result = repeated(entry, &path, &mut []);
                self.add(AnswerDependency::Access { path, mode, effective, told: -result as i32 });
                result
            }
            Question::Link { path, at, room } => {
                let mut target = vec![0; PATH_MOST.min(room as usize)];
                let result = repeated(entry, &path, &mut target);
                let told = match usize::try_from(result) {
                    Ok(length) => Ok(target[..length].to_vec()),
                    Err(_) => Err(-result as i32),
                };
                if let Ok(target) = &told {
                    tell(thread, at, target)?;
                }
                let link = AnswerDependency::Link { path, told };
                // There may have been no room for more.
                if result >= 0 && result as u64 >= room && !link.holds() {
                    return Err(unrepeatable("a link's target is longer than it can read"));
                }
                self.add(link);
                result
            }
            Question::Write { to, parts } => {
                self.held.get_or_insert_with(HeldOutput::begin);
                self.wrote(thread.tid(), to, &parts)?
            }
            question => return Ok(Some(question)),
        };
        thread.answer(result).map_err(|_| disturbed("a call could not be answered"))?;
        Ok(None)
    }

    /// Has the command read another file in the place of the one that decides nothing.
    fn read_in_place(
        &mut self,
        thread: &StoppedThread,
        path: CString,
        entry: &CallEntry,
    ) -> Result<PendingQuestion, LeftBecause> {
        let Some(place) = (self.program.in_place_of)(&path) else {
            return Ok(PendingQuestion::Open(path));
        };
        let is_at = entry.call.known_name() == Some("openat");
        let at = entry.args[usize::from(is_at)];
        let mut own = vec![0; place.path.as_bytes_with_nul().len()];
        let read = memory::read(thread.tid(), at, &mut own);
        if read.ok() != Some(own.len()) {
            return Err(disturbed("its memory could not be read"));
        }
        tell(thread, at, place.path.as_bytes_with_nul())?;
        Ok(PendingQuestion::OpenInPlace { path, told: place.told, at, own })
    }

    /// A child that is to show what is written to it: who gives the answer has one of its own.
    pub(super) fn pager_entered(
        thread: &StoppedThread,
        entry: &CallEntry,
    ) -> Result<(), LeftBecause> {
        if matches!(entry.call.known_name(), Some("execve" | "execveat")) {
            let ended = thread.registers().and_then(|mut registers| {
                registers.end_process();
                thread.set_registers(&registers)
            });
            ended.map_err(|_| disturbed("its pager could not be replaced"))?;
        }
        Ok(())
    }
}

/// Refuses what is no file before it is opened: who writes to a pipe would notice that it is closed again.
pub(super) fn may_open(path: &CStr, told: Option<StatAttributes>) -> Result<(), LeftBecause> {
    match told.is_none_or(|told| told.has_content()) {
        true => Ok(()),
        false => Err(unrepeatable(&format!("{} is no file", recording::shown(path.to_bytes())))),
    }
}

/// Fills in what a process is told, or tells. Where it has no room, its own call says so.
pub(super) fn tell(thread: &StoppedThread, at: u64, bytes: &[u8]) -> Result<(), LeftBecause> {
    memory::write(thread.tid(), at, bytes).map_err(|_| disturbed("its memory could not be written"))
}

/// The result of a call about an absolute path, made here: 0 or more, or an error's number below. What
/// it fills in comes into `into`.
fn repeated(entry: &CallEntry, path: &CStr, into: &mut [u8]) -> i64 {
    let (path, room) = (path.as_ptr() as u64, into.len() as u64);
    let into = into.as_mut_ptr() as u64;
    let [_, _, third, fourth, ..] = entry.args;
    // A path from the root needs no directory.
    let at = libc::AT_FDCWD as u64;
    let args = match entry.call.known_name().unwrap_or_default() {
        "stat" | "lstat" => [path, into, 0, 0, 0],
        "newfstatat" => [at, path, into, fourth, 0],
        "statx" => [at, path, third, fourth, into],
        "access" => [path, entry.args[1], 0, 0, 0],
        "faccessat" => [at, path, third, 0, 0],
        "faccessat2" => [at, path, third, fourth, 0],
        "readlink" => [path, into, room, 0, 0],
        "readlinkat" => [at, path, into, room, 0],
        _ => return -i64::from(libc::ENOSYS),
    };
    let number = libc::c_long::from(entry.call.number());
    let [a, b, c, d, e] = args;
    // SAFETY: each of these calls reads the path, which ends with a zero byte, and fills at most
    // `room` bytes: that many readlink is told, and stat's structures have (filled::attributes_size).
    let result = unsafe { libc::syscall(number, a, b, c, d, e) };
    match result {
        -1 => {
            let error = std::io::Error::last_os_error().raw_os_error();
            -i64::from(error.unwrap_or(libc::EIO))
        }
        result => result,
    }
}

/// What is asked of a directory in which a file is about to be made for a moment: that it is one. Others make
/// files there all the time.
fn directory_for_files(path: &CStr) -> AnswerDependency {
    let within = CString::new([path.to_bytes(), b"/."].concat()).unwrap_or_default();
    AnswerDependency::Access { path: within, mode: libc::X_OK as u32, effective: false, told: 0 }
}
