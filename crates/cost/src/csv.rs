//! A projection as CSV (RFC 4180).

use crate::{JobProjection, Projection};

/// The columns of one side, after ranks and nodes.
const COLUMNS: [&str; 5] =
    ["rpcs", "seconds", "predicted_wait", "queued_seconds", "server_seconds"];

/// A row for each number of ranks, ascending; `after` adds its columns.
pub fn csv(before: &Projection, after: Option<&Projection>) -> String {
    let mut names: Vec<String> = ["ranks", "nodes"].into_iter().map(str::to_owned).collect();
    names.extend(COLUMNS.map(str::to_owned));
    if after.is_some() {
        names.extend(COLUMNS.map(|name| format!("after_{name}")));
    }
    let mut text = names.join(",") + "\r\n";
    let after = after.map(Projection::rows);
    for (number, row) in before.rows().iter().enumerate() {
        text.push_str(&format!("{},{},{}", row.ranks, row.nodes, cells(row)));
        if let Some(row) = after.as_ref().and_then(|rows| rows.get(number)) {
            text.push_str(&format!(",{}", cells(row)));
        }
        text.push_str("\r\n");
    }
    text
}

fn cells(point: &JobProjection) -> String {
    let JobProjection { rpcs, seconds, predicted_wait, queued_seconds, server_seconds, .. } = point;
    format!("{rpcs},{seconds},{predicted_wait},{queued_seconds},{server_seconds}")
}
