//! Numbers in a file of either class and either byte order.
//!
//! Of our own rather than of the crate `object`: an edit has to write what it read, and
//! `object`'s traits over both classes only read.

use super::{ElfIdentity, Refused};

/// How a file writes its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NumberFormat {
    /// ELFCLASS64.
    pub(super) wide: bool,
    /// ELFDATA2MSB.
    pub(super) big_endian: bool,
}

impl NumberFormat {
    pub(super) fn of(identity: &ElfIdentity) -> Self {
        Self { wide: identity.wide, big_endian: identity.big_endian }
    }

    /// Bytes of an address, an offset, a size.
    pub(super) fn word(self) -> usize {
        if self.wide { 8 } else { 4 }
    }

    /// The largest number of a word.
    pub(super) fn largest(self) -> u64 {
        if self.wide { u64::MAX } else { u32::MAX.into() }
    }

    /// The number of `size` bytes at `at`.
    pub(super) fn number(self, bytes: &[u8], at: u64, size: usize) -> Result<u64, Refused> {
        let field = slice(bytes, at, size as u64)?;
        let shift = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        // The usual ones by one instruction each.
        Ok(match *field {
            [a, b, c, d] if !self.big_endian => u32::from_le_bytes([a, b, c, d]).into(),
            [a, b, c, d, e, f, g, h] if !self.big_endian => {
                u64::from_le_bytes([a, b, c, d, e, f, g, h])
            }
            _ if self.big_endian => field.iter().fold(0, shift),
            _ => field.iter().rev().fold(0, shift),
        })
    }

    /// Writes a number of `size` bytes. What does not fit is cut: callers check.
    pub(super) fn push(self, out: &mut Vec<u8>, value: u64, size: usize) {
        match (self.big_endian, size) {
            (true, _) => out.extend_from_slice(&value.to_be_bytes()[8 - size..]),
            (false, 8) => out.extend_from_slice(&value.to_le_bytes()),
            (false, 4) => out.extend_from_slice(&(value as u32).to_le_bytes()),
            (false, _) => out.extend_from_slice(&value.to_le_bytes()[..size]),
        }
    }

    /// Writes a number of `size` bytes at `at`.
    pub(super) fn put(
        self,
        bytes: &mut [u8],
        at: u64,
        value: u64,
        size: usize,
    ) -> Result<(), Refused> {
        match self.big_endian {
            true => write(bytes, at, &value.to_be_bytes()[8 - size..]),
            false => write(bytes, at, &value.to_le_bytes()[..size]),
        }
    }
}

const BEYOND: Refused = Refused::Damaged("a part beyond the end of the file");

/// The `size` bytes at `at`.
pub(super) fn slice(bytes: &[u8], at: u64, size: u64) -> Result<&[u8], Refused> {
    let from = usize::try_from(at).map_err(|_| BEYOND)?;
    let size = usize::try_from(size).map_err(|_| BEYOND)?;
    let end = from.checked_add(size).ok_or(BEYOND)?;
    bytes.get(from..end).ok_or(BEYOND)
}

/// Writes `field` at `at`, over as many bytes.
pub(super) fn write(bytes: &mut [u8], at: u64, field: &[u8]) -> Result<(), Refused> {
    let from = usize::try_from(at).map_err(|_| BEYOND)?;
    let end = from.checked_add(field.len()).ok_or(BEYOND)?;
    bytes.get_mut(from..end).ok_or(BEYOND)?.copy_from_slice(field);
    Ok(())
}

/// Reads one number after the other.
pub(super) struct NumberReader<'a> {
    format: NumberFormat,
    bytes: &'a [u8],
    at: u64,
}

impl<'a> NumberReader<'a> {
    pub(super) fn new(format: NumberFormat, bytes: &'a [u8], at: u64) -> Self {
        Self { format, bytes, at }
    }

    fn next(&mut self, size: usize) -> Result<u64, Refused> {
        let number = self.format.number(self.bytes, self.at, size)?;
        self.at += size as u64;
        Ok(number)
    }

    /// Two bytes.
    pub(super) fn half(&mut self) -> Result<u16, Refused> {
        self.next(2).map(|number| number as u16)
    }

    /// Four bytes.
    pub(super) fn u32(&mut self) -> Result<u32, Refused> {
        self.next(4).map(|number| number as u32)
    }

    /// As many bytes as an address has.
    pub(super) fn word(&mut self) -> Result<u64, Refused> {
        self.next(self.format.word())
    }
}
