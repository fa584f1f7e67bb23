//! The predicted wait that a budget is about: of one rank, for metadata operations alone.
//!
//! What the whole prediction has beside that differs between two starts that do the same: data
//! (page faults are seen only where the page cache has not mapped the page already), and names that
//! are looked up again because the start took longer than a client trusts its cache. So a client
//! that caches a name keeps it here.

use cost::{ProjectionError, RecordedStart, TimeSpan};
use explain::ExplainOptions;
use recording::Recording;

/// Seconds; none where the recording does not tell.
pub fn steady_wait(recording: &Recording, options: &ExplainOptions) -> Option<f64> {
    let mut model = options.model.clone();
    let cache = &mut model.profile.cache;
    for lifetime in [&mut cache.entries, &mut cache.negatives] {
        if *lifetime != TimeSpan::ZERO {
            *lifetime = TimeSpan::FOREVER;
        }
    }
    let start = RecordedStart::of(recording, &options.below, None);
    match start.check() {
        Err(ProjectionError::Nothing) => return Some(0.0),
        Err(_) => return None,
        Ok(()) => {}
    }
    let outline = model.outline(&start, 1, 1, |_| 0);
    let mut terms = *outline.groups.first()?;
    (terms.bytes, terms.transfers, terms.disk_ns) = (0, 0, 0.0);
    Some(terms.alone_ns(&model.profile) / 1e9)
}
