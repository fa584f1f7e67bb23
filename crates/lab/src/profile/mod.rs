//! Where the time of a command goes: samples by the real perf, and beside them the process starts
//! of a recording, which samples do not see.
//!
//! | file | what it holds |
//! |---|---|
//! | `allowed` | what the kernel lets this process sample |
//! | `perf` | `perf record` and `perf script`, driven |
//! | `text` | what `perf script` prints, read back |
//! | `clock` | perf's clock and the recording's |
//! | `lineage` | the processes of a recording by their ancestry |
//! | `account` | both put together |
//! | `quality`, `elf` | missing names and stacks without an end, and why |
//! | `starts` | the graph of process starts alone |
//! | `flame` | folded stacks, and the flame graph as SVG |

mod account;
mod allowed;
mod clock;
mod elf;
pub mod flame;
mod lineage;
mod perf;
mod quality;
mod starts;
pub mod text;

pub use account::{CommandProfile, Function, Gather, ProfiledProgram};
pub use allowed::Allowed;
pub use clock::origin_ns;
pub use perf::{PerfError, PerfSamples, Sampler, SamplingMethod, SamplingOptions, Scope, find};
pub use quality::ProfileWarning;
pub use starts::{StartsWidth, starts};
