//! Whether what a calm file relies on is still as it was.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ahead::ReadAheadFile;
use cost::LOOKS_AT_ONCE;
use remedy::{Digest, FileLook, FileState};
use rustix::fs::{Access, StatVfsMountFlags};

use crate::belongs_to_the_system;

use super::{CalmFile, CalmImage, ReliedFile, ShownCopy};

/// Fewer looks than this need no threads.
const FEW: usize = 64;

/// Something that does not hold any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CalmChange {
    /// The file.
    pub path: PathBuf,
    /// What has become of it: `has changed`.
    pub what: String,
}

impl CalmChange {
    /// Whether the file is there, with another content.
    pub fn is_of_content(&self) -> bool {
        self.what == remedy::HAS_CHANGED
    }
}

impl CalmFile {
    /// What does not hold any more, in the file's order. At a glance it takes one stat a file, and
    /// of the image and of copies, which are the calm file's own, only the size is compared. What
    /// the image was made of is compared by whoever mounts it. Many are looked at in threads: on a
    /// shared filesystem each look is a round trip.
    pub fn changes(&self, look: FileLook) -> Vec<CalmChange> {
        let beside = self.beside.iter().map(|beside| &beside.image);
        let image = self.image.iter().chain(beside).map(ReliedOn::Image);
        let shown = self.shown.iter().flat_map(|one| [ReliedOn::Shown(one), ReliedOn::Copy(one)]);
        let relied = self.relies_on.iter().map(|one| ReliedOn::Other(one, &self.shown));
        let all: Vec<_> = image.chain(shown).chain(relied).collect();
        let threads = if all.len() < FEW { 1 } else { LOOKS_AT_ONCE as usize };
        let changes =
            remedy::each_at_once(threads, &all, |_, one| Ok::<_, Infallible>(one.change(look)));
        let Ok(changes) = changes;
        changes.into_iter().flatten().collect()
    }
}

/// Something that a calm file relies on.
#[derive(Clone, Copy)]
enum ReliedOn<'c> {
    Image(&'c CalmImage),
    Shown(&'c ShownCopy),
    Copy(&'c ShownCopy),
    /// What is looked at besides, and what may be shown where its path leads to.
    Other(&'c ReliedFile, &'c [ShownCopy]),
}

impl ReliedOn<'_> {
    fn change(self, look: FileLook) -> Option<CalmChange> {
        let (path, what) = match self {
            ReliedOn::Image(image) => {
                (&image.file, own(&image.file, image.bytes, image.digest, look))
            }
            ReliedOn::Shown(shown) => {
                let file = shown.was.change(&shown.file, look);
                // Under this very calm file, the copy is what is seen in its place.
                (&shown.file, file.filter(|_| !is_same(&shown.file, &shown.copy)))
            }
            ReliedOn::Copy(shown) => {
                let copy = own(&shown.copy, shown.copy_bytes, shown.copy_digest, look);
                (&shown.copy, copy.or_else(|| unreadable(&shown.copy)))
            }
            ReliedOn::Other(relied, shown) => {
                let file = relied.change(look);
                let is_copy = || shown.iter().any(|shown| is_same(&relied.path, &shown.copy));
                (&relied.path, file.filter(|_| !is_copy()))
            }
        };
        Some(CalmChange { path: path.clone(), what: what? })
    }
}

impl CalmFile {
    /// The files that are read ahead and are others now, in the file's order: nothing of them is
    /// then, and the command starts all the same.
    pub fn changes_ahead(&self) -> Vec<CalmChange> {
        let changed = |file: &ReadAheadFile| {
            let what = match file.path.metadata() {
                Ok(found) if file.is(&found) => return None,
                Ok(_) => remedy::HAS_CHANGED.to_owned(),
                Err(error) => format!("cannot be looked at ({error})"),
            };
            Some(CalmChange { path: file.path.clone(), what })
        };
        self.read_ahead.files.iter().filter_map(changed).collect()
    }

    /// Why the copies cannot be started or mapped where they lie, in words; none where they can.
    pub fn why_not_executable(&self) -> Option<String> {
        let directories: BTreeSet<_> =
            self.shown.iter().filter_map(|shown| shown.copy.parent()).collect();
        let is_noexec = |directory: &&&Path| {
            let about = rustix::fs::statvfs(**directory);
            about.is_ok_and(|about| about.f_flag.contains(StatVfsMountFlags::NOEXEC))
        };
        let directory = directories.iter().find(is_noexec)?;
        Some(format!(
            "its copies lie in {}, where nothing may be executed (noexec)",
            directory.display()
        ))
    }
}

impl ReliedFile {
    /// What has become of it. What the operating system updates is what every program then gets by
    /// that path, as its own files say, too: it must only be there.
    fn change(&self, look: FileLook) -> Option<String> {
        let ReliedFile { path, was } = self;
        match belongs_to_the_system(path) {
            true => was.change(path, FileLook::Size).filter(|what| what != remedy::HAS_CHANGED),
            false => was.change(path, look),
        }
    }
}

fn is_same(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| path.metadata().map(|found| (found.dev(), found.ino())).ok();
    identity(one).is_some_and(|one| identity(other) == Some(one))
}

/// Why a copy that is there could not be mapped by the command.
fn unreadable(copy: &Path) -> Option<String> {
    let error = rustix::fs::access(copy, Access::READ_OK).err()?;
    Some(format!("cannot be read ({})", std::io::Error::from(error)))
}

/// What has become of a file of the calm file's own.
fn own(path: &Path, bytes: u64, digest: Digest, look: FileLook) -> Option<String> {
    let look = if look == FileLook::Glance { FileLook::Size } else { look };
    FileState { bytes, mtime_ns: 0, digest }.change(path, look)
}
