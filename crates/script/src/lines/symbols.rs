//! Where a program keeps what it knows of its script: addresses of exported variables.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;

use object::read::elf::{ElfFile, FileHeader};
use object::read::{Object, ObjectSymbol, ReadCache, ReadRef};
use object::{Endianness, elf};

/// Addresses of two variables in a program's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Addresses(pub [u64; 2]);

/// A program whose variables can be read. Those are linked with `-rdynamic`, for what they load at
/// run time, so that their dynamic symbol tables have every global variable of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShellSymbols {
    /// bash: `int line_number` (execute_cmd.c), `VAR_CONTEXT *global_variables` (variables.c).
    Bash(Addresses),
    /// GNU make: `struct child *children` (job.c), `const floc *reading_file` (read.c).
    Make(Addresses),
    /// zsh: `zlong lineno`, `Funcstack funcstack`, `char *scriptfilename` (init.c, exec.c, utils.c).
    Zsh([u64; 3]),
    /// perl with threads: `PerlInterpreter *PL_curinterp` (perlvars.h).
    Perl(u64),
}

/// The symbols of programs, each file read once.
#[derive(Debug, Default)]
pub(super) struct KnownSymbols {
    of: HashMap<(u64, u64), Option<ShellSymbols>>,
}

impl KnownSymbols {
    /// The symbols of what a process runs; none if that exports none that are known.
    pub fn of(&mut self, pid: i32) -> Option<ShellSymbols> {
        let file = File::open(format!("/proc/{pid}/exe")).ok()?;
        let meta = file.metadata().ok()?;
        *self.of.entry((meta.dev(), meta.ino())).or_insert_with(|| read(file))
    }
}

fn read(file: File) -> Option<ShellSymbols> {
    let cache = ReadCache::new(file);
    // Programs of 32 bits are not looked into.
    exported::<elf::FileHeader64<Endianness>, _>(&cache)
}

fn exported<'data, H: FileHeader, R: ReadRef<'data>>(data: R) -> Option<ShellSymbols> {
    const NAMES: [(&[u8], u64); 8] = [
        (b"line_number", 4),
        (b"global_variables", 8),
        (b"children", 8),
        (b"reading_file", 8),
        (b"lineno", 8),
        (b"funcstack", 8),
        (b"scriptfilename", 8),
        (b"PL_curinterp", 8),
    ];
    let file = ElfFile::<H, R>::parse(data).ok()?;
    let mut found = [None; 8];
    for symbol in file.dynamic_symbols().filter(|symbol| !symbol.is_undefined()) {
        let name = symbol.name_bytes().unwrap_or_default();
        let known = NAMES.iter().position(|known| *known == (name, symbol.size()));
        if let Some(known) = known {
            found[known] = Some(symbol.address());
        }
    }
    match found {
        [Some(line), Some(variables), ..] => Some(ShellSymbols::Bash(Addresses([line, variables]))),
        [_, _, Some(children), Some(reading), ..] => {
            Some(ShellSymbols::Make(Addresses([children, reading])))
        }
        [.., Some(line), Some(calls), Some(script), _] => {
            Some(ShellSymbols::Zsh([line, calls, script]))
        }
        [.., Some(interpreter)] => Some(ShellSymbols::Perl(interpreter)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shells_make_and_perl_export_what_is_read_and_other_programs_do_not() {
        let symbols = |path| read(File::open(path).unwrap());
        assert!(matches!(symbols("/bin/bash"), Some(ShellSymbols::Bash(_))));
        assert!(matches!(symbols("/usr/bin/make"), Some(ShellSymbols::Make(_))));
        assert!(matches!(symbols("/usr/bin/zsh"), Some(ShellSymbols::Zsh(_))));
        assert!(matches!(symbols("/usr/bin/perl"), Some(ShellSymbols::Perl(_))));
        for other in ["/bin/dash", "/usr/bin/env", "/etc/passwd", "/dev/null"] {
            assert_eq!(symbols(other), None, "{other}");
        }
    }
}
