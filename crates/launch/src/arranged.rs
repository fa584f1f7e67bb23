//! A program stopped at its own first instruction, with what its loader has mapped where somebody
//! wanted it, one mapping at a time.
//!
//! A loader leaves the places of libraries to the kernel: it calls mmap with no address. A tracer puts
//! one in, which the kernel takes where it is free (mmap(2)), and takes it out again when the call
//! has returned. What is mapped later than that is put by the kernel as high as there is room: so a
//! reservation that nobody may touch, from the exec's own mappings down to a floor, decides where.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

use crate::arch::TRAP;
use crate::arch::loaded::StoppedRegisters;
use crate::layout::{self, AtExec, LayoutOffset, MemoryLayout};
use crate::loaded::{LoadedError, LoaderStop, call_at, next_call, options, range};
use crate::lookup::Command;
use crate::timed::Timed;

/// What a loader mapped without saying where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoaderMapping {
    /// Of which file; none for memory.
    pub file: Option<PathBuf>,
    /// Its address.
    pub at: u64,
    /// How many bytes.
    pub length: u64,
}

/// Where things are to lie.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arrangement {
    /// The address of each of a loader's mappings, in the order in which it makes them; what is
    /// beyond the last is left to the kernel.
    pub places: Vec<u64>,
    /// What is mapped after the loader lies below this; none leaves it to the kernel.
    pub floor: Option<u64>,
}

/// A program at its first instruction. Killed where it is dropped.
pub struct ArrangedStart {
    at: AtExec,
    /// What its loader mapped without saying where, in order.
    pub mappings: Vec<LoaderMapping>,
    /// The lowest address of what the kernel mapped at the exec: the loader, the vdso.
    pub exec_floor: u64,
    /// The lowest address of all that is mapped, but for the program, its heap, and what was
    /// reserved.
    pub floor: u64,
    /// The processor time that its start took.
    pub used: Duration,
}

/// Starts a command in a layout up to its own first instruction, with its loader's mappings where
/// they are wanted. This process must have one thread.
///
/// # Errors
/// [`LoadedError`]; nothing of the program is left then.
pub fn arranged_start(
    command: &Command,
    moved: LayoutOffset,
    arrangement: &Arrangement,
) -> Result<ArrangedStart, LoadedError> {
    let at = layout::start(command, Some(MemoryLayout::Moved(moved)));
    let at = at.map_err(LoadedError::Layout)?;
    let pid = at.pid();
    let memory = File::options().read(true).write(true).open(format!("/proc/{pid}/mem"))?;
    options(pid)?;
    // Out of the exec, in which registers cannot be set.
    next_call(pid)?;
    let begin = StoppedRegisters::of(pid)?;
    let exec_floor = lowest(pid, 0..0)?;
    let reserved = arrangement.floor.unwrap_or(exec_floor)..exec_floor;
    if !reserved.is_empty() {
        reserve(&at, &memory, &begin, &reserved)?;
        begin.set(pid)?;
    }
    let entry = layout::entry(pid)?;
    let mappings = match entry == begin.instruction() {
        // Linked statically: there is no loader.
        true => Vec::new(),
        false => load(pid, &memory, entry, &arrangement.places)?,
    };
    let floor = lowest(pid, reserved)?;
    Ok(ArrangedStart { at, mappings, exec_floor, floor, used: used(pid) })
}

impl ArrangedStart {
    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.at.pid()
    }

    /// Lets it run, untraced, and waits for its end. Processor time is that since the first
    /// instruction of the program, as is the wall's.
    ///
    /// # Errors
    /// If it is gone.
    pub fn timed(self) -> io::Result<Timed> {
        let used = self.used;
        Ok(without_start(self.at.timed()?, used))
    }

    /// Lets it run, traced, to its end. `look` sees it when it has run its last instruction, with the
    /// memory that it has then.
    ///
    /// # Errors
    /// What `look` fails with, upon which it is killed; or if it is gone.
    pub fn looked_at_in_the_end<T>(
        self,
        look: impl FnOnce(i32) -> io::Result<T>,
    ) -> io::Result<(T, Timed)> {
        let used = self.used;
        let (looked, timed) = self.at.looked_at_in_the_end(look)?;
        Ok((looked, without_start(timed, used)))
    }
}

/// The kernel shares time out between program and kernel by ticks, so the start's is taken from
/// either: only the sum is exact.
fn without_start(timed: Timed, used: Duration) -> Timed {
    let system = timed.system.saturating_sub(used);
    let user = timed.user.saturating_sub(used.saturating_sub(timed.system));
    Timed { user, system, ..timed }
}

/// The processor time of a process so far: /proc/PID/schedstat, the first number, in ns
/// (Documentation/scheduler/sched-stats.rst). Zero where the kernel does not tell.
fn used(pid: i32) -> Duration {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
    let nanos = text.split_whitespace().next().and_then(|word| word.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

/// Reserves addresses, in which nothing is then mapped.
fn reserve(
    at: &AtExec,
    memory: &File,
    begin: &StoppedRegisters,
    range: &std::ops::Range<u64>,
) -> Result<(), LoadedError> {
    let flags =
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    let length = range.end - range.start;
    let args = [range.start, length, libc::PROT_NONE as u64, flags as u64, u64::MAX, 0];
    let got = call_at(at, memory, begin, libc::SYS_mmap, args)?;
    if got == range.start { Ok(()) } else { Err(not_placed(range.start, got)) }
}

/// Lets the loader do its work, up to the program's first instruction, and puts its mappings where
/// they are wanted.
fn load(
    pid: i32,
    memory: &File,
    entry: u64,
    places: &[u64],
) -> Result<Vec<LoaderMapping>, LoadedError> {
    let mut before = [0; TRAP.len()];
    memory.read_exact_at(&mut before, entry)?;
    memory.write_all_at(TRAP, entry)?;
    let mut mappings: Vec<LoaderMapping> = Vec::new();
    while let LoaderStop::Call = next_call(pid)? {
        let registers = StoppedRegisters::of(pid)?;
        let (number, args) = registers.call();
        let is_left = number as i64 == libc::SYS_mmap && args[0] == 0;
        let wanted = places.get(mappings.len()).copied().filter(|_| is_left);
        let file = is_left.then(|| mapped_file(pid, args)).flatten();
        if let Some(place) = wanted {
            registers.with_first(place).set(pid)?;
        }
        if !matches!(next_call(pid)?, LoaderStop::Call) {
            return Err(LoadedError::Ended("a trap".into()));
        }
        let after = StoppedRegisters::of(pid)?;
        if let Some(place) = wanted {
            // A call keeps its arguments' registers, and the loader counts on that.
            after.with_first(0).set(pid)?;
            if after.result() != place {
                return Err(not_placed(place, after.result()));
            }
        }
        if is_left {
            mappings.push(LoaderMapping { file, at: after.result(), length: args[1] });
        }
    }
    let stopped = StoppedRegisters::of(pid)?;
    if stopped.instruction() != entry + TRAP.len() as u64 {
        return Err(LoadedError::UnknownLoader);
    }
    memory.write_all_at(&before, entry)?;
    stopped.going_on_at(entry).set(pid)?;
    Ok(mappings)
}

/// Of which file a call of mmap maps something.
fn mapped_file(pid: i32, args: [u64; 6]) -> Option<PathBuf> {
    let is_memory = args[3] & libc::MAP_ANONYMOUS as u64 != 0;
    let file = format!("/proc/{pid}/fd/{}", args[4] as i32);
    (!is_memory).then(|| fs::read_link(file).ok()).flatten()
}

fn not_placed(wanted: u64, got: u64) -> LoadedError {
    let why = format!("a mapping is not at {wanted:#x}, where it was to be, but at {got:#x}");
    LoadedError::System(io::Error::other(why))
}

/// The lowest address of what is mapped, but for the program, what has no name next to it, its heap,
/// and what was reserved.
fn lowest(pid: i32, reserved: std::ops::Range<u64>) -> io::Result<u64> {
    let program = fs::read_link(format!("/proc/{pid}/exe"))?;
    let program = program.to_string_lossy();
    let maps = fs::read(format!("/proc/{pid}/maps"))?;
    let maps = String::from_utf8_lossy(&maps);
    let lines = maps.lines().filter_map(|line| Some((range(line)?, line)));
    let own = |line: &str| line.ends_with(&*program) || line.ends_with("[heap]");
    // The program's zeroed memory has no name, and begins where its file ends.
    let mut end = u64::MAX;
    let others = lines.filter(|((start, stop), line)| {
        let belongs = own(line) || *start == end;
        end = if belongs { *stop } else { end };
        !belongs && !reserved.contains(start)
    });
    others
        .map(|((start, _), _)| start)
        .min()
        .ok_or_else(|| io::Error::other("the kernel tells no mappings of it"))
}
