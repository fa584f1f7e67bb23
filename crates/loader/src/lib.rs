//! What the dynamic loader does, told from the files it reads: nothing is run.
//!
//! The loader is ld.so of glibc or of musl. This crate reads ELF files as it does, follows its
//! search step by step, and says every path that it will ask the kernel for, in order. That is
//! held against the real thing, probe for probe, by the tests.
//!
//! ```
//! use std::path::Path;
//! use loader::{Disk, Setting, outline, simulate};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let disk = Disk::new(); // what it reads once, it knows for all simulations
//! let program = Path::new("/bin/sh");
//! let setting = Setting::for_program(&disk, program)?
//!     .with_environment(|name| std::env::var_os(name)); // LD_LIBRARY_PATH, LD_PRELOAD …
//! let simulation = simulate(&disk, program, &setting)?;
//! for object in &simulation.objects {
//!     println!("{} ({:?})", object.path.display(), object.how);
//! }
//! for probe in &simulation.probes {
//!     println!("{} {} {:?}", setting.system_call(probe.call), probe.path.display(), probe.answer);
//! }
//! for missing in &simulation.missing {
//!     println!("missing: {} ({})", missing.name.display(), missing.why);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A [`World`] answers for the filesystem. [`Disk`] is the real one; an [`PlannedWorld`] has planned
//! changes on top, so that a plan can be simulated before it is applied.
//!
//! | file | what it holds |
//! |---|---|
//! | `object` | what one ELF file says: SONAME, NEEDED, RPATH, RUNPATH, PT_INTERP … |
//! | `world` | the filesystem: [`Disk`], [`PlannedWorld`] |
//! | `setting` | which loader, its version and build, the CPU, the environment |
//! | `cache` | /etc/ld.so.cache |
//! | `simulation` | the search: `glibc`, `musl` |
//! | `edit` | ELF files changed in place |
//! | `bind` | a plan after which nothing is searched |
//! | `facts` | what a recording keeps of an ELF file |
//! | `source` | bytes at an offset, of a file that may be cut or hostile |
//!
//! Not simulated: auditing libraries ([`SimulateError::Audited`]), `dlopen` during the run, a
//! loader that is started as a program (`ld.so PROGRAM`), and other machines than x86.

pub mod bind;
mod cache;
pub mod edit;
mod facts;
pub mod object;
pub mod setting;
pub mod simulation;
mod source;
pub mod world;

pub use cache::LdSoCache;
pub use facts::facts;
pub use object::{ElfError, ElfObject, Identity};
pub use setting::{Libc, LoaderSetting, SettingError};
pub use simulation::{SimulateError, Simulation, outline, simulate};
pub use world::{Disk, Errno, FileId, OpenedFile, PlannedWorld, World};
