//! What a descriptor stands for, where nobody sees descriptors closed and copied.
//!
//! The kernel is asked (`/proc/PID/fd/N`), and names a file by its path without symbolic links. The
//! program may have asked for it by another: that one is recorded, as long as it leads to the same.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::files::FullPath;

/// So many names are remembered, then all forgotten: more links than any tree has.
const REMEMBERED: usize = 4096;

/// By which names programs opened what the kernel names otherwise.
#[derive(Default)]
pub(crate) struct DirectoryNames {
    /// By the kernel's name.
    asked: HashMap<Vec<u8>, FullPath>,
}

impl DirectoryNames {
    /// The name of what the kernel names so, if it was opened as another; `opened` is what its
    /// descriptor was opened as when it was last, which may have been closed since.
    pub fn asked_as(&mut self, kernel: &[u8], opened: Option<FullPath>) -> Option<FullPath> {
        let known = self.asked.get(kernel).cloned();
        let Some(opened) = opened else { return known };
        if *opened.bytes == *kernel {
            self.asked.remove(kernel);
        }
        if *opened.bytes == *kernel || known.as_ref() == Some(&opened) {
            return Some(opened);
        }
        if !leads_to(&opened.bytes, kernel) {
            return known;
        }
        if self.asked.len() >= REMEMBERED {
            self.asked.clear();
        }
        self.asked.insert(kernel.to_vec(), opened.clone());
        Some(opened)
    }

    /// Something was opened by this name: if that is the kernel's own, it is asked for so now.
    pub fn opened(&mut self, path: &[u8]) {
        self.asked.remove(path);
    }

    /// A file or directory has been renamed: names lead elsewhere.
    pub fn renamed(&mut self) {
        self.asked.clear();
    }
}

/// Whether a path leads to what the kernel names so. All of it was just walked by the program, and
/// is in the kernel's memory.
fn leads_to(path: &[u8], kernel: &[u8]) -> bool {
    let target = Path::new(OsStr::from_bytes(path)).canonicalize();
    target.is_ok_and(|target| target.as_os_str().as_bytes() == kernel)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use recording::PathId;

    use super::*;

    fn opened(path: &Path) -> Option<FullPath> {
        Some(FullPath { id: PathId(1), bytes: path.as_os_str().as_bytes().into() })
    }

    #[test]
    fn a_name_is_kept_while_it_leads_to_what_the_kernel_names() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap();
        let (real, link, other) = (top.join("real"), top.join("link"), top.join("other"));
        std::fs::create_dir(&real).unwrap();
        std::fs::create_dir(&other).unwrap();
        symlink("real", &link).unwrap();
        let (kernel, mut names) = (real.as_os_str().as_bytes(), DirectoryNames::default());
        assert_eq!(names.asked_as(kernel, None), None);
        assert_eq!(names.asked_as(kernel, opened(&other)), None, "closed, and another's since");
        assert_eq!(names.asked_as(kernel, opened(&real)), opened(&real));
        assert_eq!(names.asked_as(kernel, opened(&link)), opened(&link));
        assert_eq!(names.asked_as(kernel, None), opened(&link), "a copy of the descriptor");
        assert_eq!(names.asked_as(kernel, opened(&real)), opened(&real));
        assert_eq!(names.asked_as(kernel, None), None, "asked for by its own name since");
        names.asked_as(kernel, opened(&link));
        names.renamed();
        assert_eq!(names.asked_as(kernel, None), None);
    }
}
