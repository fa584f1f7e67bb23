//! What the tracer knows of a process's descriptors and directories: enough to turn what a call was
//! given into a full path.

use std::path::PathBuf;
use std::rc::Rc;

use recording::{Nanos, PathId};

/// Descriptors above this are not remembered; their paths are asked of the kernel.
const REMEMBERED: usize = 1 << 16;

/// The files that a process opened by path, by descriptor. Descriptors that it inherited, or
/// got in another way, are not in it.
#[derive(Clone, Default)]
pub(crate) struct OpenFiles {
    open: Vec<Option<OpenFile>>,
}

#[derive(Clone)]
struct OpenFile {
    path: FullPath,
    /// Whether the kernel names it so, too: then it has no symbolic link in it.
    is_kernels: bool,
    close_on_exec: bool,
    /// When the call had returned that made the descriptor; 0 where that was not seen.
    made: Nanos,
}

/// A full path, with its number in the recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FullPath {
    pub id: PathId,
    pub bytes: Rc<[u8]>,
}

impl OpenFiles {
    pub fn get(&self, fd: i32) -> Option<&FullPath> {
        Some(&self.open.get(usize::try_from(fd).ok()?)?.as_ref()?.path)
    }

    pub fn opened(&mut self, fd: i32, path: Option<FullPath>, close_on_exec: bool) {
        let Ok(at) = usize::try_from(fd) else { return };
        if at >= REMEMBERED {
            return;
        }
        if self.open.len() <= at {
            self.open.resize(at + 1, None);
        }
        self.open[at] =
            path.map(|path| OpenFile { path, is_kernels: false, close_on_exec, made: Nanos(0) });
    }

    /// A descriptor was made by a call that had returned then.
    pub fn made(&mut self, fd: i32, at: Nanos) {
        let place = usize::try_from(fd).ok().and_then(|at| self.open.get_mut(at));
        if let Some(Some(open)) = place {
            open.made = at;
        }
    }

    /// Whether a descriptor was made after a close of its number had begun: by another thread, when
    /// the number was free and the close had not returned.
    pub fn is_made_since(&self, fd: i32, begun: Nanos) -> bool {
        let open = usize::try_from(fd).ok().and_then(|at| self.open.get(at)?.as_ref());
        open.is_some_and(|open| open.made > begun)
    }

    /// What a descriptor was opened as, if that is what the kernel calls it, or it may be another
    /// name of the same.
    pub fn may_be(&self, fd: i32, kernel: &[u8]) -> Option<&FullPath> {
        let open = self.open.get(usize::try_from(fd).ok()?)?.as_ref()?;
        (!open.is_kernels || *open.path.bytes == *kernel).then_some(&open.path)
    }

    /// The kernel has named a descriptor.
    pub fn named(&mut self, fd: i32, path: &FullPath, kernel: &[u8]) {
        self.opened(fd, Some(path.clone()), false);
        if let Some(Some(open)) = usize::try_from(fd).ok().and_then(|at| self.open.get_mut(at)) {
            open.is_kernels = *path.bytes == *kernel;
        }
    }

    pub fn closed(&mut self, fd: i32) {
        self.closed_range(fd as u32, fd as u32, false);
    }

    /// As close_range(2): from `first` to `last`, or only marked to be closed on exec.
    pub fn closed_range(&mut self, first: u32, last: u32, mark_only: bool) {
        let end = self.open.len().min((last as usize).saturating_add(1));
        let Some(range) = self.open.get_mut(first as usize..end) else { return };
        for open in range {
            match open {
                Some(open) if mark_only => open.close_on_exec = true,
                _ => *open = None,
            }
        }
    }

    pub fn close_on_exec(&mut self, fd: i32, set: bool) {
        let at = usize::try_from(fd).unwrap_or(usize::MAX);
        if let Some(Some(open)) = self.open.get_mut(at) {
            open.close_on_exec = set;
        }
    }

    /// What was opened below a directory that has another name now is called as `asked` says of its
    /// descriptor.
    pub fn renamed(&mut self, directory: &[u8], mut asked: impl FnMut(i32) -> Option<FullPath>) {
        for (fd, place) in self.open.iter_mut().enumerate() {
            if let Some(open) = place
                && open.path.bytes.starts_with(directory)
            {
                let OpenFile { close_on_exec, made, .. } = *open;
                let now = |path| OpenFile { path, is_kernels: true, close_on_exec, made };
                *place = asked(fd as i32).map(now);
            }
        }
    }

    /// What exec leaves open.
    pub fn after_exec(&self) -> OpenFiles {
        let keep = |open: &Option<OpenFile>| open.clone().filter(|open| !open.close_on_exec);
        OpenFiles { open: self.open.iter().map(keep).collect() }
    }
}

/// A process's working directory and root, as far as they are known.
#[derive(Clone, Default)]
pub(crate) struct WorkingDirectory {
    /// The working directory; none where it has to be asked for again.
    pub cwd: Option<Vec<u8>>,
    /// What the process's `/` is, if it is not the recorder's.
    pub root: Vec<u8>,
}

/// Where a link in /proc leads: `cwd`, `root`, `exe`, `fd/3`. Kernel text at the end (` (deleted)`)
/// is taken off.
pub(crate) fn proc_link(tid: i32, link: &str) -> Option<Vec<u8>> {
    use std::os::unix::ffi::OsStringExt;
    let target = std::fs::read_link(PathBuf::from(format!("/proc/{tid}/{link}"))).ok()?;
    let mut target = target.into_os_string().into_vec();
    if target.ends_with(b" (deleted)") {
        target.truncate(target.len() - b" (deleted)".len());
    }
    target.starts_with(b"/").then_some(target)
}

/// Appends `path` to the directory in `into`, or replaces it if it is absolute; `//` and `/./` are
/// left out. `..` stays: what it means depends on symbolic links.
pub(crate) fn join(into: &mut Vec<u8>, root: &[u8], path: &[u8]) {
    if path.first() == Some(&b'/') {
        into.clear();
        into.extend_from_slice(root);
    }
    while into.last() == Some(&b'/') {
        into.pop();
    }
    for part in path.split(|byte| *byte == b'/') {
        if !part.is_empty() && part != b"." {
            into.push(b'/');
            into.extend_from_slice(part);
        }
    }
    if into.is_empty() {
        into.push(b'/');
    }
}

/// The same directory without symbolic links in its path, as the filesystem says now.
pub(crate) fn without_links(directory: &[u8]) -> Option<Vec<u8>> {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let found = std::fs::canonicalize(std::ffi::OsStr::from_bytes(directory)).ok()?;
    Some(found.into_os_string().into_vec())
}

/// Takes the leading `..` of a path, and as many names off the directory that it starts from, which
/// must have no symbolic link in it. Returns the rest of the path.
pub(crate) fn climb<'a>(directory: &mut Vec<u8>, path: &'a [u8]) -> &'a [u8] {
    let mut rest = path;
    loop {
        let end = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
        match &rest[..end] {
            b".." => {
                let parent = directory.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
                directory.truncate(parent);
            }
            b"" | b"." if end < rest.len() => {}
            _ => return rest,
        }
        rest = rest.get(end + 1..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(directory: &str, path: &str) -> String {
        let mut full = directory.as_bytes().to_vec();
        join(&mut full, b"", path.as_bytes());
        String::from_utf8(full).unwrap()
    }

    #[test]
    fn a_relative_path_is_below_its_directory_and_an_absolute_one_replaces_it() {
        assert_eq!(joined("/home/u", "lib/x"), "/home/u/lib/x");
        assert_eq!(joined("/home/u", "/lib//x/./y"), "/lib/x/y");
        assert_eq!(joined("/", "x"), "/x");
        assert_eq!(joined("/home/u", "."), "/home/u");
        assert_eq!(joined("/a", "/"), "/");
        assert_eq!(joined("/a", "../b"), "/a/../b");
    }

    #[test]
    fn leading_dots_climb_from_a_directory_that_the_kernel_named() {
        let climbed = |directory: &str, path: &str| {
            let mut directory = directory.as_bytes().to_vec();
            let rest = climb(&mut directory, path.as_bytes());
            join(&mut directory, b"", rest);
            String::from_utf8(directory).unwrap()
        };
        assert_eq!(climbed("/a/b", ".."), "/a");
        assert_eq!(climbed("/a/b", "../c/../d"), "/a/c/../d");
        assert_eq!(climbed("/a/b", ".././/../../x"), "/x");
        assert_eq!(climbed("/a/b", "..data/x"), "/a/b/..data/x");
        assert_eq!(climbed("/", "../.."), "/");
    }

    #[test]
    fn a_close_that_had_begun_before_its_number_was_given_anew_is_known() {
        let mut files = OpenFiles::default();
        files.opened(3, Some(FullPath { id: PathId(1), bytes: (*b"/a").into() }), false);
        assert!(!files.is_made_since(3, Nanos(5)) && !files.is_made_since(4, Nanos(5)));
        files.made(3, Nanos(9));
        assert!(files.is_made_since(3, Nanos(8)) && !files.is_made_since(3, Nanos(10)));
    }

    #[test]
    fn exec_keeps_what_is_not_marked() {
        let mut files = OpenFiles::default();
        let path = |id, bytes: &[u8]| Some(FullPath { id: PathId(id), bytes: bytes.into() });
        files.opened(3, path(1, b"/a"), true);
        files.opened(4, path(2, b"/b"), false);
        let after = files.after_exec();
        assert_eq!((after.get(3), after.get(4)), (None, path(2, b"/b").as_ref()));
        files.closed_range(3, u32::MAX, false);
        assert_eq!(files.get(4), None);
    }
}
