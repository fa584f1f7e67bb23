//! How well this machine keeps to a profile, measured through a real mount.
//!
//! Each series runs in a process of its own that enters a rehearsal of a small tree, so it finds
//! a cold node, and does what a program would do: `stat`, `open`, `read`. The queue is not the
//! one that other rehearsals share.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use launch::{Stage, StageError};
use recording::Nanos;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{Rehearsal, RehearsalRequest};
use cost::{FilesystemProfile, Revalidation, TimeSpan};

/// What was measured.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Calibration {
    /// The profile.
    pub profile: String,
    /// Whether every series is as near to what is wanted as it must be.
    pub good: bool,
    /// How many processes ran or waited to run, on average over the minute before
    /// (proc_loadavg(5)).
    pub load: f64,
    /// How many processors this machine lets becalm use.
    pub processors: usize,
    /// The series.
    pub series: Vec<Series>,
}

/// One operation, many times.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Series {
    /// What was done.
    pub what: &'static str,
    /// How long the profile says that it takes; none where nothing is delayed.
    pub wanted_ns: Option<u64>,
    /// The median without a rehearsal.
    pub native_ns: u64,
    /// The median.
    pub p50_ns: u64,
    /// 95 of 100 took no longer.
    pub p95_ns: u64,
    /// How often it was done.
    pub samples: usize,
    /// Whether both are as near to what is wanted as they must be. Of data, where what this
    /// machine's own copying takes comes on top, nothing is demanded.
    pub good: bool,
}

/// Half of all answers may be off by this part of what is wanted, and 95 of 100 by the other.
pub const TOLERANCE: (f64, f64) = (0.05, 0.15);

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum CalibrationError {
    /// The tree for it.
    #[error("{}: cannot make files to measure with: {error}", .path.display())]
    CalibrationTree {
        /// Where.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// The measuring process.
    #[error(transparent)]
    Stage(#[from] StageError),
    /// What it did failed.
    #[error("{0}")]
    Measure(String),
}

/// A series lasts about so long.
const LASTS: Duration = Duration::from_millis(500);
/// How many clients ask at once.
const CLIENTS: usize = 4;
/// The size of a file that is read.
const SIZE: usize = 1 << 20;

/// Measures in a new directory below `below`, which is gone afterwards. Tells how many of how many
/// series are done.
///
/// This forks: call it while the process has one thread.
///
/// # Errors
/// [`CalibrationError`].
pub fn calibrate(
    profile: &FilesystemProfile,
    below: &Path,
    progress: &dyn Fn(u64, u64),
) -> Result<Calibration, CalibrationError> {
    let failed = |error| CalibrationError::CalibrationTree { path: below.to_owned(), error };
    let samples = samples(profile.latency());
    let tree = CalibrationTree::make(below, samples).map_err(failed)?;
    let name = format!("{}.calibration.{}", profile.name, std::process::id());
    let real = FilesystemProfile { name, ..profile.clone() };
    let wanted: [(&'static str, FilesystemProfile, Act, Option<Nanos>); 6] = [
        ("stat, unknown name", real.clone(), stats, Some(real.latency())),
        ("open, known file", real.clone(), opens, open_cost(&real)),
        ("first read of 1 MiB", real.clone(), reads, read_cost(&real)),
        ("stat, four clients", busy(&real), four, four_cost(&real)),
        ("stat, no delay", undelayed(&real), stats, None),
        ("open, no delay", undelayed(&real), opens, None),
    ];
    let mut series = Vec::new();
    for (what, profile, act, asked) in &wanted {
        progress(series.len() as u64, wanted.len() as u64);
        series.push(tree.measure(what, profile, *act, *asked)?);
    }
    Ok(Calibration {
        profile: profile.name.clone(),
        good: series.iter().all(|series| series.good),
        load: load(),
        processors: std::thread::available_parallelism().map_or(1, usize::from),
        series,
    })
}

fn samples(latency: Nanos) -> usize {
    let fit = LASTS.as_nanos() as u64 / latency.0.max(1);
    fit.clamp(40, 500) as usize
}

fn open_cost(profile: &FilesystemProfile) -> Option<Nanos> {
    (profile.cache.open == Revalidation::EachTime).then(|| profile.latency())
}

fn read_cost(profile: &FilesystemProfile) -> Option<Nanos> {
    let data = &profile.data;
    let bytes = data.bandwidth.map_or(Nanos(0), |rate| rate.time_for(SIZE as u64));
    Some(data.round_trip.nanos() + bytes)
}

fn four_cost(profile: &FilesystemProfile) -> Option<Nanos> {
    Some(Nanos(profile.latency().0 * CLIENTS as u64))
}

/// The same delay, all of it the server's work, so that clients wait for each other.
fn busy(profile: &FilesystemProfile) -> FilesystemProfile {
    let mut busy = profile.clone();
    busy.mds.round_trip = TimeSpan::ZERO;
    busy.mds.service = TimeSpan::of(profile.latency());
    busy
}

fn undelayed(profile: &FilesystemProfile) -> FilesystemProfile {
    let mut undelayed = busy(profile);
    undelayed.mds.service = TimeSpan::ZERO;
    undelayed.data = cost::DataServer::default();
    undelayed
}

/// The files that are measured with.
struct CalibrationTree {
    directory: tempfile::TempDir,
    samples: usize,
}

/// What a series does in a tree: how long each operation took, in nanoseconds.
type Act = fn(&Path, usize) -> io::Result<Vec<u64>>;

impl CalibrationTree {
    fn make(below: &Path, samples: usize) -> io::Result<CalibrationTree> {
        let directory = tempfile::Builder::new().prefix("becalm-calibrate-").tempdir_in(below)?;
        for name in ["warm", "names", "data"] {
            std::fs::create_dir(directory.path().join(name))?;
        }
        for number in 0..samples {
            File::create(file(directory.path(), "names", number))?;
            File::create(file(directory.path(), "warm", number))?;
        }
        let bytes = vec![b'x'; SIZE];
        for number in 0..data_files(samples) {
            std::fs::write(file(directory.path(), "data", number), &bytes)?;
        }
        Ok(CalibrationTree { directory, samples })
    }

    fn measure(
        &self,
        what: &'static str,
        profile: &FilesystemProfile,
        act: Act,
        asked: Option<Nanos>,
    ) -> Result<Series, CalibrationError> {
        let path = self.directory.path();
        let native = self.play(|| act(path, self.samples).map_err(|error| error.to_string()))?;
        let wanted = RehearsalRequest {
            profile: profile.clone(),
            paths: vec![path.to_owned()],
            writable: false,
        };
        let times = self.play(|| {
            let rehearsal = Rehearsal::enter(&wanted).map_err(|error| error.to_string())?;
            let times = act(path, self.samples).map_err(|error| error.to_string());
            rehearsal.finish().map_err(|error| error.to_string())?;
            times
        })?;
        // A delay of nothing is kept to by whatever it takes.
        let wanted_ns = asked.map(|asked| asked.0).filter(|asked| *asked > 0);
        let (p50_ns, p95_ns) = (percentile(&times, 50), percentile(&times, 95));
        let off = |measured: u64, asked: u64| measured.abs_diff(asked) as f64 / asked as f64;
        let is_data = std::ptr::fn_addr_eq(act, reads as Act);
        let good = is_data
            || wanted_ns.is_none_or(|asked| {
                off(p50_ns, asked) <= TOLERANCE.0 && off(p95_ns, asked) <= TOLERANCE.1
            });
        let (native_ns, samples) = (percentile(&native, 50), times.len());
        Ok(Series { what, wanted_ns, native_ns, p50_ns, p95_ns, samples, good })
    }

    fn play(
        &self,
        act: impl FnOnce() -> Result<Vec<u64>, String>,
    ) -> Result<Vec<u64>, CalibrationError> {
        let mut times = Stage::new().play(act)?.result.map_err(CalibrationError::Measure)?;
        times.sort_unstable();
        Ok(times)
    }
}

fn file(tree: &Path, directory: &str, number: usize) -> PathBuf {
    tree.join(directory).join(format!("file-{number:04}"))
}

fn data_files(samples: usize) -> usize {
    (samples / 8).min(32)
}

/// What so many of 100 do not exceed, of sorted numbers.
fn percentile(sorted: &[u64], hundredths: usize) -> u64 {
    sorted.get(sorted.len().saturating_sub(1) * hundredths / 100).copied().unwrap_or(0)
}

fn timed<T>(act: impl FnOnce() -> io::Result<T>) -> io::Result<u64> {
    let start = Instant::now();
    let result = act();
    let took = start.elapsed().as_nanos() as u64;
    result.map(|_| took)
}

/// The server has then done everything once.
fn warm_up(tree: &Path, samples: usize) -> io::Result<()> {
    for number in 0..samples.min(20) {
        File::open(file(tree, "warm", number))?;
    }
    std::fs::metadata(tree.join("names")).map(drop)
}

fn stats(tree: &Path, samples: usize) -> io::Result<Vec<u64>> {
    warm_up(tree, samples)?;
    let stat = |number| timed(|| std::fs::metadata(file(tree, "names", number)));
    (0..samples).map(stat).collect()
}

fn opens(tree: &Path, samples: usize) -> io::Result<Vec<u64>> {
    warm_up(tree, samples)?;
    for number in 0..samples {
        std::fs::metadata(file(tree, "names", number))?;
    }
    let open = |number| {
        let mut open = None;
        // The file is closed after the clock is read.
        timed(|| File::open(file(tree, "names", number)).map(|file| open = Some(file)))
    };
    (0..samples).map(open).collect()
}

fn reads(tree: &Path, samples: usize) -> io::Result<Vec<u64>> {
    warm_up(tree, samples)?;
    let mut buffer = vec![0; SIZE];
    let mut read = |number| {
        let mut file = File::open(file(tree, "data", number))?;
        timed(|| file.read_exact(&mut buffer))
    };
    (0..data_files(samples)).map(&mut read).collect()
}

/// Several clients at once, each with names of its own.
fn four(tree: &Path, samples: usize) -> io::Result<Vec<u64>> {
    warm_up(tree, samples)?;
    let start = std::sync::Barrier::new(CLIENTS);
    let client = |client: usize| {
        start.wait();
        let own = (0..samples).filter(|number| number % CLIENTS == client);
        own.map(|number| timed(|| std::fs::metadata(file(tree, "names", number)))).collect()
    };
    let all: Vec<io::Result<Vec<u64>>> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..CLIENTS).map(|number| scope.spawn(move || client(number))).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a client panicked")))
        };
        threads.into_iter().map(join).collect()
    });
    let mut times = Vec::new();
    for one in all {
        // The first answers come before the queue is full, and the last after it is.
        let one = one?;
        times.extend(&one[one.len() / 10..one.len() - one.len() / 10]);
    }
    Ok(times)
}

fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0.0)
}
