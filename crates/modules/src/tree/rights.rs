//! Who may read a file: everyone, or not. Whoever keeps what is in a tree where everyone may read
//! it asks this first. What a security module (SELinux, AppArmor) denies is not seen.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, statfs};

use super::ChangeStamp;
use super::acl::{self, ENTER, READ};

/// Filesystems on which permissions do not say who may read, and the server asks something else
/// (linux/magic.h): AFS, kAFS, CIFS, Coda, NCP, SMB, SMB2.
const OWN_RIGHTS: [u64; 7] =
    [0x5346_414F, 0x6B41_4653, 0xff53_4d42, 0x7375_7245, 0x564c, 0x517b, 0xfe53_4d42];

/// As many links as the kernel follows on one way.
const MOST_LINKS: usize = 40;

/// What everyone may do. Each filesystem is asked once what it is.
#[derive(Debug, Default)]
pub(crate) struct Everyone {
    has_modes: HashMap<u64, bool>,
}

impl Everyone {
    /// Whether a file may be read (a directory: listed and entered) by owner, group and others
    /// alike, and no access control list says otherwise. With mode 0604 the group may not.
    pub(crate) fn may_read(&mut self, stamp: &ChangeStamp, path: &Path) -> bool {
        let is_directory = FileType::from_raw_mode(stamp.mode) == FileType::Directory;
        let wanted = if is_directory { READ | ENTER } else { READ };
        stamp.everyone_may_read() && self.modes_count(stamp, path) && !acl::denies(path, wanted)
    }

    /// Whether a directory may be passed through.
    pub(crate) fn may_enter(&mut self, directory: &Path) -> bool {
        let Ok(stat) = rustix::fs::stat(directory) else { return false };
        let stamp = ChangeStamp::of(&stat);
        stamp.mode & 0o111 == 0o111
            && self.modes_count(&stamp, directory)
            && !acl::denies(directory, ENTER)
    }

    fn modes_count(&mut self, stamp: &ChangeStamp, path: &Path) -> bool {
        // The kernel's numbers have 32 bits, whatever the type of the field.
        let ask =
            || statfs(path).is_ok_and(|fs| !OWN_RIGHTS.contains(&u64::from(fs.f_type as u32)));
        *self.has_modes.entry(stamp.device).or_insert_with(ask)
    }
}

/// Whether `may_enter` allows each directory that is passed through on the way from the directory
/// `from`, whose path has no links in it, to `path`: those that links on the way lead through, too.
pub(crate) fn way_is_open(
    from: &Path,
    path: &Path,
    mut may_enter: impl FnMut(&Path) -> bool,
) -> bool {
    let (mut at, mut links) = (from.to_owned(), 0);
    let mut ahead = backwards(path);
    while let Some(part) = ahead.pop() {
        if !may_enter(&at) {
            return false;
        }
        if part == ".." {
            at.pop();
            continue;
        }
        let next = at.join(part);
        match rustix::fs::lstat(&next).map(|stat| FileType::from_raw_mode(stat.st_mode)) {
            Ok(FileType::Symlink) if links < MOST_LINKS => {
                let Ok(target) = std::fs::read_link(&next) else { return false };
                links += 1;
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                ahead.extend(backwards(&target));
            }
            Ok(FileType::Symlink) | Err(_) => return false,
            Ok(_) => at = next,
        }
    }
    true
}

/// The parts of a path, the last one first.
fn backwards(path: &Path) -> Vec<OsString> {
    let parts = path.components().rev().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    parts.collect()
}
