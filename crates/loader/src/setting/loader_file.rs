//! What a loader's own bytes tell of it. It is read, never run.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use memchr::memmem;

/// What glibc prints of itself in `ld.so --version` (since 2.33) and in libc.so.6.
const RELEASE: [&[u8]; 2] = [b" stable release version ", b" development release version "];

/// The version of glibc that the file says it is of.
pub(super) fn glibc_version(bytes: &[u8]) -> Option<(u32, u32)> {
    RELEASE.iter().find_map(|mark| {
        let at = memmem::find(bytes, mark)? + mark.len();
        version(&bytes[at..])
    })
}

/// The version in a file name like `ld-2.17.so`.
pub(super) fn named_version(path: &Path) -> Option<(u32, u32)> {
    version(path.file_name()?.as_bytes().strip_prefix(b"ld-")?)
}

/// A version of musl, which says `musl libc (x86_64)` and its version as a text of its own.
pub(super) fn is_musl(bytes: &[u8]) -> bool {
    memmem::find(bytes, b"musl libc (").is_some()
}

/// The architecture in `musl libc (x86_64)`.
pub(super) fn musl_arch(bytes: &[u8]) -> Option<OsString> {
    let at = memmem::find(bytes, b"musl libc (")? + b"musl libc (".len();
    let rest = &bytes[at..(at + 64).min(bytes.len())];
    let end = rest.iter().position(|byte| *byte == b')')?;
    Some(OsString::from_vec(rest[..end].to_vec()))
}

fn version(text: &[u8]) -> Option<(u32, u32)> {
    let text: Vec<u8> =
        text.iter().copied().take(16).take_while(|b| b.is_ascii_digit() || *b == b'.').collect();
    let mut parts = std::str::from_utf8(&text).ok()?.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// The directories of `SYSTEM_DIRS` (elf/dl-load.c): texts that follow each other, each a path with
/// a slash at its end.
pub(super) fn system_directories(bytes: &[u8]) -> Vec<PathBuf> {
    let mut at = 0;
    while let Some(found) = memmem::find(&bytes[at..], b"\0/") {
        at += found + 1;
        let mut run: Vec<PathBuf> = Vec::new();
        while let Some(text) = text_at(bytes, at).filter(|text| is_directory(text)) {
            run.push(OsString::from_vec(text.to_vec()).into());
            at += text.len() + 1;
        }
        let ends_so = |directory: &PathBuf| directory.as_os_str().as_bytes().ends_with(b"/lib/");
        if run.len() > 1 || run.iter().any(ends_so) {
            return run;
        }
        // The next text begins where the last one of a run ended.
        at -= usize::from(!run.is_empty());
    }
    Vec::new()
}

/// The text at an offset, up to its NUL.
fn text_at(bytes: &[u8], at: usize) -> Option<&[u8]> {
    let rest = bytes.get(at..)?;
    memchr::memchr(0, rest).map(|end| &rest[..end])
}

fn is_directory(text: &[u8]) -> bool {
    text.len() > 2
        && text.starts_with(b"/")
        && text.ends_with(b"/")
        && text.windows(4).any(|part| part == b"/lib")
        && text.iter().all(|byte| byte.is_ascii_graphic())
}

/// The path that is a text of its own and ends in `name`.
pub(super) fn path_ending(bytes: &[u8], name: &str) -> Option<PathBuf> {
    let ending = [name.as_bytes(), b"\0"].concat();
    let mut ends = memmem::find_iter(bytes, &ending);
    ends.find_map(|at| {
        let start = memchr::memrchr(0, &bytes[..at])? + 1;
        let path = &bytes[start..at + name.len()];
        path.starts_with(b"/").then(|| OsString::from_vec(path.to_vec()).into())
    })
}

/// Whether it was built with Debian's patches.
pub(super) fn is_debians(bytes: &[u8]) -> bool {
    ["(Debian GLIBC ", "(Ubuntu GLIBC "]
        .iter()
        .any(|mark| memmem::find(bytes, mark.as_bytes()).is_some())
}

/// Whether `text` is a text of its own.
pub(super) fn has_text(bytes: &[u8], text: &OsStr) -> bool {
    memmem::find(bytes, &[b"\0", text.as_bytes(), b"\0"].concat()).is_some()
}

/// What `$LIB` stands for, in a loader with this first system directory: upstream its last name
/// (`lib64`), with Debian's patch the whole (`lib/x86_64-linux-gnu`).
pub(super) fn lib(bytes: &[u8], first: &Path) -> OsString {
    let whole = first.strip_prefix("/").unwrap_or(first).as_os_str().as_bytes();
    let whole = OsStr::from_bytes(whole.strip_suffix(b"/").unwrap_or(whole));
    match has_text(bytes, whole) {
        true => whole.to_owned(),
        false => first.file_name().unwrap_or(whole).to_owned(),
    }
}
