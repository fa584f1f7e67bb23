//! Why a call was made.
//!
//! A cause is derived when a recording is read, from what was observed when it was made: the
//! file that the calling instruction lies in, whether the program had begun, and the program
//! that the process ran. Where only the path speaks, the answer is marked as inferred.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Event, Exec, Phase, Recording};

/// Why a call was made.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The dynamic loader, before the program's first instruction.
    LoaderStart,
    /// The dynamic loader, called by the running program.
    LoaderDlopen,
    /// Python looking for a module.
    PythonImport,
    /// Environment Modules or Lmod.
    ModuleTool,
    /// A shell: PATH search, reading its script, redirections.
    Shell,
    /// Locales, message catalogues and character set converters.
    Locale,
    /// Name services: users, groups, hosts.
    Nss,
    /// The program itself.
    Program,
}

impl Cause {
    /// All causes, in the order they are shown.
    pub const ALL: [Cause; 8] = [
        Cause::LoaderStart,
        Cause::LoaderDlopen,
        Cause::PythonImport,
        Cause::ModuleTool,
        Cause::Shell,
        Cause::Locale,
        Cause::Nss,
        Cause::Program,
    ];

    /// As a person would say it.
    pub fn name(self) -> &'static str {
        match self {
            Cause::LoaderStart => "loader (start)",
            Cause::LoaderDlopen => "loader (dlopen)",
            Cause::PythonImport => "python import",
            Cause::ModuleTool => "module tool",
            Cause::Shell => "shell",
            Cause::Locale => "locale/gconv",
            Cause::Nss => "nss",
            Cause::Program => "program",
        }
    }
}

/// A cause, and whether it was observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attribution {
    /// Why.
    pub cause: Cause,
    /// True where only the path says so.
    pub inferred: bool,
}

/// What kind of program runs, as far as it changes why files are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// CPython or PyPy.
    Python,
    /// A Bourne-like or C shell.
    Shell,
    /// modulecmd or Lmod.
    ModuleTool,
    /// Anything else.
    Other,
}

impl Role {
    /// The role of a program, from the file that runs (`/proc/PID/exe`) and its arguments.
    pub fn of(recording: &Recording, exec: &Exec) -> Role {
        let name = base_name(recording.path(exec.image));
        let given = |word: &str| exec.argv.iter().any(|argument| argument.contains(word));
        if name.starts_with(b"python") || name.starts_with(b"pypy") {
            return Role::Python;
        }
        if name.starts_with(b"modulecmd")
            || (name.starts_with(b"tclsh") && given("modulecmd"))
            || (name.starts_with(b"lua") && (given("lmod") || given("spider")))
        {
            return Role::ModuleTool;
        }
        if SHELLS.contains(&name) {
            return Role::Shell;
        }
        Role::Other
    }
}

const SHELLS: &[&[u8]] = &[
    b"sh", b"bash", b"dash", b"ash", b"zsh", b"ksh", b"ksh93", b"mksh", b"tcsh", b"csh", b"fish",
    b"rbash", b"yash",
];

/// Why a program of this role made a call on this path; `is_import` says whether it is Python's for
/// an import, should Python have made it by itself.
pub(crate) fn attribute_as(
    role: Role,
    event: &Event,
    path: &[u8],
    is_import: impl FnOnce() -> bool,
) -> Attribution {
    let observed = |cause| Attribution { cause, inferred: false };
    let inferred = |cause| Attribution { cause, inferred: true };
    if event.in_loader {
        if event.phase == Phase::Loading {
            return observed(Cause::LoaderStart);
        }
        return match service_of(path) {
            Some(cause) => inferred(cause),
            None => observed(Cause::LoaderDlopen),
        };
    }
    if role == Role::ModuleTool {
        return observed(Cause::ModuleTool);
    }
    // A package may be called `locale`.
    if role == Role::Python && is_import() {
        return inferred(Cause::PythonImport);
    }
    match (service_of(path), role) {
        (Some(cause), _) => inferred(cause),
        (None, Role::Shell) => observed(Cause::Shell),
        _ => observed(Cause::Program),
    }
}

/// The C library's own services, by the files that only they read.
fn service_of(path: &[u8]) -> Option<Cause> {
    let has = |part: &[u8]| path.windows(part.len()).any(|window| window == part);
    let name = base_name(path);
    if has(b"/locale/")
        || path.ends_with(b"/lib/locale")
        || has(b"/gconv/")
        || name == b"locale.alias"
        || name == b"locale-archive"
        || has(b"/share/locale-langpack/")
    {
        return Some(Cause::Locale);
    }
    if name.starts_with(b"libnss_") || NSS_FILES.contains(&path) {
        return Some(Cause::Nss);
    }
    None
}

#[rustfmt::skip]
const NSS_FILES: &[&[u8]] = &[
    b"/etc/nsswitch.conf", b"/etc/passwd", b"/etc/group", b"/etc/shadow", b"/etc/hosts",
    b"/etc/host.conf", b"/etc/resolv.conf", b"/etc/services", b"/etc/protocols",
    b"/etc/networks", b"/etc/ethers", b"/etc/rpc", b"/etc/gai.conf", b"/run/nscd/socket",
    b"/var/run/nscd/socket", b"/run/systemd/userdb/", b"/run/systemd/userdb",
];

fn base_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}
