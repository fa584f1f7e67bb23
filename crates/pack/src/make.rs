//! From a program to its pack.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use launch::{Command, loaded_start};

use crate::about::is_pack;
use crate::arch::clock;
use crate::compare::StoppedStart;
use crate::program::Program;
use crate::work::{Identities, PackWork, identities, vdso_places};
use crate::{MadePack, PackError, PackOptions, copy};

/// Packs a program: its file is started twice, up to where its loader has done its work.
///
/// The calling process must have one thread.
///
/// # Errors
/// [`PackError`]; nothing is written then.
pub fn make(program: &Path, out: &Path, options: &PackOptions) -> Result<MadePack, PackError> {
    let program = Program::read(program)?;
    let target = target(out)?;
    let kept: Vec<_> = std::env::vars_os().collect();
    let starts = both(&program);
    with_environment(&kept);
    let ((one, identities), other) = starts?;
    let work = PackWork::of(&program, &one, &other, identities, options);
    let work = work.map_err(|reason| program.refuse(&reason))?;
    work.write(&target)
}

/// Why a program is surely not packed here; none where that is seen only once it is tried.
pub fn why_not(program: &Path) -> Option<String> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Stack).maximum;
    let limited = limit.map(|_| "the hard limit of the stack is not unlimited".to_owned());
    limited.or_else(|| Program::read(program).err().map(|refused| refused.to_string()))
}

/// Where the pack goes, without symbolic links; what is there already must be one.
fn target(out: &Path) -> Result<PathBuf, PackError> {
    let path = std::path::absolute(out).map_err(PackError::at("name", out))?;
    let directory = path.parent().unwrap_or(Path::new("/"));
    let directory = directory.canonicalize().map_err(PackError::at("find", directory))?;
    let target = directory.join(path.file_name().unwrap_or_default());
    if target.to_str().is_none() {
        return Err(PackError::unusable(out, "its path is no text"));
    }
    for file in [target.clone(), copy::path_of(&target)] {
        match file.symlink_metadata() {
            Ok(about) if !about.is_file() => {
                return Err(PackError::unusable(&file, "is there, and no regular file"));
            }
            Ok(_) if file == target => {
                let opened = std::fs::File::open(&file).map_err(PackError::at("open", &file))?;
                if !is_pack(&opened) {
                    return Err(PackError::unusable(&file, "is there, and no pack: left alone"));
                }
            }
            Ok(_) if target.symlink_metadata().is_err() => {
                return Err(PackError::unusable(&file, "is there, and not a pack's: left alone"));
            }
            _ => {}
        }
    }
    Ok(target)
}

/// The two starts, on one processor, and the files between them.
fn both(program: &Program) -> Result<((StoppedStart, Identities), StoppedStart), PackError> {
    let cpu = rustix::thread::sched_getaffinity(None).ok();
    let mut here = rustix::thread::CpuSet::new();
    here.set(rustix::thread::sched_getcpu());
    let _ = rustix::thread::sched_setaffinity(None, &here);
    let starts = (|| {
        let one = start(program, 0)?;
        let identities = identities(program, &one);
        let other = start(program, 1)?;
        Ok(((one, identities), other))
    })();
    if let Some(cpu) = cpu {
        let _ = rustix::thread::sched_setaffinity(None, &cpu);
    }
    starts
}

/// A start with arguments and an environment of which nothing lies where that of the other does.
fn start(program: &Program, which: usize) -> Result<StoppedStart, PackError> {
    let words: [&[&str]; 2] = [&["one"], &["another", "with", "more words than the first one has"]];
    let argv = [program.path.clone().into_os_string()].into_iter();
    let argv = argv.chain(words[which].iter().map(Into::into)).collect();
    let variables = (0..3 + 8 * which)
        .map(|n| (OsString::from(format!("BECALM_{n}")), "x".repeat(17 + 61 * which).into()));
    with_environment(&variables.collect::<Vec<_>>());
    let refused = |reason: String| program.refuse(&reason);
    let began = clock();
    let loaded = loaded_start(&Command::of(argv), vdso_places()[which])
        .map_err(|why| refused(why.to_string()))?;
    StoppedStart::of(loaded, began..clock()).map_err(refused)
}

/// Has what is started from now on see these variables only.
fn with_environment(variables: &[(OsString, OsString)]) {
    let names: Vec<_> = std::env::vars_os().map(|(name, _)| name).collect();
    launch::unset_variables(&names);
    launch::set_variables(variables);
}
