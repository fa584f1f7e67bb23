//! What page faults fetch from a server: which requests are left after readahead.
//!
//! As Linux does for a mapped file that is not in the page cache (mm/filemap.c, 6.18):
//!
//! - A fault beyond what is there fetches a window around itself, half of it before
//!   (`do_sync_mmap_readahead`); its last quarter is marked, and whoever comes to the mark has the
//!   next window fetched (`do_async_mmap_readahead`). Somebody who touches one page after the other
//!   waits for one window after the other: there is nothing else to do meanwhile.
//! - After 100 faults that found nothing (MMAP_LOTSAMISS), each fetches its own page only. One that
//!   finds what it needs takes back as many as it maps: 16.
//!
//! The recording has one touch for 64 KiB ([`recording::Touch::AROUND`]); what else of them was
//! touched is within the window around it, so it takes no request of its own, unless windows are
//! not fetched any more: then requests are at least so many.
//!
//! Held against a measurement: cold Lustre gave 0.35 MB/s to page faults, and 13 MB/s to windows of
//! 128 KiB one after the other (Garden-AI/rootstock#167); the profile `lustre` with a cold server
//! gives 0.34 and 10.7.

use std::ops::{Add, AddAssign};

use recording::query::data::{DataAccess, Ranges};
use recording::{FileRange, PathId, Touch};
use rustc_hash::FxHashMap;

/// Faults that found nothing until windows are not fetched any more.
const LOTS_OF_MISSES: u64 = 100;
/// The unit of a page cache; larger pages read the same windows.
const PAGE: u64 = 4096;

/// What page faults fetch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultedData {
    /// Requests, one after the other.
    pub requests: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Add for FaultedData {
    type Output = FaultedData;
    fn add(self, other: FaultedData) -> FaultedData {
        FaultedData {
            requests: self.requests + other.requests,
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }
}

impl AddAssign for FaultedData {
    fn add_assign(&mut self, other: FaultedData) {
        *self = *self + other;
    }
}

/// A node's page cache that was empty, and what has been fetched to it.
pub struct Readahead {
    window: u64,
    files: FxHashMap<PathId, FetchedFile>,
}

/// What is there of a file, and what is fetched next.
#[derive(Default)]
struct FetchedFile {
    there: Ranges,
    misses: u64,
    /// Where the mark is, and the window that it stands for.
    mark: Option<(u64, u64)>,
}

impl Readahead {
    /// A node that fetches windows of so many bytes.
    pub fn new(window: u64) -> Readahead {
        Readahead { window: window.max(PAGE), files: FxHashMap::default() }
    }

    /// What a touch fetches.
    pub fn touch(&mut self, access: &DataAccess) -> FaultedData {
        let window = self.window;
        let file = self.files.entry(access.path).or_default();
        let page = access.first - access.first % PAGE;
        if file.there.has(page) {
            file.misses = file.misses.saturating_sub(Touch::AROUND / PAGE);
            return match file.mark {
                Some((mark, next)) if (page..access.range.end()).contains(&mark) => {
                    file.mark = Some((next, next.saturating_add(window)));
                    file.fetch(next, window, access.file_end)
                }
                _ => FaultedData::default(),
            };
        }
        file.misses += 1;
        if file.misses > LOTS_OF_MISSES {
            return file.fetch(page, PAGE, access.file_end);
        }
        let begin = page.saturating_sub(window / 2);
        let next = begin.saturating_add(window);
        file.mark = Some((next - window / 4, next));
        file.fetch(begin, window, access.file_end)
    }
}

impl FetchedFile {
    fn fetch(&mut self, offset: u64, bytes: u64, file_end: u64) -> FaultedData {
        let range = FileRange { offset, bytes: bytes.min(file_end.saturating_sub(offset)) };
        let bytes = self.there.take_in(range).iter().map(|fresh| fresh.bytes).sum();
        FaultedData { requests: u64::from(bytes > 0), bytes }
    }
}

/// What the touches of each file fetch to a node that has nothing of them, those with most requests
/// first.
pub fn faulted_by_file<'t>(
    touches: impl IntoIterator<Item = &'t DataAccess>,
    window: u64,
) -> Vec<(PathId, FaultedData)> {
    let mut ahead = Readahead::new(window);
    let mut files: FxHashMap<PathId, FaultedData> = FxHashMap::default();
    for touch in touches {
        *files.entry(touch.path).or_default() += ahead.touch(touch);
    }
    let mut files: Vec<_> = files.into_iter().collect();
    files.sort_by_key(|(path, data)| (std::cmp::Reverse((data.requests, data.bytes)), *path));
    files
}

#[cfg(test)]
mod tests {
    use recording::query::data::DataUse;
    use recording::{Nanos, ProcessId};

    use super::*;
    use crate::FilesystemProfile;

    const WINDOW: u64 = 128 << 10;

    fn touch(first: u64) -> DataAccess {
        let offset = first - first % Touch::AROUND;
        DataAccess {
            at: Nanos(0),
            process: ProcessId(0),
            path: PathId(0),
            range: FileRange { offset, bytes: Touch::AROUND },
            how: DataUse::Touched,
            first,
            event: None,
            file_end: u64::MAX,
        }
    }

    fn fetched(offsets: impl Iterator<Item = u64>) -> FaultedData {
        let touches: Vec<_> = offsets.map(touch).collect();
        faulted_by_file(&touches, WINDOW)[0].1
    }

    #[test]
    fn what_is_touched_page_by_page_takes_one_request_a_window() {
        let all = fetched((0..1024).map(|part| part * Touch::AROUND));
        assert!((512..=514).contains(&all.requests), "{all:?}");
        assert!((64 << 20..=(64 << 20) + 2 * WINDOW).contains(&all.bytes), "{all:?}");
    }

    #[test]
    fn what_lies_far_apart_takes_a_request_each_and_after_a_hundred_a_page_only() {
        let all = fetched((0..1000).map(|place| place << 20));
        // Of the first, half a window lies before the file.
        let windows = 100 * WINDOW + 900 * PAGE;
        assert_eq!(all, FaultedData { requests: 1000, bytes: windows });
    }

    #[test]
    fn a_file_is_fetched_no_further_than_to_its_end() {
        let touch = DataAccess { file_end: 20_000, ..touch(0) };
        let expected = FaultedData { requests: 1, bytes: 20_000 };
        assert_eq!(faulted_by_file([&touch], WINDOW)[0].1, expected);
    }

    #[test]
    fn a_cold_lustre_gives_page_faults_and_windows_what_was_measured() {
        let lustre = FilesystemProfile::text("lustre".as_ref()).unwrap();
        let cold = FilesystemProfile::parse(&lustre, "lustre").unwrap().with_cold_server().unwrap();
        let rate = |bytes: u64| {
            let disk = cold.cold_disk().unwrap().data_latency.nanos().0 as f64;
            bytes as f64 / (cold.fault_trips(1) + disk + cold.transfer_time(bytes)) * 1e3
        };
        // MB/s: measured 0.35 and 13.
        assert!((0.30..0.40).contains(&rate(PAGE)), "{}", rate(PAGE));
        assert!((9.0..17.0).contains(&rate(WINDOW)), "{}", rate(WINDOW));
    }
}
