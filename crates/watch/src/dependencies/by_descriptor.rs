//! What a call asks for by a descriptor.

use std::ffi::CString;

use super::policy::{EnteredCall, PendingQuestion as Question, unrepeatable};
use super::process::{self, DescriptorEnd};
use super::{LeftBecause, StatAttributes, WrittenTo};
use crate::memory;

/// The most parts of one write (IOV_MAX).
const PARTS_MOST: u64 = 1024;

impl EnteredCall<'_> {
    /// Where a descriptor leads to.
    pub(super) fn end(&self, fd: i32) -> Result<DescriptorEnd, LeftBecause> {
        match self.command {
            Some(command) => process::end_of_child(command, self.tid, fd, self.pipes),
            None if (0..=2).contains(&fd) => Ok(DescriptorEnd::Standard(fd)),
            None => Ok(DescriptorEnd::Opened),
        }
    }

    /// What an open file is: known already, but for the standard descriptors.
    pub(super) fn open_file(&self, fd: i32) -> Result<Question, LeftBecause> {
        Ok(match self.end(fd)? {
            DescriptorEnd::Standard(fd) => Question::Descriptor(fd),
            _ => Question::Nothing,
        })
    }

    pub(super) fn mapping(
        &self,
        access: u64,
        flags: u64,
        fd: i32,
    ) -> Result<Question, LeftBecause> {
        let shared = flags & 3 != libc::MAP_PRIVATE as u64;
        let anonymous = flags & libc::MAP_ANONYMOUS as u64 != 0;
        let writes = shared && access & libc::PROT_WRITE as u64 != 0;
        match !anonymous && (writes || self.end(fd)? != DescriptorEnd::Opened) {
            true => Err(unrepeatable("it writes to a file by a mapping")),
            false => Ok(Question::Nothing),
        }
    }

    pub(super) fn control(&self, fd: i32, command: i32) -> Result<Question, LeftBecause> {
        match command {
            libc::F_GETFD | libc::F_SETFD => Ok(Question::Nothing),
            libc::F_GETFL if !matches!(self.end(fd)?, DescriptorEnd::Standard(_)) => {
                Ok(Question::Nothing)
            }
            libc::F_SETFL if fd > 2 && self.is_inner_pipe(fd) => Ok(Question::Nothing),
            _ => Err(unrepeatable("it changes how a file is open")),
        }
    }

    pub(super) fn device(&self, fd: i32, request: u64, at: u64) -> Result<Question, LeftBecause> {
        match (request, self.end(fd)?) {
            (libc::TCGETS, DescriptorEnd::Opened | DescriptorEnd::Inside) => Ok(Question::Nothing),
            (libc::TCGETS | libc::TIOCGWINSZ, DescriptorEnd::Standard(fd)) => {
                Ok(Question::Terminal { fd, request, at })
            }
            _ => Err(unrepeatable("it changes or asks a device")),
        }
    }

    /// A socket that is not there is as a file that is not there.
    pub(super) fn connection(&self, at: u64, length: u64) -> Result<Question, LeftBecause> {
        let unknown = || unrepeatable("it talks to another process");
        let mut address = vec![0; length.min(128) as usize];
        memory::read(self.tid, at, &mut address).map_err(|_| unknown())?;
        let (family, path) = address.split_at_checked(2).ok_or_else(unknown)?;
        let path = path.split(|byte| *byte == 0).next().unwrap_or_default();
        let is_path = family == (libc::AF_UNIX as u16).to_ne_bytes() && path.starts_with(b"/");
        let path = CString::new(path).map_err(|_| unknown())?;
        let absent = StatAttributes::of(&path, true) == Err(rustix::io::Errno::NOENT);
        match (is_path, absent) {
            (true, true) => Ok(Question::AbsentSocket(path)),
            (true, false) if self.asks_for_user => Ok(Question::Nothing),
            _ => Err(unknown()),
        }
    }

    pub(super) fn write(&self, fd: i32, parts: Vec<(u64, u64)>) -> Result<Question, LeftBecause> {
        let to = match self.end(fd)? {
            DescriptorEnd::Standard(1) => WrittenTo::Stdout,
            DescriptorEnd::Standard(2) => WrittenTo::Stderr,
            DescriptorEnd::Inside => return Ok(Question::Nothing),
            DescriptorEnd::Opened if self.is_inner_pipe(fd) && self.pages => WrittenTo::Pager,
            DescriptorEnd::Opened if self.is_inner_pipe(fd) => return Ok(Question::Nothing),
            DescriptorEnd::Opened if self.temporary.is_open(self.tid, fd) => {
                return Ok(Question::Nothing);
            }
            _ => return Err(unrepeatable("it writes to a file")),
        };
        Ok(Question::Write { to, parts })
    }

    pub(super) fn is_inner_pipe(&self, fd: i32) -> bool {
        let is_inner = |file: StatAttributes| self.pipes.contains(&(file.device, file.inode));
        !self.pipes.is_empty() && process::descriptor(self.tid, fd).is_some_and(is_inner)
    }

    pub(super) fn parts(&self, at: u64, count: u64) -> Result<Vec<(u64, u64)>, LeftBecause> {
        let mut bytes = vec![0; 16 * count.min(PARTS_MOST) as usize];
        let got = memory::read(self.tid, at, &mut bytes);
        if got.ok() != Some(bytes.len()) {
            return Err(unrepeatable("what it writes cannot be read"));
        }
        let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
        Ok(bytes.chunks_exact(16).map(|part| (number(&part[..8]), number(&part[8..]))).collect())
    }
}
