//! What a stopped program has mapped: /proc/PID/maps (proc(5)).

use std::path::PathBuf;

/// A range of equal mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    pub start: u64,
    pub end: u64,
    pub read: bool,
    pub write: bool,
    pub execute: bool,
    pub shared: bool,
    pub offset: u64,
    /// A file's path, a name in brackets, or nothing.
    pub name: String,
}

impl Region {
    /// All that a process has mapped, in order of addresses.
    pub fn all(maps: &[u8]) -> Option<Vec<Region>> {
        String::from_utf8_lossy(maps).lines().map(Region::of_line).collect()
    }

    fn of_line(line: &str) -> Option<Region> {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let mut fields = rest.splitn(5, ' ');
        let mode = fields.next()?.as_bytes();
        let offset = fields.next()?;
        let (_device, _inode) = (fields.next()?, fields.next()?);
        let number = |digits| u64::from_str_radix(digits, 16).ok();
        Some(Region {
            start: number(start)?,
            end: number(end)?,
            read: mode.first() == Some(&b'r'),
            write: mode.get(1) == Some(&b'w'),
            execute: mode.get(2) == Some(&b'x'),
            shared: mode.get(3) == Some(&b's'),
            offset: number(offset)?,
            name: fields.next().unwrap_or_default().trim_start().to_owned(),
        })
    }

    pub fn length(&self) -> u64 {
        self.end - self.start
    }

    pub fn contains(&self, at: u64) -> bool {
        (self.start..self.end).contains(&at)
    }

    /// Of the kernel's own, which each process has anew.
    pub fn is_kernels(&self) -> bool {
        let kernels = ["[stack]", "[vdso]", "[vsyscall]"];
        kernels.contains(&self.name.as_str()) || self.name.starts_with("[vvar")
    }

    /// The file that is mapped.
    pub fn file(&self) -> Option<PathBuf> {
        self.name.starts_with('/').then(|| PathBuf::from(&self.name))
    }

    /// As mmap(2) says it.
    pub fn protection(&self) -> u64 {
        let bit = |is: bool, bit: i32| if is { bit as u64 } else { 0 };
        bit(self.read, libc::PROT_READ)
            | bit(self.write, libc::PROT_WRITE)
            | bit(self.execute, libc::PROT_EXEC)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_maps_is_read_with_the_spaces_of_its_path() {
        let maps = b"7f00-8f00 r-xp 00001000 fd:00 17    /a b\n9000-a000 rw-s 00000000 00:00 0 \n";
        let all = Region::all(maps).unwrap();
        assert_eq!((all[0].start, all[0].end, all[0].offset), (0x7f00, 0x8f00, 0x1000));
        assert_eq!((all[0].name.as_str(), all[0].execute, all[0].write), ("/a b", true, false));
        assert!(all[1].shared && all[1].write && all[1].file().is_none());
        assert!(Region::all(b"nonsense").is_none());
    }
}
