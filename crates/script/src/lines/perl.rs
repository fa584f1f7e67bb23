//! Perl's line and call stack, read from outside.
//!
//! `PL_curinterp` points to the interpreter of a perl with threads, as distributions build it; each other
//! thread has one of its own, as thread-specific data. Its `PL_curcop` is the statement that is executed: a
//! `COP` of cop.h, with its line and its file's name, the same in perl 5.14 to 5.40. Where the interpreter
//! has it (intrpvar.h) differs between releases: it is the first pointer there to something that names a
//! file which exists. Behind it are `PL_curstack` and `PL_curstackinfo`, whose contexts say which statement
//! entered each block, `eval` and function (from perl 5.24). What does not fit is no answer.

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

/// Where an interpreter has `PL_op`, what it executes of the statement.
const OPERATION: usize = 1;

/// Operations of a statement that are looked at, and how deep in it.
const MOST_OPERATIONS: usize = 2000;
const DEEPEST_OPERATION: usize = 100;

/// No file has more lines.
const MOST_LINES: u32 = 1 << 24;

/// Words of a thread's own structure (glibc's `struct pthread`) that may have its first 32 thread-specific
/// values, each behind a number that is odd while it is used.
const OF_A_THREAD: usize = 224;

/// Frames that are recorded of a stack, and contexts that are read of it.
const DEEPEST: usize = 16;
const MOST_CONTEXTS: u64 = 512;

/// What a context may be (`CXt_…`), and two of them.
const CONTEXTS: std::ops::RangeInclusive<u8> = 1..=13;
const FUNCTION: u8 = 9;
const SUBSTITUTION: u8 = 12;

/// Sizes that a `PERL_CONTEXT` has had.
const CONTEXT_SIZES: [u64; 4] = [104, 96, 88, 112];

/// A perl that runs.
#[derive(Clone, Debug)]
pub(super) struct Perl {
    /// Where `PL_curinterp` is.
    current: u64,
    /// The interpreter of the first thread, where another one forked.
    own: Option<u64>,
    /// Where an interpreter has `PL_curcop`, and how large a context is, once that is known.
    curcop: Option<usize>,
    context: Option<u64>,
    /// Where it was started: what a script's relative name is relative to.
    cwd: Rc<[u8]>,
}

/// A statement: its line, and the name of its file.
type Statement = (u32, Vec<u8>);

/// A context: what it is, and the statement that entered it.
struct Context {
    kind: u8,
    from: u64,
}

impl Perl {
    pub fn new(address: u64, bias: u64, cwd: &[u8]) -> Perl {
        let current = address.wrapping_add(bias);
        Perl { current, own: None, curcop: None, context: None, cwd: cwd.into() }
    }

    /// Where a thread is in its script, the innermost frame first: of a text that `eval` compiled, the
    /// statement of a file that led there.
    pub fn places(&mut self, process: &Stopped) -> Vec<ScriptFrame> {
        self.frames(process).ok().flatten().unwrap_or_default()
    }

    /// The perl of a process that a thread of this one forked.
    pub fn forked_by(&self, parent: &Stopped) -> Perl {
        let own = self.interpreter(parent).ok().flatten();
        Perl { own: own.or(self.own), ..self.clone() }
    }

    fn frames(&mut self, process: &Stopped) -> io::Result<Option<Vec<ScriptFrame>>> {
        if self.curcop.is_none() {
            self.curcop = self.find_curcop(process)?;
        }
        let (Some(curcop), Some(interpreter)) = (self.curcop, self.interpreter(process)?) else {
            return Ok(None);
        };
        let words: [u64; LOOKED_AT] = words(process, interpreter)?;
        let contexts = match is_stack(process, words[curcop + 1], words[curcop + 2])? {
            true => self.contexts(process, words[curcop + 2])?,
            false => Vec::new(),
        };
        let statement = closest(process, words[curcop], words[OPERATION]);
        let mut frames: Vec<_> = self.frame(process, statement)?.into_iter().collect();
        for context in contexts {
            if (frames.is_empty() || context.kind == FUNCTION) && frames.len() < DEEPEST {
                frames.extend(self.frame(process, context.from)?);
            }
        }
        Ok(Some(frames))
    }

    fn find_curcop(&self, process: &Stopped) -> io::Result<Option<usize>> {
        let words: [u64; LOOKED_AT] = words(process, process.pointer(self.current)?)?;
        let is_named = |address: u64| {
            let Ok(Some((_, name))) = statement(process, address) else { return false };
            let file = script_file(process, &self.cwd, &name, true);
            is_text(&name) || file.is_some_and(|file| Path::new(OsStr::from_bytes(&file)).is_file())
        };
        Ok((0..LOOKED_AT - 2).find(|at| is_named(words[*at])))
    }

    /// The interpreter of a thread, where it can be had.
    fn interpreter(&self, process: &Stopped) -> io::Result<Option<u64>> {
        if process.tid == process.pid {
            return self.own.map_or_else(|| process.pointer(self.current), Ok).map(Some);
        }
        let (Some(curcop), Some(thread)) = (self.curcop, process.thread_pointer()) else {
            return Ok(None);
        };
        let of_thread: [u64; OF_A_THREAD] = words(process, thread)?;
        let is_interpreter = |address: u64| {
            let words: [u64; LOOKED_AT] = words(process, address).ok()?;
            statement(process, words[curcop]).ok()??;
            is_stack(process, words[curcop + 1], words[curcop + 2]).ok()?.then_some(address)
        };
        let used = of_thread.windows(2).filter(|pair| pair[0] % 2 == 1 && pair[0] >> 32 == 0);
        Ok(used.filter_map(|pair| is_interpreter(pair[1])).next())
    }

    /// A statement's place, where it is none of a text that `eval` compiled.
    fn frame(&self, process: &Stopped, address: u64) -> io::Result<Option<ScriptFrame>> {
        let Some((line, name)) = statement(process, address)? else { return Ok(None) };
        if name.starts_with(b"(eval ") {
            return Ok(None);
        }
        // A file of `#line` may be a generator's, and not be there.
        let file = (!is_text(&name)).then(|| {
            let there = script_file(process, &self.cwd, &name, true);
            there.unwrap_or_else(|| [&self.cwd, &b"/"[..], &name].concat())
        });
        Ok(Some(ScriptFrame { file, line, function: String::new() }))
    }

    /// The contexts of all stacks, the innermost first.
    fn contexts(&mut self, process: &Stopped, mut stack: u64) -> io::Result<Vec<Context>> {
        let mut all = Vec::new();
        while stack != 0 && (all.len() as u64) < MOST_CONTEXTS {
            // PERL_SI: stack, contexts, previous, next, number of the last context.
            let [_, contexts, previous, _, last] = words(process, stack)?;
            // The first one, 0, is of the program, which nothing entered; -1: there is none.
            if let Some(last) = u64::try_from(last as i32).ok().filter(|last| *last > 0) {
                let read = |size| contexts_of(process, contexts, size, last);
                let known = self.context.map_or_else(|| CONTEXT_SIZES.to_vec(), |size| vec![size]);
                let found = known.into_iter().find_map(|size| Some((size, read(size)?)));
                let Some((size, found)) = found else { return Ok(all) };
                self.context = Some(size);
                all.extend(found);
            }
            stack = previous;
        }
        Ok(all)
    }
}

/// `-e`, standard input, an `eval`: texts that are in no file.
fn is_text(name: &[u8]) -> bool {
    name == b"-e" || name == b"-" || name.starts_with(b"(eval ")
}

fn statement(process: &Stopped, address: u64) -> io::Result<Option<Statement>> {
    // An OP of 36 bytes, the line in 4, the package, the file's name.
    let [_, _, _, _, kind_and_line, _, name] = words(process, address)?;
    let line = (kind_and_line >> 32) as u32;
    if line == 0 || line > MOST_LINES {
        return Ok(None);
    }
    Ok(Some((line, process.read_string(name)?)))
}

/// The statement that Perl's own messages name. The first one of a block is none to the interpreter: it is
/// left in the tree of the statement that has the block, as an operation that does nothing (`S_closest_cop` of
/// util.c).
fn closest(process: &Stopped, statement: u64, wanted: u64) -> u64 {
    let Ok(own) = Operation::at(process, statement) else { return statement };
    let mut search = StatementSearch { process, kind: own.kind, wanted, left: MOST_OPERATIONS };
    let found = own.sibling.and_then(|first| search.below(first, statement, 0));
    found.unwrap_or(statement)
}

/// An `OP` of op.h, from perl 5.26.
struct Operation {
    kind: u64,
    /// What it was before it was taken out.
    was: u64,
    sibling: Option<u64>,
    first: Option<u64>,
}

impl Operation {
    fn at(process: &Stopped, address: u64) -> io::Result<Operation> {
        // next, sibling or parent, what executes it, target; kind in 9 bits, whether it has a sibling in the
        // 15th, flags from the 17th, of which the third says that it has something below it.
        let [_, beside, _, was, bits, below] = words(process, address)?;
        let sibling = (bits >> 14 & 1 == 1).then_some(beside);
        Ok(Operation {
            kind: bits & 0x1ff,
            was,
            sibling,
            first: (bits >> 18 & 1 == 1).then_some(below),
        })
    }
}

struct StatementSearch<'a> {
    process: &'a Stopped,
    /// What a statement is.
    kind: u64,
    wanted: u64,
    left: usize,
}

impl StatementSearch<'_> {
    /// The last statement before what is wanted, if that is below an operation.
    fn below(&mut self, operation: u64, mut statement: u64, depth: usize) -> Option<u64> {
        if operation == self.wanted {
            return Some(statement);
        }
        let mut next = Operation::at(self.process, operation).ok()?.first;
        while let Some(at) = next.filter(|_| self.left > 0 && depth < DEEPEST_OPERATION) {
            self.left -= 1;
            let operation = Operation::at(self.process, at).ok()?;
            if operation.kind == 0 && operation.was == self.kind {
                statement = at;
            }
            if let Some(found) = self.below(at, statement, depth + 1) {
                return Some(found);
            }
            next = operation.sibling;
        }
        None
    }
}

/// Whether something is a `PERL_SI`: it begins with its `PL_curstack`.
fn is_stack(process: &Stopped, stack: u64, information: u64) -> io::Result<bool> {
    Ok(stack != 0 && information != 0 && process.pointer(information)? == stack)
}

/// The innermost contexts of a stack, in that order, if they are of this size.
fn contexts_of(process: &Stopped, first: u64, size: u64, last: u64) -> Option<Vec<Context>> {
    let context = |number: u64| {
        // Its kind in four bits of the first byte, the statement in the third word.
        let [kind, _, from] = words(process, first.wrapping_add(number * size)).ok()?;
        let kind = kind as u8 & 0xf;
        let is_one = kind == SUBSTITUTION || matches!(statement(process, from), Ok(Some(_)));
        (CONTEXTS.contains(&kind) && is_one).then_some(Context { kind, from })
    };
    let from = last.saturating_sub(MOST_CONTEXTS) + 1;
    let all: Option<Vec<Context>> = (from..=last).rev().map(context).collect();
    Some(all?.into_iter().filter(|context| context.kind != SUBSTITUTION).collect())
}
