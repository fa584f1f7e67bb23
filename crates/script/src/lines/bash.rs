//! bash's line number and call stack, read from outside.
//!
//! `line_number` is a plain number. The call stack is three arrays, `FUNCNAME`, `BASH_SOURCE` and
//! `BASH_LINENO`, found by name in the hash table of global variables. The structures are those
//! of bash's variables.h, hashlib.h and array.h, 4.0 to 5.3. Nothing is trusted: a table is as
//! large as bash makes one, a key is the name that is looked for, a list leads back to its head
//! over links that agree in both directions. What does not fit is no answer.

use std::io;
use std::rc::Rc;

use watch::{ScriptFrame, Stopped};

use super::memory::{word, words};
use super::script_file::script_file;
use super::symbols::Addresses;

/// Frames that are read, and recorded, of a stack. A recursion is deeper than anybody reads.
const DEEPEST: usize = 16;

/// Buckets of a table, and entries of a bucket: bash has 1024 of the former (variables.c,
/// VARIABLES_HASH_BUCKETS), and grows a table that has more than two entries a bucket.
const MOST_BUCKETS: u32 = 1 << 20;
const MOST_ENTRIES: usize = 4096;

/// `att_array` of variables.h.
const IS_ARRAY: u32 = 0x4;

/// A bash that runs.
#[derive(Clone, Debug)]
pub(super) struct Bash {
    line_number: u64,
    global_variables: u64,
    /// Where it was started: what a script's relative name is relative to.
    cwd: Rc<[u8]>,
    stack: Option<BashStack>,
}

/// Where the three arrays are. They stay there while the shell runs, and are at the same place in
/// what it forks.
#[derive(Clone, Copy, Debug)]
struct BashStack {
    functions: Variable,
    sources: Variable,
    lines: Variable,
}

/// A `SHELL_VAR`, and the address of its name, by which it is known again.
#[derive(Clone, Copy, Debug)]
struct Variable {
    address: u64,
    name: u64,
}

impl Bash {
    pub fn new(addresses: Addresses, bias: u64, cwd: &[u8]) -> Bash {
        let [line_number, global_variables] = addresses.0.map(|address| address.wrapping_add(bias));
        Bash { line_number, global_variables, cwd: cwd.into(), stack: None }
    }

    /// Where the process is in its script, the innermost frame first.
    pub fn places(&mut self, process: &Stopped) -> Vec<ScriptFrame> {
        let Ok(line) = word(process, self.line_number) else { return Vec::new() };
        if self.stack.is_none() {
            self.stack = BashStack::find(process, self.global_variables).ok().flatten();
        }
        let frames = self.stack.and_then(|stack| stack.frames(process).ok().flatten());
        let frames = frames.unwrap_or_default();
        let mut at = line;
        let mut places = Vec::new();
        for (number, frame) in frames.iter().enumerate() {
            let outermost = number + 1 == frames.len();
            let is_function =
                frame.function != b"source" && !(outermost && frame.function == b"main");
            let function = if is_function { &frame.function[..] } else { b"" };
            places.push(ScriptFrame {
                file: script_file(process, &self.cwd, &frame.source, outermost),
                line: at,
                function: String::from_utf8_lossy(function).into_owned(),
            });
            at = frame.called_from;
        }
        if places.is_empty() {
            places.push(ScriptFrame { file: None, line, function: String::new() });
        }
        places
    }
}

/// A frame as bash's arrays have it.
struct BashFrame {
    function: Vec<u8>,
    /// The file that the function is in.
    source: Vec<u8>,
    /// The line, in the next frame's file, that called it.
    called_from: u32,
}

impl BashStack {
    fn find(process: &Stopped, global_variables: u64) -> io::Result<Option<BashStack>> {
        let context = process.pointer(global_variables)?;
        // VAR_CONTEXT: name, scope and flags, up, down, table.
        let table = process.pointer(context.wrapping_add(32))?;
        let find = |name: &[u8]| find(process, table, name);
        Ok(match (find(b"FUNCNAME")?, find(b"BASH_SOURCE")?, find(b"BASH_LINENO")?) {
            (Some(functions), Some(sources), Some(lines)) => {
                Some(BashStack { functions, sources, lines })
            }
            _ => None,
        })
    }

    fn frames(&self, process: &Stopped) -> io::Result<Option<Vec<BashFrame>>> {
        let Some(functions) = self.functions.elements(process)? else { return Ok(None) };
        let Some(sources) = self.sources.elements(process)? else { return Ok(None) };
        let Some(lines) = self.lines.elements(process)? else { return Ok(None) };
        let frames = functions.into_iter().zip(sources).zip(lines);
        let frame = |((function, source), line): ((Vec<u8>, Vec<u8>), Vec<u8>)| {
            let line = std::str::from_utf8(&line).ok().and_then(|line| line.parse().ok());
            BashFrame { function, source, called_from: line.unwrap_or(0) }
        };
        Ok(Some(frames.map(frame).collect()))
    }
}

/// Finds a variable in a `HASH_TABLE`.
fn find(process: &Stopped, table: u64, name: &[u8]) -> io::Result<Option<Variable>> {
    let [buckets, sizes] = words(process, table)?;
    let count = sizes as u32;
    if count == 0 || count > MOST_BUCKETS || !count.is_power_of_two() {
        return Ok(None);
    }
    // Which bucket is what hash_string of hashlib.c says, in bash 4 and 5: FNV-1.
    let hash = name
        .iter()
        .fold(2_166_136_261u32, |hash, byte| hash.wrapping_mul(16_777_619) ^ u32::from(*byte));
    let likely = hash & (count - 1);
    // Should the hash be another: all of them.
    for bucket in std::iter::once(likely).chain(0..count) {
        let mut entry = process.pointer(buckets.wrapping_add(8 * u64::from(bucket)))?;
        for _ in 0..MOST_ENTRIES {
            if entry == 0 {
                break;
            }
            // BUCKET_CONTENTS: next, key, data.
            let [next, key, data] = words(process, entry)?;
            if is_text(process, key, name)? {
                let own = process.pointer(data)?;
                return Ok(
                    is_text(process, own, name)?.then_some(Variable { address: data, name: own })
                );
            }
            entry = next;
        }
    }
    Ok(None)
}

impl Variable {
    /// The elements of an array variable; none if it is none any more (`unset FUNCNAME`).
    fn elements(&self, process: &Stopped) -> io::Result<Option<Vec<Vec<u8>>>> {
        // SHELL_VAR: name, value, exportstr, dynamic_value, assign_func, attributes and context.
        let [name, value, _, _, _, attributes] = words(process, self.address)?;
        if name != self.name || attributes as u32 & IS_ARRAY == 0 || value == 0 {
            return Ok(None);
        }
        // ARRAY: max_index, num_elements, head; up to bash 4.4 with a type before them.
        let [_, _, head, older] = words(process, value)?;
        for head in [head, older] {
            if let Ok(Some(elements)) = list(process, head) {
                return Ok(Some(elements));
            }
        }
        Ok(None)
    }
}

/// The first values of a ring of `ARRAY_ELEMENT`s: index, value, next, previous. Its head has the
/// index -1.
fn list(process: &Stopped, head: u64) -> io::Result<Option<Vec<Vec<u8>>>> {
    let [index, _, mut next, _] = words(process, head)?;
    if index as i64 != -1 {
        return Ok(None);
    }
    let (mut before, mut last) = (head, -1);
    let mut values = Vec::new();
    while next != head && values.len() < DEEPEST {
        let [index, value, after, previous] = words(process, next)?;
        if previous != before || index as i64 <= last {
            return Ok(None);
        }
        values.push(process.read_string(value)?);
        (before, last, next) = (next, index as i64, after);
    }
    Ok(Some(values))
}

fn is_text(process: &Stopped, address: u64, text: &[u8]) -> io::Result<bool> {
    // A key that ends where its page does is shorter than what is looked for.
    let mut found = [0; 16];
    let found = &mut found[..(text.len() + 1).min(16)];
    match process.read(address, found) {
        Ok(()) => Ok(found.strip_suffix(&[0]) == Some(text)),
        Err(error) if error.raw_os_error() == Some(libc::EFAULT) => Ok(false),
        Err(error) => Err(error),
    }
}
