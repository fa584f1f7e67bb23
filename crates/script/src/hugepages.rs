//! Huge pages from the start: glibc's malloc asks for them where a tunable says so, and whether
//! that has an effect on a command.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The variable that glibc reads its tunables from (glibc manual, "Tunables").
pub const VARIABLE: &str = "GLIBC_TUNABLES";

/// `madvise(MADV_HUGEPAGE)` for what malloc takes from the system ("Memory Allocation Tunables").
const TUNABLE: &str = "glibc.malloc.hugetlb";

/// The first glibc with that tunable.
const SINCE: (u32, u32) = (2, 35);

/// What the variable must be so that malloc asks for huge pages: other tunables stay, and a value
/// that the user has given to this one does, too.
pub fn tunables(users: Option<&OsStr>) -> OsString {
    let users = users.unwrap_or_default().as_bytes();
    let is_set = users.split(|byte| *byte == b':').any(|tunable| {
        tunable.strip_prefix(TUNABLE.as_bytes()).is_some_and(|rest| rest.starts_with(b"="))
    });
    let mut value = users.to_vec();
    if !is_set {
        if !value.is_empty() {
            value.push(b':');
        }
        value.extend_from_slice(format!("{TUNABLE}=1").as_bytes());
    }
    OsString::from_vec(value)
}

/// Which C library a program's malloc is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Library {
    /// glibc of a version.
    Glibc(u32, u32),
    /// glibc, whose version is not to be found.
    SomeGlibc,
    /// musl.
    Musl,
    /// None is loaded: it is part of the program, or there is none.
    Static,
    /// Another one, or no ELF program.
    Unknown,
}

impl Library {
    /// The C library of a program whose ELF file names this interpreter (PT_INTERP).
    pub fn of(interpreter: Option<&Path>) -> Library {
        let Some(interpreter) = interpreter else { return Library::Static };
        let name = interpreter.file_name().unwrap_or_default().as_bytes();
        if name.starts_with(b"ld-musl") {
            return Library::Musl;
        }
        if !name.starts_with(b"ld-linux") && !name.starts_with(b"ld64") && name != b"ld.so.1" {
            return Library::Unknown;
        }
        // The C library lies beside the loader, which is often reached through a link.
        let real = interpreter.canonicalize().unwrap_or_else(|_| interpreter.to_owned());
        let version =
            real.parent().and_then(|directory| glibc_version(&directory.join("libc.so.6")));
        version.map_or(Library::SomeGlibc, |(major, minor)| Library::Glibc(major, minor))
    }

    /// Why the tunable does nothing, if that is known.
    pub fn without_effect(&self) -> Option<String> {
        match self {
            Library::Glibc(major, minor) if (*major, *minor) < SINCE => {
                Some(format!("the program's glibc is {major}.{minor}, and this takes 2.35"))
            }
            Library::Musl => Some("the program's C library is musl, which has no such".to_owned()),
            Library::Static => Some(
                "the program is linked statically, perhaps not with glibc 2.35 or later".to_owned(),
            ),
            Library::Glibc(..) | Library::SomeGlibc | Library::Unknown => None,
        }
    }
}

/// A C library is smaller than this.
const MOST_BYTES: u64 = 64 << 20;

/// The version that is written in glibc's file, and which it prints when it is run.
fn glibc_version(file: &Path) -> Option<(u32, u32)> {
    let mut bytes = Vec::new();
    File::open(file).ok()?.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
    const NAME: &[u8] = b"GNU C Library";
    const VERSION: &[u8] = b" version ";
    let at = bytes.windows(NAME.len()).position(|window| window == NAME)?;
    let line: Vec<u8> = bytes[at..].iter().copied().take(200).take_while(|b| *b != b'\n').collect();
    let at = line.windows(VERSION.len()).position(|window| window == VERSION)? + VERSION.len();
    let text = String::from_utf8_lossy(&line[at..]).into_owned();
    let mut numbers = text.split(|char: char| !char.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// The program that runs a file which begins with `#!` (execve(2)); none for others.
pub fn interpreter_of_script(file: &Path) -> Option<PathBuf> {
    let mut line = Vec::new();
    // The kernel reads no more than 256 bytes.
    BufReader::new(File::open(file).ok()?).take(256).read_until(b'\n', &mut line).ok()?;
    let words = line.strip_prefix(b"#!")?.trim_ascii();
    let program = words.split(|byte| byte.is_ascii_whitespace()).next()?;
    Some(PathBuf::from(OsStr::from_bytes(program)))
}

/// Why the kernel does nothing on that advice, if it does not.
pub fn forbidden_by_kernel() -> Option<String> {
    const SWITCH: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
    match std::fs::read_to_string(SWITCH) {
        Ok(text) if text.contains("[never]") => Some(format!("{SWITCH} says never")),
        Ok(_) => None,
        Err(_) => Some("this kernel has no transparent huge pages".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tunable_is_added_to_those_of_the_user_and_never_over_one() {
        let cases = [
            (None, "glibc.malloc.hugetlb=1"),
            (Some(""), "glibc.malloc.hugetlb=1"),
            (Some("glibc.malloc.check=3"), "glibc.malloc.check=3:glibc.malloc.hugetlb=1"),
            (Some("glibc.malloc.hugetlb=2"), "glibc.malloc.hugetlb=2"),
            (Some("a=b:glibc.malloc.hugetlb=0:c=d"), "a=b:glibc.malloc.hugetlb=0:c=d"),
        ];
        for (users, expected) in cases {
            assert_eq!(tunables(users.map(OsStr::new)), expected, "{users:?}");
        }
    }

    #[test]
    fn the_c_library_is_known_by_the_interpreter() {
        let of = |text: &str| Library::of(Some(Path::new(text)));
        let here = ["/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"];
        let here = here.into_iter().find(|loader| Path::new(loader).exists()).unwrap();
        assert!(matches!(of(here), Library::Glibc(2, 17..)));
        assert_eq!(of("/lib/ld-musl-x86_64.so.1"), Library::Musl);
        assert_eq!(of("/no/such/ld-linux-x86-64.so.2"), Library::SomeGlibc);
        assert_eq!(of("/opt/odd"), Library::Unknown);
        assert_eq!(Library::of(None), Library::Static);
        assert!(Library::Glibc(2, 34).without_effect().is_some());
        assert!(Library::Glibc(2, 35).without_effect().is_none());
    }
}
