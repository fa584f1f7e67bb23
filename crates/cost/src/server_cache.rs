//! What a cold server reads from its disk, the first time that anybody asks for it.
//!
//! - A name is looked up in the entries of its directory, and what it is, if it is there, is in its
//!   inode; both are read once. ENOENT needs the directory's entries only.
//! - A listing needs the entries; what a file holds is sought once.
//! - What was read stays in the server's memory, for all clients.
//!
//! One read an inode is the most that it can be: inodes that lie beside each other come together.

use recording::Nanos;
use rustc_hash::FxHashSet;

use crate::{FilesystemProfile, Rpc, RpcKind, ServerDisk};

/// What a server has in memory: at first nothing of what a cold one is asked for, and all of what a
/// warm one is.
#[derive(Debug)]
pub struct ServerCache {
    disk: Option<ServerDisk>,
    known: FxHashSet<(OnDisk, Box<[u8]>)>,
}

/// What lies on the disk for one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum OnDisk {
    Inode,
    Entries,
    Data,
}

impl ServerCache {
    /// The server of this filesystem.
    pub fn new(profile: &FilesystemProfile) -> ServerCache {
        ServerCache { disk: profile.cold_disk(), known: FxHashSet::default() }
    }

    /// How long the disk takes before this RPC can be answered.
    pub fn read_for_rpc(&mut self, rpc: &Rpc) -> Nanos {
        let Some(ServerDisk { metadata_latency, .. }) = self.disk else { return Nanos(0) };
        let entries = match rpc.kind {
            RpcKind::Lookup => self.is_new(OnDisk::Entries, parent(rpc.path)),
            RpcKind::List => self.is_new(OnDisk::Entries, rpc.path),
            _ => false,
        };
        let inode =
            rpc.kind != RpcKind::Statfs && !rpc.enoent && self.is_new(OnDisk::Inode, rpc.path);
        Nanos(metadata_latency.nanos().0 * (u64::from(entries) + u64::from(inode)))
    }

    /// How long it takes to the first byte of a file.
    pub fn read_for_data(&mut self, path: &[u8]) -> Nanos {
        let Some(ServerDisk { data_latency, .. }) = self.disk else { return Nanos(0) };
        if self.is_new(OnDisk::Data, path) { data_latency.nanos() } else { Nanos(0) }
    }

    /// How many nanoseconds so many requests for page faults take, one after the other: each is for
    /// another part of a file.
    pub(crate) fn read_for_faults(&self, requests: u64) -> f64 {
        self.disk.map_or(0.0, |disk| requests as f64 * disk.data_latency.nanos().0 as f64)
    }

    fn is_new(&mut self, what: OnDisk, path: &[u8]) -> bool {
        self.known.insert((what, path.into()))
    }
}

fn parent(path: &[u8]) -> &[u8] {
    &path[..path.iter().rposition(|byte| *byte == b'/').unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> ServerCache {
        ServerCache::new(&FilesystemProfile::default().with_cold_server().unwrap())
    }

    fn reads(server: &mut ServerCache, kind: RpcKind, path: &str, enoent: bool) -> u64 {
        let rpc = Rpc { kind, path: path.as_bytes(), enoent, cached: true };
        let one = FilesystemProfile::default().disk.unwrap().metadata_latency.nanos();
        server.read_for_rpc(&rpc).0 / one.0
    }

    #[test]
    fn a_directory_and_an_inode_are_read_once_and_enoent_needs_the_directory_only() {
        let mut server = server();
        assert_eq!(reads(&mut server, RpcKind::Lookup, "/s/no", true), 1, "the directory");
        assert_eq!(reads(&mut server, RpcKind::Lookup, "/s/nor", true), 0);
        assert_eq!(reads(&mut server, RpcKind::Lookup, "/s/a", false), 1, "the inode");
        assert_eq!(reads(&mut server, RpcKind::Lookup, "/s/a", false), 0, "another client");
        assert_eq!(reads(&mut server, RpcKind::Open, "/s/a", false), 0);
        assert_eq!(reads(&mut server, RpcKind::Lookup, "/s/d/b", false), 2);
        assert_eq!(reads(&mut server, RpcKind::List, "/s", false), 1, "its inode: not looked up");
        assert_eq!(reads(&mut server, RpcKind::Statfs, "/s/new", false), 0);
    }

    #[test]
    fn a_file_is_sought_once_and_a_warm_server_reads_nothing() {
        let mut cold = server();
        assert!(cold.read_for_data(b"/s/a") > Nanos(0));
        assert_eq!(cold.read_for_data(b"/s/a"), Nanos(0));
        let mut warm = ServerCache::new(&FilesystemProfile::default());
        assert_eq!(warm.read_for_data(b"/s/a"), Nanos(0));
        assert_eq!(reads(&mut warm, RpcKind::Lookup, "/s/a", false), 0);
    }
}
