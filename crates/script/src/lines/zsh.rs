//! zsh's line and call stack, read from outside.
//!
//! `lineno` counts from the begin of the function, the sourced file or the script that is executed.
//! `funcstack` is the list of those, the innermost first, each with where it was called: what
//! `$funcfiletrace` is made of (zsh's Src/Modules/parameter.c). The structure is that of zsh.h, 4.3.11
//! to 5.9. What does not fit is no answer.

use std::io;
use std::rc::Rc;

use watch::{ScriptFrame, Stopped};

use super::memory::words;
use super::script_file::script_file;

/// Frames that are read, and recorded, of a stack.
const DEEPEST: usize = 16;

/// No file has more lines.
const MOST_LINES: u64 = 1 << 24;

/// A zsh that runs.
#[derive(Clone, Debug)]
pub(super) struct Zsh {
    lineno: u64,
    funcstack: u64,
    scriptfilename: u64,
    /// Where it was started: what a script's relative name is relative to.
    cwd: Rc<[u8]>,
}

/// An entry of `funcstack`.
struct ZshCall {
    name: u64,
    filename: u64,
    /// Who called it, by name.
    caller: u64,
    /// The line at which it begins in its file.
    begins: u64,
    /// The line of its caller that called it, from that one's begin.
    called_at: u64,
    kind: CallKind,
}

/// What is called: `FS_SOURCE`, `FS_FUNC` and `FS_EVAL` of zsh.h.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CallKind {
    Source,
    Function,
    Eval,
}

impl Zsh {
    pub fn new(addresses: [u64; 3], bias: u64, cwd: &[u8]) -> Zsh {
        let [lineno, funcstack, scriptfilename] =
            addresses.map(|address| address.wrapping_add(bias));
        Zsh { lineno, funcstack, scriptfilename, cwd: cwd.into() }
    }

    /// Where the process is in its script, the innermost frame first.
    pub fn places(&self, process: &Stopped) -> Vec<ScriptFrame> {
        self.frames(process).unwrap_or_default()
    }

    fn frames(&self, process: &Stopped) -> io::Result<Vec<ScriptFrame>> {
        let calls = self.calls(process)?;
        let mut frames = Vec::new();
        let mut line = process.pointer(self.lineno)?;
        if line > MOST_LINES {
            return Err(io::ErrorKind::InvalidData.into());
        }
        for call in &calls {
            let named = if call.filename == 0 { call.name } else { call.filename };
            let file =
                script_file(process, &self.cwd, &unmetafied(process.read_string(named)?), false);
            let (in_file, function) = match call.kind {
                CallKind::Source => (line, Vec::new()),
                CallKind::Function => (call.begins + line, process.read_string(call.name)?),
                // Its first line is the one that it is on.
                CallKind::Eval => ((call.begins + line).saturating_sub(1), Vec::new()),
            };
            frames.extend(frame(file, in_file, &unmetafied(function)));
            line = call.called_at;
        }
        let script = match calls.last() {
            Some(first) => first.caller,
            None => process.pointer(self.scriptfilename)?,
        };
        let script = if script == 0 { Vec::new() } else { process.read_string(script)? };
        let file = script_file(process, &self.cwd, &unmetafied(script), true);
        frames.extend(frame(file, line, b""));
        Ok(frames)
    }

    fn calls(&self, process: &Stopped) -> io::Result<Vec<ZshCall>> {
        let mut calls = Vec::new();
        let mut at = process.pointer(self.funcstack)?;
        while at != 0 && calls.len() < DEEPEST {
            // prev, name, filename, caller, flineno, lineno, tp.
            let [prev, name, filename, caller, begins, called_at, kind] = words(process, at)?;
            let kind = match kind as u32 {
                0 => CallKind::Source,
                1 => CallKind::Function,
                2 => CallKind::Eval,
                _ => return Err(io::ErrorKind::InvalidData.into()),
            };
            if begins > MOST_LINES || called_at > MOST_LINES {
                return Err(io::ErrorKind::InvalidData.into());
            }
            calls.push(ZshCall { name, filename, caller, begins, called_at, kind });
            at = prev;
        }
        Ok(calls)
    }
}

fn frame(file: Option<Vec<u8>>, line: u64, function: &[u8]) -> Option<ScriptFrame> {
    let line = u32::try_from(line).ok().filter(|line| *line > 0)?;
    Some(ScriptFrame { file, line, function: String::from_utf8_lossy(function).into_owned() })
}

/// zsh keeps some bytes of its texts as two: 0x83, and the byte with its sixth bit turned.
fn unmetafied(text: Vec<u8>) -> Vec<u8> {
    const META: u8 = 0x83;
    let mut bytes = text.into_iter();
    let mut plain = Vec::new();
    while let Some(byte) = bytes.next() {
        plain.push(if byte == META { bytes.next().unwrap_or_default() ^ 32 } else { byte });
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_as_it_is_on_disk() {
        assert_eq!(unmetafied(b"b\xc3\x83\x83.zsh".to_vec()), b"b\xc3\xa3.zsh");
        assert_eq!(unmetafied(b"plain".to_vec()), b"plain");
    }
}
