//! The directories on the way to a file: as long as none of them is a link or was moved, its path leads to
//! the same file all the while, if it does so at the end.
//!
//! So a file need not be looked at once it is open. It was looked at just before; another one that came
//! into its place is there still at the end; and if the first one was put back, it was moved, which
//! its own `ctime` tells. A directory above that was moved and moved back would take it along: that changes
//! the directory's own `ctime`, and that of the directory in which it is.

use std::ffi::{CStr, CString};

use rustc_hash::FxHashMap;

use super::StatAttributes;
use super::settled::FilesystemMargins;

/// Directories that were come by.
#[derive(Debug, Default)]
pub(super) struct FollowedWays {
    seen: Vec<SeenDirectory>,
    /// Where one is among those; none for one that is not relied on.
    places: FxHashMap<Vec<u8>, Option<usize>>,
}

#[derive(Debug)]
struct SeenDirectory {
    path: CString,
    told: StatAttributes,
    /// Whether its time tells of every change since.
    is_settled: bool,
    /// Where the one is in which it is.
    above: Option<usize>,
}

impl FollowedWays {
    /// Whether it can be said of a path at the end whether it led to the same file all the while.
    pub fn is_relied_on(
        &mut self,
        path: &CStr,
        began: i64,
        margins: &mut FilesystemMargins,
    ) -> bool {
        // A link can be another one for a moment, and its file tells nothing of that.
        let is_link = |told: StatAttributes| told.mode & libc::S_IFMT == libc::S_IFLNK;
        if StatAttributes::of(path, false).is_ok_and(is_link) {
            return false;
        }
        let path = path.to_bytes();
        match path.iter().rposition(|byte| *byte == b'/') {
            Some(end) => self.place(&path[..end], began, margins).is_some(),
            None => false,
        }
    }

    /// Where a directory is among the seen ones; the root has no name.
    fn place(
        &mut self,
        directory: &[u8],
        began: i64,
        margins: &mut FilesystemMargins,
    ) -> Option<usize> {
        if let Some(place) = self.places.get(directory) {
            return *place;
        }
        let place = self.see(directory, began, margins);
        self.places.insert(directory.to_vec(), place);
        place
    }

    fn see(
        &mut self,
        directory: &[u8],
        began: i64,
        margins: &mut FilesystemMargins,
    ) -> Option<usize> {
        let above = match directory.iter().rposition(|byte| *byte == b'/') {
            Some(end) if matches!(&directory[end + 1..], b"" | b"." | b"..") => return None,
            Some(end) => Some(self.place(&directory[..end], began, margins)?),
            None if directory.is_empty() => None,
            None => return None,
        };
        let path = CString::new(if directory.is_empty() { b"/" } else { directory }).ok()?;
        let told = StatAttributes::of(&path, false).ok()?;
        let margin = margins.of(&path, told.device)?;
        let is_settled = told.changed.0 < began - margin;
        let is_still = above.is_none_or(|above| is_settled || self.seen[above].is_settled);
        if told.mode & libc::S_IFMT != libc::S_IFDIR || !is_still {
            return None;
        }
        self.seen.push(SeenDirectory { path, told, is_settled, above });
        Some(self.seen.len() - 1)
    }

    /// The first directory that may have been moved since it was come by.
    pub fn moved(&self) -> Option<&CStr> {
        let now = |one: &SeenDirectory| StatAttributes::of(&one.path, false).ok();
        let now: Vec<Option<StatAttributes>> = self.seen.iter().map(now).collect();
        let has_changed = |at: usize| {
            let one = &self.seen[at];
            !one.is_settled || now[at].is_none_or(|now| now.changed != one.told.changed)
        };
        let is_moved = |at: usize| {
            let told = &self.seen[at].told;
            let is_same =
                now[at].is_some_and(|now| (now.device, now.inode) == (told.device, told.inode));
            let above = self.seen[at].above;
            !is_same || above.is_some_and(|above| has_changed(at) && has_changed(above))
        };
        (0..self.seen.len()).find(|at| is_moved(*at)).map(|at| self.seen[at].path.as_c_str())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{create_dir, create_dir_all, rename, write};
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;
    use std::path::Path;
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;

    fn path(path: &Path) -> CString {
        CString::new(path.as_os_str().as_bytes()).unwrap()
    }

    /// Long after all that was made is made.
    fn later() -> i64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        now.as_secs() as i64 + 1000
    }

    #[test]
    fn a_way_through_a_link_or_a_name_of_another_kind_is_not_relied_on() {
        let scene = tempfile::tempdir().unwrap();
        let root = scene.path().canonicalize().unwrap();
        create_dir_all(root.join("a/b")).unwrap();
        symlink("a", root.join("link")).unwrap();
        write(root.join("a/real"), "").unwrap();
        symlink("real", root.join("a/named")).unwrap();
        let mut ways = FollowedWays::default();
        let mut margins = FilesystemMargins::default();
        let mut is_relied_on =
            |name: &str| ways.is_relied_on(&path(&root.join(name)), later(), &mut margins);
        assert!(is_relied_on("a/b/file") && is_relied_on("a/real") && is_relied_on("a/absent"));
        for odd in ["a/named", "link/b/file", "a/../a/file", "a/./file", "a//file", "absent/file"] {
            assert!(!is_relied_on(odd), "{odd}");
        }
        assert!(ways.is_relied_on(c"/file", later(), &mut margins));
        assert!(!ways.is_relied_on(c"file", later(), &mut margins));
    }

    #[test]
    fn where_directories_have_just_changed_a_move_might_not_show() {
        let scene = tempfile::tempdir().unwrap();
        let file = path(&scene.path().canonicalize().unwrap().join("a/file"));
        create_dir(scene.path().join("a")).unwrap();
        let margins = &mut FilesystemMargins::default();
        assert!(!FollowedWays::default().is_relied_on(&file, later() - 1000, margins));
    }

    #[test]
    fn a_directory_that_was_moved_there_and_back_is_noticed_and_new_files_are_no_move() {
        let scene = tempfile::tempdir().unwrap();
        // Not where other tests make theirs.
        let root = scene.path().canonicalize().unwrap().join("own");
        create_dir_all(root.join("a/b")).unwrap();
        let seen = || {
            let mut ways = FollowedWays::default();
            let margins = &mut FilesystemMargins::default();
            assert!(ways.is_relied_on(&path(&root.join("a/b/file")), later(), margins));
            std::thread::sleep(std::time::Duration::from_millis(20));
            ways
        };
        let ways = seen();
        write(root.join("a/b/new"), "").unwrap();
        write(root.join("new"), "").unwrap();
        assert_eq!(ways.moved(), None);
        let ways = seen();
        for (from, to) in [("a", "aside"), ("aside", "a")] {
            rename(root.join(from), root.join(to)).unwrap();
        }
        assert_eq!(ways.moved(), Some(path(&root.join("a")).as_c_str()));
        let ways = seen();
        rename(root.join("a/b"), root.join("a/c")).unwrap();
        assert_eq!(ways.moved(), Some(path(&root.join("a/b")).as_c_str()));
    }
}
