//! What a process has just become, read from its memory at the exec's stop: the stack that the
//! kernel laid out (arguments, environment, auxiliary vector; see getauxval(3)) and the ELF
//! headers it points to.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;

use recording::Name;

use crate::memory;

/// A program as it stands before its first instruction.
#[derive(Debug, Default)]
pub(crate) struct ExecutedProgram {
    /// Arguments, cut after [`ARGV_KEPT`] bytes.
    pub argv: Vec<String>,
    /// The same exactly, where decoding loses something of them.
    pub exact_argv: Vec<Name>,
    /// Environment variables that steer searches.
    pub env: Vec<(String, String)>,
    /// The difference between the executable's addresses in memory and in its file.
    pub bias: u64,
    /// PT_INTERP.
    pub loader: Option<Vec<u8>>,
    /// The executable's instructions: start and length.
    pub code: Vec<(u64, u64)>,
    /// The loader's.
    pub loader_code: Vec<(u64, u64)>,
}

impl ExecutedProgram {
    fn set_arguments(&mut self, arguments: impl IntoIterator<Item = Vec<u8>>) {
        let words = shortened(arguments);
        if words.iter().any(|word| std::str::from_utf8(word).is_err()) {
            self.exact_argv = words.iter().map(|word| Name::of(OsStr::from_bytes(word))).collect();
        }
        let decoded = words.iter().map(|word| String::from_utf8_lossy(word).into_owned());
        self.argv = decoded.collect();
    }

    /// Whether its loader is musl's, which is its C library, too.
    pub fn has_musl(&self) -> bool {
        let name = self.loader.as_deref().and_then(|path| path.rsplit(|byte| *byte == b'/').next());
        name.is_some_and(|name| name.starts_with(b"ld-musl-"))
    }
}

/// A compiler's command line names a hundred directories, Java's class path several.
const ARGV_KEPT: usize = 32 << 10;
/// Of a string beyond what was read at once: most are short.
const STRING_FIRST: usize = 4096;
const STRING_MOST: usize = 32 << 10;

/// What of the stack is read at once; and at most, if the environment is huge.
const STACK_FIRST: usize = 128 << 10;
const STACK_MOST: usize = 8 << 20;

const PT_LOAD: u32 = 1;
const PT_INTERP: u32 = 3;
const PT_PHDR: u32 = 6;
const EXECUTABLE: u32 = 1;

/// Variables that tell where programs, libraries, modules and locales are looked for.
fn is_kept(name: &str) -> bool {
    const NAMES: &[&str] =
        &["PATH", "MODULEPATH", "MODULES_CACHE", "LANG", "LANGUAGE", "LOCPATH", "BASH_ENV"];
    const PREFIXES: &[&str] = &["LD_", "PYTHON", "LC_", "LMOD_", "MODULES_", "GLIBC_TUNABLES"];
    NAMES.contains(&name)
        || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || recording::SEARCH_VARIABLES.iter().any(|variable| variable.name == name)
}

/// A copy of a stopped process's stack, from its pointer up.
struct ProgramStack {
    base: u64,
    bytes: Vec<u8>,
    word: usize,
}

impl ProgramStack {
    fn word_at(&self, at: usize) -> Option<u64> {
        let bytes = self.bytes.get(at..at + self.word)?;
        Some(match self.word {
            4 => u64::from(u32::from_ne_bytes(bytes.try_into().ok()?)),
            _ => u64::from_ne_bytes(bytes.try_into().ok()?),
        })
    }

    /// The string at an address of the process, if it is within the copy.
    fn string(&self, address: u64) -> Option<&[u8]> {
        let at = usize::try_from(address.checked_sub(self.base)?).ok()?;
        let rest = self.bytes.get(at..)?;
        Some(&rest[..rest.iter().position(|byte| *byte == 0)?])
    }

    /// The addresses from `at` up to a zero word, and where they end.
    fn addresses(&self, mut at: usize) -> Option<(Vec<u64>, usize)> {
        let mut addresses = Vec::new();
        loop {
            let address = self.word_at(at)?;
            at += self.word;
            if address == 0 {
                return Some((addresses, at));
            }
            addresses.push(address);
        }
    }
}

/// Reads what the process `tid`, stopped at an exec with this stack pointer, has become. What
/// cannot be read (a program that may not be looked into) is left empty.
pub(crate) fn read(tid: i32, stack_pointer: u64, word: usize) -> Option<ExecutedProgram> {
    let mut size = STACK_FIRST;
    loop {
        let mut bytes = vec![0; size];
        let got = memory::read(tid, stack_pointer, &mut bytes).ok()?;
        bytes.truncate(got);
        let stack = ProgramStack { base: stack_pointer, bytes, word };
        if let Some(program) = from_stack(tid, &stack) {
            return Some(program);
        }
        // The pointers alone are longer than what was read.
        if got < size || size >= STACK_MOST {
            return None;
        }
        size *= 16;
    }
}

fn from_stack(tid: i32, stack: &ProgramStack) -> Option<ExecutedProgram> {
    let (arguments, at) = stack.addresses(stack.word)?;
    let (environment, at) = stack.addresses(at)?;
    let argv = arguments.iter().map(|address| string_at(tid, stack, *address));
    let mut program =
        ExecutedProgram { env: env_of(tid, stack, &environment), ..ExecutedProgram::default() };
    program.set_arguments(argv);
    read_vector(tid, stack, at, &mut program)?;
    Some(program)
}

/// Reads what the auxiliary vector at `at` points to; none where it has no end.
fn read_vector(
    tid: i32,
    stack: &ProgramStack,
    mut at: usize,
    program: &mut ExecutedProgram,
) -> Option<()> {
    let (mut headers, mut count, mut loader_base) = (0, 0, 0);
    loop {
        let (kind, value) = (stack.word_at(at)?, stack.word_at(at + stack.word)?);
        at += 2 * stack.word;
        match kind {
            0 => break,
            libc::AT_PHDR => headers = value,
            libc::AT_PHNUM => count = value,
            libc::AT_BASE => loader_base = value,
            _ => {}
        }
    }
    read_images(tid, stack.word, headers, count, loader_base, program);
    Some(())
}

/// Reads what a process is that runs already: of its arguments and environment what it has left of
/// them, in /proc. What cannot be read is left empty.
pub(crate) fn of_running(tid: i32) -> ExecutedProgram {
    let read = |name: &str| std::fs::read(format!("/proc/{tid}/{name}")).unwrap_or_default();
    let words = |text: Vec<u8>| -> Vec<Vec<u8>> {
        text.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect()
    };
    let mut argv = words(read("cmdline"));
    argv.pop();
    let env = words(read("environ")).into_iter().filter_map(|text| {
        let text = String::from_utf8_lossy(&text);
        let (name, value) = text.split_once('=')?;
        is_kept(name).then(|| (name.to_owned(), value.to_owned()))
    });
    let mut program = ExecutedProgram { env: env.collect(), ..Default::default() };
    program.set_arguments(argv);
    let word = if is_narrow(tid) { 4 } else { 8 };
    let stack = ProgramStack { base: 0, bytes: read("auxv"), word };
    // Without it, what is left out is where its loader lies.
    let _ = read_vector(tid, &stack, 0, &mut program);
    program
}

/// Whether a program's file says that its pointers have 4 bytes (EI_CLASS, elf(5)).
pub(crate) fn is_narrow(tid: i32) -> bool {
    let mut class = [0; 5];
    let file = std::fs::File::open(format!("/proc/{tid}/exe"));
    file.and_then(|mut file| file.read_exact(&mut class)).is_ok() && class[4] == 1
}

fn string_at(tid: i32, stack: &ProgramStack, address: u64) -> Vec<u8> {
    if let Some(string) = stack.string(address) {
        return string.to_vec();
    }
    // Beyond the copy: a read of its own.
    let mut size = STRING_FIRST;
    loop {
        let mut bytes = vec![0; size];
        let got = memory::read(tid, address, &mut bytes).unwrap_or(0);
        bytes.truncate(got);
        let end = bytes.iter().position(|byte| *byte == 0);
        if end.is_some() || got < size || size >= STRING_MOST {
            bytes.truncate(end.unwrap_or(got));
            return bytes;
        }
        size = STRING_MOST;
    }
}

/// Arguments up to [`ARGV_KEPT`] bytes.
fn shortened(arguments: impl IntoIterator<Item = Vec<u8>>) -> Vec<Vec<u8>> {
    let mut kept = 0;
    let mut argv = Vec::new();
    for mut argument in arguments {
        if kept + argument.len() > ARGV_KEPT {
            let mut end = ARGV_KEPT - kept;
            // No character is cut in its middle.
            while end > 0 && argument[end] & 0xc0 == 0x80 {
                end -= 1;
            }
            argument.truncate(end);
            argument.extend("…".as_bytes());
            argv.push(argument);
            break;
        }
        kept += argument.len();
        argv.push(argument);
    }
    argv
}

fn env_of(tid: i32, stack: &ProgramStack, addresses: &[u64]) -> Vec<(String, String)> {
    let variables = addresses.iter().filter_map(|address| {
        // Only a variable that begins within the copy is looked at: a second read for each of
        // a huge environment would cost more than the answer is worth.
        let string = stack.string(*address)?;
        let name = &string[..string.iter().position(|byte| *byte == b'=')?];
        is_kept(std::str::from_utf8(name).ok()?).then(|| string_at(tid, stack, *address))
    });
    variables
        .map(|variable| String::from_utf8_lossy(&variable).into_owned())
        .filter_map(|text| text.split_once('=').map(|(name, value)| (name.into(), value.into())))
        .collect()
}

/// One program header.
struct MappedSegment {
    kind: u32,
    flags: u32,
    address: u64,
    size: u64,
}

fn read_images(
    tid: i32,
    word: usize,
    headers: u64,
    count: u64,
    loader: u64,
    into: &mut ExecutedProgram,
) {
    let segments = read_segments(tid, word, headers, count);
    let own = segments.iter().find(|segment| segment.kind == PT_PHDR);
    let base = own.map_or(0, |own| headers.wrapping_sub(own.address));
    into.bias = base;
    into.code = code_of(&segments, base);
    if let Some(interp) = segments.iter().find(|segment| segment.kind == PT_INTERP) {
        let mut name = Vec::new();
        if memory::read_string(tid, base.wrapping_add(interp.address), &mut name).is_ok() {
            into.loader = Some(name);
        }
    }
    if loader != 0 {
        let mut header = [0; 64];
        if memory::read(tid, loader, &mut header).is_ok_and(|got| got >= 52) {
            let (offset, count) = match word {
                4 => (
                    u64::from(half(&header, 28)) | u64::from(half(&header, 30)) << 16,
                    half(&header, 44),
                ),
                _ => (number(&header, 32), half(&header, 56)),
            };
            let segments = read_segments(tid, word, loader.wrapping_add(offset), u64::from(count));
            into.loader_code = code_of(&segments, loader);
        }
    }
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

fn whole(bytes: &[u8], at: usize) -> u32 {
    u32::from(half(bytes, at)) | u32::from(half(bytes, at + 2)) << 16
}

fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from(whole(bytes, at)) | u64::from(whole(bytes, at + 4)) << 32
}

fn read_segments(tid: i32, word: usize, address: u64, count: u64) -> Vec<MappedSegment> {
    let size = if word == 4 { 32 } else { 56 };
    let mut bytes = vec![0; size * count.min(64) as usize];
    let got = memory::read(tid, address, &mut bytes).unwrap_or(0);
    bytes.truncate(got);
    let parse = |entry: &[u8]| match word {
        4 => MappedSegment {
            kind: whole(entry, 0),
            flags: whole(entry, 24),
            address: u64::from(whole(entry, 8)),
            size: u64::from(whole(entry, 20)),
        },
        _ => MappedSegment {
            kind: whole(entry, 0),
            flags: whole(entry, 4),
            address: number(entry, 16),
            size: number(entry, 40),
        },
    };
    bytes.chunks_exact(size).map(parse).collect()
}

fn code_of(segments: &[MappedSegment], base: u64) -> Vec<(u64, u64)> {
    let code =
        |segment: &&MappedSegment| segment.kind == PT_LOAD && segment.flags & EXECUTABLE != 0;
    let place = |segment: &MappedSegment| (base.wrapping_add(segment.address), segment.size);
    segments.iter().filter(code).map(place).collect()
}
