//! System calls by name: which of strace's classes a call is in, and what it asks of a
//! filesystem.

mod class;
mod i386;
mod kind;
mod shared;
mod x86_64;

pub use class::Class;
pub use kind::Kind;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// The table that a call's number is looked up in.
///
/// A 64-bit program reaches the 32-bit table by `int 0x80`, so the table is a property of the
/// call, not of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Abi {
    /// The machine's own: x86-64's `syscall`.
    Native,
    /// 32-bit x86: `int 0x80` and `sysenter`.
    I386,
    /// x32: the native numbers with bit 30 set.
    X32,
}

/// One system call of one table. Small enough to be in every event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Call(u16);

const NUMBER_BITS: u16 = 14;

impl Call {
    /// The call `number` of `abi`. Numbers that no kernel has fold into one, `call_16383`.
    pub fn new(abi: Abi, number: u64) -> Call {
        let limit = (1u64 << NUMBER_BITS) - 1;
        Call(number.min(limit) as u16 | (abi as u16) << NUMBER_BITS)
    }

    /// The call's number in its table.
    pub fn number(self) -> u16 {
        self.0 & ((1 << NUMBER_BITS) - 1)
    }

    /// The call's table.
    pub fn abi(self) -> Abi {
        match self.0 >> NUMBER_BITS {
            0 => Abi::Native,
            1 => Abi::I386,
            _ => Abi::X32,
        }
    }

    /// The native call of that name, if this table has it.
    pub fn named(name: &str) -> Option<Call> {
        Call::all(Abi::Native).find(|call| call.known_name() == Some(name))
    }

    /// All calls that `abi`'s table names.
    pub fn all(abi: Abi) -> impl Iterator<Item = Call> {
        let names = table(abi).iter().chain(shared::NAMES);
        names.map(move |(number, _)| Call::new(abi, u64::from(*number)))
    }

    /// The name, as strace prints it; `None` where this table does not know the number.
    pub fn known_name(self) -> Option<&'static str> {
        let shared = self.number() >= shared::FIRST;
        let names = if shared { shared::NAMES } else { table(self.abi()) };
        let at = names.binary_search_by_key(&self.number(), |(number, _)| *number).ok()?;
        Some(names[at].1)
    }

    /// The name, or `syscall_0x…` where the number is unknown (strace's spelling).
    pub fn name(self) -> String {
        self.label().into_owned()
    }

    /// The same, without a copy where the name is known.
    pub fn label(self) -> Cow<'static, str> {
        match self.known_name() {
            Some(name) => name.into(),
            None => format!("syscall_{:#x}", self.number()).into(),
        }
    }

    /// Which of strace's classes the call is in.
    pub fn class(self) -> Class {
        self.known_name().map_or(Class::default(), Class::of)
    }

    /// What the call asks of a filesystem.
    pub fn kind(self) -> Kind {
        self.known_name().map_or(Kind::Other, Kind::of)
    }
}

fn table(abi: Abi) -> &'static [(u16, &'static str)] {
    match abi {
        Abi::Native | Abi::X32 => x86_64::NAMES,
        Abi::I386 => i386::NAMES,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_keeps_its_table_and_number() {
        for abi in [Abi::Native, Abi::I386, Abi::X32] {
            let call = Call::new(abi, 257);
            assert_eq!((call.abi(), call.number()), (abi, 257));
        }
        assert_eq!(Call::new(Abi::Native, 257).name(), "openat");
        assert_eq!(Call::new(Abi::I386, 295).name(), "openat");
    }

    #[test]
    fn tables_ascend_so_that_a_binary_search_finds_every_call() {
        for names in [x86_64::NAMES, i386::NAMES, shared::NAMES] {
            assert!(names.windows(2).all(|pair| pair[0].0 < pair[1].0));
        }
    }

    #[test]
    fn an_unknown_number_has_a_name_and_no_class() {
        let call = Call::new(Abi::Native, u64::MAX);
        assert_eq!(call.name(), "syscall_0x3fff");
        assert_eq!(call.class(), Class::default());
    }
}
