//! What `cachebuild` wrote, without what not everyone may read.

use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::held::open;
use super::readers::{FileReaders, Limit, path};
use super::script::{Says, Script, stamp};

/// A cache that is fit to be published.
pub(super) struct Repaired {
    pub(super) text: Vec<u8>,
    /// How many entries had shown what not everyone may read.
    pub(super) disclosing: u64,
}

/// Writes a cache anew: entries of what not everyone may read become `limited-access-*`, which
/// each user looks at in the tree itself; so do those of files that a cache cannot hold as they
/// are. Names that Modules cannot spell are left out: nothing can be loaded by them.
pub(super) fn repair(
    text: &[u8],
    script: &Script<'_>,
    as_of: i128,
    readers: &mut FileReaders<'_>,
) -> Repaired {
    let mut repaired = Repaired { text: Vec::with_capacity(text.len() + 128), disclosing: 0 };
    let out = &mut repaired.text;
    let mut directories: HashSet<PathBuf> = HashSet::new();
    for entry in &script.entries {
        let is_covered =
            |name: &Path| name.ancestors().skip(1).any(|above| directories.contains(above));
        if is_covered(path(&entry.name)) {
            repaired.disclosing += u64::from(!is_limited(&entry.says));
            continue;
        }
        if is_limited(&entry.says) {
            if entry.says == Says::LimitedDirectory {
                directories.insert(path(&entry.name).to_owned());
            }
            out.extend_from_slice(&text[entry.text.clone()]);
            out.push(b'\n');
            continue;
        }
        if std::str::from_utf8(&entry.name).is_err() || readers.lacks(path(&entry.name)) {
            continue;
        }
        match readers.limit(path(&entry.name), None) {
            Some(Limit::Directory(directory)) => {
                repaired.disclosing += 1;
                line(out, "limited-access-directory", directory.as_os_str().as_bytes());
                directories.insert(directory);
            }
            Some(Limit::File) => {
                repaired.disclosing += 1;
                line(out, "limited-access-file", &entry.name);
            }
            None if readers.loses(path(&entry.name), &entry.says) => {
                line(out, "limited-access-file", &entry.name);
            }
            None => {
                out.extend_from_slice(&text[entry.text.clone()]);
                out.push(b'\n');
            }
        }
    }
    let head = format!("#%Module{}\n{}\n", script.asks, stamp(as_of, out));
    out.splice(..0, head.into_bytes());
    repaired
}

fn is_limited(says: &Says<'_>) -> bool {
    matches!(says, Says::LimitedFile | Says::LimitedDirectory)
}

impl FileReaders<'_> {
    /// Whether there is no file of that name: Tcl has taken bytes that are no UTF-8 for others.
    fn lacks(&self, name: &Path) -> bool {
        rustix::fs::lstat(self.root().join(name)).is_err()
    }

    /// Whether a body loses something on its way through a cache: line ends with CR, which Tcl
    /// takes for plain ones when it reads the cache, or bytes that are no UTF-8. (A body that
    /// differs for another reason is of a file that was changed meanwhile.)
    fn loses(&self, name: &Path, says: &Says<'_>) -> bool {
        let (Says::Modulefile { body, .. } | Says::Rc { body }) = says else { return false };
        if memchr::memchr(b'\r', body).is_some() {
            return true;
        }
        let Ok(file) = open(&self.root().join(name)) else { return false };
        let mut now = Vec::with_capacity(body.len() + 1);
        let read = File::from(file).take(4 * body.len() as u64 + 1).read_to_end(&mut now);
        read.is_ok() && now != **body && std::str::from_utf8(&now).is_err()
    }
}

fn line(out: &mut Vec<u8>, command: &str, name: &[u8]) {
    out.extend_from_slice(command.as_bytes());
    out.push(b' ');
    for byte in name {
        let written: &[u8] = match byte {
            b'\n' => b"\\n",
            b'\t' => b"\\t",
            b'\r' => b"\\r",
            0x0b => b"\\v",
            0x0c => b"\\f",
            b'{' => b"\\{",
            b'}' => b"\\}",
            b'[' => b"\\[",
            b']' => b"\\]",
            b'$' => b"\\$",
            b';' => b"\\;",
            b' ' => b"\\ ",
            b'"' => b"\\\"",
            b'\\' => b"\\\\",
            b'#' => b"\\#",
            byte => std::slice::from_ref(byte),
        };
        out.extend_from_slice(written);
    }
    out.push(b'\n');
}
