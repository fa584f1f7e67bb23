//! Which part of the second-level cache a process's pages share.
//!
//! That cache picks a set by bits of the physical address, some of them above the page's offset:
//! pages with the same bits there (one colour) share sets. /proc/PID/pagemap tells physical pages to
//! root alone (Documentation/admin-guide/mm/pagemap.rst); of a virtual machine these are the guest's.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;

/// The pages that a process has in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PageColours {
    /// How many there are.
    pub pages: u64,
    /// How many colours the second-level cache has.
    pub colours: u64,
    /// How many pages are of the colour that most are of.
    pub most: u64,
}

/// Why no colours are told.
#[derive(Debug, thiserror::Error)]
pub enum ColourError {
    /// A file of /proc or /sys.
    #[error("cannot read {path}: {error}")]
    File {
        /// Which.
        path: String,
        /// Why.
        error: io::Error,
    },
    /// The kernel shows zeros.
    #[error("the kernel tells physical pages to root alone")]
    NotRoot,
    /// The cache's size is not told.
    #[error("the kernel does not tell the size of the second-level cache")]
    NoCache,
}

/// A page that is in memory, and which (pagemap.rst).
const PRESENT: u64 = 1 << 63;
const FRAME: u64 = (1 << 55) - 1;
/// So many pages are asked for at once.
const AT_ONCE: u64 = 4096;

impl PageColours {
    /// Of a process that is stopped, or ends.
    ///
    /// # Errors
    /// [`ColourError`].
    pub fn of(pid: i32) -> Result<PageColours, ColourError> {
        let page = rustix::param::page_size() as u64;
        let colours = colours(page).ok_or(ColourError::NoCache)?;
        let path = format!("/proc/{pid}/maps");
        let maps = fs::read(&path).map_err(|error| ColourError::File { path, error })?;
        let path = format!("/proc/{pid}/pagemap");
        let file = File::open(&path);
        let at = |error| ColourError::File { path: path.clone(), error };
        let file = file.map_err(at)?;
        let mut counts = vec![0_u64; colours as usize];
        for (start, end) in String::from_utf8_lossy(&maps).lines().filter_map(usable) {
            let mut next = start / page;
            while next < end / page {
                let mut entries = vec![0; ((end / page - next).min(AT_ONCE) * 8) as usize];
                file.read_exact_at(&mut entries, next * 8).map_err(at)?;
                let (words, _) = entries.as_chunks::<8>();
                for entry in words.iter().map(|word| u64::from_le_bytes(*word)) {
                    match (entry & PRESENT != 0, entry & FRAME) {
                        (true, 0) => return Err(ColourError::NotRoot),
                        (true, frame) => counts[(frame % colours) as usize] += 1,
                        _ => {}
                    }
                }
                next += words.len() as u64;
            }
        }
        let most = counts.iter().copied().max().unwrap_or(0);
        Ok(PageColours { pages: counts.iter().sum(), colours, most })
    }
}

/// The range of a line of /proc/PID/maps whose pages the process may have touched, and which are
/// memory: the kernel's own pages are in no pagemap.
fn usable(line: &str) -> Option<(u64, u64)> {
    let mut words = line.split(' ');
    let (start, end) = words.next()?.split_once('-')?;
    let is_own = words.next()?.starts_with("---") || line.contains("[v");
    let range = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
    (!is_own).then_some(range)
}

/// How many pages lie beside each other in one way of the second-level cache.
fn colours(page: u64) -> Option<u64> {
    let tell = |file: &str| {
        let path = format!("/sys/devices/system/cpu/cpu0/cache/index2/{file}");
        fs::read_to_string(path).ok()
    };
    let size = tell("size")?;
    let kibibytes: u64 = size.trim().strip_suffix('K')?.parse().ok()?;
    let ways: u64 = tell("ways_of_associativity")?.trim().parse().ok()?;
    let is_second = tell("level")?.trim() == "2";
    let way = (kibibytes << 10).checked_div(ways)?;
    Some(way / page).filter(|colours| is_second && *colours > 0)
}
