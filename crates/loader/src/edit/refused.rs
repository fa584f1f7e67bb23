//! Why a file is left alone.

/// Why there is no edit. The file was not touched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A script, text, data.
    #[error("not an ELF file")]
    NotElf,
    /// What it says makes no sense.
    #[error("a damaged ELF file: {0}")]
    Damaged(&'static str),
    /// An object file, a core file.
    #[error("neither an executable nor a shared library")]
    NotLoadable,
    /// No loader reads its DT_NEEDED: it has none.
    #[error("statically linked")]
    Static,
    /// The dynamic loader itself.
    #[error("the dynamic loader itself")]
    Loader,
    /// Sound, but an edit may break it.
    #[error("left alone: {0}")]
    Hazard(#[from] Hazard),
    /// Too little room for the new names.
    #[error("no room: {missing} bytes are missing")]
    NoRoom {
        /// What is missing beyond the room that may be used, in bytes.
        missing: u64,
    },
    /// The dynamic section has no spare entry left.
    #[error("no room: the dynamic section lacks {missing} spare entries")]
    NoSpareEntry {
        /// Entries.
        missing: usize,
    },
    /// The file could hold the names in a segment of its own, but no program header can be
    /// spared for it.
    #[error("no room: no program header can be spared for a new segment")]
    NoSpareHeader,
    /// A position beyond the list of needs.
    #[error("there is no DT_NEEDED number {position}")]
    NoSuchNeeded {
        /// The first that is beyond.
        position: usize,
    },
    /// An empty name, or one with a NUL.
    #[error("not a name that a string table can hold: {0:?}")]
    BadName(String),
    /// What was written does not read back as meant. Always a fault of this program: reported
    /// rather than written.
    #[error("the edit does not read back as meant: {0}")]
    SelfCheck(&'static str),
}

/// What makes an edit of a sound file dangerous.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Hazard {
    /// DT_GNU_PRELINKED or DT_GNU_LIBLIST: prelink(8) keeps copies of the names.
    #[error("prelinked")]
    Prelinked,
    /// UPX or alike: the loader sees another file than this one.
    #[error("packed")]
    Packed,
    /// Its dynamic entries refer to their own place (DT_MIPS_RLD_MAP_REL).
    #[error("MIPS: its dynamic entries refer to their own place")]
    Mips,
    /// Dynamic entries that refer to their neighbour (DT_POSFLAG_1).
    #[error("a dynamic entry that refers to the one behind it")]
    Positional,
    /// Nothing tells how many dynamic symbols there are, so which names are used is unknown.
    #[error("the number of its dynamic symbols is unknown")]
    UnknownSymbols,
    /// A dynamic tag that may hold a name, of an operating system that is not known here.
    #[error("a dynamic entry of unknown meaning: {0:#x}")]
    UnknownTag(u64),
    /// Something else reads the string table.
    #[error("its string table is used by something else, too")]
    SharedStrings,
    /// Two parts of the file lie on each other.
    #[error("parts of the file overlap")]
    Overlap,
    /// Bytes behind the last part of the ELF file: an AppImage, a self-extracting archive. They
    /// find themselves by the end of what precedes them, so that must not move.
    #[error("data behind the ELF file, and no room without moving its end")]
    Overlay,
    /// The request renames the dynamic loader: a second copy of it would be loaded.
    #[error("the dynamic loader must keep its name")]
    LoaderName,
    /// One old name becomes two new ones, and a version need has to follow one of them.
    #[error("a version need would have to follow two names")]
    AmbiguousVersion,
}
