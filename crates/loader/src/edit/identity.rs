//! For which machine a file is.

use ::object::elf;

use super::Refused;
use super::format::NumberFormat;
use super::records::ElfHeader;

/// For which machine, and by which rules, an ELF file is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ElfIdentity {
    /// ELFCLASS64 rather than ELFCLASS32.
    pub wide: bool,
    /// ELFDATA2MSB rather than ELFDATA2LSB.
    pub big_endian: bool,
    /// EI_OSABI.
    pub os_abi: u8,
    /// EI_ABIVERSION.
    pub abi_version: u8,
    /// `e_machine`.
    pub machine: u16,
    /// `e_flags`: of ARM and RISC-V, the calling convention.
    pub flags: u32,
}

impl ElfIdentity {
    /// That of `file`.
    ///
    /// # Errors
    /// [`Refused::NotElf`], [`Refused::Damaged`].
    pub fn of(file: &[u8]) -> Result<Self, Refused> {
        if !file.starts_with(&elf::ELFMAG) {
            return Err(Refused::NotElf);
        }
        let Some([class, data, version, os_abi, abi_version]) = file.get(4..9) else {
            return Err(Refused::Damaged("its header is cut"));
        };
        let wide = match elf::FileClass(*class) {
            elf::ELFCLASS32 => false,
            elf::ELFCLASS64 => true,
            _ => return Err(Refused::Damaged("its class")),
        };
        let big_endian = match elf::DataEncoding(*data) {
            elf::ELFDATA2LSB => false,
            elf::ELFDATA2MSB => true,
            _ => return Err(Refused::Damaged("its byte order")),
        };
        if *version != elf::EV_CURRENT.0 {
            return Err(Refused::Damaged("its version"));
        }
        let header = ElfHeader::read(NumberFormat { wide, big_endian }, file)?;
        Ok(Self {
            wide,
            big_endian,
            os_abi: *os_abi,
            abi_version: *abi_version,
            machine: header.machine.0,
            flags: header.flags,
        })
    }
}
