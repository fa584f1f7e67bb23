//! Decompressed blocks that are kept, up to a number of bytes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::ReadError;

/// A decompressed block.
#[derive(Debug)]
pub(crate) struct Block {
    pub bytes: Vec<u8>,
    /// Where the image goes on after it.
    pub next: u64,
}

/// Which block: its position, and what it is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    Metadata(u64),
    Data(u64),
}

/// A place for a block. Who comes first fills it, others wait: no block is decompressed twice at
/// the same time.
type Place = Arc<Mutex<Option<Arc<Block>>>>;

/// Blocks that are kept. The least recently used go first.
pub(crate) struct Cache {
    most: usize,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    slots: HashMap<Key, Slot>,
    bytes: usize,
    clock: u64,
}

struct Slot {
    place: Place,
    bytes: usize,
    used: u64,
}

impl Cache {
    /// Keeps at most so many bytes.
    pub(crate) fn new(most: usize) -> Cache {
        Cache { most, inner: Mutex::default() }
    }

    /// The block, kept or loaded. It has at most `bytes` bytes.
    pub(crate) fn get(
        &self,
        key: Key,
        bytes: usize,
        load: impl FnOnce() -> Result<Block, ReadError>,
    ) -> Result<Arc<Block>, ReadError> {
        let place = self.place(key, bytes);
        let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(block) = &*place {
            return Ok(block.clone());
        }
        Ok(place.insert(Arc::new(load()?)).clone())
    }

    fn place(&self, key: Key, bytes: usize) -> Place {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let inner = &mut *inner;
        inner.clock += 1;
        let used = inner.clock;
        if let Some(slot) = inner.slots.get_mut(&key) {
            slot.used = used;
            return slot.place.clone();
        }
        let place = Place::default();
        inner.slots.insert(key, Slot { place: place.clone(), bytes, used });
        inner.bytes += bytes;
        if inner.bytes > self.most {
            inner.shrink(self.most - self.most / 4);
        }
        place
    }
}

impl Inner {
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

    fn block() -> Result<Block, ReadError> {
        Ok(Block { bytes: vec![0; 10], next: 0 })
    }

    #[test]
    fn what_was_used_last_is_kept() {
        let cache = Cache::new(100);
        for position in 0..1000 {
            cache.get(Key::Data(position), 10, block).unwrap();
            cache.get(Key::Data(0), 10, || panic!("it was just used")).unwrap();
        }
        assert!(cache.inner.lock().unwrap().bytes <= 100);
        let mut again = false;
        let load = || {
            again = true;
            block()
        };
        cache.get(Key::Data(1), 10, load).unwrap();
        assert!(again);
    }

    #[test]
    fn a_block_that_could_not_be_loaded_is_tried_again() {
        let cache = Cache::new(100);
        assert!(cache.get(Key::Metadata(1), 10, || ReadError::damaged("x", 1)).is_err());
        assert!(cache.get(Key::Metadata(1), 10, block).is_ok());
    }
}
