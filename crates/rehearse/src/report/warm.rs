//! What a second start would ask.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use crate::Account;
use cost::{FilesystemProfile, Revalidation, RpcKind};

/// What a second start of the same command would ask, on the same node, right after the first
/// ended: of what the first asked, all that the node does not keep for so long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Warm {
    /// Metadata operations.
    pub rpcs: u64,
    /// Of those, answered 'no such file'.
    pub enoent: u64,
    /// How long they would wait where nobody else asks.
    pub waited_ns: u64,
}

impl Warm {
    /// From what the first start asked. Something is kept if its lifetime is no shorter than the
    /// first start's `wall` time: asked at its beginning, it is needed at the second's.
    pub fn of(account: &Account, profile: &FilesystemProfile, wall: Duration) -> Warm {
        let cache = &profile.cache;
        let kept = |lifetime: cost::TimeSpan| lifetime.duration() >= wall;
        let (found, enoent) = (kept(cache.entries), kept(cache.negatives));
        let (mut rpcs, mut not_there) = (0, 0);
        for kind in RpcKind::ALL.into_iter().filter(|kind| kind.is_metadata()) {
            let sum = account.of(kind);
            let asked = match kind {
                RpcKind::Lookup => {
                    let no = if enoent { 0 } else { sum.enoent };
                    not_there += no;
                    no + if found { 0 } else { sum.rpcs - sum.enoent }
                }
                RpcKind::Attributes | RpcKind::Readlink | RpcKind::Access if found => 0,
                RpcKind::Open if cache.open == Revalidation::Cached && found => 0,
                RpcKind::List if cache.list == Revalidation::Cached && found => 0,
                _ => {
                    not_there += sum.enoent;
                    sum.rpcs
                }
            };
            rpcs += asked;
        }
        Warm { rpcs, enoent: not_there, waited_ns: rpcs * profile.latency().0 }
    }
}

#[cfg(test)]
mod tests {
    use recording::Nanos;

    use super::super::tests::served;
    use super::*;
    use crate::{Ledger, Served};

    fn warm(profile: &str, wall: Duration) -> (u64, u64) {
        let ledger = Ledger::new();
        for _ in 0..10 {
            ledger.enter(b"/a/there", served(RpcKind::Lookup, 0, 1));
        }
        for _ in 0..20 {
            let enoent = Served { enoent: true, ..served(RpcKind::Lookup, 0, 1) };
            ledger.enter(b"/a/not", enoent);
        }
        for kind in [RpcKind::Open, RpcKind::List, RpcKind::Readlink] {
            ledger.enter(b"/a/there", served(kind, 0, 1));
        }
        let profile = FilesystemProfile::find(profile.as_ref()).unwrap();
        let warm = Warm::of(&ledger.take(), &profile, wall);
        assert_eq!(Nanos(warm.waited_ns).0, warm.rpcs * profile.latency().0);
        (warm.rpcs, warm.enoent)
    }

    #[test]
    fn a_second_start_asks_what_the_node_does_not_keep_so_long() {
        let second = Duration::from_secs(1);
        assert_eq!(warm("gpfs", second), (0, 0));
        assert_eq!(warm("lustre", second), (20 + 2, 20), "'no such file', the open, the listing");
        assert_eq!(warm("nfs", second), (1, 0), "the open");
        assert_eq!(warm("nfs", Duration::from_secs(60)), (33, 20), "all is forgotten by then");
    }
}
