//! Builds an eBPF program, one instruction after the other, with labels to jump to.
//!
//! The encoding is the kernel's `struct bpf_insn` (include/uapi/linux/bpf.h; RFC 9669).

use std::os::fd::{AsRawFd, BorrowedFd};

/// A register: `R0` holds a result, `R1` to `R5` a helper's arguments (lost by its call), `R6`
/// to `R9` what is kept, `R10` the end of the 512 bytes of stack.
#[derive(Clone, Copy)]
pub(crate) struct Register(u8);

pub(crate) const R0: Register = Register(0);
pub(crate) const R1: Register = Register(1);
pub(crate) const R2: Register = Register(2);
pub(crate) const R3: Register = Register(3);
pub(crate) const R4: Register = Register(4);
pub(crate) const R6: Register = Register(6);
pub(crate) const R7: Register = Register(7);
pub(crate) const R8: Register = Register(8);
pub(crate) const R9: Register = Register(9);
/// The end of the stack.
pub(crate) const STACK: Register = Register(10);

/// How much a load or store moves.
#[derive(Clone, Copy)]
pub(crate) enum MemoryWidth {
    /// 4 bytes.
    Word = 0x00,
    /// 8 bytes.
    Double = 0x18,
}

/// When a conditional jump jumps; numbers compare unsigned.
#[derive(Clone, Copy)]
pub(crate) enum If {
    /// Equal.
    Is = 0x15,
    /// Not equal.
    IsNot = 0x55,
    /// Greater.
    Above = 0x25,
    /// Less.
    Below = 0xa5,
    /// Any of the bits is set.
    Has = 0x45,
}

/// The kernel's functions that a program may call (`enum bpf_func_id`).
#[derive(Clone, Copy)]
pub(crate) enum Helper {
    MapLookup = 1,
    MapUpdate = 2,
    MapDelete = 3,
    KtimeGetNs = 5,
    GetCurrentPidTgid = 14,
    GetCurrentTask = 35,
    ProbeReadKernel = 113,
    ProbeReadUserString = 114,
    SendSignalThread = 117,
    GetNsCurrentPidTgid = 120,
    RingOutput = 130,
    RingQuery = 134,
}

/// One instruction, as the kernel reads it.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Instruction {
    code: u8,
    /// The destination in the low half, the source in the high half.
    registers: u8,
    offset: i16,
    immediate: i32,
}

impl Instruction {
    /// The smallest program: `r0 = 0; exit`.
    pub(crate) const RETURN_ZERO: [Instruction; 2] = [
        Instruction { code: 0xb7, registers: 0, offset: 0, immediate: 0 },
        Instruction { code: 0x95, registers: 0, offset: 0, immediate: 0 },
    ];
}

/// A place in the program to jump to.
#[derive(Clone, Copy)]
pub(crate) struct Label(usize);

/// A program being built.
#[derive(Default)]
pub(crate) struct Assembler {
    code: Vec<Instruction>,
    /// Where each label is.
    places: Vec<usize>,
    /// Which instructions jump to which label.
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    /// A label, to be placed later. One that never is points at the program's start, and the
    /// kernel refuses such a loop.
    pub(crate) fn label(&mut self) -> Label {
        self.places.push(0);
        Label(self.places.len() - 1)
    }

    /// The label is here.
    pub(crate) fn place(&mut self, label: Label) {
        self.places[label.0] = self.code.len();
    }

    pub(crate) fn set(&mut self, to: Register, value: i32) {
        self.push(0xb7, to, R0, 0, value);
    }

    pub(crate) fn copy(&mut self, to: Register, from: Register) {
        self.push(0xbf, to, from, 0, 0);
    }

    pub(crate) fn add(&mut self, to: Register, value: i32) {
        self.push(0x07, to, R0, 0, value);
    }

    pub(crate) fn add_register(&mut self, to: Register, from: Register) {
        self.push(0x0f, to, from, 0, 0);
    }

    pub(crate) fn and(&mut self, to: Register, value: i32) {
        self.push(0x57, to, R0, 0, value);
    }

    pub(crate) fn shift_left(&mut self, to: Register, bits: i32) {
        self.push(0x67, to, R0, 0, bits);
    }

    pub(crate) fn shift_right(&mut self, to: Register, bits: i32) {
        self.push(0x77, to, R0, 0, bits);
    }

    /// `to = *(from + offset)`
    pub(crate) fn load(&mut self, width: MemoryWidth, to: Register, from: Register, offset: i16) {
        self.push(0x61 | width as u8, to, from, offset, 0);
    }

    /// `*(to + offset) = from`
    pub(crate) fn store(&mut self, width: MemoryWidth, to: Register, offset: i16, from: Register) {
        self.push(0x63 | width as u8, to, from, offset, 0);
    }

    /// `*(to + offset) = value`
    pub(crate) fn store_value(
        &mut self,
        width: MemoryWidth,
        to: Register,
        offset: i16,
        value: i32,
    ) {
        self.push(0x62 | width as u8, to, R0, offset, value);
    }

    /// `*(to + offset) += from`, 8 bytes, atomically.
    pub(crate) fn add_atomically(&mut self, to: Register, offset: i16, from: Register) {
        self.push(0xdb, to, from, offset, 0);
    }

    /// `to = value`
    pub(crate) fn set_long(&mut self, to: Register, value: u64) {
        self.push_long(to, 0, value as u32 as i32, (value >> 32) as u32 as i32);
    }

    /// The map, as a helper wants it.
    pub(crate) fn set_map(&mut self, to: Register, map: BorrowedFd) {
        self.push_long(to, 1, map.as_raw_fd(), 0);
    }

    /// The address of the byte `offset` in the only element of an array map.
    pub(crate) fn set_map_value(&mut self, to: Register, map: BorrowedFd, offset: usize) {
        self.push_long(to, 2, map.as_raw_fd(), offset as i32);
    }

    pub(crate) fn jump(&mut self, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.push(0x05, R0, R0, 0, 0);
    }

    pub(crate) fn jump_if(&mut self, register: Register, when: If, value: i32, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.push(when as u8, register, R0, 0, value);
    }

    pub(crate) fn call(&mut self, helper: Helper) {
        self.push(0x85, R0, R0, 0, helper as i32);
    }

    /// Ends with the status 0.
    pub(crate) fn exit(&mut self) {
        self.set(R0, 0);
        self.push(0x95, R0, R0, 0, 0);
    }

    /// The program, its jumps resolved.
    pub(crate) fn finish(mut self) -> Vec<Instruction> {
        for (at, label) in self.jumps {
            let distance = self.places[label.0] as i64 - (at as i64 + 1);
            self.code[at].offset = distance as i16;
        }
        self.code
    }

    fn push(&mut self, code: u8, to: Register, from: Register, offset: i16, immediate: i32) {
        self.code.push(Instruction { code, registers: from.0 << 4 | to.0, offset, immediate });
    }

    /// The one instruction of twice the length: 64 bits at once, or what `kind` makes of them.
    fn push_long(&mut self, to: Register, kind: u8, low: i32, high: i32) {
        self.push(0x18, to, Register(kind), 0, low);
        self.push(0, R0, R0, 0, high);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(code: &[Instruction]) -> Vec<(u8, u8, i16, i32)> {
        code.iter().map(|i| (i.code, i.registers, i.offset, i.immediate)).collect()
    }

    #[test]
    fn jump_skips_exactly_the_instructions_up_to_its_label() {
        let mut program = Assembler::default();
        let end = program.label();
        program.jump_if(R6, If::Is, 7, end);
        program.set_long(R1, 0x1_0000_0002);
        program.place(end);
        program.exit();
        assert_eq!(
            bytes(&program.finish()),
            [
                (0x15, 0x06, 2, 7),
                (0x18, 0x01, 0, 2),
                (0, 0, 0, 1),
                (0xb7, 0, 0, 0),
                (0x95, 0, 0, 0)
            ]
        );
    }

    #[test]
    fn load_and_store_name_destination_low_and_source_high() {
        let mut program = Assembler::default();
        program.load(MemoryWidth::Double, R1, R6, 8);
        program.store(MemoryWidth::Word, STACK, -4, R2);
        program.load(MemoryWidth::Word, R1, R1, 0);
        let expected = [(0x79, 0x61, 8, 0), (0x63, 0x2a, -4, 0), (0x61, 0x11, 0, 0)];
        assert_eq!(bytes(&program.finish()), expected);
    }
}
