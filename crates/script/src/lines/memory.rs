//! Words of a stopped process's memory.

use std::io;

use watch::Stopped;

pub(super) fn word(process: &Stopped, address: u64) -> io::Result<u32> {
    let mut bytes = [0; 4];
    process.read(address, &mut bytes)?;
    Ok(u32::from_ne_bytes(bytes))
}

pub(super) fn words<const N: usize>(process: &Stopped, address: u64) -> io::Result<[u64; N]> {
    let mut bytes = [[0; 8]; N];
    process.read(address, bytes.as_flattened_mut())?;
    Ok(bytes.map(u64::from_ne_bytes))
}
