//! Summaries of measured values, and comparisons that say how sure they are.
//!
//! Everything is exact where it can be, deterministic, and free of assumptions about how times
//! are distributed: times of programs are skewed and have outliers, so medians and ranks are
//! compared, not means. No value here has a unit; the caller knows it.
//!
//! | file | what it holds |
//! |---|---|
//! | `summary` | quartiles, mean, spread, outliers of one series |
//! | `interval` | an exact interval for a median, from ranks |
//! | `ratio` | the ratio of two series and its interval: paired, or measured apart |
//! | `rank_sum` | how the rank sum of two series is distributed, which the latter needs |
//! | `trend` | whether a series rises or falls with time |
//! | `random` | a seeded source of coin flips, for shuffled orders |

mod interval;
mod random;
mod rank_sum;
mod ratio;
mod summary;
mod trend;

pub use interval::{CONFIDENCE, Ranks, SMALLEST_SERIES, median_ranks};
pub use random::Random;
pub use ratio::{Interval, Method, Ratio, independent, paired};
pub use summary::{Summary, median, outliers};
pub use trend::trend;
