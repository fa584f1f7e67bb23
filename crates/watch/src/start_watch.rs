//! Whether a program's start is over: what was asked for by `--until`, looked at after each call
//! and, where time alone can tell, twenty times a second.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use proc::ProcessorTime;
use recording::{Event, Kind, LetGo, LetGoReason, Nanos, Outcome, PathId};

use crate::clock;
use crate::mpi_init::MpiInits;
use crate::until::{QUIET, Until, is_program};

/// How often it is looked whether time has ended the start.
pub(crate) const LOOK: Nanos = Nanos(50_000_000);

/// A call on a file that has not returned for so long waits for a filesystem: that is no quiet.
const WAITS: Nanos = LOOK;

/// So long it is waited for an MPI_Init that is there and has not been called: a program can be
/// linked with MPI and not use it.
const UNCALLED: Nanos = Nanos(10_000_000_000);

/// So many reads and writes of files in a row, with no look at any path between them, are a program
/// at its work: no start that was measured comes near, and watching them costs it 8 us each.
const STREAM: u32 = 5_000;

/// So many parts of mapped files (of 64 KiB) in a row that are touched first, with nothing new opened
/// between them, are a program at its work: `import tensorflow` touches 1,840 of its library.
const TOUCHES: u64 = 5_000;

/// The signal by which the front asks the tracer to let go.
pub(crate) const ASK: i32 = libc::SIGUSR2;

/// Whether it has asked.
static ASKED: AtomicBool = AtomicBool::new(false);

/// Hears from now on when the front asks. Done once, by the tracer.
fn hear_the_front() {
    extern "C" fn asked(_signal: i32) {
        ASKED.store(true, Relaxed);
    }
    // SAFETY: the handler stores to an atomic only; the structure is plain numbers, initialised
    // before the kernel reads it.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = asked as *const () as usize;
        libc::sigaction(ASK, &action, std::ptr::null_mut());
    }
    launch::signals::unblock(&launch::signals::set([ASK]));
}

/// Watches for the end of a start.
pub(crate) struct StartWatch {
    until: Vec<Until>,
    pub mpi: MpiInits,
    /// The highest number of a path that was asked for: a higher one is new.
    highest: Option<PathId>,
    /// When something new was last opened or asked for, or a process was last born.
    new_at: Nanos,
    /// How many pages had been read from disks by all processes, where it was looked since.
    faults: Option<u64>,
    /// How many parts of mapped files had been touched at the first look since something new, and at the
    /// last one.
    touched: Option<(u64, u64)>,
    /// When it was looked last how long processors were used and waited for, and what was seen.
    processors: Option<(Nanos, ProcessorTime)>,
    /// Reads and writes of files since anything else was asked of filesystems.
    streamed: u32,
    over: Option<LetGoReason>,
}

/// What the program waits for at a moment.
pub(crate) struct Waiting {
    /// Since when a thread has been in a call on a file, of those that are: the first.
    pub in_call_since: Option<Nanos>,
    /// How many pages all processes have had read from disks (`majflt`, proc_pid_stat(5)).
    pub faults: u64,
    /// How many parts of mapped files they have touched.
    pub touched: u64,
    /// Of all threads.
    pub processors: ProcessorTime,
}

impl StartWatch {
    pub fn new(until: Vec<Until>, now: Nanos) -> StartWatch {
        let mpi = MpiInits::default();
        StartWatch {
            until,
            mpi,
            highest: None,
            new_at: now,
            faults: None,
            touched: None,
            processors: None,
            streamed: 0,
            over: None,
        }
    }

    /// The same, in the tracer's process, which from now on hears of the front and of time.
    pub fn begin(until: Vec<Until>, now: Nanos) -> StartWatch {
        hear_the_front();
        clock::hear_of_children();
        clock::wake_every(LOOK);
        StartWatch::new(until, now)
    }

    /// A call has returned; `path` is what it was about.
    pub fn returned(&mut self, event: &Event, path: Option<&[u8]>) {
        self.count(event);
        let (Some(id), Some(path)) = (event.path, path) else { return };
        if event.is_metadata() && self.highest.is_none_or(|highest| id > highest) {
            self.highest = Some(id);
            if !event.is_change() && !is_of_kernel(path) {
                self.something_new(event.start + event.took);
            }
        }
        if event.kind() == Kind::Open && matches!(event.outcome, Outcome::Returned(_)) {
            let matches = |until: &Until| matches!(until, Until::Open(glob) if glob.matches(path));
            if self.until.iter().any(matches) {
                self.end(LetGoReason::Open { path: String::from_utf8_lossy(path).into_owned() });
            }
        }
    }

    /// A process was born: a script that only forks opens the same files over and over.
    pub fn born(&mut self, now: Nanos) {
        self.something_new(now);
    }

    /// A process has become a program: of this path, or as it is called by its first argument.
    pub fn executed(&mut self, path: &[u8], image: &[u8], now: Nanos) {
        self.something_new(now);
        for until in &self.until {
            if let Until::Exec(name) = until
                && (is_program(name, path) || is_program(name, image))
            {
                let name = name.clone();
                return self.end(LetGoReason::Exec { name });
            }
        }
    }

    /// The user wants to watch no longer.
    pub fn asked(&mut self) {
        self.end(LetGoReason::Asked);
    }

    /// Pipes have no path: what comes from them is another's work.
    fn count(&mut self, event: &Event) {
        match event.kind() {
            Kind::Read | Kind::Write => self.streamed += u32::from(event.path.is_some()),
            Kind::Map | Kind::Fork => self.streamed = 0,
            kind if kind.is_metadata() => self.streamed = 0,
            _ => {}
        }
    }

    fn something_new(&mut self, at: Nanos) {
        self.touched = None;
        self.no_quiet_before(at);
    }

    fn no_quiet_before(&mut self, at: Nanos) {
        self.new_at = self.new_at.max(at);
        self.faults = None;
        self.processors = None;
    }

    /// Time in which others had the processors is not counted: of the time that threads could have
    /// run, the part that they waited.
    fn leave_out_waits(&mut self, now: Nanos, processors: ProcessorTime) {
        if let Some((looked, before)) = self.processors.replace((now, processors)) {
            let passed = now.0.saturating_sub(looked.0) as f64;
            let waited = processors.waited.saturating_sub(before.waited).as_nanos() as f64;
            let used = processors.used.saturating_sub(before.used).as_nanos() as f64;
            let could_run = (used + waited).max(passed).max(1.0);
            self.new_at.0 += (passed * waited / could_run) as u64;
        }
    }

    /// Whether parts of mapped files were touched since the last look: a node that does not have them in
    /// memory waits for them.
    fn touches(&mut self, touched: u64) -> bool {
        let (first, last) = self.touched.unwrap_or((touched, touched));
        self.touched = Some((first, touched));
        touched > last && touched - first < TOUCHES
    }

    fn end(&mut self, why: LetGoReason) {
        self.over.get_or_insert(why);
    }

    /// Why the start is over, if it is. What the program waits for is asked only where that
    /// matters.
    pub fn is_over(&mut self, now: Nanos, waiting: impl FnOnce() -> Waiting) -> Option<LetGo> {
        if ASKED.load(Relaxed) {
            self.asked();
        }
        if self.wants_mpi() && self.mpi.have_all_returned() {
            self.end(LetGoReason::MpiInit);
        }
        self.look_at_time(now);
        if self.over.is_none() && self.wants_quiet() {
            self.look_for_quiet(now, waiting);
        }
        let mpi_init = self.mpi.first_called();
        self.over.clone().map(|why| LetGo { at: now, why, mpi_init })
    }

    /// Whether breakpoints are to be set for it.
    pub fn wants_mpi(&self) -> bool {
        self.until.iter().any(|until| matches!(until, Until::MpiInit | Until::Start))
    }

    fn wants_quiet(&self) -> bool {
        self.until.iter().any(|until| matches!(until, Until::Quiet | Until::Start))
    }

    fn look_at_time(&mut self, now: Nanos) {
        for until in &self.until {
            if let Until::Passed(time) = until
                && u128::from(now.0) >= time.as_nanos()
            {
                let nanos = Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
                return self.end(LetGoReason::Passed { nanos });
            }
        }
    }

    /// How long nothing new has to come; none while MPI_Init runs.
    fn patience(&self) -> Option<Nanos> {
        let quiet = Nanos(QUIET.as_nanos() as u64);
        match self.until.contains(&Until::Quiet) {
            true => Some(quiet),
            false if self.mpi.is_inside() => None,
            false if self.mpi.is_awaited() => Some(UNCALLED),
            false => Some(quiet),
        }
    }

    /// Calls on files and reads of pages that take long are waits for a filesystem: quiet is
    /// counted from their ends.
    fn look_for_quiet(&mut self, now: Nanos, waiting: impl FnOnce() -> Waiting) {
        let Some(patience) = self.patience() else { return };
        let quiet = now.0.saturating_sub(self.new_at.0);
        if self.streamed >= STREAM {
            return self.end(LetGoReason::Quiet { nanos: Nanos(quiet) });
        }
        let is_early = |(looked, _): (Nanos, _)| now.0.saturating_sub(looked.0) < LOOK.0 / 2;
        if quiet < LOOK.0 || self.processors.is_some_and(is_early) {
            return;
        }
        let waiting = waiting();
        let in_call = |since: Nanos| now.0.saturating_sub(since.0) >= WAITS.0;
        if waiting.in_call_since.is_some_and(in_call) || self.touches(waiting.touched) {
            return self.no_quiet_before(now);
        }
        self.leave_out_waits(now, waiting.processors);
        let quiet = now.0.saturating_sub(self.new_at.0);
        match self.faults {
            None => self.faults = Some(waiting.faults),
            Some(before) if waiting.faults > before => self.no_quiet_before(now),
            Some(_) if quiet >= patience.0 => self.end(LetGoReason::Quiet { nanos: patience }),
            Some(_) => {}
        }
    }
}

/// Whether the kernel itself serves a path: a program that looks there over and over is not
/// starting.
pub(crate) fn is_of_kernel(path: &[u8]) -> bool {
    recording::is_answered_on_node(None, path)
}

#[cfg(test)]
mod tests;
