//! What the loader needs to know of one ELF file.
//!
//! | file | what it holds |
//! |---|---|
//! | `parse` | from bytes to an [`ElfObject`] |
//! | `texts` | texts of the string table, within limits |
//! | `versions` | DT_VERNEED |
//! | `notes` | the ABI tag and the x86 properties |
//! | `window` | a file read through few calls |

mod notes;
mod parse;
mod texts;
mod versions;
mod window;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::Path;

use crate::source::open;

/// Why a file has no facts.
#[derive(Debug, thiserror::Error)]
pub enum ElfError {
    /// The operating system refused.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A directory, a device, a pipe.
    #[error("not a regular file")]
    NotAFile,
    /// Another kind of file: a script, data.
    #[error("not an ELF file")]
    NotElf,
    /// It ends before what its headers promise.
    #[error("a truncated ELF file")]
    Truncated,
    /// What a header says makes no sense.
    #[error("a damaged ELF file: {0}")]
    Damaged(&'static str),
    /// A table or a text larger than any linker writes.
    #[error("a damaged ELF file: a table that is too large")]
    Excessive,
}

/// The size of addresses: `EI_CLASS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ElfClass {
    /// 32-bit addresses.
    Elf32,
    /// 64-bit addresses.
    #[default]
    Elf64,
}

/// Whom a file is for, as a loader looks at it first of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    /// `EI_CLASS`.
    pub class: ElfClass,
    /// `EI_DATA`.
    pub big_endian: bool,
    /// `e_machine`.
    pub machine: u16,
}

/// Which tag of the dynamic section names a dependency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tag {
    /// `DT_NEEDED`: must be there, comes after its object.
    Needed,
    /// `DT_FILTER`: must be there, comes before its object.
    Filter,
    /// `DT_AUXILIARY`: may be missing, comes before its object.
    Auxiliary,
}

/// One entry of the dynamic section that makes the loader load another object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependency {
    /// By which tag.
    pub tag: Tag,
    /// The name as written: a SONAME, or a path, perhaps with `$ORIGIN`.
    pub name: OsString,
}

/// Versions that an object asks of another: one entry of `DT_VERNEED`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionNeed {
    /// `vn_file`: the name of the object that must define them.
    pub file: OsString,
    /// `vna_name` of each version, e.g. `GLIBC_2.34`.
    pub names: Vec<OsString>,
}

/// What one ELF file says that matters to the loader's search. Of a tag that is given twice the
/// last counts (glibc, elf/get-dynamic-info.h), save for [dependencies](ElfObject::dependencies).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ElfObject {
    /// `EI_CLASS`.
    pub class: ElfClass,
    /// `EI_DATA`.
    pub big_endian: bool,
    /// `e_machine`, e.g. 62 for x86-64.
    pub machine: u16,
    /// `e_type`: 2 for an executable at a fixed address, 3 for what can be moved.
    pub kind: u16,
    /// `EI_OSABI`.
    pub os_abi: u8,
    /// `EI_ABIVERSION`.
    pub abi_version: u8,
    /// `e_flags`.
    pub flags: u32,
    /// `PT_INTERP`: the loader that the kernel starts.
    pub interpreter: Option<OsString>,
    /// Whether there is a dynamic section; without one, a program is static.
    pub is_dynamic: bool,
    /// `DT_SONAME`.
    pub soname: Option<OsString>,
    /// What it needs, in the order of the file.
    pub dependencies: Vec<Dependency>,
    /// `DT_RPATH`, as written.
    pub rpath: Option<OsString>,
    /// `DT_RUNPATH`, as written.
    pub runpath: Option<OsString>,
    /// `DT_AUDIT` and `DT_DEPAUDIT`: libraries that may change every step of the search.
    pub audit: Vec<OsString>,
    /// `DT_FLAGS_1`: [`ElfObject::NODEFLIB`] and others.
    pub flags_1: u64,
    /// `GNU_PROPERTY_X86_ISA_1_NEEDED`: bits of the x86-64 levels that the CPU must have.
    pub isa_needed: u32,
    /// `NT_GNU_ABI_TAG`: operating system (0 is Linux) and the oldest version of its kernel.
    pub abi_tag: Option<[u32; 4]>,
    /// `DT_VERNEED`.
    pub verneed: Vec<VersionNeed>,
    /// What else the loader checks before it maps the file.
    pub header: LoadHeader,
}

/// Fields of the ELF header and of the program headers that a loader rejects files for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LoadHeader {
    /// `EI_VERSION`; 1 is right.
    pub ident_version: u8,
    /// Whether the rest of `e_ident` is zero.
    pub padded: bool,
    /// `e_version`; 1 is right.
    pub version: u32,
    /// `e_phentsize`, in bytes.
    pub entry_size: u16,
    /// Whether there is a `PT_LOAD`.
    pub loadable: bool,
    /// Whether each `PT_LOAD` lies in the file as it lies in memory, modulo 4096.
    pub aligned: bool,
    /// `p_align` of all `PT_LOAD`s, their bits together: where one of these is below the size of a page,
    /// one is aligned to less.
    pub alignments: u64,
    /// Whether it asks for an executable stack: so it does where no `PT_GNU_STACK` says other.
    pub executable_stack: bool,
    /// Whether the dynamic section is promised but empty, as in files of debug information.
    pub empty_dynamic: bool,
}

/// Whether a file name is a library's: `libz.so`, `libz.so.1.2`.
pub(crate) fn is_library_name(name: &[u8]) -> bool {
    name.ends_with(b".so") || memchr::memmem::find(name, b".so.").is_some()
}

impl ElfObject {
    /// Whom it is for.
    pub fn identity(&self) -> Identity {
        let ElfObject { class, big_endian, machine, .. } = *self;
        Identity { class, big_endian, machine }
    }

    /// `DF_1_NODEFLIB` of [`flags_1`](ElfObject::flags_1): no default directories (`-z nodefaultlib`).
    pub const NODEFLIB: u64 = 0x800;
    /// `DF_1_PIE` of [`flags_1`](ElfObject::flags_1): an executable, though it can be moved.
    pub const PIE: u64 = 0x0800_0000;

    /// Reads the file at `path`. A statically linked program is no error.
    ///
    /// # Errors
    /// [`ElfError`]. A file that is not ELF is [`ElfError::NotElf`]. A FIFO does not block.
    pub fn read(path: &Path) -> Result<ElfObject, ElfError> {
        let (file, seen) = open(path)?;
        ElfObject::of_file(&file, seen.len()).1
    }

    /// Reads an open regular file of `size` bytes.
    pub(crate) fn of_file(
        file: &File,
        size: u64,
    ) -> (Option<Identity>, Result<ElfObject, ElfError>) {
        let window = window::FileWindow::new(file, size);
        (parse::identity(&window), parse::object(&window))
    }

    /// Whom a file in memory is for; none if it is no ELF file, or too short for one.
    pub(crate) fn identity_of(bytes: &[u8]) -> Option<Identity> {
        parse::identity(&bytes)
    }

    /// Reads a file that is in memory.
    ///
    /// # Errors
    /// [`ElfError`].
    pub fn parse(bytes: &[u8]) -> Result<ElfObject, ElfError> {
        parse::object(&bytes)
    }

    /// The list of directories that counts: `DT_RUNPATH`, else `DT_RPATH`; empty where there is none.
    pub(crate) fn search_path(&self) -> &OsStr {
        self.runpath.as_deref().or(self.rpath.as_deref()).unwrap_or_default()
    }

    /// The names under `DT_NEEDED`, in order.
    pub fn needed(&self) -> impl Iterator<Item = &OsString> {
        self.dependencies.iter().filter(|each| each.tag == Tag::Needed).map(|each| &each.name)
    }
}
