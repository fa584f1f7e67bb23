//! What starting a program costs, by the size of the process that starts it and by the call.
//!
//! The parents are plain processes of becalm's own with so much memory mapped and written to, as a
//! shell's heap would be; they are simulated, in that no shell runs in them.
//!
//! | file | what it holds |
//! |---|---|
//! | `parent` | a process of a size that starts programs, and tells how long that took |
//! | `start` | the three ways to start one |

mod parent;
mod start;

use std::io;

pub use start::StartMethod;

/// The sizes of the published table, in megabytes (2^20 bytes).
pub const SIZES: [u64; 7] = [0, 1, 10, 100, 250, 500, 1000];

/// What was published for fork+exec from a bash of a size, in milliseconds; of the sizes between,
/// only that they lie between.
pub fn published_ms(megabytes: u64) -> Option<f64> {
    match megabytes {
        0 => Some(0.57),
        1000 => Some(45.0),
        _ => None,
    }
}

/// How to measure.
#[derive(Clone, Copy, Debug)]
pub struct ForkBenchOptions {
    /// How often each is measured; the order changes from round to round.
    pub rounds: u32,
    /// Larger parents are left out, in megabytes.
    pub most: u64,
}

/// A parent's times.
#[derive(Clone, Debug, serde::Serialize, schemars::JsonSchema)]
pub struct Parent {
    /// Its memory, in megabytes.
    pub megabytes: u64,
    /// Whether it asked for huge pages; the other one refused them.
    pub huge_pages: bool,
    /// How much of its memory was in huge pages, in bytes.
    pub huge_bytes: u64,
    /// fork(2) and execve(2), in nanoseconds: from the start to the program's end, each round.
    pub fork_ns: Vec<u64>,
    /// The same by vfork(2).
    pub vfork_ns: Vec<u64>,
    /// The same by posix_spawn(3).
    pub posix_spawn_ns: Vec<u64>,
}

/// What was measured.
#[derive(Clone, Debug, serde::Serialize, schemars::JsonSchema)]
pub struct ForkTimes {
    /// The program that was started.
    pub program: String,
    /// By size; first without huge pages, then with.
    pub parents: Vec<Parent>,
    /// Sizes for which the machine has no memory, in megabytes.
    pub left_out: Vec<u64>,
}

/// Why nothing could be measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no program to start.
    #[error("neither /bin/true nor /usr/bin/true is there to be started")]
    NoProgram,
    /// A parent could not be made.
    #[error("a parent of {megabytes} MB: {error}")]
    Parent {
        /// Its size.
        megabytes: u64,
        /// The error.
        error: io::Error,
    },
}

/// Measures all sizes, and tells how many of how many parents are done. Forks, and must be called
/// while the process has one thread.
///
/// # Errors
/// [`Error`].
pub fn bench(options: ForkBenchOptions, progress: &dyn Fn(u64, u64)) -> Result<ForkTimes, Error> {
    let program = ["/bin/true", "/usr/bin/true"]
        .into_iter()
        .find(|path| std::path::Path::new(path).exists())
        .ok_or(Error::NoProgram)?;
    let mut bench = ForkTimes { program: program.to_owned(), parents: vec![], left_out: vec![] };
    let sizes = SIZES.into_iter().filter(|size| *size <= options.most);
    let of = 2 * sizes.clone().count() as u64;
    for megabytes in sizes {
        // The page cache may have to go for it; other programs must not.
        if megabytes << 20 > available_bytes() / 10 * 8 {
            bench.left_out.push(megabytes);
            continue;
        }
        for huge_pages in [false, true] {
            progress((bench.parents.len() + 2 * bench.left_out.len()) as u64, of);
            let parent = parent::measure(program, megabytes, huge_pages, options.rounds);
            bench.parents.push(parent.map_err(|error| Error::Parent { megabytes, error })?);
        }
    }
    Ok(bench)
}

fn available_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    kibibytes.map_or(u64::MAX, |kibibytes: u64| kibibytes * 1024)
}
