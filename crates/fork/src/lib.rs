//! The fork storm: scripts that start thousands of tiny programs.
//!
//! | room | what it holds |
//! |---|---|
//! | `bench` | what starting a program costs, by the size of who starts it |
//! | `builtins` | programs that bash runs in its own process, or starts without a copy of itself |
//! | `collapse` | a running process's memory put into huge pages, so that it forks faster |
//! | `hugepages` | the same from the start, by glibc's malloc |
//! | `lines` | which line of a script starts what, and what to write instead |

pub mod bench;
pub mod builtins;
pub mod collapse;
pub mod hugepages;
pub mod lines;
