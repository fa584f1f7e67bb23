//! What lies where in an address space: ranges that do not overlap, each of which something is
//! known of.

/// A range of addresses.
#[derive(Clone, Copy, Debug)]
struct Span<T> {
    start: u64,
    end: u64,
    of: T,
}

/// Ranges by address.
#[derive(Clone, Debug)]
pub(crate) struct Spans<T>(Vec<Span<T>>);

impl<T> Default for Spans<T> {
    fn default() -> Spans<T> {
        Spans(Vec::new())
    }
}

impl<T: Copy> Spans<T> {
    /// Puts a range in the place of what it covers.
    pub fn put(&mut self, start: u64, length: u64, of: T) {
        let end = start.saturating_add(length);
        if start == end {
            return;
        }
        let first = self.0.partition_point(|span| span.end <= start);
        let last = self.0.partition_point(|span| span.start < end);
        let mut put = Vec::with_capacity(3);
        if let Some(before) = self.0.get(first).filter(|span| span.start < start) {
            put.push(Span { end: start, ..*before });
        }
        put.push(Span { start, end, of });
        if last > first
            && let Some(after) = self.0.get(last - 1).filter(|span| span.end > end)
        {
            put.push(Span { start: end, ..*after });
        }
        self.0.splice(first..last.max(first), put);
    }

    /// The range that an address lies in: where it begins and ends, and what is known of it.
    pub fn around(&self, address: u64) -> Option<(u64, u64, T)> {
        let at = self.0.partition_point(|span| span.end <= address);
        let span = self.0.get(at).filter(|span| span.start <= address)?;
        Some((span.start, span.end, span.of))
    }

    /// What is known of an address.
    pub fn at(&self, address: u64) -> Option<T> {
        self.around(address).map(|(_, _, of)| of)
    }
}
