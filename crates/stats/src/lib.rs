#![doc = include_str!("../README.md")]
//!
//! Everything is exact where it can be, deterministic, and free of assumptions about how times
//! are distributed: times of programs are skewed and have outliers, so medians and ranks are
//! compared, not means; what is rare is counted. No value here has a unit; the caller knows it.
//!
//! | file | what it holds |
//! |---|---|
//! | `summary` | quartiles, mean, spread, outliers of one series |
//! | `interval` | an exact interval for a median, from ranks |
//! | `ratio` | the ratio of two series and its interval: paired, or measured apart |
//! | `rank_sum` | how the rank sum of two series is distributed, which the latter needs |
//! | `trend` | whether a series rises or falls with time |
//! | `proportion` | how often something happens: its interval, and the chance of one in many |
//! | `fisher` | whether something rare is rarer on one side, in one table or within blocks |
//! | `power` | how many tries a conclusion takes |
//! | `student` | Student's t |
//! | `beta` | the incomplete beta function, to which the former come down |
//! | `stirling` | binomial probabilities with all their digits |
//! | `random` | a seeded source of coin flips, for shuffled orders |

mod beta;
mod fisher;
mod interval;
mod power;
mod proportion;
mod random;
mod rank_sum;
mod ratio;
mod stirling;
mod student;
mod summary;
mod trend;

pub use beta::{Split, beta_quantile, beta_split};
pub use fisher::Chance;
pub use interval::{CONFIDENCE, MedianRanks, SMALLEST_SERIES, median_ranks};
pub use power::{least_seen, power, sample_size};
pub use proportion::{Bounds, Count, any, at_least, to_see_one};
pub use random::Random;
pub use ratio::{Interval, Method, Ratio, independent, paired};
pub use student::{student_p, student_t};
pub use summary::{Summary, median, outliers};
pub use trend::trend;
