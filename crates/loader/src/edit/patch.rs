//! A change of bytes that can be read, applied and taken back.

/// Bytes at an offset that become others: shorter than the new ones only where the file grows, longer only where
/// it shrinks, at its end.
pub use remedy::Edit as BytePatch;

/// Why patches do not apply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The file holds other bytes than those the patch was made for.
    #[error("the file has changed: other bytes at offset {offset}")]
    Changed {
        /// Of the patch, in bytes.
        offset: u64,
    },
    /// Not sorted, overlapping, or a change of length before the file's end.
    #[error("not a list of patches: out of order at offset {offset}")]
    OutOfOrder {
        /// Of the patch, in bytes.
        offset: u64,
    },
}

/// The file after `patches`.
///
/// # Errors
/// [`PatchError`]; nothing is applied then.
pub fn apply(file: &[u8], patches: &[BytePatch]) -> Result<Vec<u8>, PatchError> {
    let mut result = Vec::with_capacity(file.len());
    for (index, patch) in patches.iter().enumerate() {
        let changed = PatchError::Changed { offset: patch.offset };
        let out_of_order = PatchError::OutOfOrder { offset: patch.offset };
        let at = usize::try_from(patch.offset).map_err(|_| changed.clone())?;
        let end = at.checked_add(patch.old.len()).ok_or_else(|| changed.clone())?;
        if at < result.len() {
            return Err(out_of_order);
        }
        if file.get(at..end) != Some(&patch.old[..]) {
            return Err(changed);
        }
        let last = index + 1 == patches.len() && end == file.len();
        if patch.old.len() != patch.new.len() && !last {
            return Err(out_of_order);
        }
        result.extend_from_slice(&file[result.len()..at]);
        result.extend_from_slice(&patch.new);
        if last {
            return Ok(result);
        }
    }
    result.extend_from_slice(&file[result.len()..]);
    Ok(result)
}

/// The patches that take `patches` back.
#[must_use]
pub fn reverse(patches: &[BytePatch]) -> Vec<BytePatch> {
    let swap = |patch: &BytePatch| BytePatch {
        offset: patch.offset,
        old: patch.new.clone(),
        new: patch.old.clone(),
    };
    patches.iter().map(swap).collect()
}

/// Equal bytes between two differences that are still told as one patch.
const JOIN: usize = 16;

/// Most of a file is the same: so many bytes are compared at once.
const PIECE: usize = 256;

/// The patches that make `new` of `old`.
pub(super) fn difference(old: &[u8], new: &[u8]) -> Vec<BytePatch> {
    let both = old.len().min(new.len());
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    let pieces = old[..both].chunks(PIECE).zip(new[..both].chunks(PIECE)).enumerate();
    for (piece, (old, new)) in pieces.filter(|(_, (old, new))| old != new) {
        let (mut from, mut end) = ranges.pop().unwrap_or_default();
        for (at, _) in old.iter().zip(new).enumerate().filter(|(_, (old, new))| old != new) {
            let at = piece * PIECE + at;
            if at - end > JOIN || end == 0 {
                ranges.extend((end > 0).then_some((from, end)));
                from = at;
            }
            end = at + 1;
        }
        ranges.push((from, end));
    }
    let mut patches: Vec<BytePatch> = ranges
        .into_iter()
        .map(|(from, end)| BytePatch {
            offset: from as u64,
            old: old[from..end].to_vec(),
            new: new[from..end].to_vec(),
        })
        .collect();
    if old.len() != new.len() {
        let tail =
            BytePatch { offset: both as u64, old: old[both..].to_vec(), new: new[both..].to_vec() };
        match patches.last_mut() {
            Some(last) if last.offset + last.old.len() as u64 == tail.offset => {
                last.old.extend(tail.old);
                last.new.extend(tail.new);
            }
            _ => patches.push(tail),
        }
    }
    patches
}
