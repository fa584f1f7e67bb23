//! A small file cannot make its reader take much memory.
//!
//! One test in a file of its own: it looks at its process's memory.
#![allow(clippy::unwrap_used)] // A test program.

use recording::{Recording, Writer};
use testkit::made::header;
use testkit::memory;

/// The longest length that the format can write.
const HUGE: [u8; 10] = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];

fn block(content: &[u8]) -> Vec<u8> {
    let packed = zstd::bulk::compress(content, 1).unwrap();
    let mut block = vec![b'R'];
    block.extend_from_slice(&(content.len() as u32).to_le_bytes());
    block.extend_from_slice(&(packed.len() as u32).to_le_bytes());
    block.extend_from_slice(&crc32fast::hash(&packed).to_le_bytes());
    block.extend_from_slice(&packed);
    block
}

#[test]
fn lengths_that_lie_take_no_memory() {
    let bytes = testkit::made::Shared::default();
    drop(Writer::new(bytes.sink(), &header()).unwrap());
    let start = bytes.take();
    let mut lies: Vec<Vec<u8>> = Vec::new();
    // A path, a process's arguments, an image's libraries.
    lies.push(block(&[&[0][..], &HUGE].concat()));
    lies.push(block(&[&[0, 1, b'/', 4, 0, 0, 0, 0][..], &HUGE].concat()));
    lies.push(block(&[&[0, 1, b'/', 6, 0, 0][..], &HUGE].concat()));
    // Frames.
    for (unpacked, packed) in [(u32::MAX, 1), (1, u32::MAX), (8 << 20, 8 << 20)] {
        let mut frame = vec![b'R'];
        frame.extend_from_slice(&u32::to_le_bytes(unpacked));
        frame.extend_from_slice(&u32::to_le_bytes(packed));
        frame.extend_from_slice(&[0; 5]);
        lies.push(frame);
    }
    memory::forget_peak();
    let before = memory::peak();
    for lie in lies {
        let read = Recording::read(&[&start[..], &lie].concat()[..]);
        assert!(read.is_err() || read.is_ok_and(|recording| recording.cut.is_some()));
    }
    let held = memory::peak() - before;
    assert!(held < 12 << 20, "{held} bytes held");
}
