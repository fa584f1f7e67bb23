//! x86-64.

use std::arch::global_asm;
use std::mem::offset_of;

pub(crate) mod machine;
pub(crate) mod table;

use table::StubTable;

/// `e_machine` of elf(5).
pub(crate) const MACHINE: u16 = 62;

// The two lists of offsets are the only thing that the code knows of the table.
global_asm!(
    include_str!("stub/check.s"),
    include_str!("stub/go_on.s"),
    include_str!("stub/fall_back.s"),
    resume = const offset_of!(StubTable, resume),
    entry = const offset_of!(StubTable, entry),
    base = const offset_of!(StubTable, base),
    thread = const offset_of!(StubTable, thread),
    tid_address = const offset_of!(StubTable, tid_address),
    robust_list = const offset_of!(StubTable, robust_list),
    rseq = const offset_of!(StubTable, rseq),
    rseq_length = const offset_of!(StubTable, rseq_length),
    rseq_signature = const offset_of!(StubTable, rseq_signature),
    has_random_key = const offset_of!(StubTable, has_random_key),
    stack_limit = const offset_of!(StubTable, stack_limit),
    fixed_layout = const offset_of!(StubTable, fixed_layout),
    kernel = const offset_of!(StubTable, kernel),
    vdso = const offset_of!(StubTable, vdso),
    vdso_below = const offset_of!(StubTable, vdso_below),
    xcr0 = const offset_of!(StubTable, xcr0),
    cpuid = const offset_of!(StubTable, cpuid),
    cpuid_count = const offset_of!(StubTable, cpuid) + 8,
    auxv = const offset_of!(StubTable, auxv),
    auxv_count = const offset_of!(StubTable, auxv) + 8,
    auxv_compared = const offset_of!(StubTable, auxv_compared),
    program = const offset_of!(StubTable, program),
    copy = const offset_of!(StubTable, copy),
    files = const offset_of!(StubTable, files),
    files_count = const offset_of!(StubTable, files) + 8,
    maps = const offset_of!(StubTable, maps),
    maps_count = const offset_of!(StubTable, maps) + 8,
    copies = const offset_of!(StubTable, copies),
    copies_count = const offset_of!(StubTable, copies) + 8,
    patches = const offset_of!(StubTable, patches),
    patches_count = const offset_of!(StubTable, patches) + 8,
    protects = const offset_of!(StubTable, protects),
    protects_count = const offset_of!(StubTable, protects) + 8,
    program_path = const offset_of!(StubTable, program_path),
    program_headers = const offset_of!(StubTable, program_headers),
    program_header_count = const offset_of!(StubTable, program_header_count),
    name = const offset_of!(StubTable, name),
    loader_path = const offset_of!(StubTable, loader_path),
    objects = const offset_of!(StubTable, objects),
    objects_length = const offset_of!(StubTable, objects_length),
    options(att_syntax)
);

unsafe extern "C" {
    static becalm_pack_stub: u8;
    static becalm_pack_stub_end: u8;
}

/// The code that a pack begins with, for a table at this address; it is entered at its ninth byte.
pub(crate) fn stub(table: u64) -> Vec<u8> {
    let (start, end) = (&raw const becalm_pack_stub, &raw const becalm_pack_stub_end);
    // SAFETY: the two symbols are the ends of one block of read-only code.
    let code = unsafe { std::slice::from_raw_parts(start, end.addr() - start.addr()) };
    let mut code = code.to_vec();
    code[..8].copy_from_slice(&table.to_le_bytes());
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_begins_with_its_tables_address_and_ends_with_its_texts() {
        let code = stub(0x1234_5678_9abc);
        assert_eq!(code[..8], 0x1234_5678_9abc_u64.to_le_bytes());
        assert_eq!(code[8..11], [0x49, 0x89, 0xe6], "mov %rsp,%r14");
        assert!(code.ends_with(b"changed since it was made: \0"));
    }
}
