//! Which kind of directory a list leads through: what else may be found there, elsewhere.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// By what kind of directory a list led to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Through {
    /// One that the list names as it is.
    Plain,
    /// One that moves with the files: `$ORIGIN`, or a relative directory.
    Origin,
    /// Perhaps another one for another name of the file whose list it is: that has names in several
    /// directories, and uses `$ORIGIN`.
    Linked,
    /// One whose name has a `$` that stands for nothing else.
    Dollar,
    /// One that depends on the processor: `$PLATFORM`, `$LIB`, a directory for some hardware.
    Processor,
}

impl Through {
    /// How `list` leads to `path`.
    pub fn of(list: &[u8], path: &Path) -> Through {
        let directory = path.parent().unwrap_or(Path::new("")).as_os_str().as_bytes();
        let is_plain = |element: &&[u8]| element.starts_with(b"/") && !element.contains(&b'$');
        let elements = || list.split(|byte| *byte == b':' || *byte == b';');
        if elements().filter(is_plain).any(|element| trimmed(element) == directory) {
            return Through::Plain;
        }
        if elements().any(|element| element.contains(&b'$') && trimmed(element) == directory) {
            return Through::Dollar;
        }
        let below = |element: &[u8]| directory.starts_with(element);
        let is_origin = |element: &[u8]| {
            let of_processor: [&[u8]; 4] = [b"$PLATFORM", b"${PLATFORM}", b"$LIB", b"${LIB}"];
            !element.starts_with(b"/") && !of_processor.iter().any(|token| contains(element, token))
        };
        let for_hardware = elements().filter(is_plain).any(below) || is_variant(path);
        if !for_hardware && elements().any(is_origin) {
            Through::Origin
        } else {
            Through::Processor
        }
    }
}

/// Whether a path leads through a directory that the loader chooses by the processor.
pub(super) fn is_variant(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "glibc-hwcaps")
}

fn trimmed(directory: &[u8]) -> &[u8] {
    let end = directory.iter().rposition(|byte| *byte != b'/').map_or(1, |last| last + 1);
    &directory[..end.min(directory.len())]
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}
