//! Which files may open libraries by name.

use std::path::Path;

use ::object::elf::{FileHeader32, FileHeader64, SHN_UNDEF};
use ::object::read::elf::{ElfFile, FileHeader, SectionHeader, Sym};
use ::object::{Endianness, FileKind, ReadCache, ReadRef};

use crate::source::open_unnoticed;

/// The functions that take a library's name: dlopen(3).
const OPENERS: [&[u8]; 2] = [b"dlopen", b"dlmopen"];

/// Whether the file asks for a function that opens libraries, or does not say. What it opens, and by
/// which name, only a run can tell.
pub(super) fn may_be_called_in_file(path: &Path) -> bool {
    let Ok((file, _)) = open_unnoticed(path) else { return true };
    is_called_in(&ReadCache::new(file)).unwrap_or(true)
}

/// The same of a file in memory.
pub(super) fn may_be_called_in(bytes: &[u8]) -> bool {
    is_called_in(bytes).unwrap_or(true)
}

fn is_called_in<'data>(file: impl ReadRef<'data>) -> Option<bool> {
    match FileKind::parse(file).ok()? {
        FileKind::Elf32 => asks::<FileHeader32<Endianness>>(file),
        FileKind::Elf64 => asks::<FileHeader64<Endianness>>(file),
        _ => None,
    }
}

fn asks<'data, H: FileHeader<Endian = Endianness>>(file: impl ReadRef<'data>) -> Option<bool> {
    let elf = ElfFile::<H, _>::parse(file).ok()?;
    let (symbols, sections) = (elf.elf_dynamic_symbol_table(), elf.elf_section_table());
    let endian = elf.endian();
    // A loaded file has at least the null symbol; one without a section table tells nothing.
    if symbols.is_empty() {
        return None;
    }
    // All names by one read: most files do not even have this one.
    let names = sections.section(symbols.string_section()).ok()?.data(endian, file).ok()?;
    if !OPENERS.iter().any(|opener| memchr::memmem::find(names, opener).is_some()) {
        return Some(false);
    }
    Some(symbols.iter().any(|symbol| {
        symbol.st_shndx(endian) == SHN_UNDEF
            && symbol.name(endian, symbols.strings()).is_ok_and(|name| OPENERS.contains(&name))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_loads_plugins_is_told_from_one_that_does_not() {
        let directory = tempfile::tempdir().unwrap();
        let compile = |name: &str, source: &str| {
            let file = directory.path().join(format!("{name}.c"));
            std::fs::write(&file, source).unwrap();
            let out = directory.path().join(name);
            let gcc = std::process::Command::new("gcc").arg(&file).arg("-o").arg(&out).status();
            assert!(gcc.unwrap().success());
            let bytes = std::fs::read(&out).unwrap();
            let said = is_called_in(&bytes[..]);
            assert_eq!(may_be_called_in_file(&out), said.unwrap_or(true));
            said
        };
        let opens =
            "#include <dlfcn.h>\nint main(int n, char **a) { return !dlopen(a[n - 1], 1); }";
        assert_eq!(compile("opens", opens), Some(true));
        assert_eq!(compile("plain", "int main(void) { return 0; }"), Some(false));
        assert_eq!(is_called_in(&std::fs::read("/etc/passwd").unwrap()[..]), None);
    }
}
