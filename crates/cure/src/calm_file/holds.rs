//! Whether what a calm file relies on is still as it was.

use std::path::{Path, PathBuf};

use remedy::{Digest, FileLook, FileState};

use super::CalmFile;

/// Something that does not hold any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CalmChange {
    /// The file.
    pub path: PathBuf,
    /// What has become of it: `has changed`.
    pub what: String,
}

impl CalmFile {
    /// What does not hold any more, in the file's order. At a glance it takes one stat a file, and
    /// of the image and of copies, which are the calm file's own, only the size is compared. What
    /// the image was made of is compared by whoever mounts it.
    pub fn changes(&self, look: FileLook) -> Vec<CalmChange> {
        let image = self.image.iter();
        let image =
            image.map(|image| (&image.file, own(&image.file, image.bytes, image.digest, look)));
        let shown = self.shown.iter().flat_map(|shown| {
            let copy = own(&shown.copy, shown.copy_bytes, shown.copy_digest, look);
            [(&shown.file, shown.was.change(&shown.file, look)), (&shown.copy, copy)]
        });
        let relied = self.relies_on.iter();
        let relied = relied.map(|relied| (&relied.path, relied.was.change(&relied.path, look)));
        let all = image.chain(shown).chain(relied);
        all.filter_map(|(path, what)| Some(CalmChange { path: path.clone(), what: what? }))
            .collect()
    }
}

/// What has become of a file of the calm file's own.
fn own(path: &Path, bytes: u64, digest: Digest, look: FileLook) -> Option<String> {
    let look = if look == FileLook::Glance { FileLook::Size } else { look };
    FileState { bytes, mtime_ns: 0, digest }.change(path, look)
}
