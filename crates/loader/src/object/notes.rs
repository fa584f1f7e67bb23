//! Notes that the loader reads: the ABI tag, and the x86 properties.

use ::object::Endianness;
use ::object::endian::Endian;

use super::ElfClass;

/// `NT_GNU_ABI_TAG` and `NT_GNU_PROPERTY_TYPE_0`, of the vendor "GNU".
const ABI_TAG: u32 = 1;
const PROPERTY: u32 = 5;
/// `GNU_PROPERTY_X86_ISA_1_NEEDED`.
const X86_ISA_1_NEEDED: u32 = 0xc000_8002;

/// Operating system and oldest kernel, if a note says so.
pub(super) fn abi_tag(notes: &[u8], endian: Endianness) -> Option<[u32; 4]> {
    let note = gnu_notes(notes, 4, endian).find(|(kind, _)| *kind == ABI_TAG)?.1;
    Some([
        word(note, 0, endian)?,
        word(note, 4, endian)?,
        word(note, 8, endian)?,
        word(note, 12, endian)?,
    ])
}

/// The bits of the x86-64 levels that must be there; 0 where nothing is said. As
/// `_dl_process_pt_gnu_property` (elf/dl-load.c), it looks at the first note only.
pub(super) fn isa_needed(notes: &[u8], class: ElfClass, endian: Endianness) -> u32 {
    let align = if class == ElfClass::Elf64 { 8 } else { 4 };
    let Some((_, note)) = gnu_notes(notes, align, endian).find(|(kind, _)| *kind == PROPERTY)
    else {
        return 0;
    };
    let mut rest = note;
    while let (Some(kind), Some(size)) = (word(rest, 0, endian), word(rest, 4, endian)) {
        if kind == X86_ISA_1_NEEDED {
            return word(rest, 8, endian).filter(|_| size == 4).unwrap_or(0);
        }
        let next =
            (size as usize).checked_next_multiple_of(align).and_then(|size| size.checked_add(8));
        match next.and_then(|next| rest.get(next..)) {
            Some(left) => rest = left,
            None => return 0,
        }
    }
    0
}

/// The notes of the vendor "GNU": kind and content.
fn gnu_notes(notes: &[u8], align: usize, endian: Endianness) -> impl Iterator<Item = (u32, &[u8])> {
    let mut rest = notes;
    std::iter::from_fn(move || {
        loop {
            let name = word(rest, 0, endian)? as usize;
            let size = word(rest, 4, endian)? as usize;
            let kind = word(rest, 8, endian)?;
            let start = name.checked_add(12)?.checked_next_multiple_of(align)?;
            let end = start.checked_add(size)?;
            let (owner, content) = (rest.get(12..)?.get(..name)?, rest.get(start..end)?);
            rest = rest.get(end.checked_next_multiple_of(align)?..).unwrap_or(&[]);
            if owner == b"GNU\0" {
                return Some((kind, content));
            }
        }
    })
}

fn word(bytes: &[u8], at: usize, endian: Endianness) -> Option<u32> {
    let bytes: [u8; 4] = bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
    Some(endian.read_u32(bytes))
}
