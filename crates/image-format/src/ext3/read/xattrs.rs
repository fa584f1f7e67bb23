//! Extended attributes: behind an inode's fields, and in a block of their own.

use super::{Ext3, Ext3ReadError, u16_at, u32_at};
use crate::squash::XattrPair;

const MAGIC: u32 = 0xea02_0000;

impl Ext3<'_> {
    /// Those of an inode, by its bytes.
    pub(super) fn xattrs(&self, inode: &[u8]) -> Result<Vec<XattrPair>, Ext3ReadError> {
        let mut found = Vec::new();
        if inode.len() > 132 {
            let start = 128 + usize::from(u16_at(inode, 128));
            if inode.len() >= start + 4 && start >= 132 && u32_at(inode, start) == MAGIC {
                let entries = &inode[start + 4..];
                read(entries, entries, &mut found)?;
            }
        }
        let block = u64::from(u32_at(inode, 104)) | u64::from(u16_at(inode, 118)) << 32;
        if block != 0 {
            let mut bytes = vec![0; self.block as usize];
            // Files may share one: it is not counted.
            self.read(block.saturating_mul(self.block), &mut bytes)?;
            if u32_at(&bytes, 0) != MAGIC {
                return Err(Ext3ReadError::Damaged("attributes that are none"));
            }
            if let Some(sums) = self.sums {
                sums.xattrs(block, &bytes)?;
            }
            read(&bytes[32..], &bytes, &mut found)?;
        }
        found.sort();
        Ok(found)
    }
}

/// Entries, until an empty one; their values lie at offsets in `values`.
fn read(
    mut entries: &[u8],
    values: &[u8],
    found: &mut Vec<XattrPair>,
) -> Result<(), Ext3ReadError> {
    let wrong = Ext3ReadError::Damaged("an attribute that is none");
    while entries.len() >= 16 && u32_at(entries, 0) != 0 {
        let (length, prefix) = (usize::from(entries[0]), entries[1]);
        let (at, size) = (usize::from(u16_at(entries, 2)), u32_at(entries, 8) as usize);
        if u32_at(entries, 4) != 0 {
            return Err(Ext3ReadError::Unsupported("ea_inode"));
        }
        let name = entries.get(16..16 + length);
        let value = at.checked_add(size).and_then(|end| values.get(at..end));
        let (Some(name), Some(value)) = (name, value) else { return Err(wrong) };
        // Access lists and the like cannot be in a squashfs.
        let prefix: Option<&[u8]> = match prefix {
            1 => Some(b"user."),
            4 => Some(b"trusted."),
            6 => Some(b"security."),
            _ => None,
        };
        if let Some(prefix) = prefix {
            found.push(([prefix, name].concat(), value.to_vec()));
        }
        entries = entries.get((16 + length).next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(())
}
