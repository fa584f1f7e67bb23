//! The table of xattrs: each distinct set is stored once.

use std::collections::HashMap;

use super::table::Metadata;
use crate::ImageWriter;
use crate::SquashWriteError;
use crate::squash::XattrPair;
use crate::squash::compression::Packer;
use crate::squash::format::{NONE_U32, NONE_U64, XATTR_PREFIXES};

/// Names and values of one file.
type Set = [XattrPair];

/// Whether squashfs has a place for an xattr of this name.
pub(crate) fn can_hold(name: &[u8]) -> bool {
    XATTR_PREFIXES.iter().any(|prefix| name.starts_with(prefix) && name.len() > prefix.len())
}

/// The sets, by number.
#[derive(Default)]
pub(crate) struct XattrSets {
    sets: Vec<Vec<u8>>,
    counts: Vec<u32>,
    numbers: HashMap<Vec<u8>, u32>,
}

impl XattrSets {
    /// The number of a set; that of none for none.
    pub(crate) fn number(&mut self, set: &Set) -> Result<u32, SquashWriteError> {
        if set.is_empty() {
            return Ok(NONE_U32);
        }
        let bytes = encode(set);
        if let Some(number) = self.numbers.get(&bytes) {
            return Ok(*number);
        }
        let number = u32::try_from(self.sets.len()).ok().filter(|number| *number < NONE_U32);
        let number = number.ok_or(SquashWriteError::TooMuch("sets of xattrs"))?;
        self.numbers.insert(bytes.clone(), number);
        self.sets.push(bytes);
        self.counts.push(set.len() as u32);
        Ok(number)
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// Writes the table. Returns where it begins, as the superblock says it.
    pub(crate) fn write(
        &self,
        out: &mut ImageWriter<'_>,
        packer: &mut Packer,
    ) -> Result<u64, SquashWriteError> {
        if self.sets.is_empty() {
            return Ok(NONE_U64);
        }
        let mut values = Metadata::new(packer);
        let mut table = Vec::new();
        for (set, count) in self.sets.iter().zip(&self.counts) {
            table.extend_from_slice(&values.place().reference().to_le_bytes());
            table.extend_from_slice(&count.to_le_bytes());
            table.extend_from_slice(&(set.len() as u32).to_le_bytes());
            values.put(set)?;
        }
        let start = out.position();
        out.put(&values.finish()?.0)?;
        // The index of this table has a header, so it is written by hand.
        let mut entries = Metadata::new(packer);
        entries.put(&table)?;
        let (packed, starts) = entries.finish()?;
        let base = out.position();
        out.put(&packed)?;
        let index = out.position();
        out.put(&start.to_le_bytes())?;
        out.put(&(self.sets.len() as u32).to_le_bytes())?;
        out.put(&[0; 4])?;
        for block in starts {
            out.put(&(base + block).to_le_bytes())?;
        }
        Ok(index)
    }
}

fn encode(set: &Set) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in set {
        let prefix = XATTR_PREFIXES.iter().position(|prefix| name.starts_with(prefix));
        let Some(prefix) = prefix else { continue };
        let name = &name[XATTR_PREFIXES[prefix].len()..];
        bytes.extend_from_slice(&(prefix as u16).to_le_bytes());
        bytes.extend_from_slice(&(name.len() as u16).to_le_bytes());
        bytes.extend_from_slice(name);
        bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
        bytes.extend_from_slice(value);
    }
    bytes
}
