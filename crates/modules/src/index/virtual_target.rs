//! The file behind a virtual module: Modules checks its cookie, wherever it is.

use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};

use super::names::{IndexNames, PathState, RcDefinition};
use super::still::pause;
use crate::tree::rights::{Everyone, way_is_open};
use crate::tree::{ChangeStamp, Cookie};

/// A cookie stands in the first 33 characters, of up to four bytes each.
const LOOKED_AT: u64 = 33 * 4;

/// The path of a virtual module's file, as Modules makes it of what an rc file in `directory` says
/// (`getAbsolutePath`), and its state. It must be a file that everyone may read, and no link: only
/// then is its content the same to all.
///
/// # Errors
/// Why it is not to be told for everyone.
pub(super) fn target(
    directory: &Path,
    file: &str,
    everyone: &mut Everyone,
) -> Result<(String, PathState), &'static str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-+/ ".contains(&byte);
    if file.is_empty() || file.starts_with("//") || !file.bytes().all(is_plain) {
        return Err("a path with letters that may mean something");
    }
    let path = normal(&directory.join(file)).ok_or("a path above the root")?;
    let there = rustix::fs::lstat(&path).map_err(|_| "a virtual module's file is not there")?;
    let stamp = ChangeStamp::of(&there);
    let is_file = stamp.mode & 0o170_000 == 0o100_000;
    let open_way = path
        .parent()
        .is_some_and(|above| way_is_open(Path::new("/"), above, |at| everyone.may_enter(at)))
        && path.parent().is_some_and(|above| everyone.may_enter(above));
    if !is_file || !open_way || !everyone.may_read(&stamp, &path) {
        return Err("a virtual module's file is a link, or not everyone may read it");
    }
    let text = path.to_str().ok_or("a path that is no text")?;
    Ok((text.to_owned(), PathState::from(&stamp)))
}

/// A path without `.`, and without the directories that `..` leaves again: by its text alone.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut parts = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
            Component::Normal(name) => parts.push(name),
            Component::ParentDir => {
                if !parts.pop() {
                    return None;
                }
            }
        }
    }
    Some(parts)
}

/// Reads what the files behind virtual modules begin with, once the clock has passed the times that
/// were seen: false if one has changed meanwhile.
pub(super) fn read_cookies(names: &mut IndexNames<'_>) -> bool {
    let rules = || names.rcs.iter().flat_map(|rc| &rc.rules);
    let changed: Vec<i128> = rules()
        .filter_map(|rule| match rule {
            RcDefinition::Virtual { seen, .. } => Some(seen.changed.into()),
            _ => None,
        })
        .collect();
    if changed.is_empty() {
        return true;
    }
    std::thread::sleep(pause(changed));
    let rules = names.rcs.iter_mut().flat_map(|rc| &mut rc.rules);
    rules.into_iter().all(|rule| match rule {
        RcDefinition::Virtual { file, cookie, seen, .. } => {
            let read = cookie_of(Path::new(file), seen);
            read.map(|read| *cookie = read).is_some()
        }
        _ => true,
    })
}

/// The cookie of a file in this state; none if it is in another one.
fn cookie_of(path: &Path, seen: &PathState) -> Option<Cookie> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = open(path, flags | OFlags::NOFOLLOW, Mode::empty()).ok()?;
    let is_as_seen =
        rustix::fs::fstat(&file).is_ok_and(|now| PathState::from(&ChangeStamp::of(&now)) == *seen);
    let mut beginning = Vec::new();
    File::from(file).take(LOOKED_AT).read_to_end(&mut beginning).ok()?;
    is_as_seen.then(|| Cookie::of(&beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_made_normal_by_its_text() {
        let normal = |path: &str| normal(Path::new(path));
        assert_eq!(normal("/a/m/../b/./c"), Some("/a/b/c".into()));
        assert_eq!(normal("/a//b/"), Some("/a/b".into()));
        assert_eq!(normal("/../b"), None);
    }
}
