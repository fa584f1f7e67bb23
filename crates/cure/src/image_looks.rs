//! What `becalm run` asks of the filesystem that an image's sources lie on, to see whether they have
//! changed: so much of a start stays in an image. docs/run.md says which these are, and `image::mount`
//! asks them.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use recording::query::clean;
use recording::{Event, Kind, PathId, Recording};

use crate::python::{BYTECODE, is_bytecode, to_path};

/// What a launch asks for one after another, whatever it starts: the calm file, looked up and opened as
/// often as it is read, and the image, looked up and opened.
pub(crate) const LAUNCH: u64 = 7;

/// The files and the directories of bytecode that it looks at, by where they really lie; the
/// directories of the image are looked at besides.
#[derive(Debug, Default)]
pub(crate) struct ImageLooks {
    /// Before the command starts, many at a time: what the trace opened, and of its bytecode the
    /// source and the directory.
    pub before: HashSet<PathBuf>,
    /// One after another, as the command looks them up: what it did not open.
    pub meanwhile: HashSet<PathBuf>,
}

impl ImageLooks {
    /// Of a start that makes these metadata operations below the image's directories.
    pub(crate) fn of(recording: &Recording, below: &[(usize, &Event, PathId)]) -> ImageLooks {
        let (mut opened, mut found) = (HashSet::new(), HashSet::new());
        for (_, event, path) in below.iter().filter(|(_, event, _)| !event.outcome.failed()) {
            let is_opened = matches!(event.kind(), Kind::Open | Kind::Exec) && !event.is_listing();
            if is_opened { &mut opened } else { &mut found }.insert(*path);
        }
        let path = |id: &PathId| clean(recording.path(*id));
        let found: HashSet<_> = found.difference(&opened).map(path).collect();
        let mut looks = ImageLooks::default();
        for path in opened.iter().map(path) {
            match bytecode_of(&path) {
                Some((directory, source)) => {
                    looks.before.insert(real(directory));
                    let source = source.as_os_str().as_bytes();
                    looks.before.extend(found.get(source).map(|source| real(to_path(source))));
                }
                None if is_bytecode(&path) => {}
                None => _ = looks.before.insert(real(to_path(&path))),
            }
        }
        // Of bytecode the directory tells.
        let others = found.iter().filter(|path| !is_bytecode(path)).map(|path| real(to_path(path)));
        let is_file = |path: &PathBuf| path.symlink_metadata().is_ok_and(|about| about.is_file());
        let meanwhile = others.filter(|path| !looks.before.contains(path) && is_file(path));
        looks.meanwhile = meanwhile.collect();
        looks
    }
}

/// The directory of a file of bytecode, and the source that it was made of.
fn bytecode_of(path: &[u8]) -> Option<(&Path, PathBuf)> {
    let path = to_path(path);
    let directory = path.parent()?;
    let name = path.file_name()?.as_bytes().strip_suffix(b".pyc")?;
    let module = name.split(|byte| *byte == b'.').next()?;
    let is_kept = directory.file_name().is_some_and(|name| name.as_bytes() == BYTECODE);
    let source = [module, b".py"].concat();
    is_kept.then_some(())?;
    Some((directory, directory.parent()?.join(OsStr::from_bytes(&source))))
}

/// A link is in an image as it is, and what it leads to is looked at. What is not there now is taken by
/// its name.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
