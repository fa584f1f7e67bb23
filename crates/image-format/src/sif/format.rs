//! The Singularity Image Format on disk: one header, one table of descriptors, then the data.
//!
//! Little-endian and packed, as Go's `encoding/binary` writes the structs `header` and
//! `rawDescriptor` of <https://github.com/apptainer/sif> (pkg/sif/sif.go, descriptor.go). The
//! tests hold it against both `siftool`s (apptainer's and sylabs').

use std::fmt::{self, Display, Formatter};

/// The header's first line, which makes a SIF an executable script.
pub(super) const LAUNCH: &[u8] = b"#!/usr/bin/env run-singularity\n";
pub(super) const MAGIC: &[u8; 10] = b"SIF_MAGIC\0";
pub(super) const VERSION: &[u8; 3] = b"01\0";

/// Bytes of the header.
pub(super) const HEADER: usize = 128;
/// Where the table begins.
pub(super) const TABLE: u64 = 4096;
/// Bytes of a descriptor.
pub(super) const DESCRIPTOR: usize = 585;
/// How many descriptors the table of a new file has.
pub(super) const CAPACITY: usize = 48;
/// Where the data of a new file begins.
pub(super) const DATA: u64 = TABLE + (CAPACITY * DESCRIPTOR) as u64;
/// Partitions begin at a multiple of this.
pub(super) const ALIGNMENT: u64 = 4096;
/// A group's number on disk has these bits; a link with them is a link to a group.
pub(super) const GROUP: u32 = 0xf000_0000;
/// Bytes of an object's name, and of what its kind needs besides.
pub(super) const NAME: usize = 128;
pub(super) const EXTRA: usize = 384;

/// An enum with a number on disk, what siftool calls it, and a place for numbers it has not.
macro_rules! numbered {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $number:literal, $word:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
            /// A number that has no name here.
            Unknown(i32),
        }

        impl $name {
            pub(super) fn of(number: i32) -> $name {
                match number {
                    $($number => $name::$variant,)*
                    other => $name::Unknown(other),
                }
            }

            pub(super) fn number(self) -> i32 {
                match self {
                    $($name::$variant => $number,)*
                    $name::Unknown(other) => other,
                }
            }
        }

        impl Display for $name {
            fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
                match self {
                    $($name::$variant => out.write_str($word),)*
                    $name::Unknown(number) => write!(out, "unknown {number}"),
                }
            }
        }
    };
}

numbered! {
    /// What an object is.
    SifObjectKind {
        /// The definition file that an image was built from.
        Deffile = 0x4001, "definition file";
        /// Variables for a container's environment.
        Environment = 0x4002, "environment";
        /// Labels, as one JSON object.
        Labels = 0x4003, "labels";
        /// A filesystem.
        Partition = 0x4004, "partition";
        /// A signature over other objects.
        Signature = 0x4005, "signature";
        /// JSON of any kind.
        Json = 0x4006, "JSON";
        /// Bytes of any kind.
        Generic = 0x4007, "generic";
        /// A key, encrypted for whoever may open an encrypted partition.
        CryptoMessage = 0x4008, "encrypted key";
        /// A software bill of materials.
        Sbom = 0x4009, "SBOM";
        /// The root index of an OCI image.
        OciRootIndex = 0x400a, "OCI root index";
        /// A blob of an OCI image.
        OciBlob = 0x400b, "OCI blob";
    }
}

numbered! {
    /// The filesystem in a partition.
    Filesystem {
        /// Squashfs: read-only.
        Squashfs = 1, "squashfs";
        /// ext3: can be written to.
        Ext3 = 2, "ext3";
        /// An archive of immutable objects.
        Archive = 3, "archive";
        /// No filesystem.
        Raw = 4, "raw";
        /// Squashfs, encrypted by dm-crypt.
        EncryptedSquashfs = 5, "encrypted squashfs";
        /// Squashfs in a file encrypted by gocryptfs.
        GocryptfsSquashfs = 6, "gocryptfs squashfs";
    }
}

numbered! {
    /// What a partition is for.
    Role {
        /// A root that is not started from.
        System = 1, "system";
        /// The container's root.
        PrimarySystem = 2, "primary system";
        /// Data that can be bound to a path.
        Data = 3, "data";
        /// Laid over the root, in the order of the table.
        Overlay = 4, "overlay";
    }
}

/// A processor's architecture: its two digits in a header, and its name as Go has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Arch([u8; 2]);

/// `sif`'s arch.go; 13 is apptainer's since 1.4.
const ARCHES: [(&[u8; 2], &str); 13] = [
    (b"01", "386"),
    (b"02", "amd64"),
    (b"03", "arm"),
    (b"04", "arm64"),
    (b"05", "ppc64"),
    (b"06", "ppc64le"),
    (b"07", "mips"),
    (b"08", "mipsle"),
    (b"09", "mips64"),
    (b"10", "mips64le"),
    (b"11", "s390x"),
    (b"12", "riscv64"),
    (b"13", "loong64"),
];

impl Arch {
    /// None or an unknown one: what a file without a primary system has.
    pub const UNKNOWN: Arch = Arch(*b"00");

    /// The one that has this name in Go (`amd64`). None where the format has no number for it.
    pub fn named(name: &str) -> Option<Arch> {
        ARCHES.iter().find(|(_, known)| *known == name).map(|(digits, _)| Arch(**digits))
    }

    pub(super) fn of(field: [u8; 3]) -> Arch {
        Arch([field[0], field[1]])
    }

    pub(super) fn field(self) -> [u8; 3] {
        [self.0[0], self.0[1], 0]
    }

    /// Its name in Go, or `unknown`.
    pub fn name(self) -> &'static str {
        ARCHES.iter().find(|(digits, _)| **digits == self.0).map_or("unknown", |(_, name)| *name)
    }
}

impl Display for Arch {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// What a partition's descriptor says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    /// The filesystem in it.
    pub filesystem: Filesystem,
    /// What it is for.
    pub role: Role,
    /// For which processors.
    pub arch: Arch,
}

impl Partition {
    pub(super) fn parse(extra: &[u8; EXTRA]) -> Partition {
        let mut fields = PackedFields(extra);
        Partition {
            filesystem: Filesystem::of(fields.i32()),
            role: Role::of(fields.i32()),
            arch: Arch::of(fields.take()),
        }
    }

    pub(super) fn extra(self) -> [u8; EXTRA] {
        let mut extra = [0; EXTRA];
        extra[..4].copy_from_slice(&self.filesystem.number().to_le_bytes());
        extra[4..8].copy_from_slice(&self.role.number().to_le_bytes());
        extra[8..11].copy_from_slice(&self.arch.field());
        extra
    }
}

/// The header, field for field.
#[derive(Clone, Copy, Debug)]
pub(super) struct SifHeader {
    pub launch: [u8; 32],
    pub magic: [u8; 10],
    pub version: [u8; 3],
    pub arch: [u8; 3],
    pub uuid: [u8; 16],
    pub created: i64,
    pub modified: i64,
    pub descriptors_free: i64,
    pub descriptors_total: i64,
    pub descriptors_offset: i64,
    pub descriptors_size: i64,
    pub data_offset: i64,
    pub data_size: i64,
}

impl SifHeader {
    pub fn parse(bytes: &[u8; HEADER]) -> SifHeader {
        let mut fields = PackedFields(bytes);
        SifHeader {
            launch: fields.take(),
            magic: fields.take(),
            version: fields.take(),
            arch: fields.take(),
            uuid: fields.take(),
            created: fields.i64(),
            modified: fields.i64(),
            descriptors_free: fields.i64(),
            descriptors_total: fields.i64(),
            descriptors_offset: fields.i64(),
            descriptors_size: fields.i64(),
            data_offset: fields.i64(),
            data_size: fields.i64(),
        }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let numbers = [
            self.created,
            self.modified,
            self.descriptors_free,
            self.descriptors_total,
            self.descriptors_offset,
            self.descriptors_size,
            self.data_offset,
            self.data_size,
        ];
        let texts: [&[u8]; 5] = [&self.launch, &self.magic, &self.version, &self.arch, &self.uuid];
        [texts.concat(), numbers.map(i64::to_le_bytes).concat()].concat()
    }
}

/// A descriptor, field for field. Owner and group of the object follow the times; they are 0 in
/// every file and mean nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Descriptor {
    pub kind: i32,
    pub used: u8,
    pub id: u32,
    pub group: u32,
    pub link: u32,
    pub offset: i64,
    pub size: i64,
    pub size_with_padding: i64,
    pub created: i64,
    pub modified: i64,
    pub owner: [i64; 2],
    pub name: [u8; NAME],
    pub extra: [u8; EXTRA],
}

impl Descriptor {
    pub fn parse(bytes: &[u8; DESCRIPTOR]) -> Descriptor {
        let mut fields = PackedFields(bytes);
        Descriptor {
            kind: fields.i32(),
            used: fields.take::<1>()[0],
            id: fields.u32(),
            group: fields.u32(),
            link: fields.u32(),
            offset: fields.i64(),
            size: fields.i64(),
            size_with_padding: fields.i64(),
            created: fields.i64(),
            modified: fields.i64(),
            owner: [fields.i64(), fields.i64()],
            name: fields.take(),
            extra: fields.take(),
        }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let numbers = [
            self.offset,
            self.size,
            self.size_with_padding,
            self.created,
            self.modified,
            self.owner[0],
            self.owner[1],
        ];
        let mut bytes = self.kind.to_le_bytes().to_vec();
        bytes.push(self.used);
        bytes.extend([self.id, self.group, self.link].map(u32::to_le_bytes).concat());
        bytes.extend(numbers.map(i64::to_le_bytes).concat());
        bytes.extend(self.name);
        bytes.extend(self.extra);
        bytes
    }
}

/// Fields of a packed struct, one after the other. Past its end there are zeros: the structs
/// here have a fixed length, and all their fields lie in it.
struct PackedFields<'a>(&'a [u8]);

impl PackedFields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        match self.0.split_first_chunk() {
            Some((field, rest)) => {
                self.0 = rest;
                *field
            }
            None => [0; N],
        }
    }

    fn i32(&mut self) -> i32 {
        i32::from_le_bytes(self.take())
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    fn i64(&mut self) -> i64 {
        i64::from_le_bytes(self.take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_and_descriptor_are_written_as_they_are_read_byte_for_byte() {
        let header: [u8; HEADER] = std::array::from_fn(|at| at as u8);
        assert_eq!(SifHeader::parse(&header).bytes(), header);
        let descriptor: [u8; DESCRIPTOR] = std::array::from_fn(|at| (at * 7) as u8);
        assert_eq!(Descriptor::parse(&descriptor).bytes(), descriptor);
    }

    #[test]
    fn data_begins_where_siftool_lets_it_begin() {
        assert_eq!(DATA, 32_176);
    }
}
