//! System calls by name: which of strace's classes a call is in, and what it asks of a
//! filesystem. Names and numbers are those of the crate `syscalls`, for every processor that a
//! recording can come from, whichever this one is.

mod class;
mod kind;

pub use class::Class;
pub use kind::Kind;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use syscalls::{aarch64, arm, x86, x86_64};

/// The table that a call's number is looked up in.
///
/// A 64-bit program reaches the 32-bit table by `int 0x80`, so the table is a property of the
/// call, not of the process; and it is said with each call, so that a recording reads alike on
/// every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Abi {
    /// x86-64's `syscall`.
    X86_64,
    /// 32-bit x86: `int 0x80` and `sysenter`.
    I386,
    /// x32: x86-64's numbers with bit 30 set.
    X32,
    /// 64-bit Arm.
    Aarch64,
    /// 32-bit Arm, whose programs some 64-bit processors run.
    Arm,
}

/// One system call of one table. Small enough to be in every event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Call(u16);

const NUMBER_BITS: u16 = 14;

/// Of 64-bit Arm's numbers, which end far below, those from here on are 32-bit Arm's.
const ARM_FROM: u16 = 1 << 13;

impl Call {
    /// The call `number` of `abi`. Numbers that no kernel has fold into one, `call_16383`.
    pub fn new(abi: Abi, number: u64) -> Call {
        let (table, from, limit) = match abi {
            Abi::Arm => (Abi::Aarch64, ARM_FROM, ARM_FROM - 1),
            Abi::Aarch64 => (abi, 0, ARM_FROM - 1),
            _ => (abi, 0, (1 << NUMBER_BITS) - 1),
        };
        Call(number.min(limit.into()) as u16 | from | (table as u16) << NUMBER_BITS)
    }

    /// The call's number in its table.
    pub fn number(self) -> u16 {
        let number = self.0 & ((1 << NUMBER_BITS) - 1);
        if self.abi() == Abi::Arm { number & !ARM_FROM } else { number }
    }

    /// The call's table.
    pub fn abi(self) -> Abi {
        match self.0 >> NUMBER_BITS {
            0 => Abi::X86_64,
            1 => Abi::I386,
            2 => Abi::X32,
            _ if self.0 & ARM_FROM != 0 => Abi::Arm,
            _ => Abi::Aarch64,
        }
    }

    /// x86-64's call of that name, if its table has it.
    pub fn named(name: &str) -> Option<Call> {
        let id = name.parse::<x86_64::Sysno>().ok()?.id();
        Some(Call::new(Abi::X86_64, id.unsigned_abs().into()))
    }

    /// All calls that `abi`'s table names, by number.
    pub fn all(abi: Abi) -> impl Iterator<Item = Call> {
        let last = match abi {
            Abi::X86_64 | Abi::X32 => x86_64::Sysno::last().id(),
            Abi::I386 => x86::Sysno::last().id(),
            Abi::Aarch64 => aarch64::Sysno::last().id(),
            Abi::Arm => arm::Sysno::last().id(),
        };
        let calls = (0..=last.unsigned_abs()).map(move |number| Call::new(abi, number.into()));
        calls.filter(|call| call.known_name().is_some())
    }

    /// The name, as strace prints it; `None` where this table does not know the number.
    pub fn known_name(self) -> Option<&'static str> {
        let number = usize::from(self.number());
        match self.abi() {
            Abi::X86_64 | Abi::X32 => x86_64::Sysno::new(number).map(|call| call.name()),
            Abi::I386 => x86::Sysno::new(number).map(|call| call.name()),
            Abi::Aarch64 => aarch64::Sysno::new(number).map(|call| match call {
                // The kernel's own name for it, and strace's.
                aarch64::Sysno::fstatat => "newfstatat",
                call => call.name(),
            }),
            Abi::Arm => arm::Sysno::new(number).map(|call| call.name()),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    const ABIS: [Abi; 5] = [Abi::X86_64, Abi::I386, Abi::X32, Abi::Aarch64, Abi::Arm];

    #[test]
    fn a_call_keeps_its_table_and_number_and_is_named_by_that_table_on_every_machine() {
        for abi in ABIS {
            let call = Call::new(abi, 257);
            assert_eq!((call.abi(), call.number()), (abi, 257));
        }
        assert_eq!(Call::new(Abi::X86_64, 257).name(), "openat");
        assert_eq!(Call::new(Abi::I386, 295).name(), "openat");
        let openat = Call::new(Abi::Aarch64, 56);
        assert_eq!((openat.name().as_str(), openat.kind()), ("openat", Kind::Open));
        assert_eq!(Call::new(Abi::Aarch64, 79).kind(), Kind::Stat);
        assert_eq!(Call::new(Abi::Aarch64, 2).name(), "io_submit", "open elsewhere");
        assert_eq!(Call::new(Abi::Arm, 2).name(), "fork");
        assert_eq!(Call::new(Abi::Arm, 327).kind(), Kind::Stat);
    }

    #[test]
    fn a_table_gives_each_of_its_calls_once_up_to_the_last() {
        for abi in ABIS {
            let calls: Vec<Call> = Call::all(abi).collect();
            assert!(calls.windows(2).all(|pair| pair[0].number() < pair[1].number()), "{abi:?}");
            assert_eq!(calls.last().unwrap().name(), "file_setattr", "{abi:?}");
            assert!(calls.len() > 300, "{abi:?}");
        }
        let all = |call: &&str| ABIS.iter().any(|abi| named_in(*abi, call));
        assert!(class::ALL.iter().flat_map(|class| class.iter()).all(all));
    }

    fn named_in(abi: Abi, name: &str) -> bool {
        Call::all(abi).any(|call| call.known_name() == Some(name))
    }

    #[test]
    fn an_unknown_number_has_a_name_and_no_class() {
        let call = Call::new(Abi::X86_64, u64::MAX);
        assert_eq!(call.name(), "syscall_0x3fff");
        assert_eq!(call.class(), Class::default());
    }
}
