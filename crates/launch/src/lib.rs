#![doc = include_str!("../README.md")]
//!
//! Only this crate starts users' programs. It knows what a process inherits and what a Rust
//! program silently changes of that (SIGPIPE, closed standard descriptors), how a command is
//! looked up and executed (execvp(3)), and what its end looks like to whoever waits.
//!
//! | file | what it holds |
//! |---|---|
//! | `inherited` | signal dispositions and descriptors, as they were before Rust's runtime |
//! | `lookup` | which file a command's name means; why it cannot be executed |
//! | `child` | fork, and waiting for what was forked |
//! | `execution` | becoming a command, with everything prepared before a fork |
//! | `spawn` | fork, a gate for a tracer, exec |
//! | `ended` | how a command ended, and ending in the same way |
//! | `timed` | a command run to its end, and the time it took |
//! | `attended` | the same for somebody who waits: signals and stops pass both ways |
//! | `alarm` | what this process waits in ends after some time |
//! | `signals` | signals held back; which of them are for the command |
//! | `job_stop` | this process stopped, unless it is continued at that moment |
//! | `signal_monitor` | whether a signal was sent to a process or to its group |
//! | `descriptors` | nothing inherited is held |
//! | `line` | a command written as one line of text, split as a shell would |
//! | `stage` | a process in which a command has other surroundings and a time limit |
//! | `capture` | what it wrote, in bounded memory |
//! | `layout` | where a command's memory lies: no randomisation, or moved by a chosen distance |
//! | `arranged` | a program stopped at its first instruction, with each mapping of its loader where it is wanted |
//! | `loaded` | a program stopped where its loader has done its work |
//! | `for_another_user` | what of its environment root hands on to a program of another user's |
//! | `helper` | a program that answers over two pipes, within a time limit |
//! | `python_hook` | code that each Python of a command runs first |
//! | `scratch` | room for what is kept for a moment |
//! | `own_stack` | becalm's own stack, where the stack is limited |
//! | `orphan` | a process of becalm's own that outlives the one that started it |
//! | `replace` | becoming the command, in place |
//! | `rights` | rights that a program has of its own |
//! | `arch` | what the processor decides |
//! | `stop` | signals that ask becalm to end what it has started |
//! | `noted_end` | signals that ask becalm to end, noted until its work can be left |
//! | `unfinished` | what is removed if becalm is asked to end before it is complete |

mod alarm;
mod arch;
#[cfg(target_arch = "x86_64")]
mod arranged;
mod attended;
mod capture;
mod child;
mod descriptors;
mod ended;
mod execution;
mod for_another_user;
mod helper;
mod inherited;
mod job_stop;
pub mod layout;
mod leftovers;
mod line;
#[cfg(target_arch = "x86_64")]
mod loaded;
mod lookup;
mod noted_end;
mod orphan;
mod own_stack;
mod python_hook;
mod replace;
mod rights;
mod scratch;
mod signal_monitor;
pub mod signals;
mod spawn;
mod stage;
mod stop;
mod terminal_groups;
mod timed;
mod unfinished;

pub use alarm::WaitAlarm;
#[cfg(target_arch = "x86_64")]
pub use arranged::{ArrangedStart, Arrangement, LoaderMapping, arranged_start};
pub use attended::attended;
pub use capture::Captured;
pub use child::{fork_with, forked, wait_for};
pub use descriptors::keep_only;
pub use ended::Ended;
pub use for_another_user::is_for_another_user;
pub use helper::{Helper, HelperSetting};
pub use inherited::{restore_signals, was_closed};
pub use job_stop::{a_stop_is_pending, is_terminal_stop, stop_by};
pub use leftovers::Leftovers;
pub use line::{CommandLine, LineError};
#[cfg(target_arch = "x86_64")]
pub use loaded::{LoadedError, LoadedStart, LoaderSystemCall, loaded_start};
pub use lookup::{CannotStart, Command};
pub use noted_end::NotedEnd;
pub use orphan::orphan;
pub use own_stack::with_enough_stack;
pub use python_hook::{HookError, PythonHook, takes_hook};
pub use replace::{replace, replace_as, set_variables, unset_variables};
pub use rights::{gives_rights, lost_rights};
pub use scratch::{scratch_file, temporary_directory};
pub use signal_monitor::SignalMonitor;
pub use spawn::{Gated, spawn};
pub use stage::{Stage, StageError, StageOutcome, check_input};
pub use stop::EndRequests;
pub use terminal_groups::{are_in_one_group, is_in_own_group, leads_session};
pub use timed::{Timed, timed};
pub use unfinished::Unfinished;
