//! /proc/PID/stat (proc_pid_stat(5)).

/// The stat of a process or thread, as it was read.
///
/// Its name, the second field, is between parentheses and may hold any bytes, also parentheses and
/// newlines: the fields after it are those after the last `)`, as no later field has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessStat {
    fields: Vec<u8>,
}

impl ProcessStat {
    /// That of a process, or of a thread by its id; none once it is gone.
    pub fn of(pid: i32) -> Option<ProcessStat> {
        ProcessStat::parse(&std::fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    /// That of the text of a stat; none where it is not one.
    pub fn parse(stat: &[u8]) -> Option<ProcessStat> {
        let end = stat.iter().rposition(|byte| *byte == b')')?;
        let fields = stat[end + 1..].strip_prefix(b" ")?;
        let stat = ProcessStat { fields: fields.to_vec() };
        stat.field(3).filter(|state| state.len() == 1).is_some().then_some(stat)
    }

    /// Field 3, the state: `R`, `S`, `D`, `Z`, `T`, `t`, `X`, `I` …
    pub fn state(&self) -> u8 {
        self.fields.first().copied().unwrap_or(0)
    }

    /// Whether it runs or could: it does not sleep, and waits for no tracer.
    pub fn is_running(&self) -> bool {
        self.state() == b'R'
    }

    /// Whether it sleeps and can be woken.
    pub fn is_asleep(&self) -> bool {
        self.state() == b'S'
    }

    /// Whether it is stopped, by job control or by its tracer.
    pub fn is_stopped(&self) -> bool {
        matches!(self.state(), b'T' | b't')
    }

    /// Field 12: how many pages had to be read from a disk or a server (`majflt`).
    pub fn major_faults(&self) -> Option<u64> {
        self.number(12)
    }

    /// Field 28: where its stack begins; 0 where ptrace(2)'s rights are missing.
    pub fn stack(&self) -> Option<u64> {
        self.number(28)
    }

    /// Field 39: the processor on which it runs, or ran last.
    pub fn processor(&self) -> Option<u32> {
        self.number(39)
    }

    /// Field 9, the bit PF_KTHREAD (include/linux/sched.h): a thread of the kernel's own.
    pub fn is_of_kernel(&self) -> bool {
        self.number::<u64>(9).is_some_and(|flags| flags & 0x0020_0000 != 0)
    }

    /// Field 22: when it was started, in clock ticks since the machine was (CLOCK_BOOTTIME).
    pub fn started(&self) -> Option<u64> {
        self.number(22)
    }

    /// Fields 14 to 17: the clock ticks that it and its reaped children have spent in programs,
    /// and in the kernel.
    pub fn used(&self) -> Option<(u64, u64)> {
        let of = |own, children| Some(self.number::<u64>(own)? + self.number::<u64>(children)?);
        Some((of(14, 16)?, of(15, 17)?))
    }

    /// A number by the manual's number of its field, which is 4 or more.
    fn number<T: std::str::FromStr>(&self, number: usize) -> Option<T> {
        std::str::from_utf8(self.field(number)?).ok()?.parse().ok()
    }

    fn field(&self, number: usize) -> Option<&[u8]> {
        let mut fields = self.fields.trim_ascii_end().split(|byte| *byte == b' ');
        fields.nth(number.checked_sub(3)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stat with this name, whose fields from 4 on are their own numbers.
    fn stat(name: &[u8], state: &str) -> Vec<u8> {
        let fields: Vec<String> = (4..=52).map(|number| number.to_string()).collect();
        [b"77 (", name, b") ", state.as_bytes(), b" ", fields.join(" ").as_bytes(), b"\n"].concat()
    }

    #[test]
    fn a_name_may_hold_anything() {
        let names: [&[u8]; 7] =
            [b"cat", b"", b") R 1", b"a) (b", b"new\nline) S", b"\xff\xfe)", b"))) Z (("];
        for name in names {
            let stat = ProcessStat::parse(&stat(name, "T")).unwrap();
            assert_eq!((stat.state(), stat.processor()), (b'T', Some(39)), "{name:?}");
            assert!(stat.is_stopped() && !stat.is_running() && !stat.is_asleep());
        }
    }

    #[test]
    fn what_is_no_stat_is_none() {
        let texts: [&[u8]; 6] =
            [b"", b"77 (cat", b"77 (cat)", b"77 (cat) ", b"77 (x)S 1", b"1 (x) SS 1"];
        for text in texts {
            assert_eq!(ProcessStat::parse(text), None, "{text:?}");
        }
        // An older kernel says less.
        let short = ProcessStat::parse(b"77 (cat) S 1 2 3\n").unwrap();
        assert_eq!((short.is_asleep(), short.processor()), (true, None));
    }

    #[test]
    fn this_process_runs_and_one_that_is_gone_says_nothing() {
        let own = ProcessStat::parse(&std::fs::read("/proc/thread-self/stat").unwrap()).unwrap();
        assert!(own.is_running() && own.processor().is_some());
        assert_eq!(ProcessStat::of(-1), None);
    }
}
