//! /proc/PID/status (proc_pid_status(5)).

use std::io::Read;

/// The status of a process or thread, as it was read. The kernel writes a newline in a name as an
/// escape, so that each line is a field; the name need not be UTF-8.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessStatus {
    text: Vec<u8>,
}

impl ProcessStatus {
    /// That of a process, or of a thread by its id; none once it is gone.
    pub fn of(pid: i32) -> Option<ProcessStatus> {
        Some(ProcessStatus { text: std::fs::read(format!("/proc/{pid}/status")).ok()? })
    }

    /// That of this process.
    pub fn own() -> Option<ProcessStatus> {
        // All that there is room for comes in one read (proc(5)'s seq_file); what has as many groups as
        // fill it is read to its end.
        const ROOM: usize = 32 << 10;
        let mut text = vec![0; ROOM];
        let mut status = std::fs::File::open("/proc/self/status").ok()?;
        let length = status.read(&mut text).ok()?;
        text.truncate(length);
        if length == ROOM {
            status.read_to_end(&mut text).ok()?;
        }
        Some(ProcessStatus { text })
    }

    /// A field by its name, such as `TracerPid`, without the blanks around it.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut lines = self.text.split(|byte| *byte == b'\n');
        let value = lines
            .find_map(|line| line.strip_prefix(name.as_bytes())?.strip_prefix(b":".as_slice()))?;
        std::str::from_utf8(value.trim_ascii()).ok()
    }

    /// A field that is a decimal number, whatever its unit.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.field(name)?.split_ascii_whitespace().next()?.parse().ok()
    }

    /// A field that is a set: of signals (`SigPnd`, `SigBlk` …, bit 0 for signal 1) or capabilities.
    pub fn mask(&self, name: &str) -> Option<u64> {
        u64::from_str_radix(self.field(name)?, 16).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(text: &[u8]) -> ProcessStatus {
        ProcessStatus { text: text.to_vec() }
    }

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let status = status(
            b"Name:\tx\\nTracerPid: 9\nTracerPid:\t7\nSeccomp:\t2\nSeccomp_filters:\t3\n\
            Groups:\t4 24 \nVmRSS:\t    812 kB\n",
        );
        assert_eq!((status.number("TracerPid"), status.number("Seccomp")), (Some(7), Some(2)));
        assert_eq!((status.number("VmRSS"), status.field("Groups")), (Some(812), Some("4 24")));
        assert_eq!((status.number("Sec"), status.field("Nothing")), (None, None));
    }

    #[test]
    fn a_set_is_read_as_hexadecimal() {
        let status = status(b"SigPnd:\t0000000000000100\nShdPnd:\tffffffffffffffff\nSigBlk:\tx\n");
        assert_eq!((status.mask("SigPnd"), status.mask("ShdPnd")), (Some(0x100), Some(u64::MAX)));
        assert_eq!((status.mask("SigBlk"), status.mask("SigIgn")), (None, None));
    }

    #[test]
    fn this_process_has_a_status_and_one_that_is_gone_has_none() {
        let own = ProcessStatus::own().unwrap();
        assert_eq!(own.number("Pid"), Some(u64::from(std::process::id())));
        assert_eq!(ProcessStatus::of(-1), None);
    }
}
