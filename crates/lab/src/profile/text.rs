//! What `perf script` prints, read back.
//!
//! Asked for `-F pid,tid,time,period,ip,sym,dso --ns`, it prints a line for each sample, a line
//! that begins with a tab for each frame, the innermost first, and an empty line:
//!
//! ```text
//! 11691/11691 33164.026331000:   10101010
//!                     11dc leaf (/home/me/burn)
//!         ffffffffffffffff [unknown] ([unknown])
//! ```
//!
//! Names of processes are not asked for: anybody may put a line feed into one. Symbols and files'
//! names can hold anything, too, and at worst spoil the sample that they are in. What is kept at a
//! time is one sample, of at most [`FRAMES`] frames of at most [`LINE`] bytes.

use std::io::{self, BufRead, Read};

/// Longer lines are cut: C++ has symbols of many kilobytes, which no frame has room for.
pub const LINE: usize = 16 << 10;

/// Deeper stacks lose their outermost frames.
pub const FRAMES: usize = 512;

/// Where a stack was when it was sampled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PerfFrame {
    /// The function; none where there is no symbol for the address.
    pub symbol: Option<String>,
    /// The file that was mapped there, or the kernel's part in brackets; none for memory that no
    /// file was mapped to.
    pub object: Option<String>,
    /// Whether it is of the kernel.
    pub kernel: bool,
}

/// One sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PerfSample {
    /// The process, in perf's pid namespace.
    pub pid: u32,
    /// When, in nanoseconds of the clock that perf was told to use.
    pub at_ns: u64,
    /// For how much of the event it stands: nanoseconds for `cpu-clock`.
    pub period: u64,
    /// The stack, the innermost frame first.
    pub frames: Vec<PerfFrame>,
    /// Whether perf says that it did not find the stack's end.
    pub cut: bool,
}

/// Reads samples and hands each to `each`; returns how many there were.
///
/// Lines that are of no known form are passed over.
///
/// # Errors
/// Those of reading.
pub fn read(mut text: impl BufRead, each: &mut dyn FnMut(PerfSample)) -> io::Result<u64> {
    let (mut line, mut count) = (Vec::new(), 0);
    let mut sample: Option<PerfSample> = None;
    while read_line(&mut text, &mut line)? {
        let words = String::from_utf8_lossy(&line);
        if let (Some(frame), Some(sample)) = (words.strip_prefix('\t'), &mut sample) {
            sample.take_in(frame);
            continue;
        }
        if let Some(done) = sample.take() {
            count += 1;
            each(done);
        }
        sample = head(&words);
    }
    if let Some(done) = sample {
        count += 1;
        each(done);
    }
    Ok(count)
}

/// Reads up to a line feed, keeps the start of it, and says whether there was anything.
fn read_line(text: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let mut got = text.by_ref().take(LINE as u64).read_until(b'\n', line)?;
    let any = got > 0;
    while got > 0 && line.last() != Some(&b'\n') {
        // The rest of a long line.
        let rest = text.fill_buf()?;
        let end = rest.iter().position(|byte| *byte == b'\n');
        got = end.map_or(rest.len(), |end| end + 1);
        text.consume(got);
        if end.is_some() {
            break;
        }
    }
    if line.last() == Some(&b'\n') {
        line.pop();
    }
    Ok(any)
}

/// `PID/TID SECONDS.NANOSECONDS: PERIOD`.
fn head(line: &str) -> Option<PerfSample> {
    let mut words = line.split_ascii_whitespace();
    let (pid, tid) = words.next()?.split_once('/')?;
    let (seconds, nanos) = words.next()?.strip_suffix(':')?.split_once('.')?;
    let _: u32 = tid.parse().ok()?;
    let (seconds, nanos): (u64, u64) =
        (seconds.parse().ok()?, format!("{nanos:0<9}").parse().ok()?);
    let period = words.next()?.parse().ok()?;
    let at_ns = seconds.saturating_mul(1_000_000_000).saturating_add(nanos);
    Some(PerfSample { pid: pid.parse().ok()?, at_ns, period, frames: Vec::new(), cut: false })
}

impl PerfSample {
    /// `ADDRESS SYMBOL (OBJECT)`, in hexadecimal.
    fn take_in(&mut self, line: &str) {
        let line = line.trim();
        let (address, rest) = line.split_once(' ').unwrap_or((line, ""));
        let Ok(address) = u64::from_str_radix(address, 16) else { return };
        if address == u64::MAX {
            // What perf puts there when the unwinder gives up, or the copy of the stack ends.
            self.cut = true;
            return;
        }
        if self.frames.len() == FRAMES {
            self.cut = true;
            return;
        }
        let (symbol, object) = split(rest);
        let known = |name: &str| (name != "[unknown]" && !name.is_empty()).then(|| name.to_owned());
        // The upper half of the addresses is the kernel's, on every 64-bit Linux.
        let kernel = address >> 63 == 1;
        self.frames.push(PerfFrame { symbol: known(symbol), object: known(object), kernel });
    }
}

/// A symbol, which may have spaces and brackets, and the object in the last brackets.
fn split(rest: &str) -> (&str, &str) {
    let Some(inner) = rest.strip_suffix(')') else { return (rest.trim(), "") };
    let body = inner.strip_suffix(" (deleted)").unwrap_or(inner);
    // A path may have brackets, too; a symbol never has one before a slash.
    let start = [" (/", " (["].iter().filter_map(|start| body.find(start)).min();
    match start.or_else(|| body.rfind(" (")) {
        Some(at) => (body[..at].trim(), &body[at + 2..]),
        None => match body.strip_prefix('(') {
            Some(object) => ("", object),
            None => (rest.trim(), ""),
        },
    }
}
