//! A filesystem of which a client caches nothing.

use crate::Scene;

/// NFS mounted with `noac,lookupcache=none`, as sites do where nodes must see each other's files at
/// once: what a program repeats is an RPC each time. Writes the profile into the scene.
pub fn uncached(scene: &Scene) -> String {
    let profile = r#"
        name = "uncached"
        about = "NFS mounted noac,lookupcache=none: metadata latency 0.5 ms, each time"

        [mds]
        round_trip = "480us"
        service = "20us"

        [cache]
        entries = "0"
        negatives = "0"
        open = "revalidated"
        list = "revalidated"
    "#;
    scene.file("uncached.toml", profile, 0o644)
}
