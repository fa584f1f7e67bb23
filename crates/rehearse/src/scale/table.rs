//! The answer as CSV (RFC 4180).

use super::{Point, Projection};

/// A row for each number of ranks, ascending; `after` adds its columns.
pub fn csv(before: &Projection, after: Option<&Projection>) -> String {
    let mut text = String::from("ranks,nodes,operations,seconds,queued_seconds,server_seconds");
    if after.is_some() {
        text.push_str(",after_operations,after_seconds,after_queued_seconds,after_server_seconds");
    }
    text.push_str("\r\n");
    let after = after.map(Projection::rows);
    for (number, row) in before.rows().iter().enumerate() {
        text.push_str(&format!("{},{},{}", row.ranks, row.nodes, costs(row)));
        if let Some(row) = after.as_ref().and_then(|rows| rows.get(number)) {
            text.push_str(&format!(",{}", costs(row)));
        }
        text.push_str("\r\n");
    }
    text
}

fn costs(point: &Point) -> String {
    let Point { operations, seconds, queued_seconds, server_seconds, .. } = point;
    format!("{operations},{seconds},{queued_seconds},{server_seconds}")
}

impl Projection {
    /// All points, the job's among them, by the number of ranks.
    pub fn rows(&self) -> Vec<Point> {
        let mut rows = self.points.clone();
        let at = rows.partition_point(|point| point.ranks < self.job.ranks);
        rows.insert(at, self.job);
        rows
    }
}
