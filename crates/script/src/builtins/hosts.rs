//! Programs that are started with a library of ours, by `LD_PRELOAD`, which that takes away again
//! before the program sees it: shells, and what starts shells.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use object::elf::FileHeader64;
use object::read::ReadCache;
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, elf};
use serde::{Deserialize, Serialize};

use super::programs::{self, SearchPath};
use super::{CountFile, count};

/// Where shells are, besides `PATH`: what scripts name in their first line.
const PLACES: [&str; 2] = ["/bin", "/usr/bin"];

const SHELLS: [&str; 3] = ["bash", "sh", "dash"];
const ENV: &str = "/usr/bin/env";

/// Programs that start the shells of scripts and makefiles.
const LAUNCHERS: [&str; 11] =
    ["env", "make", "gmake", "xargs", "find", "nice", "nohup", "timeout", "setsid", "perl", "git"];

/// What a library is loaded into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Host {
    Bash,
    Dash,
    Launcher,
}

impl Host {
    pub(super) const ALL: [Host; 3] = [Host::Bash, Host::Dash, Host::Launcher];

    /// Its library's file (loadable/known.c).
    pub(super) fn library(self) -> &'static str {
        match self {
            Host::Bash => "becalm-builtins.so",
            Host::Dash => "becalm-dash.so",
            Host::Launcher => "becalm-launcher.so",
        }
    }

    /// Its library.
    pub(super) fn content(self) -> &'static [u8] {
        match self {
            Host::Bash => super::LIBRARY,
            Host::Dash => include_bytes!(concat!(env!("OUT_DIR"), "/dash.so")),
            Host::Launcher => include_bytes!(concat!(env!("OUT_DIR"), "/launcher.so")),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Host::Bash => "bash",
            Host::Dash => "dash",
            Host::Launcher => "launcher",
        }
    }
}

/// The file that the libraries read, beside them: which files are known, and the libraries themselves.
pub(super) const LIST: &str = "programs";

/// Whether the libraries are there, and what they were.
pub(super) fn are_whole(directory: &Path) -> bool {
    let mut all = Host::ALL.iter();
    all.all(|host| super::directory::is_content(&directory.join(host.library()), host.content()))
}

/// Stores the libraries.
pub(super) fn keep(directory: &Path) -> Result<(), super::BuiltinsError> {
    for host in Host::ALL {
        super::directory::keep(&directory.join(host.library()), host.content())?;
    }
    Ok(())
}

/// What is looked for in `PATH`.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    SHELLS.into_iter().chain(LAUNCHERS)
}

/// What is looked for elsewhere.
pub(super) fn places() -> impl Iterator<Item = PathBuf> {
    let shells =
        PLACES.into_iter().flat_map(|place| SHELLS.map(|name| Path::new(place).join(name)));
    shells.chain([ENV.into()])
}

/// The program files that could be hosts here.
pub(super) fn look(path: &SearchPath) -> Vec<(Host, PathBuf)> {
    let elsewhere = places().filter_map(|at| at.canonicalize().ok());
    let all: BTreeSet<PathBuf> =
        elsewhere.chain(names().filter_map(|name| path.real(name))).collect();
    let shells = all.iter().filter_map(|file| Some((shell(file)?, file.clone())));
    let env = path.real("env").and_then(|env| loader(&env));
    let launchers = all
        .iter()
        .filter(|file| is_named_as_a_launcher(file) && env.is_some())
        .filter(|file| loader(file) == env)
        .map(|file| (Host::Launcher, file.clone()));
    shells.chain(launchers).collect()
}

/// A program of many names (busybox) is another.
fn is_named_as_a_launcher(file: &Path) -> bool {
    file.file_name().and_then(OsStr::to_str).is_some_and(starts_shells)
}

/// Whether a program of this name starts shells with their library, once it has its own.
pub fn starts_shells(name: &str) -> bool {
    LAUNCHERS.contains(&name) || name.starts_with("perl5")
}

fn shell(file: &Path) -> Option<Host> {
    loader(file)?;
    match file.file_name()?.to_str()? {
        "bash" => Some(Host::Bash),
        "dash" => Some(Host::Dash),
        _ => None,
    }
}

/// The loader of a program for this processor.
fn loader(file: &Path) -> Option<Vec<u8>> {
    let machine = if cfg!(target_arch = "x86_64") { elf::EM_X86_64 } else { elf::EM_AARCH64 };
    // Whoever moves programs (patchelf) writes their loader's name at their end.
    let content = ReadCache::new(File::open(file).ok()?);
    let header = FileHeader64::<Endianness>::parse(&content).ok()?;
    let endian = header.endian().ok()?;
    if header.e_machine(endian) != machine {
        return None;
    }
    let segments = header.program_headers(endian, &content).ok()?;
    let named = segments.iter().find_map(|segment| segment.interpreter(endian, &content).ok()?);
    named.map(<[u8]>::to_vec)
}

/// A line of loadable/known.c's.
fn line(mark: char, host: Host, file: &Path) -> Option<String> {
    Some(format!("{mark}{} {}\n", host.name(), programs::identity(&file.metadata().ok()?)))
}

/// What [`LIST`] says of the programs and hosts that were found.
pub(super) fn known(found: &super::FoundPrograms) -> String {
    let hosts = found.hosts.iter().filter_map(|(host, file)| line('@', *host, file));
    programs::list(&found.programs) + &hosts.collect::<String>()
}

/// The content of [`LIST`], as loadable/known.c reads it: what is known, and the libraries.
pub(super) fn list(directory: &Path, known: &str) -> Vec<u8> {
    let library = |host: Host| line('+', host, &directory.join(host.library()));
    let libraries = Host::ALL.into_iter().filter_map(library);
    super::directory::sealed((known.to_owned() + &libraries.collect::<String>()).into_bytes())
}

/// Whether a host does, with its library, what it does without; a shell also that it takes it.
pub(super) fn works(host: Host, file: &Path, directory: &Path) -> bool {
    let library = directory.join(host.library());
    if host.content().is_empty() {
        return false;
    }
    let Ok(count) = CountFile::new() else { return false };
    let mut command = match host {
        Host::Launcher => Command::new("env"),
        Host::Bash | Host::Dash => Command::new(file),
    };
    command.env("LD_PRELOAD", library).env("LC_ALL", "C").env("PATH", "/usr/bin:/bin");
    command.env_remove("BASH_ENV").env(count::VARIABLE, count.file()).stdin(Stdio::null());
    let script = "basename a/b; (exit 3)";
    match host {
        Host::Bash => command.args(["--posix", "-c", script]),
        Host::Dash => command.args(["-c", script]),
        Host::Launcher => command.args(["sh", "-c", script]),
    };
    let Ok(output) = command.output() else { return false };
    let same = output.stdout == b"b\n" && output.stderr.is_empty();
    let starts = count.read().unwrap_or_default();
    let taken = host == Host::Launcher || (starts.shells == 1 && starts.known.all() == 1);
    same && output.status.code() == Some(3) && taken
}

/// The host that a file is, or that runs it as a script.
pub(super) fn of(file: &Path, hosts: &[(Host, PathBuf)]) -> Option<Host> {
    let is = |at: &Path| {
        let about = fs::metadata(at).ok()?;
        let same = |file: &Path| {
            fs::metadata(file).is_ok_and(|of| (of.dev(), of.ino()) == (about.dev(), about.ino()))
        };
        hosts.iter().find(|(_, file)| same(file)).map(|(host, _)| *host)
    };
    is(file).or_else(|| is(&super::shell::interpreter_file(file)?))
}
