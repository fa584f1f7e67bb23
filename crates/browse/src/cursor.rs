//! Where in a list, and which part of it is seen.

use std::ops::Range;

/// A row of a list, and the first that is seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowCursor {
    /// The row.
    pub at: usize,
    top: usize,
    height: usize,
}

impl RowCursor {
    /// Goes to a row, or to the last of so many.
    pub fn go_to(&mut self, row: usize, rows: usize) {
        self.at = row.min(rows.saturating_sub(1));
    }

    /// Goes so many rows down, or up.
    pub fn go(&mut self, by: isize, rows: usize) {
        self.go_to(self.at.saturating_add_signed(by), rows);
    }

    /// Goes so many screens down, or up, in halves.
    pub fn page(&mut self, halves: isize, rows: usize) {
        let half = (self.height / 2).max(1) as isize;
        self.go(half.saturating_mul(halves), rows);
    }

    /// The row that is seen so far below the first.
    pub fn row_at(&self, below: usize) -> usize {
        self.top + below
    }

    /// The rows of a list that are seen, the cursor's among them.
    pub fn seen(&mut self, rows: usize, height: usize) -> Range<usize> {
        self.height = height;
        self.at = self.at.min(rows.saturating_sub(1));
        let lowest = self.at.saturating_sub(height.saturating_sub(1));
        // No room is left empty below the last row.
        let full = rows.saturating_sub(height);
        self.top = self.top.clamp(lowest, self.at.max(lowest)).min(full.max(lowest));
        self.top..rows.min(self.top + height)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cursor_is_always_seen_and_no_more_than_the_height_is() {
        let mut cursor = RowCursor::default();
        for (to, rows, height) in
            [(0, 0, 5), (99, 100, 10), (50, 100, 1), (3, 4, 10), (7, 100, 0), (usize::MAX, 9, 3)]
        {
            cursor.go_to(to, rows);
            let seen = cursor.seen(rows, height);
            assert!(seen.len() <= height && seen.end <= rows, "{to} of {rows}");
            assert!(rows == 0 || height == 0 || seen.contains(&cursor.at), "{to} of {rows}");
        }
    }
}
