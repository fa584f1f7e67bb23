//! What an ELF file has for a profiler: names of functions, and how to unwind its stack.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use object::read::elf::{FileHeader, SectionHeader};
use object::{Endianness, ReadCache, ReadRef, elf};

/// What is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SymbolFacts {
    /// A table of all functions (`.symtab`), in it or in a debug file of its own.
    pub symbols: bool,
    /// Unwind data (`.eh_frame` or `.debug_frame`).
    pub unwind: bool,
}

/// More sections than any linker makes are not looked at.
const SECTIONS: usize = 100_000;

/// Looks at a file; none if it is no ELF file that can be read.
pub fn facts(path: &Path) -> Option<SymbolFacts> {
    // A FIFO or a device of that name must not be waited for.
    if !path.metadata().ok()?.is_file() {
        return None;
    }
    let mut file = File::open(path).ok()?;
    let mut ident = [0; 5];
    file.read_exact(&mut ident).ok()?;
    if ident[..4] != elf::ELFMAG {
        return None;
    }
    let cache = ReadCache::new(file);
    match elf::FileClass(ident[4]) {
        elf::ELFCLASS32 => look::<elf::FileHeader32<Endianness>, _>(&cache),
        _ => look::<elf::FileHeader64<Endianness>, _>(&cache),
    }
}

fn look<'a, Header: FileHeader<Endian = Endianness>, R: ReadRef<'a>>(
    data: R,
) -> Option<SymbolFacts> {
    let header = Header::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, data).ok()?;
    let mut facts = SymbolFacts::default();
    for section in sections.iter().take(SECTIONS) {
        let name = sections.section_name(endian, section).unwrap_or_default();
        // A debug file keeps the header of what it leaves out, without content.
        let filled = section.sh_type(endian) != elf::SHT_NOBITS;
        match name {
            b".symtab" => facts.symbols |= filled,
            b".eh_frame" | b".debug_frame" => facts.unwind |= filled,
            b".note.gnu.build-id" => {
                let notes = section.notes(endian, data).ok().flatten();
                let note = notes.and_then(|mut notes| notes.next().ok().flatten());
                facts.symbols |= note.is_some_and(|note| debug_file(note.desc()).is_file());
            }
            _ => {}
        }
    }
    Some(facts)
}

/// Where a distribution's debug package puts the file of that build id (gdb, "Separate Debug
/// Files"), which perf looks for, too.
fn debug_file(build_id: &[u8]) -> PathBuf {
    let hex: String = build_id.iter().take(64).map(|byte| format!("{byte:02x}")).collect();
    let (directory, name) = hex.split_at(hex.len().min(2));
    PathBuf::from(format!("/usr/lib/debug/.build-id/{directory}/{name}.debug"))
}
