//! What a projection takes for granted, in words.

use recording::shown;
use std::os::unix::ffi::OsStrExt;

use super::{Compute, Place, Start};
use crate::{Ask, Profile, Span};

/// What a projection takes for granted: which files are shared and what is left out; then how
/// server, nodes and ranks are modelled.
pub(super) fn assumptions(start: &Start, profile: &Profile, warm: bool) -> Vec<String> {
    let images = (!start.images.is_empty()).then(|| images(start));
    [place(start), model(start, profile, warm)].into_iter().chain(images).collect()
}

fn images(start: &Start) -> String {
    let points: Vec<_> = start.images.iter().map(|point| shown(point.as_bytes())).collect();
    format!(
        "Images were mounted at {}: the node answers for what lies there; reading their files is \
         left out.",
        points.join(", ")
    )
}

fn place(start: &Start) -> String {
    let roots = start.shared.roots.iter().map(|root| shown(root.as_os_str().as_bytes()));
    let roots: Vec<_> = roots.collect();
    let how = match start.place {
        Place::Given => "as given",
        Place::Network => "the network filesystems that the run asked",
        Place::Guess => {
            "a guess: all top directories that the run asked, but those a node has for itself (/usr, \
             /etc, /tmp…); --below names others"
        }
    };
    format!(
        "Shared: {} ({how}); {} of {} metadata operations were asked of something else.",
        roots.join(", "),
        start.elsewhere,
        start.elsewhere + start.calls,
    )
}

fn model(start: &Start, profile: &Profile, warm: bool) -> String {
    let kept = |span: Span| match span {
        Span::ZERO => "not kept".to_owned(),
        Span::FOREVER => "kept".to_owned(),
        span => format!("kept for {span}"),
    };
    let asked = |ask: Ask| if ask == Ask::Asked { "asks each time" } else { "does not ask again" };
    let compute = match start.compute {
        Compute::Recorded => "computing as between the recorded calls",
        Compute::Given => "computing as given",
    };
    format!(
        "All ranks start at once on {} nodes; one server, {} an operation in turn, {} of network; \
         what a node found is {}, 'no such file' {}, an open {}, a listing {}; calls follow each \
         other as recorded, {compute}; symbolic links that paths lead through, and data read \
         through memory mappings (libraries), are left out.",
        if warm { "warm" } else { "cold" },
        profile.metadata.service,
        profile.metadata.round_trip,
        kept(profile.cache.entries),
        kept(profile.cache.negatives),
        asked(profile.cache.open),
        asked(profile.cache.list),
    )
}
