//! A bundle's header and index.
//!
//! The header is 64 bytes of text: `becalm-pybundle/1`, the index's length, the code's length
//! (16 digits each) and the index's CRC-32 (8 hexadecimal digits), each after a space. The index
//! follows, then the code, then a zip archive. The index is UTF-8: a line on the interpreter,
//! then of each directory, after an empty line, a line `path TAB mtime TAB flags` and a line a
//! module, `name TAB suffix [TAB offset TAB length TAB mtime TAB size]`.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::PathBuf;

use super::directory::Directory;
use super::interpreter::Interpreter;

pub(super) const MAGIC: &str = "becalm-pybundle/1 ";
pub(super) const HEADER: usize = 64;

/// How far a directory is believed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Flags {
    /// Its time is compared at each start.
    pub check: bool,
    /// It and each of its sources are compared before they are used.
    pub look: bool,
}

/// A source's code: where it is, from the start of all code, and what the source was like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub offset: u64,
    pub length: u64,
    /// In nanoseconds since 1970.
    pub mtime: i128,
    /// In bytes.
    pub size: u64,
}

/// The index as text.
pub(super) fn text(
    interpreter: &Interpreter,
    directories: &[(Directory, Flags)],
    entries: &HashMap<PathBuf, Entry>,
) -> String {
    let Interpreter { magic, optimize, suffixes, version, .. } = interpreter;
    let mut text = format!("python\t{magic}\t{optimize}\t{}\t{version}\n", suffixes.join(" "));
    // Writing to a String cannot fail.
    for (directory, flags) in directories {
        let check = if flags.check { "check" } else { "" };
        let look = if flags.look { "look" } else { "" };
        let _ = write!(text, "\n{}\t{}\t{check}{look}\n", directory.path, directory.mtime);
        for (tail, suffix) in &directory.modules {
            let _ = write!(text, "{tail}\t{suffix}");
            let path = PathBuf::from(format!("{}/{tail}{suffix}", directory.path));
            if let Some(Entry { offset, length, mtime, size }) = entries.get(&path) {
                let _ = write!(text, "\t{offset}\t{length}\t{mtime}\t{size}");
            }
            text.push('\n');
        }
    }
    text
}

/// The header of an index and so many bytes of code.
pub(super) fn header(index: &str, code: u64) -> String {
    let crc = crc32fast::hash(index.as_bytes());
    let text = format!("{MAGIC}{:016} {code:016} {crc:08x}", index.len());
    format!("{text:<width$}\n", width = HEADER - 1)
}

/// What a header says: the index's length, the code's, the index's CRC-32.
pub(super) fn read_header(header: &[u8; HEADER]) -> Option<(u64, u64, u32)> {
    let text = std::str::from_utf8(header).ok()?.strip_prefix(MAGIC)?;
    let mut words = text.trim_end().split(' ');
    let mut number = || words.next()?.parse().ok();
    let (index, code) = (number()?, number()?);
    Some((index, code, u32::from_str_radix(words.next()?, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written_and_damaged_ones_are_none() {
        let written = header("index", 12345);
        let bytes: [u8; HEADER] = written.as_bytes().try_into().unwrap();
        assert_eq!(read_header(&bytes), Some((5, 12345, crc32fast::hash(b"index"))));
        for at in 0..HEADER - 1 {
            let mut damaged = bytes;
            damaged[at] = 0xff;
            assert_eq!(read_header(&damaged), None, "{at}");
        }
    }
}
