//! What /proc says of a process: whether it may be touched, and what it is made of.

use std::fs;
use std::io::{self, ErrorKind};
use std::time::Duration;

use super::error::Error;

/// A process, by its id.
#[derive(Clone, Copy, Debug)]
pub(super) struct Process {
    pub pid: i32,
}

/// How much memory it has, of which kind, in bytes (proc_pid_smaps(5)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Memory {
    /// In memory.
    pub resident_bytes: u64,
    /// Of its anonymous memory, in huge pages.
    pub huge_bytes: u64,
    /// All its anonymous memory.
    pub anonymous_bytes: u64,
}

impl Process {
    /// What `/proc/PID/FILE` holds.
    pub(super) fn read(&self, file: &str) -> Result<String, Error> {
        let path = format!("/proc/{}/{file}", self.pid);
        fs::read_to_string(&path).map_err(|error| self.unreadable(path, error))
    }

    /// Says an error of reading below /proc as what it means.
    pub(super) fn unreadable(&self, path: String, error: io::Error) -> Error {
        match error.kind() {
            // ESRCH: the process ended between opening and reading.
            ErrorKind::NotFound => Error::Gone(self.pid),
            _ if error.raw_os_error() == Some(libc::ESRCH) => Error::Gone(self.pid),
            ErrorKind::PermissionDenied => self.forbidden(error),
            _ => Error::Proc { path, error },
        }
    }

    /// Why the kernel refuses (ptrace(2), "Ptrace access mode checking").
    pub(super) fn forbidden(&self, error: io::Error) -> Error {
        let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
        let reason = match scope.trim() {
            "1" => "kernel.yama.ptrace_scope is 1, so only its ancestors and root may; \
                    `becalm run --hugepages` does the same from the start"
                .to_owned(),
            "2" => "kernel.yama.ptrace_scope is 2, so only root may".to_owned(),
            "3" => "kernel.yama.ptrace_scope is 3, so nobody may until the machine is started \
                    again"
                .to_owned(),
            _ => "it is another user's, has set-user-id rights, or is a thread of the kernel"
                .to_owned(),
        };
        Error::Forbidden { pid: self.pid, error, reason }
    }

    /// Refuses what would fail, or harm the process, before anything is done to it.
    ///
    /// # Errors
    /// What is in the way.
    pub(super) fn check(&self) -> Result<(), Error> {
        let pid = self.pid;
        if u32::try_from(pid) == Ok(std::process::id()) {
            return Err(Error::Own(pid));
        }
        let status = self.read("status")?;
        check_kernel()?;
        let number = |name| field(&status, name).and_then(|text| text.parse::<i64>().ok());
        if let Some(tracer @ 1..) = number("TracerPid:") {
            let name = fs::read_to_string(format!("/proc/{tracer}/comm")).unwrap_or_default();
            let name = match name.trim() {
                "" => String::new(),
                name => format!(" ({name})"),
            };
            return Err(Error::Traced { pid, tracer: tracer as i32, name });
        }
        if number("Seccomp:").is_some_and(|mode| mode != 0) {
            return Err(Error::Confined(pid));
        }
        if number("THP_enabled:") == Some(0) {
            return Err(Error::SwitchedOff(pid));
        }
        let features = status.lines().find_map(|line| line.strip_prefix("x86_Thread_features:"));
        if features.is_some_and(|features| features.contains("shstk")) {
            return Err(Error::ShadowStack(pid));
        }
        Ok(())
    }

    /// Its name, as `ps` shows it.
    pub(super) fn name(&self) -> Result<String, Error> {
        Ok(self.read("comm")?.trim_end().to_owned())
    }

    /// How much memory it has.
    pub(super) fn memory(&self) -> Result<Memory, Error> {
        let rollup = self.read("smaps_rollup")?;
        Ok(Memory {
            resident_bytes: kibibytes(&rollup, "Rss:"),
            huge_bytes: kibibytes(&rollup, "AnonHugePages:"),
            anonymous_bytes: kibibytes(&rollup, "Anonymous:"),
        })
    }

    /// Its mappings with code, the C library's and the kernel's (vdso) among them.
    pub(super) fn code(&self) -> Result<Vec<(u64, u64)>, Error> {
        let maps = self.read("maps")?;
        let code = maps.lines().filter(|line| {
            line.split_whitespace().nth(1).is_some_and(|access| access.starts_with("r-x"))
        });
        Ok(code.filter_map(range).collect())
    }

    /// Its threads, those first that can be stopped at once, with their state (proc_pid_stat(5)).
    pub(super) fn threads(&self) -> Result<Vec<(i32, char)>, Error> {
        let path = format!("/proc/{}/task", self.pid);
        let entries = fs::read_dir(&path).map_err(|error| self.unreadable(path, error))?;
        let tids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let mut threads: Vec<(i32, char)> =
            tids.filter_map(|tid| Some((tid, self.state(tid)?))).collect();
        threads.retain(|(_, state)| !matches!(state, 'Z' | 'X'));
        threads.sort_by_key(|(tid, state)| (*state == 'D', *tid));
        Ok(threads)
    }

    fn state(&self, tid: i32) -> Option<char> {
        let stat = self.read(&format!("task/{tid}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.chars().next()
    }

    /// The signals that a thread has blocked at this moment.
    pub(super) fn blocked(&self, tid: i32) -> Result<u64, Error> {
        let status = self.read(&format!("task/{tid}/status"))?;
        let mask = field(&status, "SigBlk:").and_then(|text| u64::from_str_radix(text, 16).ok());
        Ok(mask.unwrap_or(0))
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

/// MADV_COLLAPSE is there since 6.1 (madvise(2)).
fn check_kernel() -> Result<(), Error> {
    if !fs::exists("/sys/kernel/mm/transparent_hugepage").unwrap_or(false) {
        return Err(Error::NoHugePages);
    }
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let mut numbers = release.split(|char: char| !char.is_ascii_digit());
    let mut number = || numbers.next().and_then(|text| text.parse::<u32>().ok()).unwrap_or(0);
    if (number(), number()) < (6, 1) {
        return Err(Error::OldKernel { release });
    }
    Ok(())
}

/// How long a thread is waited for.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);
