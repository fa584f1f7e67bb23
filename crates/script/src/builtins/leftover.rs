//! What earlier starts have left behind: libraries of another becalm, or for other programs, and
//! files of those that were killed.

use std::ffi::OsStr;
use std::fs::{self, DirEntry};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::hosts::Host;
use super::{directory, kept};

/// A directory that no becalm has used for so long is in nobody's way to be made anew.
const UNUSED: Duration = Duration::from_secs(30 * 24 * 3600);

/// Whoever writes a file is long done.
const ABANDONED: Duration = Duration::from_secs(24 * 3600);

/// Removes, of a user's own directory, what is certainly becalm's, old, and used by no process of
/// this node.
pub(super) fn clear(own: &Path) {
    let Ok(entries) = fs::read_dir(own) else { return };
    let mut unused = Vec::new();
    for entry in entries.flatten() {
        if is_abandoned_count(&entry) {
            let _ = fs::remove_file(entry.path());
        } else if is_unused(&entry) {
            unused.push(entry.path());
        }
    }
    unused.retain(|directory| files_of(directory).is_some());
    for directory in not_in_use(unused) {
        remove(&directory);
    }
}

/// `count-PID` and `tried-PID`, as an earlier becalm made them, of a process that is gone.
fn is_abandoned_count(entry: &DirEntry) -> bool {
    let name = entry.file_name();
    let name = name.to_string_lossy();
    let id = name.strip_prefix("count-").or_else(|| name.strip_prefix("tried-"));
    let Some(id) = id.and_then(|id| id.parse::<u32>().ok()) else { return false };
    entry.metadata().is_ok_and(|about| about.is_file() && is_ours_since(&about, ABANDONED))
        && !Path::new("/proc").join(id.to_string()).exists()
}

fn is_unused(entry: &DirEntry) -> bool {
    let name = entry.file_name();
    let digits = name.as_bytes().strip_prefix(b"builtins-").unwrap_or_default();
    digits.len() == 16
        && digits.iter().all(u8::is_ascii_hexdigit)
        && entry.metadata().is_ok_and(|about| about.is_dir() && is_ours_since(&about, UNUSED))
}

fn is_ours_since(about: &fs::Metadata, age: Duration) -> bool {
    let is_old = |time: SystemTime| time.elapsed().is_ok_and(|elapsed| elapsed > age);
    about.uid() == rustix::process::getuid().as_raw() && about.modified().is_ok_and(is_old)
}

/// All files of a directory, if becalm has made each of them.
fn files_of(directory: &Path) -> Option<Vec<PathBuf>> {
    let mut known = vec![kept::FILE, "bash_env", "programs"];
    known.extend(Host::ALL.map(Host::library));
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).ok()? {
        let entry = entry.ok()?;
        let name = entry.file_name();
        let is_known =
            known.iter().any(|known| name == *known) || name.as_bytes().ends_with(b".new");
        if !is_known || !entry.file_type().ok()?.is_file() {
            return None;
        }
        files.push(entry.path());
    }
    Some(files)
}

/// Those of which no process has a library mapped, or the name in a variable. Where /proc is not to be
/// read, nobody knows: none.
fn not_in_use(mut directories: Vec<PathBuf>) -> Vec<PathBuf> {
    if directories.is_empty() {
        return directories;
    }
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    for process in processes.flatten() {
        if !process.file_name().as_bytes().first().is_some_and(u8::is_ascii_digit) {
            continue;
        }
        // Those of another user use nothing of a directory of mode 0700.
        for file in ["maps", "environ"] {
            let content = fs::read(process.path().join(file)).unwrap_or_default();
            directories.retain(|directory| !has(&content, directory.as_os_str()));
        }
    }
    directories
}

fn has(content: &[u8], name: &OsStr) -> bool {
    content.windows(name.len().max(1)).any(|part| part == name.as_bytes())
}

fn remove(directory: &Path) {
    for file in files_of(directory).unwrap_or_default() {
        let _ = fs::remove_file(file);
    }
    let _ = fs::remove_dir(directory);
}

/// Notes that a directory is used, once in a while.
pub(super) fn note_use(directory: &Path) {
    const DAY: Duration = Duration::from_secs(24 * 3600);
    if fs::metadata(directory).is_ok_and(|about| is_ours_since(&about, DAY)) {
        directory::note_use(directory);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::DirBuilderExt;

    use super::*;

    fn set_age(path: &Path, age: Duration) {
        let then = fs::File::open(path).unwrap();
        then.set_modified(SystemTime::now() - age).unwrap();
    }

    fn kept(own: &Path, name: &str, files: &[&str], age: Duration) {
        let directory = own.join(name);
        fs::DirBuilder::new().mode(0o700).create(&directory).unwrap();
        files.iter().for_each(|file| fs::write(directory.join(file), b"x").unwrap());
        set_age(&directory, age);
    }

    fn names(own: &Path) -> Vec<String> {
        let names = fs::read_dir(own).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    #[test]
    fn only_what_is_becalms_old_and_unused_goes() {
        let scene = tempfile::tempdir().unwrap();
        let own = scene.path();
        let all = ["found", "bash_env", "programs", "becalm-builtins.so", "found.7.new"];
        kept(own, "builtins-0000000000000001", &all, UNUSED * 2);
        kept(own, "builtins-0000000000000002", &all, UNUSED / 2);
        kept(own, "builtins-0000000000000003", &["found", "notes"], UNUSED * 2);
        kept(own, "builtins-0000000000000004", &all, UNUSED * 2);
        kept(own, "builtins-of-mine", &all, UNUSED * 2);
        let gone = u32::MAX;
        for name in [format!("count-{gone}"), "count-1".into(), "counted".into()] {
            fs::write(own.join(&name), b"x").unwrap();
            set_age(&own.join(&name), ABANDONED * 2);
        }
        fs::write(own.join(format!("tried-{gone}")), b"x").unwrap();
        let user = own.join("builtins-0000000000000004/bash_env");
        let mut sleep =
            std::process::Command::new("sleep").arg("60").env("BASH_ENV", &user).spawn().unwrap();
        clear(own);
        sleep.kill().unwrap();
        sleep.wait().unwrap();
        let left = [
            "builtins-0000000000000002",
            "builtins-0000000000000003",
            "builtins-0000000000000004",
            "builtins-of-mine",
            "count-1",
            "counted",
            &format!("tried-{gone}"),
        ];
        assert_eq!(names(own), left);
        clear(own);
        assert_eq!(names(own).len(), left.len() - 1);
    }
}
