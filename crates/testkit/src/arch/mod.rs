//! What differs by processor, for tests that hold on each: where Debian has its files, and whether it runs
//! 32-bit programs. What only one processor has is `#[cfg(target_arch = …)]` where it is tested.
//!
//! | item | what it is |
//! |---|---|
//! | [`LIB`] | the directory of Debian's libraries, below `/` and below `/usr` |
//! | [`LOADER`] | the path of glibc's loader, which the ABI fixes |
//! | [`LOADER_NAME`] | its name, by which Debian has it in [`LIB`], too |
//! | [`NARROW`] | the compiler's option for 32-bit programs, which the machine's own compiler makes |

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub use aarch64::{LIB, LOADER, LOADER_NAME, NARROW};
#[cfg(target_arch = "x86_64")]
pub use x86_64::{LIB, LOADER, LOADER_NAME, NARROW};
