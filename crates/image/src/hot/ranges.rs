//! Which bytes of an image's file a start reads.
//!
//! An image in the order of a trace has the content of what the trace opened in front, and its
//! manifest says how far that goes. Names, attributes and where blocks lie are tables behind all
//! content, and the manifest follows them.

use std::path::Path;

use super::error::HotPartError;
use crate::mount::layer::ImageLayer;

/// Bytes of a file, from an offset on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct ByteRange {
    pub offset: u64,
    pub length: u64,
}

impl ByteRange {
    pub fn end(self) -> Option<u64> {
        self.offset.checked_add(self.length)
    }
}

/// The front of a SIF: its header and the descriptors of its objects.
const SIF_FRONT: u64 = 64 << 10;

/// What a start reads of an image, at most so many bytes of its content; all of it, if that is
/// wanted and allowed.
pub(super) fn hot(
    path: &Path,
    size: u64,
    layers: &[ImageLayer],
    all: bool,
    most: u64,
) -> Result<Vec<ByteRange>, HotPartError> {
    if all {
        return match size <= most {
            true => Ok(vec![ByteRange { offset: 0, length: size }]),
            false => {
                let why = format!("all of it is more than {most} bytes");
                Err(HotPartError::NoRoom { needed: size, why })
            }
        };
    }
    let mut left = most;
    let mut ranges = vec![(0, SIF_FRONT.min(size))];
    let mut traced = false;
    for layer in layers {
        let front = layer.front().min(left).min(layer.size);
        traced |= front > 0;
        left -= front;
        let tables = layer.image.tables_start().min(layer.size);
        ranges.push((layer.offset, layer.offset + front));
        ranges.push((layer.offset + tables, layer.offset + layer.size));
    }
    match traced {
        true => Ok(merged(ranges)),
        false => Err(HotPartError::NoTrace(path.to_owned())),
    }
}

/// The same bytes, in order, each once.
fn merged(mut ranges: Vec<(u64, u64)>) -> Vec<ByteRange> {
    ranges.sort_unstable();
    let mut merged: Vec<(u64, u64)> = Vec::new();
    for (start, end) in ranges.into_iter().filter(|(start, end)| start < end) {
        match merged.last_mut() {
            Some((_, last)) if start <= *last => *last = end.max(*last),
            _ => merged.push((start, end)),
        }
    }
    let range = |(offset, end)| ByteRange { offset, length: end - offset };
    merged.into_iter().map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_two_ranges_name_are_in_the_hot_part_once() {
        let range = |offset, length| ByteRange { offset, length };
        let ranges = vec![(900, 1000), (0, 64), (0, 10), (64, 100), (300, 300), (950, 960)];
        assert_eq!(merged(ranges), [range(0, 100), range(900, 100)]);
    }
}
