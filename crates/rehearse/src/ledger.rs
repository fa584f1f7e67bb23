//! What reached the server: every operation that it was asked for, by whom, and how long they
//! waited.

use std::sync::Mutex;

use cost::RpcKind;
use recording::Nanos;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::clock;

/// One operation that reached the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Served {
    /// What was asked for.
    pub kind: RpcKind,
    /// Of which file: an index into [`Account::paths`].
    pub path: u32,
    /// The thread that asked; 0 if it is of another PID namespace, or the kernel itself.
    pub thread: u32,
    /// When it came, since [`Account::started`].
    pub at: Nanos,
    /// How long it waited for the server to have time for it. Part of `waited`.
    pub queued: Nanos,
    /// How long whoever asked waited for the answer.
    pub waited: Nanos,
    /// The answer was that there is no such file.
    pub enoent: bool,
    /// How many bytes were transferred.
    pub bytes: u64,
}

/// All operations of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sum {
    /// How many.
    pub rpcs: u64,
    /// How many of them found no such file.
    pub enoent: u64,
    /// How long they waited for the server to have time for them, added up.
    pub queued: Nanos,
    /// How long whoever asked waited, added up.
    pub waited: Nanos,
    /// How many bytes were transferred.
    pub bytes: u64,
}

/// What reached the server, from the start of a ledger on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Account {
    /// When the ledger was opened, by CLOCK_MONOTONIC.
    pub started: Nanos,
    /// The same moment, since 1970.
    pub started_unix: Nanos,
    /// The paths that [`Served::path`] means, as bytes.
    pub paths: Vec<Vec<u8>>,
    /// Each operation, in the order in which they came, until memory for them was used up.
    pub served: Vec<Served>,
    /// How many operations are in `sums` only, because memory for them was used up.
    pub left_out: u64,
    /// All operations by kind, in the order of [`RpcKind::ALL`].
    pub sums: [Sum; RpcKind::ALL.len()],
    /// Requests that came from the kernel but would not have reached a server: what this
    /// machine's FUSE asks and a client of a network filesystem does not.
    pub uncharged: u64,
}

impl Account {
    /// All operations of one kind.
    pub fn of(&self, kind: RpcKind) -> Sum {
        self.sums[kind as usize]
    }

    /// All metadata operations.
    pub fn metadata(&self) -> Sum {
        let kinds = RpcKind::ALL.into_iter().filter(|kind| kind.is_metadata());
        kinds.fold(Sum::default(), |sum, kind| sum.and(self.of(kind)))
    }
}

impl Sum {
    /// Both together.
    pub fn and(self, other: Sum) -> Sum {
        Sum {
            rpcs: self.rpcs + other.rpcs,
            enoent: self.enoent + other.enoent,
            queued: Nanos(self.queued.0 + other.queued.0),
            waited: Nanos(self.waited.0 + other.waited.0),
            bytes: self.bytes + other.bytes,
        }
    }
}

/// So many operations are kept one by one.
const MOST_SERVED: usize = 2_000_000;
/// So many bytes of paths are kept.
const MOST_PATH_BYTES: usize = 128 << 20;

/// What reached the server so far; threads write into it at once.
#[derive(Debug)]
pub struct Ledger {
    started: Nanos,
    started_unix: Nanos,
    pages: Mutex<Pages>,
}

#[derive(Debug, Default)]
struct Pages {
    numbers: FxHashMap<Box<[u8]>, u32>,
    path_bytes: usize,
    served: Vec<Served>,
    left_out: u64,
    sums: [Sum; RpcKind::ALL.len()],
    uncharged: u64,
}

impl Default for Ledger {
    fn default() -> Ledger {
        Ledger::new()
    }
}

impl Ledger {
    /// An empty one, which begins now.
    pub fn new() -> Ledger {
        Ledger {
            started: clock::now(),
            started_unix: clock::unix_now(),
            pages: Mutex::new(Pages::default()),
        }
    }

    /// When it began, by CLOCK_MONOTONIC.
    pub fn started(&self) -> Nanos {
        self.started
    }

    /// Enters an operation on this path. Its own `path` is set here.
    pub fn enter(&self, path: &[u8], served: Served) {
        let mut pages = self.pages();
        let sum = &mut pages.sums[served.kind as usize];
        *sum = sum.and(Sum {
            rpcs: 1,
            enoent: served.enoent.into(),
            queued: served.queued,
            waited: served.waited,
            bytes: served.bytes,
        });
        match pages.number(path) {
            Some(path) if pages.served.len() < MOST_SERVED => {
                pages.served.push(Served { path, ..served });
            }
            _ => pages.left_out += 1,
        }
    }

    /// Counts a request that no server would have seen.
    pub fn enter_uncharged(&self) {
        self.pages().uncharged += 1;
    }

    /// All that was entered so far. The ledger is empty then, and goes on.
    pub fn take(&self) -> Account {
        let pages = std::mem::take(&mut *self.pages());
        let mut paths = vec![Vec::new(); pages.numbers.len()];
        for (path, number) in pages.numbers {
            paths[number as usize] = path.into_vec();
        }
        Account {
            started: self.started,
            started_unix: self.started_unix,
            paths,
            served: pages.served,
            left_out: pages.left_out,
            sums: pages.sums,
            uncharged: pages.uncharged,
        }
    }

    fn pages(&self) -> std::sync::MutexGuard<'_, Pages> {
        // Numbers stay numbers if a thread panicked while it added to them.
        self.pages.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Pages {
    /// The path's number; none if there is no memory left for a new one.
    fn number(&mut self, path: &[u8]) -> Option<u32> {
        if let Some(number) = self.numbers.get(path) {
            return Some(*number);
        }
        // A short path costs the map about as much again.
        self.path_bytes += path.len() + 32;
        if self.path_bytes > MOST_PATH_BYTES {
            return None;
        }
        let number = self.numbers.len() as u32;
        self.numbers.insert(path.into(), number);
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(kind: RpcKind) -> Served {
        Served {
            kind,
            path: 0,
            thread: 7,
            at: Nanos(1),
            queued: Nanos(2),
            waited: Nanos(3),
            enoent: kind == RpcKind::Lookup,
            bytes: 0,
        }
    }

    #[test]
    fn operations_are_kept_with_their_paths_and_added_up_by_kind() {
        let ledger = Ledger::new();
        for path in [b"/a", b"/b", b"/a"] {
            ledger.enter(path, served(RpcKind::Lookup));
        }
        ledger.enter(b"/b", served(RpcKind::Read));
        ledger.enter_uncharged();
        let account = ledger.take();
        let paths: Vec<&[u8]> =
            account.served.iter().map(|s| &account.paths[s.path as usize][..]).collect();
        assert_eq!(paths, [b"/a", b"/b", b"/a", b"/b"]);
        let all = account.metadata();
        assert_eq!((all.rpcs, all.enoent, all.waited), (3, 3, Nanos(9)));
        assert_eq!((account.of(RpcKind::Read).rpcs, account.uncharged), (1, 1));
        assert!(ledger.take().served.is_empty());
    }

    #[test]
    fn a_long_run_is_added_up_when_memory_for_each_operation_is_used_up() {
        let ledger = Ledger::new();
        for _ in 0..MOST_SERVED + 10 {
            ledger.enter(b"/a", served(RpcKind::Open));
        }
        let account = ledger.take();
        assert_eq!((account.served.len(), account.left_out), (MOST_SERVED, 10));
        assert_eq!(account.of(RpcKind::Open).rpcs, MOST_SERVED as u64 + 10);
        let long = vec![b'x'; MOST_PATH_BYTES / 2];
        for _ in 0..2 {
            ledger.enter(&long, served(RpcKind::Open));
            ledger.enter(&[&long[..], b"y"].concat(), served(RpcKind::Open));
        }
        assert_eq!(ledger.take().left_out, 2);
    }
}
