//! Names in a directory: a list in each block. An index over them is in what looks like empty
//! entries, and need not be known.

use super::{Ext3, Ext3ReadError, Inode, u16_at, u32_at};

impl Ext3<'_> {
    /// The names in a directory, without `.` and `..`, and their inodes.
    pub fn names(&self, directory: &Inode) -> Result<Vec<(Vec<u8>, u32)>, Ext3ReadError> {
        let mut names = Vec::new();
        for extent in self.extents(directory)? {
            for index in 0..extent.count {
                let mut block = vec![0; self.block as usize];
                self.read((extent.block + index) * self.block, &mut block)?;
                if let Some(sums) = directory.sums {
                    sums.directory(&block, directory.has_index, extent.at + index == 0)?;
                }
                self.names_in(&block, &mut names)?;
            }
        }
        Ok(names)
    }

    fn names_in(
        &self,
        mut entries: &[u8],
        names: &mut Vec<(Vec<u8>, u32)>,
    ) -> Result<(), Ext3ReadError> {
        while entries.len() >= 8 {
            let length = match usize::from(u16_at(entries, 4)) {
                // What 16 bits cannot say of a block of 64 KiB.
                0 | 0xffff => entries.len(),
                length => length,
            };
            let (inode, name) = (u32_at(entries, 0), 8 + usize::from(entries[6]));
            if length < 8 || length > entries.len() || name > length {
                return Err(Ext3ReadError::Damaged("a directory that is none"));
            }
            let name = &entries[8..name];
            if inode != 0 && !matches!(name, b"" | b"." | b"..") {
                if name.iter().any(|byte| matches!(byte, b'/' | 0)) {
                    return Err(Ext3ReadError::Damaged("a name that cannot be"));
                }
                names.push((name.to_vec(), inode));
            }
            entries = &entries[length..];
        }
        Ok(())
    }
}
