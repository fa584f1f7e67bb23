//! Perl's line, read from outside.
//!
//! `PL_curinterp` points to the interpreter of a perl with threads, as distributions build it. Its
//! `PL_curcop` is the statement that is executed: a `COP` of cop.h, with its line and its file's name, the
//! same in perl 5.14 to 5.40. Where the interpreter has it (intrpvar.h) differs between releases: it is
//! the first pointer there to something that names a file which exists. What does not fit is no answer.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;

use watch::{ScriptFrame, Stopped};

use super::memory::words;
use super::script_file::script_file;

/// How many words of an interpreter are looked at: `PL_curcop` is the 27th in 5.36.
const LOOKED_AT: usize = 64;

/// No file has more lines.
const MOST_LINES: u32 = 1 << 24;

/// A perl that runs.
#[derive(Clone, Debug)]
pub(super) struct Perl {
    interpreter: u64,
    /// Where the interpreter has `PL_curcop`, once that is known.
    curcop: Option<usize>,
    /// Where it was started: what a script's relative name is relative to.
    cwd: Rc<[u8]>,
}

impl Perl {
    pub fn new(address: u64, bias: u64, cwd: &[u8]) -> Perl {
        Perl { interpreter: address.wrapping_add(bias), curcop: None, cwd: cwd.into() }
    }

    /// The statement that the process executes, where it is one of a file. Of another thread than the first
    /// it is not known: each has an interpreter of its own.
    pub fn place(&mut self, process: &Stopped) -> Option<ScriptFrame> {
        if process.tid != process.pid {
            return None;
        }
        let interpreter = process.pointer(self.interpreter).ok()?;
        let words: [u64; LOOKED_AT] = words(process, interpreter).ok()?;
        if let Some(known) = self.curcop {
            return self.statement(process, words[known]).ok().flatten();
        }
        let found = words.iter().enumerate().find_map(|(at, address)| {
            let place = self.statement(process, *address).ok().flatten()?;
            Some((at, place))
        });
        let (at, place) = found?;
        self.curcop = Some(at);
        Some(place)
    }

    fn statement(&self, process: &Stopped, address: u64) -> io::Result<Option<ScriptFrame>> {
        // An OP of 36 bytes, the line in 4, the package, the file's name.
        let [_, _, _, _, kind_and_line, _, name] = words(process, address)?;
        let line = (kind_and_line >> 32) as u32;
        if line == 0 || line > MOST_LINES {
            return Ok(None);
        }
        let name = process.read_string(name)?;
        let file = script_file(process, &self.cwd, &name, true);
        // `-e`, standard input: the line is of a text that is in no file.
        let is_known = match &file {
            Some(file) => Path::new(OsStr::from_bytes(file)).is_file(),
            None => name == b"-e" || name == b"-",
        };
        Ok(is_known.then(|| ScriptFrame { file, line, function: String::new() }))
    }
}
