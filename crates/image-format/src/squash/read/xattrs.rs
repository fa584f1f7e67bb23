//! xattrs.

use super::cursor::{Cursor, IndexedTable};
use super::{SquashImage, SquashNode, SquashReadError};
use crate::squash::XattrPair;
use crate::squash::format::{NONE_U32, NONE_U64, XATTR_ELSEWHERE, XATTR_PREFIXES};

/// Linux allows a value this many bytes (XATTR_SIZE_MAX), and names together as many
/// (XATTR_LIST_MAX).
const MOST: usize = 64 << 10;

/// Where the xattrs are.
pub(crate) struct XattrTable {
    /// The names and values.
    start: u64,
    /// Where they end at the latest.
    end: u64,
    sets: IndexedTable,
}

impl XattrTable {
    /// What an image has of them.
    pub(crate) fn of(image: &SquashImage) -> Result<Option<XattrTable>, SquashReadError> {
        let at = image.superblock.xattr_table;
        if at == NONE_U64 {
            return Ok(None);
        }
        let mut header = [0; 16];
        image.read_exact(at, &mut header)?;
        let mut fields = crate::squash::format::FieldReader::new(&header);
        let (start, count) = (fields.u64().unwrap_or(0), fields.u32().unwrap_or(0));
        let sets = IndexedTable::new(image, at + 16, 16, u64::from(count))?;
        Ok(Some(XattrTable { start, end: at, sets }))
    }

    fn cursor<'a>(
        &self,
        image: &'a SquashImage,
        reference: u64,
    ) -> Result<Cursor<'a>, SquashReadError> {
        let Some(position) = self.start.checked_add(reference >> 16) else {
            return SquashReadError::damaged("an xattr beyond its table", self.start);
        };
        Cursor::new(image, position, (reference & 0xffff) as usize, self.end)
    }
}

impl SquashImage {
    /// Names and values of a node's xattrs.
    ///
    /// # Errors
    /// Where the image is damaged.
    pub fn xattrs(&self, node: SquashNode) -> Result<Vec<XattrPair>, SquashReadError> {
        let set = self.inode(node)?.0.xattrs;
        if set == NONE_U32 {
            return Ok(Vec::new());
        }
        let Some(xattrs) = &self.xattrs else {
            return SquashReadError::damaged("xattrs where there are none", 0);
        };
        let mut entry = xattrs.sets.entry(self, u64::from(set))?;
        let (reference, count) = (entry.u64()?, entry.u32()?);
        let mut at = xattrs.cursor(self, reference)?;
        let mut list = Vec::new();
        let (mut names, mut values) = (0, 0);
        for _ in 0..count {
            let (name, value) = self.xattr(xattrs, &mut at)?;
            names += name.len() + 1;
            values += value.len();
            if names > MOST || values > MOST * 16 {
                return SquashReadError::damaged("more xattrs than a file can have", at.near());
            }
            list.push((name, value));
        }
        Ok(list)
    }

    fn xattr(
        &self,
        xattrs: &XattrTable,
        at: &mut Cursor<'_>,
    ) -> Result<XattrPair, SquashReadError> {
        let (kind, length) = (at.u16()?, at.u16()?);
        let Some(prefix) = XATTR_PREFIXES.get(usize::from(kind & 0xff)) else {
            return SquashReadError::damaged("an xattr of no known kind", at.near());
        };
        let name = [prefix, &at.bytes(usize::from(length))?[..]].concat();
        let length = at.u32()?;
        let value = match kind & XATTR_ELSEWHERE {
            0 => value(at, length)?,
            _ if length == 8 => {
                let mut elsewhere = xattrs.cursor(self, at.u64()?)?;
                let length = elsewhere.u32()?;
                value(&mut elsewhere, length)?
            }
            _ => return SquashReadError::damaged("a reference that is none", at.near()),
        };
        Ok((name, value))
    }
}

fn value(at: &mut Cursor<'_>, length: u32) -> Result<Vec<u8>, SquashReadError> {
    match length as usize {
        length if length <= MOST => at.bytes(length),
        _ => SquashReadError::damaged("an xattr larger than one can be", at.near()),
    }
}
