//! What is said of a rehearsed run.

mod cause;
mod directories;
mod warm;

use std::ops::AddAssign;
use std::time::Duration;

use recording::Recording;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{Account, RehearsedDirectory, Served, Sum};
use cost::{FilesystemProfile, RpcKind};

pub use cause::{ByCause, ByProgram, Causes};
pub use directories::ByDirectory;
pub use warm::Warm;

/// What reached the server, and how long it took: docs/schema/becalm.rehearse.md.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RehearsalReport {
    /// All metadata operations.
    pub rpcs: u64,
    /// Of those, answered 'no such file'.
    pub enoent: u64,
    /// How long whoever asked waited for answers, all added up, data included.
    pub waited_ns: u64,
    /// The same, where several waited at once only once.
    pub waiting_ns: u64,
    /// How long operations waited for the server to have time for them. Part of `waited_ns`.
    pub queued_ns: u64,
    /// From just before the command's exec to its end.
    pub wall_ns: u64,
    /// By kind, the most frequent first.
    pub kinds: Vec<ByKind>,
    /// By directory.
    pub directories: Vec<ByDirectory>,
    /// By cause and by program, where the run was recorded.
    pub causes: Option<Causes>,
    /// What a second start right after, on the same node, would ask.
    pub warm: Warm,
    /// Operations that were counted, and are not told apart: there was no room for so many.
    pub left_out: u64,
    /// Requests of FUSE's that no client of a network filesystem would have sent.
    pub uncharged: u64,
}

/// All operations of one kind.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ByKind {
    /// What was asked for.
    pub kind: RpcKind,
    /// What they have in common.
    #[serde(flatten)]
    pub sum: RpcSum,
}

/// A part of the operations: metadata operations, where it holds several kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RpcSum {
    /// How many.
    pub rpcs: u64,
    /// Of those, answered 'no such file'.
    pub enoent: u64,
    /// How long whoever asked waited.
    pub waited_ns: u64,
    /// Of that, how long for the server to have time.
    pub queued_ns: u64,
    /// How many bytes were transferred.
    pub bytes: u64,
}

impl RpcSum {
    /// One operation among others of all kinds. A transfer of data is no metadata operation.
    fn of(one: &Served) -> RpcSum {
        RpcSum {
            rpcs: one.kind.is_metadata().into(),
            enoent: one.enoent.into(),
            waited_ns: one.waited.0,
            queued_ns: one.queued.0,
            bytes: one.bytes,
        }
    }
}

impl AddAssign for RpcSum {
    fn add_assign(&mut self, other: RpcSum) {
        self.rpcs += other.rpcs;
        self.enoent += other.enoent;
        self.waited_ns += other.waited_ns;
        self.queued_ns += other.queued_ns;
        self.bytes += other.bytes;
    }
}

impl From<Sum> for RpcSum {
    fn from(sum: Sum) -> RpcSum {
        RpcSum {
            rpcs: sum.rpcs,
            enoent: sum.enoent,
            waited_ns: sum.waited.0,
            queued_ns: sum.queued.0,
            bytes: sum.bytes,
        }
    }
}

impl RehearsalReport {
    /// What is said of a run that took `wall`; with a recording of it, also why it asked.
    pub fn of(
        account: &Account,
        profile: &FilesystemProfile,
        places: &[RehearsedDirectory],
        wall: Duration,
        recording: Option<&Recording>,
    ) -> RehearsalReport {
        let commands_own = recording.map(|recording| cause::commands_own(account, recording));
        let account = commands_own.as_ref().unwrap_or(account);
        let metadata = account.metadata();
        let all =
            RpcKind::ALL.into_iter().fold(Sum::default(), |sum, kind| sum.and(account.of(kind)));
        RehearsalReport {
            rpcs: metadata.rpcs,
            enoent: metadata.enoent,
            waited_ns: all.waited.0,
            waiting_ns: waiting(account),
            queued_ns: all.queued.0,
            wall_ns: wall.as_nanos() as u64,
            kinds: by_kind(account),
            directories: directories::by_directory(account, places),
            causes: recording.map(|recording| Causes::of(account, recording)),
            warm: Warm::of(account, profile, wall),
            left_out: account.left_out,
            uncharged: account.uncharged,
        }
    }
}

fn by_kind(account: &Account) -> Vec<ByKind> {
    let kinds = RpcKind::ALL.into_iter().filter(|kind| account.of(*kind).rpcs > 0);
    let mut kinds: Vec<ByKind> =
        kinds.map(|kind| ByKind { kind, sum: account.of(kind).into() }).collect();
    kinds.sort_by_key(|kind| std::cmp::Reverse(kind.sum.rpcs));
    kinds
}

/// How long at least one operation was waited for.
fn waiting(account: &Account) -> u64 {
    let mut spans: Vec<(u64, u64)> =
        account.served.iter().map(|one| (one.at.0, one.at.0 + one.waited.0)).collect();
    spans.sort_unstable();
    let mut waiting = 0;
    let mut until = 0;
    for (from, to) in spans {
        waiting += to.saturating_sub(from.max(until));
        until = until.max(to);
    }
    waiting
}

#[cfg(test)]
mod tests {
    use recording::Nanos;

    use super::*;
    use crate::{Ledger, Served};

    /// An operation at a moment that took a time, in ms.
    pub(super) fn served(kind: RpcKind, at: u64, waited: u64) -> Served {
        Served {
            kind,
            path: 0,
            thread: 1,
            at: Nanos(at * 1_000_000),
            queued: Nanos(0),
            waited: Nanos(waited * 1_000_000),
            enoent: false,
            bytes: 0,
        }
    }

    #[test]
    fn time_in_which_several_wait_is_waiting_time_once() {
        let ledger = Ledger::new();
        for (at, waited) in [(0, 10), (5, 10), (5, 2), (40, 10)] {
            ledger.enter(b"/a", served(RpcKind::Lookup, at, waited));
        }
        let account = ledger.take();
        assert_eq!(waiting(&account), 25_000_000);
        assert_eq!(account.metadata().waited, Nanos(32_000_000));
    }
}
