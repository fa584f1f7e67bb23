//! How a run is set up: which loader, on which CPU, with which environment.
//!
//! | file | what it holds |
//! |---|---|
//! | `profile` | what differs between versions and builds of glibc's loader |
//! | `musl` | the same of musl's |
//! | `machine` | machines, and their marks in ld.so.cache |
//! | `cpu` | features of the CPU that decide which directories are searched |
//! | `loader_file` | what a loader's own bytes tell of it |
//! | `environment` | `LD_LIBRARY_PATH`, `LD_PRELOAD`, `GLIBC_TUNABLES` … |

mod cpu;
mod environment;
mod loader_file;
pub(crate) mod machine;
mod musl;
pub(crate) mod profile;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use cpu::{Cpu, Features};
pub use musl::Musl;
pub use profile::GlibcProfile;

use crate::object::ElfClass;
use crate::{ElfError, Errno, Identity, World};

/// Which C library's loader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Libc {
    /// The GNU C library's ld.so.
    Glibc(GlibcProfile),
    /// musl's ld-musl.
    Musl(Musl),
}

/// How a run is set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoaderSetting {
    /// Which loader.
    pub libc: Libc,
    /// The path of the loader, as in `PT_INTERP`.
    pub interpreter: PathBuf,
    /// `LD_LIBRARY_PATH`.
    pub library_path: Option<OsString>,
    /// `LD_PRELOAD`.
    pub preload: Option<OsString>,
    /// `LD_AUDIT`: not simulated; see [`crate::SimulateError::Audited`].
    pub audit: Option<OsString>,
    /// The directory that relative paths start from.
    pub working_directory: PathBuf,
    /// Whether the program runs with rights that its caller does not have (`AT_SECURE`): by the
    /// set-user-id or set-group-id bit, or by file capabilities. Or as if, by
    /// `glibc.rtld.enable_secure`.
    pub secure: bool,
}

/// Why a program has no setting.
#[derive(Debug, thiserror::Error)]
pub enum SettingError {
    /// The program, or a loader, cannot be opened.
    #[error("cannot open {0}: {1}")]
    Open(PathBuf, Errno),
    /// The program is no ELF file, or damaged.
    #[error("{0}: {1}")]
    Elf(PathBuf, Arc<ElfError>),
    /// There is no loader to simulate.
    #[error("{0} is not dynamically linked")]
    Static(PathBuf),
    /// What is wrong with the loader that a program names.
    #[error("the loader of {program}: {why}")]
    Loader {
        /// The program.
        program: PathBuf,
        /// What is wrong.
        why: Box<SettingError>,
    },
    /// Neither glibc's nor musl's loader.
    #[error("{0} is a loader that is not known")]
    UnknownLoader(PathBuf),
    /// A file for a machine of which no loader is simulated.
    #[error("{0} is for {name}: only the loaders of x86-64, i386 and AArch64 are known", name = .1.machine_name())]
    Foreign(PathBuf, Identity),
    /// The loader is not for the machine of the file that names it.
    #[error(
        "{path} is a loader for {is}: it does not load what is for {wanted}",
        is = .is.machine_name(), wanted = .wanted.machine_name()
    )]
    ForeignLoader {
        /// The loader.
        path: PathBuf,
        /// Whom it is for.
        is: Identity,
        /// Whom the file is for that names it.
        wanted: Identity,
    },
}

impl LoaderSetting {
    /// The setting of `program` on this machine, started by this user, without environment
    /// variables. The loader that the program names is read, never run. A library names none: it
    /// gets the [usual](LoaderSetting::usual_interpreter) one.
    ///
    /// # Errors
    /// [`SettingError`].
    pub fn for_program(world: &dyn World, program: &Path) -> Result<LoaderSetting, SettingError> {
        let fail = |errno| SettingError::Open(program.to_owned(), errno);
        let absolute = std::path::absolute(program).map_err(|error| fail(Errno::from(error)))?;
        let opened = world.open(&absolute).map_err(fail)?;
        let object = opened.object.map_err(|error| SettingError::Elf(program.to_owned(), error))?;
        let identity = object.identity();
        if !identity.is_simulated() {
            return Err(SettingError::Foreign(program.to_owned(), identity));
        }
        // A static executable that can be moved has a dynamic section, too.
        let is_static = !object.is_dynamic || object.flags_1 & crate::ElfObject::PIE != 0;
        let usual =
            || LoaderSetting::usual_interpreter(&object).filter(|_| !is_static).map(Path::new);
        let named = object.interpreter.as_deref().filter(|_| object.is_dynamic).map(Path::new);
        let interpreter = named.or_else(usual);
        let interpreter = interpreter.ok_or_else(|| SettingError::Static(program.to_owned()))?;
        let of_loader =
            |why| SettingError::Loader { program: program.to_owned(), why: Box::new(why) };
        let mut setting =
            LoaderSetting::for_interpreter(world, interpreter, identity).map_err(of_loader)?;
        setting.secure = world.gains_rights(&absolute);
        Ok(setting)
    }

    /// Where glibc's loader usually is, for the machine of an object (glibc,
    /// sysdeps/unix/sysv/linux/*/ldconfig.h).
    pub fn usual_interpreter(object: &crate::ElfObject) -> Option<&'static str> {
        match (object.machine, object.class) {
            (profile::X86_64, ElfClass::Elf64) => Some("/lib64/ld-linux-x86-64.so.2"),
            (profile::I386, ElfClass::Elf32) => Some("/lib/ld-linux.so.2"),
            (profile::AARCH64, ElfClass::Elf64) => Some("/lib/ld-linux-aarch64.so.1"),
            _ => None,
        }
    }

    /// The setting for programs that name the loader `interpreter`, and are for this machine:
    /// the same path is the loader of one machine here and of another elsewhere.
    ///
    /// # Errors
    /// [`SettingError`].
    pub fn for_interpreter(
        world: &dyn World,
        interpreter: &Path,
        wanted: Identity,
    ) -> Result<LoaderSetting, SettingError> {
        let path = interpreter.to_owned();
        if !wanted.is_simulated() {
            return Err(SettingError::Foreign(path, wanted));
        }
        let bytes =
            world.bytes(interpreter).map_err(|errno| SettingError::Open(path.clone(), errno))?;
        let unknown = || SettingError::UnknownLoader(path.clone());
        let is = crate::ElfObject::identity_of(&bytes).ok_or_else(unknown)?;
        if is != wanted {
            return Err(SettingError::ForeignLoader { path, is, wanted });
        }
        let libc = match loader_file::is_musl(&bytes) {
            true => Libc::Musl(Musl::of(&bytes).ok_or_else(unknown)?),
            false => Libc::Glibc(glibc(world, interpreter, &bytes).ok_or_else(unknown)?),
        };
        Ok(LoaderSetting {
            libc,
            interpreter: interpreter.to_owned(),
            library_path: None,
            preload: None,
            audit: None,
            working_directory: std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/")),
            secure: false,
        })
    }
}

/// The profile of the loader with these bytes.
fn glibc(world: &dyn World, path: &Path, bytes: &[u8]) -> Option<GlibcProfile> {
    let object = crate::ElfObject::parse(bytes).ok()?;
    let cpu = Cpu::of_this_machine();
    let version = glibc_version(world, path, bytes)?;
    let mut profile = match (object.machine, object.class) {
        (profile::X86_64, ElfClass::Elf64) => GlibcProfile::x86_64(version, cpu),
        (profile::I386, ElfClass::Elf32) => GlibcProfile::i386(version, cpu),
        (profile::AARCH64, ElfClass::Elf64) => GlibcProfile::aarch64(version, cpu),
        _ => return None,
    };
    let directories = loader_file::system_directories(bytes);
    if let Some(first) = directories.first() {
        profile.lib = loader_file::lib(bytes, first);
        profile.system_directories = directories;
    }
    profile.cache = loader_file::path_ending(bytes, "/ld.so.cache");
    profile.preload_file = loader_file::path_ending(bytes, "/ld.so.preload");
    profile.nohwcap = loader_file::has_text(bytes, OsStr::new("/etc/ld.so.nohwcap"));
    profile.machine_first = profile.nohwcap || loader_file::is_debians(bytes);
    Some(profile)
}

/// The loader says its version since 2.33; before that its file was called ld-2.32.so; else the
/// C library beside it says it.
fn glibc_version(world: &dyn World, path: &Path, bytes: &[u8]) -> Option<(u32, u32)> {
    let named = || loader_file::named_version(&world.real_path(path).ok()?);
    let beside = || {
        let real = world.real_path(path).ok()?;
        loader_file::glibc_version(&world.bytes(&real.with_file_name("libc.so.6")).ok()?)
    };
    loader_file::glibc_version(bytes).or_else(named).or_else(beside)
}
