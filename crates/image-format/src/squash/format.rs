//! What squashfs 4.0 looks like on disk (Linux: fs/squashfs/squashfs_fs.h). All numbers are
//! little-endian.

/// The first four bytes: `hsqs`.
pub(crate) const MAGIC: u32 = 0x7371_7368;
/// Bytes of the superblock, at the start.
pub(crate) const SUPERBLOCK: usize = 96;
/// Bytes of a metadata block before compression; only the last of a table has fewer.
pub(crate) const METADATA: usize = 8192;
/// In a metadata block's header: the block is stored as it is.
pub(crate) const METADATA_STORED: u16 = 1 << 15;
/// In the size of a data or fragment block: the block is stored as it is.
pub(crate) const DATA_STORED: u32 = 1 << 24;
/// No fragment, no xattrs.
pub(crate) const NONE_U32: u32 = u32::MAX;
/// No such table.
pub(crate) const NONE_U64: u64 = u64::MAX;
/// The smallest block of data.
pub(crate) const BLOCK_MIN: u32 = 4 << 10;
/// The largest (SQUASHFS_FILE_MAX_SIZE).
pub(crate) const BLOCK_MAX: u32 = 1 << 20;
/// Entries that one header of a directory listing is for (SQUASHFS_DIR_COUNT).
pub(crate) const ENTRIES_PER_HEADER: usize = 256;
/// What a directory's size says beyond its listing: `.` and `..`, of old.
pub(crate) const LISTING_EXTRA: u32 = 3;
/// The longest name. The format could hold one byte more; no Linux filesystem can.
pub(crate) const NAME_MAX: usize = 255;

/// Superblock flags.
pub(crate) mod flag {
    /// Identical files are stored once.
    pub(crate) const DUPLICATES: u16 = 1 << 6;
    /// There is a table from inode numbers to inodes.
    pub(crate) const EXPORTABLE: u16 = 1 << 7;
    /// No inode has xattrs.
    pub(crate) const NO_XATTRS: u16 = 1 << 9;
    /// The compressor's options follow the superblock.
    pub(crate) const COMPRESSOR_OPTIONS: u16 = 1 << 10;
}

/// Inode types. An extended type is the basic one plus [`EXTENDED`](kind::EXTENDED).
pub(crate) mod kind {
    pub(crate) const DIRECTORY: u16 = 1;
    pub(crate) const FILE: u16 = 2;
    pub(crate) const SYMLINK: u16 = 3;
    pub(crate) const BLOCK_DEVICE: u16 = 4;
    pub(crate) const CHAR_DEVICE: u16 = 5;
    pub(crate) const FIFO: u16 = 6;
    pub(crate) const SOCKET: u16 = 7;
    pub(crate) const EXTENDED: u16 = 7;
}

/// The prefixes that an xattr's name may have, by the number that stands for each. POSIX ACLs
/// (`system.`) cannot be stored.
pub(crate) const XATTR_PREFIXES: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];
/// In an xattr's type: its value is a reference to one stored before.
pub(crate) const XATTR_ELSEWHERE: u16 = 1 << 8;

/// The superblock. Offsets are from the start of the image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SquashSuperblock {
    pub inodes: u32,
    /// When the image was made, in seconds since 1970.
    pub made: u32,
    pub block_size: u32,
    pub fragments: u32,
    pub compression: u16,
    pub flags: u16,
    pub ids: u16,
    pub root: u64,
    pub bytes_used: u64,
    pub id_table: u64,
    pub xattr_table: u64,
    pub inode_table: u64,
    pub directory_table: u64,
    pub fragment_table: u64,
    pub export_table: u64,
}

impl SquashSuperblock {
    /// The bytes on disk.
    pub(crate) fn encode(&self) -> [u8; SUPERBLOCK] {
        let mut bytes = [0; SUPERBLOCK];
        let mut at = 0;
        let mut put = |number: &[u8]| {
            bytes[at..at + number.len()].copy_from_slice(number);
            at += number.len();
        };
        put(&MAGIC.to_le_bytes());
        put(&self.inodes.to_le_bytes());
        put(&self.made.to_le_bytes());
        put(&self.block_size.to_le_bytes());
        put(&self.fragments.to_le_bytes());
        put(&self.compression.to_le_bytes());
        put(&(self.block_size.trailing_zeros() as u16).to_le_bytes());
        put(&self.flags.to_le_bytes());
        put(&self.ids.to_le_bytes());
        put(&4u16.to_le_bytes());
        put(&0u16.to_le_bytes());
        for number in [
            self.root,
            self.bytes_used,
            self.id_table,
            self.xattr_table,
            self.inode_table,
            self.directory_table,
            self.fragment_table,
            self.export_table,
        ] {
            put(&number.to_le_bytes());
        }
        bytes
    }

    /// Reads the bytes on disk. Says what is wrong with them; that the tables lie inside the
    /// file is for the reader to check.
    pub(crate) fn decode(bytes: &[u8; SUPERBLOCK]) -> Result<SquashSuperblock, &'static str> {
        let mut fields = FieldReader::new(bytes);
        if fields.u32() != Some(MAGIC) {
            return Err("it does not begin as a squashfs does");
        }
        let mut next_u32 = || fields.u32().unwrap_or_default();
        let (inodes, made, block_size, fragments) =
            (next_u32(), next_u32(), next_u32(), next_u32());
        let mut next_u16 = || fields.u16().unwrap_or_default();
        let (compression, block_log, flags, ids) = (next_u16(), next_u16(), next_u16(), next_u16());
        if (next_u16(), next_u16()) != (4, 0) {
            return Err("it is not version 4.0");
        }
        let mut next = || fields.u64().unwrap_or_default();
        let superblock = SquashSuperblock {
            inodes,
            made,
            block_size,
            fragments,
            compression,
            flags,
            ids,
            root: next(),
            bytes_used: next(),
            id_table: next(),
            xattr_table: next(),
            inode_table: next(),
            directory_table: next(),
            fragment_table: next(),
            export_table: next(),
        };
        let is_size = block_size.is_power_of_two()
            && (BLOCK_MIN..=BLOCK_MAX).contains(&block_size)
            && u32::from(block_log) == block_size.trailing_zeros();
        if !is_size {
            return Err("its block size is none");
        }
        Ok(superblock)
    }
}

/// Numbers, one after the other, out of a slice that may be too short.
pub(crate) struct FieldReader<'a> {
    rest: &'a [u8],
}

impl<'a> FieldReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> FieldReader<'a> {
        FieldReader { rest: bytes }
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*first)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
}
