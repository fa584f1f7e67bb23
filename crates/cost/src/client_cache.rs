//! The cache of one client: which RPCs a node sends for a call.
//!
//! A model of the kernel's walk along a path (path_resolution(7); `fs/namei.c`, `fs/fuse/dir.c`):
//!
//! - Each component that is not cached is one LOOKUP. A name that was found (a positive dentry),
//!   and one that was not (a negative dentry), is cached for as long as the profile says, for all
//!   processes of the node.
//! - A component that is not there ends the walk: nothing is looked up below it while its
//!   negative dentry is cached.
//! - Attributes come with the LOOKUP, so `stat`, `access` and `chdir` send nothing beside it, and
//!   `fstat` nothing at all.
//! - An open and a listing are one RPC where the profile says `revalidated`; where it says
//!   `cached`, an open needs its LOOKUP only, and a listing is cached as long as a name.
//! - What changes the tree, extended attributes, and statfs are an RPC each time.
//!
//! Symbolic links: where a path leads through one is not seen in a system call, so the walk goes
//! along the text; reading one is an RPC, and its text is cached as a name is.

use recording::Nanos;
use rustc_hash::FxHashMap;

use crate::{
    CacheRules, FilesystemProfile, PathRequest, RequestKind, Revalidation, Rpc, RpcCounts, RpcKind,
    SharedDirectories, TimeSpan,
};

/// What a node has cached. At first nothing: a cold client.
pub struct ClientCache {
    rules: CacheRules,
    shared: SharedDirectories,
    names: FxHashMap<Box<[u8]>, u32>,
    children: FxHashMap<(u32, u32), u32>,
    entries: Vec<NameEntry>,
}

/// What is known of one name.
#[derive(Clone, Copy)]
struct NameEntry {
    parent: u32,
    /// Whether a server holds this name: it is below a shared root.
    served: bool,
    /// Whether what is below it may be.
    below: bool,
    found: Option<Nanos>,
    missing: Option<Nanos>,
    /// When its listing came, or its text.
    read: Option<Nanos>,
    /// Whether a listing is under way that takes RPCs.
    listing: bool,
}

/// Names that a node caches at most; then it drops all, as a kernel short of memory does.
const MOST_ENTRIES: usize = 1 << 20;
/// The root directory.
const ROOT: u32 = 0;

impl ClientCache {
    /// A cold client.
    pub fn new(profile: &FilesystemProfile, shared: SharedDirectories) -> ClientCache {
        ClientCache::with_rules(profile.cache, shared)
    }

    /// A cold client that caches what these rules say.
    pub(crate) fn with_rules(rules: CacheRules, shared: SharedDirectories) -> ClientCache {
        let mut node = ClientCache {
            rules,
            shared,
            names: FxHashMap::default(),
            children: FxHashMap::default(),
            entries: Vec::new(),
        };
        node.drop_all();
        node
    }

    /// Forgets everything.
    pub fn drop_all(&mut self) {
        self.names.clear();
        self.children.clear();
        let below = self.shared.contains(b"/");
        let root = NameEntry { served: false, below, ..NameEntry::unknown(ROOT) };
        self.entries = vec![root];
    }

    /// How many RPCs of each kind this call takes, at this moment. Moments must not go back.
    pub fn count_rpcs(&mut self, at: Nanos, request: &PathRequest) -> RpcCounts {
        let mut counts = RpcCounts::default();
        self.each_rpc(at, request, |rpc| counts.add(&rpc));
        counts
    }

    /// The same, each RPC in the order in which they are sent.
    pub fn each_rpc(&mut self, at: Nanos, request: &PathRequest, mut each: impl FnMut(Rpc)) {
        if self.entries.len() > MOST_ENTRIES {
            self.drop_all();
        }
        let mut clean = Vec::with_capacity(request.path.len());
        if let Some(other) = request.other_path {
            let end = self.walk(at, other, true, &mut clean, &mut each);
            self.forget(end.entry);
        }
        let end = match request.kind {
            // A listing goes by the descriptor of its directory: no name is looked up.
            RequestKind::Entries { .. } => {
                self.walk(at, request.path, false, &mut clean, &mut |_| {})
            }
            _ => self.walk(at, request.path, request.enoent, &mut clean, &mut each),
        };
        if !end.arrived && request.kind != RequestKind::Change {
            return;
        }
        if self.entries[end.entry as usize].below {
            let path = if clean.is_empty() { b"/" } else { &clean[..] };
            self.arrive(at, end.entry, request.kind, &mut |kind, kept| {
                each(Rpc { kind, path, enoent: false, cached: kept });
            });
        }
    }

    /// Walks along a path and looks up each name that is not cached.
    fn walk(
        &mut self,
        at: Nanos,
        path: &[u8],
        missing: bool,
        clean: &mut Vec<u8>,
        each: &mut impl FnMut(Rpc),
    ) -> WalkEnd {
        clean.clear();
        let mut here = ROOT;
        let mut parts = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).peekable();
        while let Some(part) = parts.next() {
            match part {
                b"." => continue,
                b".." => {
                    here = self.entries[here as usize].parent;
                    clean.truncate(clean.iter().rposition(|byte| *byte == b'/').unwrap_or(0));
                    continue;
                }
                _ => {}
            }
            clean.push(b'/');
            clean.extend_from_slice(part);
            here = self.child(here, part, clean);
            let is_last = parts.peek().is_none();
            let name = WalkedName { entry: here, path: clean, is_absent: missing && is_last };
            if !self.look(at, name, missing, each) {
                return WalkEnd { entry: here, arrived: false };
            }
        }
        WalkEnd { entry: here, arrived: !missing }
    }

    /// Looks a name up where it is not cached, and says whether the walk goes on below it. A walk
    /// that is known to arrive is stopped by no negative dentry: somebody has made it since.
    fn look(
        &mut self,
        at: Nanos,
        name: WalkedName,
        may_stop: bool,
        each: &mut impl FnMut(Rpc),
    ) -> bool {
        let CacheRules { entries: found_for, negatives: missing_for, .. } = self.rules;
        let WalkedName { entry, path, is_absent } = name;
        let entry = &mut self.entries[entry as usize];
        if !entry.served {
            return !is_absent;
        }
        if may_stop && holds(entry.missing, missing_for, at) {
            return false;
        }
        if !is_absent && holds(entry.found, found_for, at) {
            return true;
        }
        let cached = if is_absent { missing_for } else { found_for } != TimeSpan::ZERO;
        each(Rpc { kind: RpcKind::Lookup, path, enoent: is_absent, cached });
        entry.found = (!is_absent).then_some(at);
        entry.missing = is_absent.then_some(at);
        !is_absent
    }

    /// RpcSummary for what the call wants where its path has led to.
    fn arrive(
        &mut self,
        at: Nanos,
        here: u32,
        kind: RequestKind,
        each: &mut impl FnMut(RpcKind, bool),
    ) {
        let CacheRules { entries: kept_for, open, list, .. } = self.rules;
        let keeps = kept_for != TimeSpan::ZERO;
        let entry = &mut self.entries[here as usize];
        match kind {
            RequestKind::Attributes | RequestKind::Directory => {}
            RequestKind::Open if open == Revalidation::EachTime => each(RpcKind::Open, false),
            RequestKind::Open => {}
            RequestKind::Entries { end } if list == Revalidation::EachTime => {
                // The end of a listing comes with its last part, or is the whole of an empty one.
                if !end || !entry.listing {
                    each(RpcKind::List, false);
                }
                entry.listing = !end;
            }
            RequestKind::Entries { end } => {
                if entry.listing || !holds(entry.read, kept_for, at) {
                    if !end || !entry.listing {
                        each(RpcKind::List, keeps);
                    }
                    entry.listing = !end;
                    entry.read = Some(at);
                }
            }
            RequestKind::Link => {
                if !holds(entry.read, kept_for, at) {
                    each(RpcKind::Readlink, keeps);
                    entry.read = Some(at);
                }
            }
            RequestKind::Xattr => each(RpcKind::Xattr, false),
            RequestKind::Statfs => each(RpcKind::Statfs, false),
            RequestKind::Change => {
                each(RpcKind::Change, false);
                self.forget(here);
            }
        }
    }

    fn child(&mut self, parent: u32, name: &[u8], path: &[u8]) -> u32 {
        let name = match self.names.get(name) {
            Some(name) => *name,
            None => {
                let number = self.names.len() as u32;
                self.names.insert(name.into(), number);
                number
            }
        };
        let ClientCache { children, entries, shared, .. } = self;
        *children.entry((parent, name)).or_insert_with(|| {
            let above = entries[parent as usize].below;
            let below = shared.contains_clean(path);
            let number = entries.len() as u32;
            entries.push(NameEntry { served: above && below, below, ..NameEntry::unknown(parent) });
            number
        })
    }

    fn forget(&mut self, here: u32) {
        let NameEntry { parent, served, below, .. } = self.entries[here as usize];
        self.entries[here as usize] = NameEntry { served, below, ..NameEntry::unknown(parent) };
    }
}

/// A name on the way.
struct WalkedName<'a> {
    entry: u32,
    path: &'a [u8],
    is_absent: bool,
}

/// Where a walk ended.
struct WalkEnd {
    entry: u32,
    /// Whether it got to what the path names.
    arrived: bool,
}

impl NameEntry {
    fn unknown(parent: u32) -> NameEntry {
        NameEntry {
            parent,
            served: false,
            below: false,
            found: None,
            missing: None,
            read: None,
            listing: false,
        }
    }
}

/// Whether what came at `since` is still trusted.
fn holds(since: Option<Nanos>, lifetime: TimeSpan, at: Nanos) -> bool {
    since.is_some_and(|since| {
        lifetime == TimeSpan::FOREVER || at.0.saturating_sub(since.0) < lifetime.nanos().0
    })
}
