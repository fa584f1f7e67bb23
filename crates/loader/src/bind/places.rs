//! Files that find others from where they lie.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::ElfObject;

/// Why a file is not bound to where it is.
pub(super) const RELOCATABLE: &str =
    "it finds libraries through $ORIGIN; --absolute binds it to where it is";

/// Whether what an object finds depends on the path that it is opened by, or on where it is
/// started: `$ORIGIN` and other tokens, relative directories.
pub(super) fn depends_on_place(object: &ElfObject) -> bool {
    let lists = object.rpath.iter().chain(&object.runpath);
    let names = object.dependencies.iter().map(|entry| &entry.name).chain(&object.audit);
    lists.into_iter().any(|list| list_depends_on_place(list))
        || names.into_iter().any(|name| name.as_bytes().contains(&b'$'))
}

/// Whether a list of directories has one that is relative or holds a token.
pub(super) fn list_depends_on_place(list: &OsStr) -> bool {
    let list = list.as_bytes();
    let is_plain = |directory: &[u8]| directory.starts_with(b"/") && !directory.contains(&b'$');
    !list.is_empty() && !list.split(|byte| *byte == b':').all(is_plain)
}
