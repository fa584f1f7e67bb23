//! How an image is compressed, in words.

use clap::ValueEnum;
use image_format::squash::Compression;

/// [`Compression`], as the command line names it.
#[derive(Clone, Copy, ValueEnum)]
pub enum Comp {
    Zstd,
    Lz4,
    Gzip,
}

impl From<Comp> for Compression {
    fn from(comp: Comp) -> Compression {
        match comp {
            Comp::Zstd => Compression::Zstd,
            Comp::Lz4 => Compression::Lz4,
            Comp::Gzip => Compression::Gzip,
        }
    }
}

/// A size of blocks, in words.
pub fn block_size(text: &str) -> Result<u32, String> {
    let (number, unit) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1 << 10),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    let size = number.parse::<u32>().ok().and_then(|number| number.checked_mul(unit));
    let is_size = |size: &u32| size.is_power_of_two() && (4 << 10..=1 << 20).contains(size);
    size.filter(is_size).ok_or_else(|| "give a power of two from 4K to 1M".to_owned())
}
