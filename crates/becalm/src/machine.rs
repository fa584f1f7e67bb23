//! What can be done on this machine of what would calm a storm.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use cure::{FileWriter, Machine, ModuleCure};
use launch::Stage;
use modules::site::{Environment, ModulesSite};
use modules::tree::acl;
use rustix::fs::Access;
use sandbox::namespace;
use script::builtins::Prepared;

/// This machine, this user, this working directory.
pub fn here() -> Machine {
    Machine {
        takes_builtins,
        file_writer,
        can_mount,
        why_no_image,
        why_no_pack,
        directories_below,
        files_below,
        module_cure,
    }
}

fn takes_builtins(file: Option<&Path>) -> bool {
    static PREPARED: OnceLock<Option<Prepared>> = OnceLock::new();
    let prepared = PREPARED.get_or_init(|| script::builtins::prepare(None).ok()).as_ref();
    let reached = |file: &Path| {
        let command = launch::Command::of(vec![file.into()]);
        prepared.is_some_and(|prepared| prepared.preload(&command).is_some())
    };
    match file {
        Some(file) => reached(file) || first_line(file).is_some_and(|line| is_for_bash(&line)),
        None => prepared.is_some(),
    }
}

fn first_line(script: &Path) -> Option<String> {
    let mut line = String::new();
    BufReader::new(fs::File::open(script).ok()?).read_line(&mut line).ok()?;
    Some(line)
}

/// `#!/bin/bash`, `#!/usr/bin/env bash`; a bash that is `sh` reads no file of ours, but may be reached.
fn is_for_bash(line: &str) -> bool {
    let Some(line) = line.strip_prefix("#!") else { return false };
    line.split_whitespace().any(|word| word.rsplit('/').next() == Some("bash"))
}

/// Who can change a file, or what is in a directory. What runs just now can be changed, too: by a rename.
fn file_writer(file: &Path) -> FileWriter {
    let Ok(about) = fs::metadata(file) else { return FileWriter::Nobody };
    let writable = match about.is_dir() {
        true => rustix::fs::access(file, Access::WRITE_OK).map_err(std::io::Error::from),
        false => fs::File::options().write(true).open(file).map(drop),
    };
    match writable {
        Ok(()) => FileWriter::You,
        Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => FileWriter::You,
        Err(_) if about.uid() == 0 => FileWriter::Root,
        Err(_) => FileWriter::Owner(user_name(about.uid())),
    }
}

/// id(1) knows all sources of users.
fn user_name(user: u32) -> Option<String> {
    let mut id = Command::new("id");
    id.args(["-un", "--", &user.to_string()]).stdin(Stdio::null()).stderr(Stdio::null());
    let asked = id.output().ok()?;
    let name = String::from_utf8(asked.stdout).ok()?;
    Some(name.trim().to_owned()).filter(|name| asked.status.success() && !name.is_empty())
}

/// Its pack is written into the working directory.
fn why_no_pack(program: &Path) -> Option<String> {
    let here = tempfile::tempfile_in(".").err();
    here.map(|error| error.to_string()).or_else(|| pack::why_not(program))
}

/// What is younger was perhaps just edited.
const YOUNG: Duration = Duration::from_secs(24 * 60 * 60);
/// The most entries of a directory that are looked at.
const ENTRIES: usize = 1000;

/// Whoever works in a directory would not see, in its image, what is changed there. What was
/// installed by a tool says so by what lies beside it.
fn why_no_image(directory: &Path) -> Option<String> {
    let here = std::env::current_dir().ok()?;
    if !directory.is_dir() {
        return Some("it is no directory now".to_owned());
    }
    if here.starts_with(directory) {
        return Some("the working directory is below it, and an image cannot be written to".into());
    }
    if tempfile::tempfile_in(&here).is_err() {
        return Some("its file cannot be written into the working directory".to_owned());
    }
    let kept = |at: &Path| [".git", ".hg", ".svn"].into_iter().find(|kept| at.join(kept).exists());
    let is_tree = |at: &Path| {
        let kept = kept(at)?;
        let at = term::plain(&at.to_string_lossy());
        Some(format!("{at} is a working tree ({kept}): what is edited there would not be seen"))
    };
    if let Some(why) = is_tree(directory) {
        return Some(why);
    }
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) => return Some(format!("its content is not known: {error}")),
    };
    let entries: Vec<_> = entries.flatten().take(ENTRIES).collect();
    if is_installed(directory, &entries) {
        return None;
    }
    let home = std::env::var_os("HOME").unwrap_or_default();
    let above = directory.ancestors().skip(1).take_while(|above| *above != Path::new(&home));
    let young = entries.iter().find(|entry| is_young(entry)).map(|entry| {
        let name = term::plain(&entry.file_name().to_string_lossy());
        format!("{name} in it was changed within a day: what is edited there would not be seen")
    });
    above.into_iter().find_map(is_tree).or(young)
}

/// Whether an installer filled a directory: an environment, a prefix with a Python's library, or
/// what `pip --target` leaves beside the packages.
fn is_installed(directory: &Path, entries: &[fs::DirEntry]) -> bool {
    let has = |name: &str| directory.join(name).exists();
    let ends = [".dist-info", ".egg-info"];
    let is_told = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        ends.iter().any(|end| name.to_string_lossy().ends_with(end))
    };
    has("pyvenv.cfg") || has("conda-meta") || entries.iter().any(is_told) || is_prefix(directory)
}

fn is_young(entry: &fs::DirEntry) -> bool {
    let changed = entry.metadata().and_then(|about| about.modified());
    changed.is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|age| age < YOUNG))
}

/// What `becalm run` looks at, whether it has changed: each is listed here once, and no more than
/// decides.
fn directories_below(directory: &Path, most: u64) -> u64 {
    let mut left = vec![directory.to_owned()];
    let mut count = 0;
    while let Some(directory) = left.pop().filter(|_| count < most) {
        count += 1;
        let entries = fs::read_dir(&directory).into_iter().flatten().flatten();
        let below = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let below = below.filter(|entry| entry.file_name() != "__pycache__");
        left.extend(below.map(|entry| entry.path()));
    }
    count
}

/// The files of a list's directory, by what a search would find: links are followed.
fn files_below(directory: &Path, most: usize) -> Option<Vec<PathBuf>> {
    match fs::metadata(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Some(Vec::new()),
        about => about.ok().filter(fs::Metadata::is_dir)?,
    };
    let (mut files, mut left, mut seen) = (Vec::new(), vec![PathBuf::new()], 0);
    while let Some(below) = left.pop() {
        for entry in fs::read_dir(directory.join(&below)).ok()? {
            seen += 1;
            if seen > most {
                return None;
            }
            let name = below.join(entry.ok()?.file_name());
            match fs::metadata(directory.join(&name)).is_ok_and(|about| about.is_dir()) {
                true => left.push(name),
                false => files.push(name),
            }
        }
    }
    Some(files)
}

/// A prefix that Python or a package is installed in.
fn is_prefix(directory: &Path) -> bool {
    let library = fs::read_dir(directory.join("lib")).into_iter().flatten().flatten();
    let mut names = library.map(|entry| entry.file_name());
    names.any(|name| name.to_string_lossy().starts_with("python"))
}

/// What keeps Modules from walking this modulepath: what `becalm modules calm` would do there.
fn module_cure(modulepath: &Path) -> ModuleCure {
    let Ok(site) = ModulesSite::find(&Environment::own()) else { return ModuleCure::Unknown };
    let is_ours = tempfile::tempfile_in(modulepath).is_ok();
    // A cache that load reads, too, makes it slower.
    let is_free = modules::cache::reads_caches(&site) && modules::cache::load_note(&site).is_none();
    if is_free && is_ours && is_for_everyone(modulepath, &mut 100_000) {
        return ModuleCure::Cache;
    }
    // Those that becalm's own `avail` is modelled after.
    let is_modelled = matches!(site.release.number(), (5, 2 | 5 | 7));
    match (is_modelled && modulepath.is_dir(), hooked_shell()) {
        (true, Some(shell)) => ModuleCure::Index { shell },
        _ => ModuleCure::Unknown,
    }
}

/// Whether everyone may read all that is below; so many entries are looked at.
fn is_for_everyone(path: &Path, left: &mut usize) -> bool {
    let Some(fewer) = left.checked_sub(1) else { return false };
    *left = fewer;
    let Ok(about) = fs::metadata(path) else { return false };
    let (bits, wanted) = match about.is_dir() {
        true => (0o005, acl::READ | acl::ENTER),
        false => (0o004, acl::READ),
    };
    if about.mode() & bits != bits || acl::denies(path, wanted) {
        return false;
    }
    if !about.is_dir() || path.is_symlink() {
        return true;
    }
    let Ok(entries) = fs::read_dir(path) else { return false };
    entries.flatten().all(|entry| is_for_everyone(&entry.path(), left))
}

/// This user's shell, where becalm has a hook for it.
fn hooked_shell() -> Option<&'static str> {
    let shell = std::env::var_os("SHELL").unwrap_or_default();
    match Path::new(&shell).file_name().and_then(|name| name.to_str()) {
        Some("zsh") => Some("zsh"),
        Some("fish") => Some("fish"),
        Some("csh" | "tcsh") => Some("csh"),
        Some("bash" | "sh" | "dash") | None => Some("bash"),
        Some(_) => None,
    }
}

/// Tried on a stage: whoever tries is in other namespaces afterwards.
fn can_mount() -> bool {
    let tried =
        Stage::new().play(|| namespace::own_mounts().is_ok() && namespace::fuse_device().is_ok());
    tried.is_ok_and(|played| played.result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_runs_just_now_can_be_changed_and_one_that_is_not_there_cannot() {
        let directory = tempfile::tempdir().unwrap();
        let sleep = directory.path().join("sleep");
        fs::copy("/bin/sleep", &sleep).unwrap();
        let mut running = Command::new(&sleep).arg("1000").spawn().unwrap();
        assert_eq!(file_writer(&sleep), FileWriter::You);
        assert_eq!(file_writer(&directory.path().join("none")), FileWriter::Nobody);
        running.kill().unwrap();
        running.wait().unwrap();
    }
}
