//! Which files may open libraries by name.

use std::path::Path;

use ::object::elf::{FileHeader32, FileHeader64, SHN_UNDEF};
use ::object::read::elf::{ElfFile, FileHeader, Sym};
use ::object::{Endianness, FileKind, ReadCache};

use crate::source::open_unnoticed;

/// The functions that take a library's name: dlopen(3).
const OPENERS: [&[u8]; 2] = [b"dlopen", b"dlmopen"];

/// Whether the file asks for a function that opens libraries; none where it does not say.
/// What it opens, and by which name, only a run can tell.
pub(super) fn is_called_in(path: &Path) -> Option<bool> {
    let file = ReadCache::new(open_unnoticed(path).ok()?);
    match FileKind::parse(&file).ok()? {
        FileKind::Elf32 => asks::<FileHeader32<Endianness>>(&file),
        FileKind::Elf64 => asks::<FileHeader64<Endianness>>(&file),
        _ => None,
    }
}

fn asks<H: FileHeader<Endian = Endianness>>(file: &ReadCache<std::fs::File>) -> Option<bool> {
    let elf = ElfFile::<H, _>::parse(file).ok()?;
    let symbols = elf.elf_dynamic_symbol_table();
    let endian = elf.endian();
    // A loaded file has at least the null symbol; one without a section table tells nothing.
    if symbols.is_empty() {
        return None;
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
            is_called_in(&out)
        };
        let opens =
            "#include <dlfcn.h>\nint main(int n, char **a) { return !dlopen(a[n - 1], 1); }";
        assert_eq!(compile("opens", opens), Some(true));
        assert_eq!(compile("plain", "int main(void) { return 0; }"), Some(false));
        assert_eq!(is_called_in(Path::new("/etc/passwd")), None);
    }
}
