//! Whether a file is for everyone: what stands in the rc file at a modulepath's root is read by
//! all who read modules at all.

use std::path::Path;

use crate::tree::{Stamp, acl};

/// Whether everyone who may enter `root` may read `name` in it: by the permissions of owner,
/// group and others of it and of each folder on the way, and no access control list. A link must
/// lead to such a file of the same modulepath: what lies elsewhere has another way.
pub(super) fn may_read(root: &Path, name: &Path) -> bool {
    let inside = || Some((root.canonicalize().ok()?, root.join(name).canonicalize().ok()?));
    let Some((real_root, real)) = inside() else { return false };
    let Ok(real_name) = real.strip_prefix(&real_root) else { return false };
    let way = |name: &Path| {
        let mut way = name.ancestors().filter(|part| !part.as_os_str().is_empty());
        way.all(|part| is_open(&real_root.join(part)))
    };
    way(real_name) && name.parent().is_none_or(way)
}

/// Whether all who can list a file may read it: nobody sees a name behind a folder that is closed
/// to him. A folder that some may list and not enter shows names that they cannot read.
pub(super) fn who_lists_it_may_read(root: &Path, name: &Path) -> bool {
    let path = root.join(name);
    let folders = name.ancestors().skip(1).filter(|part| !part.as_os_str().is_empty());
    let mut folders = folders.map(|part| root.join(part));
    !path.is_symlink() && is_open(&path) && folders.all(|folder| is_shut(&folder))
}

/// Whether those who may list a folder may enter it, too.
fn is_shut(folder: &Path) -> bool {
    let Ok(stat) = rustix::fs::lstat(folder) else { return false };
    let is_folder = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir();
    let (lists, enters) = ((stat.st_mode >> 2) & 0o111, stat.st_mode & 0o111);
    is_folder && lists & !enters == 0 && !acl::has_list(folder)
}

fn is_open(path: &Path) -> bool {
    let stat = rustix::fs::stat(path);
    stat.is_ok_and(|stat| Stamp::of(&stat).everyone_may_read()) && !acl::has_list(path)
}
