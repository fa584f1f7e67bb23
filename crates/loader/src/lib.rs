#![doc = include_str!("../README.md")]
//!
//! A [`World`] answers for the filesystem. [`Disk`] is the real one; a [`PlannedWorld`] has planned
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
//! | `install_watch` | when an installation into a tree is over |
//! | `arch` | what this machine's processor decides |
//! | `facts` | what a recording keeps of an ELF file |
//! | `recorded` | what a recording keeps of loaders' lookups |
//! | `source` | bytes at an offset, of a file that may be cut or hostile |
//!
//! Not simulated: auditing libraries ([`SimulateError::Audited`]), `dlclose`, and `dlopen` by musl, a
//! loader that is started as a program (`ld.so PROGRAM`), the file that `LD_PROFILE` writes, a
//! program that asks for an executable stack where `glibc.rtld.execstack` forbids it, and other
//! machines than x86.

mod arch;
pub mod bind;
mod cache;
pub mod edit;
mod facts;
mod install_watch;
pub mod object;
mod recorded;
pub mod setting;
pub mod simulation;
mod source;
pub mod world;

pub use cache::LdSoCache;
pub use facts::facts;
pub use install_watch::{InstallWatch, InstallWatchError};
pub use object::{ElfError, ElfObject, Identity};
pub use recorded::{RecordedSearch, recorded_searches};
pub use setting::{Libc, LoaderSetting, SettingError};
pub use simulation::{
    Dlopen, RecordedProbe, SimulateError, Simulation, inferred_calls, outline, outline_run,
    simulate, simulate_run,
};
pub use world::{Disk, EntryKind, Errno, FileId, OpenedFile, PlannedWorld, World};
