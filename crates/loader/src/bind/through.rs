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
        let named = elements_that_name(list, directory);
        if named.iter().any(is_plain) {
            return Through::Plain;
        }
        if named.iter().any(|element| element.contains(&b'$')) {
            return Through::Dollar;
        }
        let elements = || list.split(|byte| *byte == b':' || *byte == b';');
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

/// The elements of a list that are this directory. A list may name hundreds.
fn elements_that_name<'a>(list: &'a [u8], directory: &[u8]) -> Vec<&'a [u8]> {
    let element = |at: usize| {
        let is_first = at == 0 || matches!(list[at - 1], b':' | b';');
        let rest = &list[at..];
        let end = memchr::memchr2(b':', b';', rest).unwrap_or(rest.len());
        Some(&rest[..end]).filter(|element| is_first && trimmed(element) == directory)
    };
    let found = memchr::memmem::find_iter(list, directory).filter_map(element);
    found.filter(|element| !element.is_empty()).collect()
}

/// Whether a path leads through a directory that the loader chooses by the processor.
pub(super) fn is_variant(path: &Path) -> bool {
    const VARIANTS: &str = "glibc-hwcaps";
    let is_in_it = memchr::memmem::find(path.as_os_str().as_bytes(), VARIANTS.as_bytes()).is_some();
    is_in_it && path.components().any(|part| part.as_os_str() == VARIANTS)
}

fn trimmed(directory: &[u8]) -> &[u8] {
    let end = directory.iter().rposition(|byte| *byte != b'/').map_or(1, |last| last + 1);
    &directory[..end.min(directory.len())]
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}
