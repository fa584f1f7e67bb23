//! `becalm run --pack`: a program started from one file (`becalm elf pack`).

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use launch::layout::{self, MemoryLayout};
use pack::{OpenedPack, PackError};
use recording::shown_name;
use rustix::fs::StatVfsMountFlags;
use sandbox::mounts::{PathHandle, bind_alone};
use sandbox::namespace::own_mounts;
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
/// Where the pack is none, or of another program.
pub fn enter(args: &RunPackArgs, command: &launch::Command) -> Result<Option<PackedLaunch>, Failure> {
    let Some(file) = &args.pack else { return Ok(None) };
    let started = match OpenedPack::open(file) {
        Ok(pack) => {
            is_of(&pack, file, command)?;
            begin(&pack, args.pack_as, command)?
        }
        Err(PackError::Unusable { reason, .. }) => Err(reason),
        Err(error) => return Err(Failure::of_command(error)),
    };
    let shown = shown_name(file.as_os_str());
    let (form, reason) = match started {
        Ok((form, reason)) => (Some(form), reason),
        Err(reason) => {
            term::warn(&format!("{shown}: {reason}; the program starts as always"));
            (None, Some(reason))
        }
    };
    let executable = (form == Some(PackForm::Executable)).then(|| file.clone());
    Ok(Some(PackedLaunch { about: StartedPack { file: shown, form, reason }, executable }))
}

/// Refuses another program than the pack's.
fn is_of(pack: &OpenedPack, file: &Path, command: &launch::Command) -> Result<(), Failure> {
    let named = command.file().map_err(|why| Failure { status: why.exit_status(), error: why.into() })?;
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

fn begin(
    pack: &OpenedPack,
    asked: Option<PackForm>,
    command: &launch::Command,
) -> Result<BegunPack, Failure> {
    if !pack.is_of_todays_program() {
        return Ok(Err("the program has changed since it was packed".into()));
    }
    for file in [&pack.path, &pack.copy] {
        let flags = rustix::fs::statvfs(file).map(|about| about.f_flag);
        if !flags.is_ok_and(|flags| !flags.contains(StatVfsMountFlags::NOEXEC)) {
            let file = shown_name(file.as_os_str());
            return Ok(Err(format!("{file} is on a filesystem mounted noexec")));
        }
    }
    let mut refused = None;
    if asked != Some(PackForm::Executable) {
        if pack.about.fixed_layout && layout::is_off() {
            return Ok(Err("address randomisation is off already (setarch -R)".into()));
        }
        match own_mounts() {
            Ok(_) => return as_interpreter(pack, command).map(|()| Ok((PackForm::Interpreter, None))),
            Err(why) if asked.is_some() => return Ok(Err(why.to_string())),
            Err(why) => refused = Some(why.to_string()),
        }
    }
    match &pack.about.not_as_executable {
        Some(why) => {
            let first = refused.map(|why| format!("{why}; ")).unwrap_or_default();
            Ok(Err(format!("{first}the pack cannot be the executable: {why}")))
        }
        None => Ok(Ok((PackForm::Executable, refused))),
    }
}

/// Mounts the program's copy over the program, for this process and what it starts.
fn as_interpreter(pack: &OpenedPack, command: &launch::Command) -> Result<(), Failure> {
    let copy = PathHandle::at(&pack.copy).map_err(Failure::of_command)?;
    let program = pack.about.program.canonicalize().map_err(Failure::of_command)?;
    bind_alone(&copy, &program).map_err(Failure::of_command)?;
    if pack.about.fixed_layout {
        let entered = layout::enter(MemoryLayout::Off, command, &mut Vec::new());
        entered.map_err(Failure::of_command)?;
    }
    Ok(())
}
