//! Programs that a tool starts, and whose answers depend on nothing but what their calls tell and
//! on variables that are known.

use watch::dependencies::StartedProgram;

/// Whether a program, by its own path, is followed: man-db's, which Modules asks at a shell's
/// start where man looks for pages.
pub(super) fn follows(program: &[u8]) -> bool {
    matches!(program, b"/usr/bin/manpath" | b"/bin/manpath")
}

/// What manpath(1) of man-db 2.7 to 2.13 and what it is linked with ask of the environment, but for
/// what every program of the C library asks for (manpath.c, lib/debug.c, lib/security.c; argp and
/// getopt of gnulib).
const MANPATH: &[&str] = &[
    "ARGP_HELP_FMT",
    "COLUMNS",
    "DPKG_RUNNING_VERSION",
    "HOME",
    "MANPATH",
    "MANWIDTH",
    "MAN_DEBUG",
    "MAN_DISABLE_SECCOMP",
    "MAN_NO_LOCALE_WARNING",
    "MAN_TEST_DISABLE_PATH",
    "MAN_TEST_DISABLE_SYSTEM_CONFIG",
    "PATH",
    "OUTPUT_CHARSET",
    "PATH",
    "POSIXLY_CORRECT",
    "SYSTEM",
    "TMPDIR",
];

/// The variables that decide what a program says; none where all may.
pub(super) fn variables(program: &StartedProgram) -> Option<&'static [&'static str]> {
    // Another program of that name is another program.
    let is_man_db = |path: &std::ffi::CString| {
        let name = path.to_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        name.starts_with(b"libman-")
    };
    program.opened.iter().any(is_man_db).then_some(MANPATH)
}
