#![doc = include_str!("../README.md")]
//!
//! A [`Proof`] is made of two [`Side`]s. [`interleaved`] measures both of them, in shuffled
//! pairs; where the change can only be made once, between the two, each side is measured by
//! [`ProofBench::measure`], and [`Proof::of`] puts them together and says that they were measured
//! apart.
//!
//! | file | what it holds |
//! |---|---|
//! | `side` | one of the two: its command, and all that was measured of it |
//! | `bench` | runs a side's command: recorded, timed, with a time limit |
//! | `elsewhere` | other surroundings for runs, such as a rehearsed filesystem |
//! | `recorded` | one recorded run, and what is counted of it |
//! | `interleaved` | both sides in turns: warm-up, recordings, timed pairs |
//! | `counts` | what a recording counts, and what two of them say of each other |
//! | `behaviour` | same output, same status |
//! | `times` | what the timed runs say |
//! | `place` | the filesystem that a claim of speed is made on |
//! | `verdict` | the answer; `words`: the same as a sentence |
//! | `harm` | whether a change is not to be kept |
//! | `proof` | all of it, as one value |
//! | `export` | the same as CSV and as Markdown |

mod behaviour;
mod bench;
mod counts;
mod elsewhere;
mod export;
mod harm;
mod interleaved;
mod place;
mod proof;
mod recorded;
mod side;
mod times;
mod verdict;
mod words;

pub use behaviour::{Behaviour, BehaviourDifference, Output};
pub use bench::{ProofBench, ProofError};
pub use counts::{CallCount, CountChange, CountComparison, RecordedCounts, counts};
pub use elsewhere::{RunSurroundings, ServerCounts, SurroundingsStay};
pub use export::{csv, markdown};
pub use harm::Harm;
pub use interleaved::{FEWEST_RUNS, MOST_RUNS, ProofPlan, ProofProgress, interleaved};
pub use place::TestedFilesystem;
pub use proof::{Conditions, Proof, RunOrder, SCHEMA};
pub use side::{Side, Subject, TimedRun};
pub use times::{Speed, Times};
pub use verdict::ProofVerdict;
