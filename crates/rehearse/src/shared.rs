//! Which directories of this machine a cluster would have on its shared filesystem.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// Top directories that a compute node has for itself: the operating system and what belongs to the
/// machine (Filesystem Hierarchy Standard 3.0).
const OF_THE_MACHINE: [&str; 19] = [
    "bin",
    "boot",
    "dev",
    "etc",
    "lib",
    "lib32",
    "lib64",
    "libx32",
    "lost+found",
    "media",
    "mnt",
    "proc",
    "run",
    "sbin",
    "snap",
    "sys",
    "tmp",
    "usr",
    "var",
];

/// Variables whose value is a list of directories in which a start looks for files.
const SEARCHED: [&str; 6] =
    ["PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "MODULEPATH"];

/// The directories that a cluster would share: each top directory of this machine that is not the
/// machine's own (`/home`, `/opt`, `/work`, …), and, of the machine's own that anybody can fill
/// (`/tmp`, `/var`, …), those directories right below that hold the command, the working directory
/// or what the command's words and the search variables name.
///
/// It is a guess, made without running the command; whoever knows better names the directories.
pub fn shared_directories(command: &[OsString]) -> Vec<PathBuf> {
    let mut directories = BTreeSet::new();
    for entry in std::fs::read_dir("/").into_iter().flatten().flatten() {
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let own = OF_THE_MACHINE.iter().any(|name| entry.file_name() == *name);
        if is_directory && !own && !is_in_memory(&entry.path()) && !is_empty(&entry.path()) {
            directories.insert(entry.path());
        }
    }
    directories.extend(named(command).iter().filter_map(|path| filled(path)));
    directories.into_iter().collect()
}

/// The files and directories that the command's words, its surroundings and its program name.
fn named(command: &[OsString]) -> Vec<PathBuf> {
    let variables = SEARCHED.iter().filter_map(std::env::var_os);
    let entries = variables.flat_map(|list| std::env::split_paths(&list).collect::<Vec<_>>());
    // A word may be an assignment or an option with a path: `--file=/opt/x`.
    let part = |word: &OsString| {
        let bytes = word.as_bytes();
        let start = bytes.iter().position(|byte| *byte == b'=').map_or(0, |at| at + 1);
        PathBuf::from(OsStr::from_bytes(&bytes[start..]))
    };
    let program = launch::Command::of(command.to_vec()).file().ok();
    let words = command.iter().map(part);
    let paths = words.chain(entries).chain(std::env::current_dir()).chain(program);
    paths.filter_map(|path| path.canonicalize().ok()).collect()
}

/// The directory right below one of the machine's own that holds this path, if anybody can fill
/// that one.
fn filled(path: &Path) -> Option<PathBuf> {
    let mut parts = path.components().skip(1);
    let (Component::Normal(top), Component::Normal(next)) = (parts.next()?, parts.next()?) else {
        return None;
    };
    let mut directory = Path::new("/").join(top);
    if !["tmp", "var", "mnt", "media"].iter().any(|name| top == *name) {
        return None;
    }
    directory.push(next);
    // /var/tmp is as /tmp.
    if directory == Path::new("/var/tmp") {
        directory.push(parts.next()?);
    } else if top == "var" {
        return None;
    }
    directory.is_dir().then_some(directory)
}

/// Whether the kernel keeps it in memory (statfs(2) names the numbers).
fn is_in_memory(directory: &Path) -> bool {
    const TMPFS: i64 = 0x0102_1994;
    const RAMFS: i64 = 0x8584_58f6;
    const PROC: i64 = 0x9fa0;
    const SYSFS: i64 = 0x6265_6572;
    let Ok(about) = rustix::fs::statfs(directory) else { return true };
    [TMPFS, RAMFS, PROC, SYSFS].contains(&about.f_type)
}

fn is_empty(directory: &Path) -> bool {
    std::fs::read_dir(directory).map_or(true, |mut entries| entries.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_command_names_below_tmp_is_shared_and_the_rest_of_tmp_is_not() {
        let directory = tempfile::tempdir_in("/tmp").unwrap();
        std::fs::create_dir_all(directory.path().join("store/lib")).unwrap();
        let named = directory.path().join("store/lib");
        for word in [named.clone().into_os_string(), {
            let mut word = OsString::from("--from=");
            word.push(&named);
            word
        }] {
            let directories = shared_directories(&["ls".into(), word]);
            assert!(directories.iter().any(|shared| shared == directory.path()), "{directories:?}");
        }
        let directories = shared_directories(&["ls".into()]);
        assert!(!directories.iter().any(|shared| shared == directory.path()), "{directories:?}");
    }

    #[test]
    fn no_directory_of_the_operating_system_is_shared() {
        let directories = shared_directories(&["/usr/bin/env".into(), "/etc/passwd".into()]);
        for directory in ["/usr", "/etc", "/proc", "/tmp", "/var", "/", "/dev"] {
            assert!(
                !directories.iter().any(|shared| shared == Path::new(directory)),
                "{directories:?}"
            );
        }
    }
}
