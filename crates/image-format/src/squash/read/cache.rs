//! Decompressed blocks that are kept, up to a number of bytes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::SquashReadError;

/// A decompressed block.
#[derive(Debug)]
pub(crate) struct UnpackedBlock {
    pub bytes: Vec<u8>,
    /// Where the image goes on after it.
    pub next: u64,
}

/// Which block: its position, and what it is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum BlockKey {
    Metadata(u64),
    Data(u64),
}

/// A place for a block. Who comes first fills it, others wait: no block is decompressed twice at
/// the same time.
type BlockPlace = Arc<Mutex<Option<Arc<UnpackedBlock>>>>;

/// Blocks that are kept. The least recently used go first.
pub(crate) struct BlockCache {
    most: usize,
    inner: Mutex<CachedBlocks>,
}

#[derive(Default)]
struct CachedBlocks {
    slots: HashMap<BlockKey, CachedBlock>,
    bytes: usize,
    clock: u64,
}

struct CachedBlock {
    place: BlockPlace,
    bytes: usize,
    used: u64,
}

impl BlockCache {
    /// Keeps at most so many bytes.
    pub(crate) fn new(most: usize) -> BlockCache {
        BlockCache { most, inner: Mutex::default() }
    }

    /// The block, kept or loaded. It has at most `bytes` bytes.
    pub(crate) fn get(
        &self,
        key: BlockKey,
        bytes: usize,
        load: impl FnOnce() -> Result<UnpackedBlock, SquashReadError>,
    ) -> Result<Arc<UnpackedBlock>, SquashReadError> {
        let place = self.place(key, bytes);
        let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(block) = &*place {
            return Ok(block.clone());
        }
        Ok(place.insert(Arc::new(load()?)).clone())
    }

    fn place(&self, key: BlockKey, bytes: usize) -> BlockPlace {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let inner = &mut *inner;
        inner.clock += 1;
        let used = inner.clock;
        if let Some(slot) = inner.slots.get_mut(&key) {
            slot.used = used;
            return slot.place.clone();
        }
        let place = BlockPlace::default();
        inner.slots.insert(key, CachedBlock { place: place.clone(), bytes, used });
        inner.bytes += bytes;
        if inner.bytes > self.most {
            inner.shrink(self.most - self.most / 4);
        }
        place
    }
}

impl CachedBlocks {
    /// Lets go of the least recently used until so many bytes are left: many at a time, as the
    /// search for them takes longer than the letting go.
    fn shrink(&mut self, most: usize) {
        let mut slots: Vec<_> =
            self.slots.iter().map(|(key, slot)| (slot.used, *key, slot.bytes)).collect();
        slots.sort_unstable_by_key(|(used, ..)| *used);
        for (_, key, bytes) in slots {
            if self.bytes <= most {
                break;
            }
            self.slots.remove(&key);
            self.bytes -= bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block() -> Result<UnpackedBlock, SquashReadError> {
        Ok(UnpackedBlock { bytes: vec![0; 10], next: 0 })
    }

    #[test]
    fn what_was_used_last_is_kept() {
        let cache = BlockCache::new(100);
        for position in 0..1000 {
            cache.get(BlockKey::Data(position), 10, block).unwrap();
            cache.get(BlockKey::Data(0), 10, || panic!("it was just used")).unwrap();
        }
        assert!(cache.inner.lock().unwrap().bytes <= 100);
        let mut again = false;
        let load = || {
            again = true;
            block()
        };
        cache.get(BlockKey::Data(1), 10, load).unwrap();
        assert!(again);
    }

    #[test]
    fn a_block_that_could_not_be_loaded_is_tried_again() {
        let cache = BlockCache::new(100);
        assert!(cache.get(BlockKey::Metadata(1), 10, || SquashReadError::damaged("x", 1)).is_err());
        assert!(cache.get(BlockKey::Metadata(1), 10, block).is_ok());
    }
}
