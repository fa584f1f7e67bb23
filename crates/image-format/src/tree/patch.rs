//! Bytes of a file that are others in the image than in the file: applied to each piece as it is read,
//! so that no file is held whole.

/// Bytes at an offset of a file that become others, as many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentPatch {
    /// Where in the file, in bytes.
    pub offset: u64,
    /// What is there.
    pub old: Vec<u8>,
    /// What is in the image.
    pub new: Vec<u8>,
}

impl ContentPatch {
    /// Whether it concerns bytes from `start` on, so many.
    pub(crate) fn concerns(&self, start: u64, length: u64) -> bool {
        let end = self.offset.saturating_add(self.old.len() as u64);
        self.offset < start.saturating_add(length) && end > start
    }

    /// Applies what of it lies in a piece that begins at `start`. False: other bytes are there, and
    /// nothing is done.
    #[must_use]
    pub(crate) fn apply(&self, start: u64, piece: &mut [u8]) -> bool {
        let from = self.offset.max(start);
        let end = (self.offset + self.old.len() as u64).min(start + piece.len() as u64);
        if from >= end || self.old.len() != self.new.len() {
            return from >= end;
        }
        let own = (from - self.offset) as usize..(end - self.offset) as usize;
        let there = &mut piece[(from - start) as usize..(end - start) as usize];
        let is_as_expected = *there == self.old[own.clone()];
        if is_as_expected {
            there.copy_from_slice(&self.new[own]);
        }
        is_as_expected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_over_the_border_of_two_pieces_is_applied_to_both() {
        let patch = ContentPatch { offset: 2, old: b"cdef".to_vec(), new: b"CDEF".to_vec() };
        let pieces = [(0, b"abcd"), (4, b"efgh"), (8, b"ijkl")].map(|(start, piece)| {
            let mut piece = piece.to_vec();
            assert!(patch.apply(start, &mut piece));
            assert_eq!(patch.concerns(start, 4), start < 8);
            String::from_utf8(piece).unwrap()
        });
        assert_eq!(pieces, ["abCD", "EFgh", "ijkl"]);
    }

    #[test]
    fn other_bytes_than_those_expected_stay() {
        let patch = ContentPatch { offset: 0, old: b"ab".to_vec(), new: b"AB".to_vec() };
        let mut piece = b"aX".to_vec();
        assert!(!patch.apply(0, &mut piece));
        assert_eq!(piece, b"aX");
    }
}
