use std::collections::HashSet;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde::{Deserialize, Serialize};

/// Programs that the library does in bash's own process (TOOLS in loadable/known.h).
const INSIDE: &[&str] = &[
    "basename", "cat", "chmod", "cp", "cut", "date", "dirname", "expr", "grep", "head", "ln", "ls",
    "mkdir", "mv", "readlink", "realpath", "rm", "rmdir", "sed", "sort", "tail", "touch", "tr",
    "uname", "wc",
];

/// Programs that the library only starts.
const STARTED: &[&str] =
    &["awk", "chgrp", "chown", "cmp", "env", "find", "gunzip", "gzip", "install", "sleep", "tar"];

/// Versions that tests/builtins_same.rs has compared the library with: of all programs of GNU
/// coreutils, and of others.
const COMPARED: &[(&str, &str)] = &[
    ("grep", "grep (GNU grep) 3.6"),
    ("grep", "grep (GNU grep) 3.8"),
    ("grep", "grep (GNU grep) 3.11"),
    ("grep", "grep (GNU grep) 3.12"),
    ("sed", "sed (GNU sed) 4.7"),
    ("sed", "sed (GNU sed) 4.9"),
];
const COMPARED_COREUTILS: &[&str] = &["8.32", "9.1", "9.7", "9.10"];

/// A program that the library knows, as it is found here.
#[derive(Clone)]
pub struct BuiltinProgram {
    /// Its name.
    pub name: &'static str,
    /// Whether the one in `PATH` is the one that is known.
    pub known: ProgramMatch,
}

/// What is known of a program.
#[derive(Clone, Serialize, Deserialize)]
pub enum ProgramMatch {
    /// The library does as this file does.
    Yes {
        /// The file, without links.
        file: PathBuf,
        /// What it says that it is.
        version: String,
    },
    /// It is another, and is always started.
    No {
        /// What it says that it is, or why it says nothing.
        why: String,
    },
}

/// All names of the library's builtins.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    INSIDE.iter().chain(STARTED).copied()
}

/// Names of programs that are done inside.
pub(super) fn inside() -> impl Iterator<Item = &'static str> {
    INSIDE.iter().copied()
}

/// The directories of `PATH` that are there.
pub(super) struct SearchPath(Vec<SearchDirectory>);

/// A directory, and what is in it: a list takes some five calls, and to look for each program takes forty. None
/// where it may only be searched.
struct SearchDirectory {
    path: PathBuf,
    names: Option<HashSet<OsString>>,
}

impl SearchPath {
    pub(super) fn here() -> SearchPath {
        let path = env::var_os("PATH").unwrap_or_default();
        let directories = env::split_paths(&path).filter(|at| at.is_dir());
        SearchPath(directories.map(SearchDirectory::at).collect())
    }

    pub(super) fn find(&self, name: &str) -> Option<(PathBuf, Metadata)> {
        let directories = self.0.iter().filter(|directory| directory.may_have(name));
        let files = directories.map(|directory| directory.path.join(name));
        files
            .filter_map(|at| Some((at.metadata().ok()?, at)))
            .find_map(|(about, at)| about.is_file().then_some((at, about)))
    }

    /// The file without links.
    pub(super) fn real(&self, name: &str) -> Option<PathBuf> {
        self.find(name)?.0.canonicalize().ok()
    }
}

impl SearchDirectory {
    fn at(path: PathBuf) -> SearchDirectory {
        let names = fs::read_dir(&path).and_then(|entries| {
            entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<HashSet<_>>>()
        });
        SearchDirectory { path, names: names.ok() }
    }

    fn may_have(&self, name: &str) -> bool {
        self.names.as_ref().is_none_or(|names| names.contains(OsStr::new(name)))
    }
}

/// Looks at the programs in `PATH`; each is asked for its version.
pub(super) fn look(path: &SearchPath) -> Vec<BuiltinProgram> {
    let asked: Vec<_> = inside().map(|name| (name, path.real(name), ask(name))).collect();
    asked
        .into_iter()
        .map(|(name, file, child)| BuiltinProgram { name, known: known(name, file, child) })
        .collect()
}

/// What [`look`] had found, in its order.
pub(super) fn named(known: Vec<ProgramMatch>) -> Option<Vec<BuiltinProgram>> {
    let programs = inside().zip(known).map(|(name, known)| BuiltinProgram { name, known });
    Some(programs.collect()).filter(|all: &Vec<_>| all.len() == INSIDE.len())
}

fn ask(name: &str) -> io::Result<Child> {
    Command::new(name)
        .arg("--version")
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
}

fn known(name: &str, file: Option<PathBuf>, child: io::Result<Child>) -> ProgramMatch {
    let said = match child.and_then(Child::wait_with_output) {
        Ok(output) => output.stdout,
        Err(error) => return ProgramMatch::No { why: error.to_string() },
    };
    let version = String::from_utf8_lossy(&said).lines().next().unwrap_or_default().to_owned();
    let coreutils = COMPARED_COREUTILS.iter();
    let compared = COMPARED.contains(&(name, version.as_str()))
        || coreutils.map(|at| format!("{name} (GNU coreutils) {at}")).any(|one| version == one);
    match file {
        // A script in front of the program would say the same.
        Some(file) if compared && super::begins_with(&file, b"\x7fELF") => {
            ProgramMatch::Yes { file, version }
        }
        _ => ProgramMatch::No { why: format!("not compared: {version:?}") },
    }
}

/// The known files as loadable/known.c reads them: a line each of name and [`identity`].
pub(super) fn list(programs: &[BuiltinProgram]) -> String {
    let mut list = String::new();
    for program in programs {
        let ProgramMatch::Yes { file, .. } = &program.known else { continue };
        let Ok(about) = file.metadata() else { continue };
        let _ = writeln!(list, "{} {}", program.name, identity(&about));
    }
    list
}

/// Device, inode, size in bytes, and times of modification and of change in seconds and nanoseconds.
/// Nobody can set the last one: it is another after each change of the content or the mode.
pub(super) fn identity(about: &Metadata) -> String {
    let (device, inode, size) = (about.dev(), about.ino(), about.size());
    let modified = format!("{} {}", about.mtime(), about.mtime_nsec());
    format!("{device} {inode} {size} {modified} {} {}", about.ctime(), about.ctime_nsec())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of starts are in that order.
    #[test]
    fn the_library_has_the_same_programs_in_the_same_order() {
        let source = include_str!("../../loadable/known.h");
        let table = source.split("#define TOOLS(tool)").nth(1).unwrap_or_default();
        let table = table.split("enum tool").next().unwrap_or_default();
        let rows: Vec<(&str, &str)> = table
            .split("tool(")
            .skip(1)
            .filter_map(|row| row.split(')').next()?.split_once(", "))
            .collect();
        let known: Vec<&str> = rows.iter().map(|row| row.0).collect();
        assert_eq!(known, names().collect::<Vec<_>>());
        let inside = rows.iter().filter(|row| row.1 != "NULL").map(|row| row.0);
        assert_eq!(inside.collect::<Vec<_>>(), INSIDE);
    }
}
