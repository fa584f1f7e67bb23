//! The program's copy for form 2: byte for byte the program, but that its PT_INTERP lies at its end and
//! names the pack. In memory nothing differs: the text that the loader sees at PT_INTERP's address stays.

use std::fs::{File, Permissions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// For its owner alone: what is in it may be readable to few, by modes, lists or directories.
pub(crate) const MODE: u32 = 0o700;

/// Beside a pack, its program's copy.
pub(crate) fn path_of(pack: &Path) -> PathBuf {
    let mut path = pack.as_os_str().to_owned();
    path.push(".program");
    path.into()
}

/// Writes the copy, before it has its name. `header` is where PT_INTERP's program header lies in the file.
pub(crate) fn write(
    program: &File,
    header: u64,
    interpreter: &Path,
    mut file: &File,
) -> io::Result<()> {
    let mut program = program;
    program.seek(SeekFrom::Start(0))?;
    let length = io::copy(&mut program, &mut file)?;
    // No page that a segment maps to its end.
    let at = length.next_multiple_of(4096) + 4096;
    file.seek(SeekFrom::Start(at))?;
    let mut name = interpreter.as_os_str().as_bytes().to_vec();
    name.push(0);
    file.write_all(&name)?;
    let length = (name.len() as u64).to_le_bytes();
    // p_offset, p_filesz and p_memsz of elf(5).
    for (field, value) in [(8, at.to_le_bytes()), (32, length), (40, length)] {
        file.write_all_at(&value, header + field)?;
    }
    file.set_permissions(Permissions::from_mode(MODE))?;
    file.sync_all()
}
