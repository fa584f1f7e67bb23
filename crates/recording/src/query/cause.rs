//! Calls by why they were made.

use super::QueryRow;
use super::sum::{Groups, RowOfCall};
use crate::{Attributor, Cause, Recording};

pub(super) fn group(recording: &Recording, attributor: &mut Attributor) -> Groups {
    let rows = Cause::ALL
        .map(|cause| QueryRow {
            key: cause.name().into(),
            raw_key: cause.name().into(),
            ..QueryRow::default()
        })
        .into();
    let place = |event| {
        let attribution = attributor.attribute(event);
        let row = attribution.cause as u32;
        if attribution.inferred { RowOfCall::inferred(row) } else { RowOfCall::observed(row) }
    };
    Groups { rows, places: recording.events.iter().map(place).collect() }
}
