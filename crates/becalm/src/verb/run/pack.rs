//! `becalm run --pack`: a program started from one file (`becalm elf pack`).

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use job::LaunchedRank;
use launch::layout::{self, MemoryLayout};
use pack::{OpenedPack, PackError};
use recording::shown_name;
use rustix::fs::StatVfsMountFlags;
use sandbox::mounts::{PathHandle, bind_alone};
use sandbox::namespace::{own_mounts, own_mounts_alone};
use schemars::JsonSchema;
use serde::Serialize;

use crate::exit::Failure;

/// A pack.
#[derive(Clone, clap::Args)]
#[group(skip)]
pub struct RunPackArgs {
    /// Start the program from this file, which becalm elf pack has made of it; in any doubt it
    /// starts as always. See docs/elf-pack.md
    #[arg(long, value_name = "FILE", group = "means",
        conflicts_with_all = ["calm", "image", "builtins", "hugepages", "aslr", "read_ahead"])]
    pub pack: Option<PathBuf>,

    /// The pack is the interpreter of the program, mounted over it for this run, or the executable
    /// [default: the interpreter, if a mount namespace can be had]
    #[arg(long, value_name = "FORM", value_enum, requires = "pack")]
    pack_as: Option<PackForm>,
}

/// In which form a pack is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PackForm {
    /// As the interpreter of the program's copy, which is mounted over the program.
    Interpreter,
    /// As the executable.
    Executable,
}

/// A pack that a command was started from.
#[derive(Serialize, JsonSchema)]
pub struct StartedPack {
    /// Its file.
    file: String,
    /// In which form; none where the program starts as always.
    form: Option<PackForm>,
    /// Why not in another form, or not at all.
    reason: Option<String>,
}

/// How a command is started.
pub struct PackedLaunch {
    /// What is told.
    pub about: StartedPack,
    /// The file that is executed in place of the command's.
    pub executable: Option<PathBuf>,
}

/// Prepares the start of a command from a pack.
///
/// # Errors
/// Where it is a pack of another program.
pub fn enter(
    args: &RunPackArgs,
    command: &launch::Command,
) -> Result<Option<PackedLaunch>, Failure> {
    let Some(file) = &args.pack else { return Ok(None) };
    // Where it was looked at, whatever its name leads to by then.
    let mut real = None;
    let started = match OpenedPack::open(file) {
        Ok(pack) => {
            real = Some(pack.path.clone());
            is_of(&pack, file, command)?;
            begin(&pack, args.pack_as, command).map_err(|reason| (file.clone(), reason))
        }
        // A job is not to end since its pack was lost or cut short.
        Err(PackError::Unusable { file, reason }) => Err((file, reason)),
        Err(PackError::NoPack(file)) => Err((file, "is no pack of becalm elf pack".to_owned())),
        Err(error) => Err((file.clone(), error.to_string())),
    };
    let shown = shown_name(file.as_os_str());
    let (form, reason) = match started {
        Ok((form, reason)) => (Some(form), reason),
        Err((of, reason)) => {
            if super::aslr::is_first() {
                let of = shown_name(of.as_os_str());
                term::warn(&format!("{of}: {reason}; the program starts as always"));
            }
            (None, Some(reason))
        }
    };
    let executable = real.filter(|_| form == Some(PackForm::Executable));
    Ok(Some(PackedLaunch { about: StartedPack { file: shown, form, reason }, executable }))
}

/// Refuses another program than the pack's.
fn is_of(pack: &OpenedPack, file: &Path, command: &launch::Command) -> Result<(), Failure> {
    let named =
        command.file().map_err(|why| Failure { status: why.exit_status(), error: why.into() })?;
    let is_same = named.canonicalize().ok() == pack.about.program.canonicalize().ok();
    if is_same {
        return Ok(());
    }
    let (file, of) = (shown_name(file.as_os_str()), shown_name(pack.about.program.as_os_str()));
    let named = shown_name(named.as_os_str());
    Err(Failure::of_command(anyhow!("{file} is a pack of {of}, and the command is {named}")))
}

/// The form that was prepared, and why no other; or why the program starts as always.
type BegunPack = Result<(PackForm, Option<String>), String>;

fn begin(pack: &OpenedPack, asked: Option<PackForm>, command: &launch::Command) -> BegunPack {
    surely_refused(pack).map_or(Ok(()), Err)?;
    let mut refused = None;
    if asked != Some(PackForm::Executable) {
        match as_interpreter(pack, command) {
            Ok(()) => return Ok((PackForm::Interpreter, None)),
            Err(why) if asked.is_some() => return Err(why),
            Err(why) => refused = Some(why),
        }
    }
    match &pack.about.not_as_executable {
        Some(why) => {
            let first = refused.map(|why| format!("{why}; ")).unwrap_or_default();
            Err(format!("{first}the pack cannot be the executable: {why}"))
        }
        None => Ok((PackForm::Executable, refused)),
    }
}

/// With less room for memory, the start is left as it is: a pack takes tens of megabytes more, and where they do not
/// fit, the kernel kills the program as it executes it (execve(2), "past the point of no return").
const NEEDED_MEMORY: u64 = 4 << 30;

/// What the pack's own code would find, too, as far as it takes no metadata operation: said here,
/// since that code says nothing.
fn surely_refused(pack: &OpenedPack) -> Option<String> {
    if !pack.is_of_todays_program() {
        return Some("the program has changed since it was packed".into());
    }
    let limit = rustix::process::getrlimit(rustix::process::Resource::Stack).current;
    if limit != pack.about.stack_limit {
        return Some(
            "the limit of the stack (ulimit -s) is not that under which it was packed".into(),
        );
    }
    let memory = rustix::process::getrlimit(rustix::process::Resource::As).current;
    if memory.is_some_and(|most| most < NEEDED_MEMORY) {
        return Some("memory is limited (ulimit -v), and a pack takes more of it".into());
    }
    let obeyed = |name: &str| {
        name.starts_with("LD_") || name.starts_with("MALLOC_") || name == "GLIBC_TUNABLES"
    };
    let names = std::env::vars_os().map(|(name, _)| shown_name(&name));
    if let Some(name) = names.into_iter().find(|name| obeyed(name)) {
        return Some(format!("{name} is set, which changes how a program starts"));
    }
    let noexec = [&pack.path, &pack.copy].into_iter().find(|file| {
        let flags = rustix::fs::statvfs(*file).map(|about| about.f_flag);
        !flags.is_ok_and(|flags| !flags.contains(StatVfsMountFlags::NOEXEC))
    });
    noexec.map(|file| format!("{} is on a filesystem mounted noexec", shown_name(file.as_os_str())))
}

/// Mounts the program's copy over the program, for this process and what it starts; else, why not.
fn as_interpreter(pack: &OpenedPack, command: &launch::Command) -> Result<(), String> {
    if pack.about.fixed_layout && layout::is_off() {
        return Err("address randomisation is off already (setarch -R)".into());
    }
    // Ranks read each other's memory, as they cannot from user namespaces of their own.
    let own = match LaunchedRank::this_process() {
        Some(_) => own_mounts_alone(),
        None => own_mounts().map(drop),
    };
    own.map_err(|why| why.to_string())?;
    let copy = PathHandle::at(&pack.copy);
    let program = pack.about.program.canonicalize();
    let (copy, program) =
        copy.and_then(|copy| Ok((copy, program?))).map_err(|why| why.to_string())?;
    if pack.about.fixed_layout {
        let entered = layout::enter(MemoryLayout::Off, command, &mut Vec::new());
        entered.map_err(|why| why.to_string())?;
    }
    bind_alone(&copy, &program).map_err(|why| {
        layout::randomise();
        why.to_string()
    })
}
