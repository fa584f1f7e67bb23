//! The machine's C library: which glibc its loader is, where it searches, and whether musl's is
//! there too. The loader itself is asked (`ld.so --version`, `ld.so --help`: glibc 2.33); an
//! older one's C library is asked by the text that it carries.

use std::fs::{read, read_dir};
use std::path::{Path, PathBuf};

use object::read::elf::{FileHeader, ProgramHeader};
use schemars::JsonSchema;
use serde::Serialize;

use crate::answer::{MachineProbe, ProbeAnswer, ProbeSubject};
use crate::arch::ABI_LOADER;
use crate::program::output;

/// What the machine's glibc says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Glibc {
    /// The loader, as programs name it (`PT_INTERP`).
    #[serde(serialize_with = "recording::serialize_shown")]
    #[schemars(with = "recording::Name")]
    pub loader: PathBuf,
    /// E.g. `2.36`.
    pub version: String,
    /// What the distribution calls it, e.g. `Debian GLIBC 2.36-9+deb12u14`.
    pub package: String,
    /// Whether `/etc/ld.so.cache` is used; none where the loader does not say.
    pub cache: Option<bool>,
    /// The directories searched for a library that names none, in order.
    pub directories: Vec<LoaderDirectory>,
    /// The subdirectories of `glibc-hwcaps` in each directory, best first.
    pub hwcaps: Vec<Hwcap>,
    /// The older subdirectories (`tls`, `x86_64`, `avx512_1`), which glibc 2.37 has no more.
    pub legacy_hwcaps: Vec<Hwcap>,
}

/// A directory that is searched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LoaderDirectory {
    /// The directory.
    pub path: String,
    /// Why, in the loader's words, e.g. `system search path`.
    pub why: String,
}

/// A subdirectory for libraries that need some processor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Hwcap {
    /// E.g. `x86-64-v3`.
    pub name: String,
    /// Whether this machine's processor can run what is in it.
    pub supported: bool,
    /// Whether the loader looks into it.
    pub searched: bool,
}

/// Asks the machine's glibc, if there is one.
pub(crate) fn glibc() -> Option<Glibc> {
    let loader = interpreter(Path::new("/bin/sh"))
        .filter(|loader| !is_musl(loader))
        .or_else(|| Some(PathBuf::from(ABI_LOADER)).filter(|loader| loader.exists()))?;
    let said = output(&loader, &["--version"]).ok().and_then(|text| banner(text.as_bytes()));
    let (package, version) = said.or_else(|| banner(&read(c_library(&loader)?).ok()?))?;
    let help = output(&loader, &["--help"]).unwrap_or_default();
    let search = section(&help, "Shared library search path:");
    let hwcaps = |title| section(&help, title).map(hwcap).collect();
    Some(Glibc {
        version,
        package,
        cache: search
            .clone()
            .next()
            .map(|_| search.clone().any(|line| line.contains("ld.so.cache"))),
        directories: search.filter_map(directory).collect(),
        hwcaps: hwcaps("Subdirectories of glibc-hwcaps directories"),
        legacy_hwcaps: hwcaps("Legacy HWCAP subdirectories"),
        loader,
    })
}

/// The loader that an executable names.
fn interpreter(program: &Path) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    let data = read(program).ok()?;
    let header = object::elf::FileHeader64::<object::Endianness>::parse(&*data).ok()?;
    let endian = header.endian().ok()?;
    let mut segments = header.program_headers(endian, &*data).ok()?.iter();
    let name = segments.find_map(|segment| segment.interpreter(endian, &*data).ok()?)?;
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(name)))
}

/// The C library that the loader finds for `/bin/sh`: `libc.so.6 => /lib/… (0x…)`.
fn c_library(loader: &Path) -> Option<PathBuf> {
    let list = output(loader, &["--list", "/bin/sh"]).ok()?;
    let line = list.lines().find_map(|line| line.trim().strip_prefix("libc.so.6 => "))?;
    Some(PathBuf::from(line.rsplit_once(" (").map_or(line, |(path, _)| path)))
}

/// The package and the version from `… (PACKAGE) stable release version 2.36.`, which both the
/// loader says and the C library carries.
fn banner(text: &[u8]) -> Option<(String, String)> {
    const RELEASE: &[u8] = b" release version ";
    let at = text.windows(RELEASE.len()).position(|window| window == RELEASE)?;
    let version = text[at + RELEASE.len()..]
        .split(|byte| !byte.is_ascii_digit() && *byte != b'.')
        .next()
        .map(|version| String::from_utf8_lossy(version).trim_end_matches('.').to_owned())
        .filter(|version| !version.is_empty())?;
    let before = String::from_utf8_lossy(&text[at.saturating_sub(200)..at]).into_owned();
    let package = before.rsplit_once('(')?.1.split_once(')')?.0.to_owned();
    Some((package, version))
}

/// The indented lines under a title of `ld.so --help`.
fn section<'a>(help: &'a str, title: &str) -> impl Iterator<Item = &'a str> + Clone {
    help.lines()
        .skip_while(move |line| !line.starts_with(title))
        .skip(1)
        .take_while(|line| line.starts_with("  "))
        .map(str::trim)
}

/// `/lib (system search path)`; not `(libraries located via /etc/ld.so.cache)`.
fn directory(line: &str) -> Option<LoaderDirectory> {
    let (path, why) = line.rsplit_once(" (")?;
    Some(LoaderDirectory { path: path.to_owned(), why: why.trim_end_matches(')').to_owned() })
}

/// `x86-64-v3 (supported, searched)`, or `x86_64 (AT_PLATFORM; supported, searched)`, or a name.
fn hwcap(line: &str) -> Hwcap {
    let (name, notes) = line.split_once(" (").unwrap_or((line, ""));
    let notes: Vec<_> = notes.trim_end_matches(')').split([',', ';']).map(str::trim).collect();
    Hwcap {
        name: name.to_owned(),
        supported: notes.contains(&"supported"),
        searched: notes.contains(&"searched"),
    }
}

fn is_musl(loader: &Path) -> bool {
    loader.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"ld-musl-"))
}

/// Which glibc.
pub(crate) fn version(glibc: Option<&Glibc>) -> MachineProbe {
    let about =
        ProbeSubject { name: "glibc", title: "glibc", used_for: "knowing how the loader searches" };
    match glibc {
        Some(glibc) => {
            let said = format!("{}, {}", glibc.version, glibc.package);
            about.answered(ProbeAnswer::Present, said)
        }
        None => about.answered(ProbeAnswer::Absent, "no glibc loader answered"),
    }
}

/// Where it searches.
pub(crate) fn search(glibc: Option<&Glibc>) -> MachineProbe {
    let about = ProbeSubject {
        name: "library_search",
        title: "library search",
        used_for: "counting the directories of a library search",
    };
    match glibc {
        Some(glibc) if glibc.directories.is_empty() => about.answered(
            ProbeAnswer::Unknown,
            "this loader does not say where it searches (2.33 does)",
        ),
        Some(glibc) => about.answered(ProbeAnswer::Present, profile(glibc)),
        None => about.answered(ProbeAnswer::Absent, "no glibc loader answered"),
    }
}

fn profile(glibc: &Glibc) -> String {
    let searched = |hwcaps: &[Hwcap]| {
        let names = hwcaps.iter().filter(|hwcap| hwcap.searched).map(|hwcap| hwcap.name.as_str());
        names.collect::<Vec<_>>().join(", ")
    };
    let mut parts = Vec::new();
    if glibc.cache == Some(true) {
        parts.push("ld.so.cache".to_owned());
    }
    parts.push(format!("{} directories", glibc.directories.len()));
    for (kind, hwcaps) in [("hwcaps", &glibc.hwcaps), ("old hwcaps", &glibc.legacy_hwcaps)] {
        let names = searched(hwcaps);
        if !names.is_empty() {
            parts.push(format!("{kind} {names}"));
        }
    }
    parts.join("; ")
}

/// Whether musl's loader is there, and which.
pub(crate) fn musl() -> MachineProbe {
    let about = ProbeSubject {
        name: "musl",
        title: "musl loader",
        used_for: "knowing which loader rules apply",
    };
    let entries = read_dir("/lib").into_iter().flatten().flatten().map(|entry| entry.path());
    match entries.into_iter().find(|path| is_musl(path)) {
        Some(loader) => {
            // Called with nothing to load, it says what it is.
            let said = output(&loader, &[]).unwrap_or_default();
            let version = said.lines().find_map(|line| line.strip_prefix("Version "));
            let version = version.map_or(String::new(), |version| format!(", {version}"));
            about.answered(ProbeAnswer::Present, format!("{}{version}", loader.display()))
        }
        None => about.answered(ProbeAnswer::Absent, "no /lib/ld-musl-*.so.1"),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// `ld.so --help` of glibc 2.39 (Fedora 40), its last part.
    const HELP: &str = "\
This program interpreter self-identifies as: /lib64/ld-linux-x86-64.so.2

Shared library search path:
  /opt/my libs (x) (LD_LIBRARY_PATH)
  (libraries located via /etc/ld.so.cache)
  /lib64 (system search path)
  /usr/lib64 (system search path)

Subdirectories of glibc-hwcaps directories, in priority order:
  x86-64-v4
  x86-64-v3 (supported, searched)
  x86-64-v2 (supported, masked)
";

    #[test]
    fn the_loader_and_the_c_library_carry_the_same_version() {
        let glibc = glibc().unwrap();
        let file = c_library(&glibc.loader).unwrap();
        assert_eq!(banner(&read(file).unwrap()), Some((glibc.package, glibc.version)));
    }

    #[test]
    fn getconf_says_the_same_version() {
        let said = Command::new("getconf").arg("GNU_LIBC_VERSION").output().unwrap();
        let said = String::from_utf8(said.stdout).unwrap();
        assert_eq!(said.trim(), format!("glibc {}", glibc().unwrap().version));
    }

    #[test]
    fn directories_keep_their_brackets_and_the_cache_is_no_directory() {
        let lines = section(HELP, "Shared library search path:");
        let directories: Vec<_> =
            lines.filter_map(directory).map(|directory| (directory.path, directory.why)).collect();
        assert_eq!(
            directories,
            [
                ("/opt/my libs (x)".into(), "LD_LIBRARY_PATH".into()),
                ("/lib64".into(), "system search path".into()),
                ("/usr/lib64".to_owned(), "system search path".to_owned()),
            ]
        );
    }

    #[test]
    fn a_subdirectory_that_is_masked_is_not_searched() {
        let hwcaps: Vec<_> = section(HELP, "Subdirectories of glibc-hwcaps").map(hwcap).collect();
        let said: Vec<_> =
            hwcaps.iter().map(|h| (h.name.as_str(), h.supported, h.searched)).collect();
        assert_eq!(
            said,
            [("x86-64-v4", false, false), ("x86-64-v3", true, true), ("x86-64-v2", true, false)]
        );
        assert!(hwcap("x86_64 (AT_PLATFORM; supported, searched)").searched);
    }

    #[test]
    fn the_hwcaps_are_those_that_the_loader_really_opens() {
        // strace would see the same directories; the loader's own trace is at hand everywhere.
        let glibc = glibc().unwrap();
        let trace = Command::new("/bin/true")
            .env("LD_DEBUG", "libs")
            .env("LD_LIBRARY_PATH", "/becalm-nowhere")
            .output()
            .unwrap();
        let trace = String::from_utf8_lossy(&trace.stderr).into_owned();
        let path = trace.lines().find_map(|line| line.split_once("search path=")).unwrap().1;
        let seen: Vec<_> = path
            .split([':', '\t', ' '])
            .filter_map(|directory| directory.strip_prefix("/becalm-nowhere/glibc-hwcaps/"))
            .collect();
        let said: Vec<_> =
            glibc.hwcaps.iter().filter(|h| h.searched).map(|h| h.name.as_str()).collect();
        assert_eq!(seen, said);
    }
}
