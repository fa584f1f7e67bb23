//! What /proc says of a process: whether it may be touched, and what it is made of.

use std::fs;
use std::io::{self, ErrorKind};

use super::blocks::{block_size, page_size};
use super::error::CollapseError;

/// A process, by its id.
#[derive(Clone, Copy, Debug)]
pub(super) struct TargetProcess {
    pub pid: i32,
}

/// How much memory it has, of which kind, in bytes (proc_pid_smaps(5)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Memory {
    /// In memory.
    pub resident_bytes: u64,
    /// Of its anonymous memory, in huge pages.
    pub huge_bytes: u64,
    /// All its anonymous memory.
    pub anonymous_bytes: u64,
    /// What a fork copies for that: an entry for each page, or huge page.
    pub fork_entries: u64,
}

impl TargetProcess {
    /// What `/proc/PID/FILE` holds.
    pub(super) fn read(&self, file: &str) -> Result<String, CollapseError> {
        let path = format!("/proc/{}/{file}", self.pid);
        fs::read_to_string(&path).map_err(|error| self.unreadable(path, error))
    }

    /// Says an error of reading below /proc as what it means.
    pub(super) fn unreadable(&self, path: String, error: io::Error) -> CollapseError {
        match error.kind() {
            // ESRCH: the process ended between opening and reading.
            ErrorKind::NotFound => CollapseError::Gone(self.pid),
            _ if error.raw_os_error() == Some(libc::ESRCH) => CollapseError::Gone(self.pid),
            ErrorKind::PermissionDenied => CollapseError::Forbidden { pid: self.pid, path, error },
            _ => CollapseError::Proc { path, error },
        }
    }

    /// Refuses what would fail.
    ///
    /// # Errors
    /// What is in the way.
    pub(super) fn check(&self) -> Result<(), CollapseError> {
        if u32::try_from(self.pid) == Ok(std::process::id()) {
            return Err(CollapseError::Own(self.pid));
        }
        if !fs::exists("/sys/kernel/mm/transparent_hugepage").unwrap_or(false) {
            return Err(CollapseError::NoHugePages);
        }
        if field(&self.read("status")?, "THP_enabled:") == Some("0") {
            return Err(CollapseError::SwitchedOff(self.pid));
        }
        Ok(())
    }

    /// Its name, as `ps` shows it.
    pub(super) fn name(&self) -> Result<String, CollapseError> {
        Ok(self.read("comm")?.trim_end().to_owned())
    }

    /// How much memory it has.
    pub(super) fn memory(&self) -> Result<Memory, CollapseError> {
        let rollup = self.read("smaps_rollup")?;
        let huge_bytes = kibibytes(&rollup, "AnonHugePages:");
        let anonymous_bytes = kibibytes(&rollup, "Anonymous:");
        let small_bytes = anonymous_bytes.saturating_sub(huge_bytes);
        Ok(Memory {
            resident_bytes: kibibytes(&rollup, "Rss:"),
            huge_bytes,
            anonymous_bytes,
            fork_entries: small_bytes / page_size() + huge_bytes / block_size(),
        })
    }
}

/// `from-to` at the start of a line of maps or smaps.
pub(super) fn range(line: &str) -> Option<(u64, u64)> {
    let (from, to) = line.split_whitespace().next()?.split_once('-')?;
    let (from, to) = (u64::from_str_radix(from, 16).ok()?, u64::from_str_radix(to, 16).ok()?);
    (from < to).then_some((from, to))
}

/// The first word after a name at the start of a line.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()
}

/// A number of kB, in bytes; 0 where there is none.
pub(super) fn kibibytes(text: &str, name: &str) -> u64 {
    field(text, name).and_then(|text| text.parse().ok()).unwrap_or(0) * 1024
}
