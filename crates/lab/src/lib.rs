#![doc = include_str!("../README.md")]
//!
//! | room | what it holds |
//! |---|---|
//! | `aslr` | address layouts: one in a job or not, scanned, run in campaigns; logs analysed |
//! | `fork_bench` | what starting a program costs, by the size of who starts it |
//! | `collapse` | a running process's memory put into huge pages, so that it forks faster |
//! | `profile` | where time goes: samples, and the process starts that they miss |
//! | `ministat` | what the program ministat prints |

pub mod aslr;
pub mod collapse;
pub mod fork_bench;
pub mod ministat;
pub mod profile;
