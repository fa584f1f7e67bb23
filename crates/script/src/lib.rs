#![doc = include_str!("../README.md")]
//!
//! | room | what it holds |
//! |---|---|
//! | `builtins` | programs that bash runs in its own process, or starts without a copy of itself |
//! | `hugepages` | a shell's memory in huge pages, by glibc's malloc, so that it forks faster |
//! | `lines` | which line of a script starts what, and what to write instead |

pub mod builtins;
pub mod hugepages;
pub mod lines;
