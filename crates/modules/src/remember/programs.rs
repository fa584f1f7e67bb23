//! Programs that a tool starts, and whose answers depend on nothing but what their calls tell and
//! on variables that are known.

use watch::dependencies::StartedProgram;

/// What modulefiles ask: programs of coreutils and hostname(1). What they say follows from their words, from
/// calls, and from [`USUAL`]; none asks for the time.
pub(super) const ASKED_BY_MODULEFILES: [&str; 9] =
    ["arch", "basename", "cat", "dirname", "hostname", "readlink", "realpath", "uname", "whoami"];

/// What they ask of the environment (the C library's getopt), and what finds them.
const USUAL: &[&str] = &["OUTPUT_CHARSET", "PATH", "POSIXLY_CORRECT"];

/// Have the loader load more than a program names, or say something of its own (ld.so(8)).
pub(super) const STEERS_LOADER: [&str; 9] = [
    "LD_PRELOAD",
    "LD_AUDIT",
    "LD_DEBUG",
    "LD_PROFILE",
    "LD_SHOW_AUXV",
    "LD_TRACE_LOADED_OBJECTS",
    "LD_TRACE_PRELINKING",
    "LD_VERBOSE",
    "LD_WARN",
];

/// Whether a program, by its own path, is followed: man-db's, which Modules asks at a shell's
/// start where man looks for pages, coreutils', by which Lmod sums up what a modulefile does, and those that
/// modulefiles ask.
pub(super) fn follows(program: &[u8]) -> bool {
    let of_system = |directory: &[u8]| program.strip_prefix(directory);
    let name = of_system(b"/usr/bin/").or_else(|| of_system(b"/bin/"));
    name.is_some_and(|name| matches!(name, b"manpath" | b"sha1sum") || is_asked(name))
}

fn is_asked(name: &[u8]) -> bool {
    ASKED_BY_MODULEFILES.iter().any(|asked| asked.as_bytes() == name)
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

/// What sha1sum(1) of coreutils and libcrypto, which it may be linked with, ask for (getopt of gnulib;
/// crypto/cpuid.c).
const SHA1SUM: &[&str] = &["POSIXLY_CORRECT", "OPENSSL_ia32cap"];

/// What decides how dash and bash, called as sh, become a program by plain words: bash's options may
/// have it say that, or not do it.
const SHELL: &[&str] = &["SHELLOPTS", "BASHOPTS", "POSIXLY_CORRECT", "PS4", "BASH_XTRACEFD"];

/// The variables that decide what a program says; none where all may.
pub(super) fn variables(program: &StartedProgram) -> Option<&'static [&'static str]> {
    match program.path.rsplit(|byte| *byte == b'/').next()? {
        b"dash" | b"bash" => return Some(SHELL),
        b"sha1sum" => return Some(SHA1SUM),
        name if is_asked(name) => return Some(USUAL),
        _ => {}
    }
    // Another program of that name is another program.
    let is_man_db = |path: &std::ffi::CString| {
        let name = path.to_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        name.starts_with(b"libman-")
    };
    program.opened.iter().any(is_man_db).then_some(MANPATH)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::process::Command;

    use super::*;
    use crate::remember::question::C_LIBRARY;

    /// Says on standard error which variables are asked for.
    const SPY: &str = r#"
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <stdio.h>
        #define SPY(NAME) char *NAME(const char *name) { \
            char *(*real)(const char *) = dlsym(RTLD_NEXT, #NAME); \
            fprintf(stderr, "asked %s\n", name); return real(name); }
        SPY(getenv)
        SPY(secure_getenv)
    "#;

    /// The variables that a program asks for in one of these ways, but for those that every one may ask for.
    fn asked(program: &str, ways: &[(&[&str], &str, &str)]) -> BTreeSet<String> {
        let directory = tempfile::tempdir().unwrap();
        let (source, spy) = (directory.path().join("spy.c"), directory.path().join("spy.so"));
        std::fs::write(&source, SPY).unwrap();
        let mut made = Command::new("gcc");
        made.args(["-shared", "-fPIC", "-o"]).arg(&spy).arg(&source);
        assert!(made.status().unwrap().success());
        let mut asked = BTreeSet::new();
        for (options, name, value) in ways {
            let mut command = Command::new(program);
            command.args(*options).env("LD_PRELOAD", &spy).env_remove("MANPATH");
            if !name.is_empty() {
                command.env(name, value);
            }
            let said = command.output().unwrap().stderr;
            let said = String::from_utf8_lossy(&said).into_owned();
            let names = said.lines().filter_map(|line| line.strip_prefix("asked "));
            asked.extend(names.map(str::to_owned));
        }
        asked.retain(|name| !C_LIBRARY.iter().any(|begin| name.starts_with(begin)));
        asked
    }

    #[test]
    fn manpath_asks_for_no_variable_but_those_that_count() {
        let ways: &[(&[&str], &str, &str)] = &[
            (&[], "", ""),
            (&["-g"], "", ""),
            (&[], "MANPATH", "/man:"),
            (&["-d"], "MANPATH", ":/a"),
        ];
        let mut asked = asked("/usr/bin/manpath", ways);
        assert!(asked.contains("MANPATH"), "{asked:?}");
        asked.retain(|name| !MANPATH.contains(&name.as_str()));
        assert_eq!(asked, BTreeSet::new());
    }

    #[test]
    fn what_modulefiles_ask_asks_for_no_variable_but_those_that_count() {
        let mut whole = BTreeSet::new();
        for name in ASKED_BY_MODULEFILES {
            let program = format!("/usr/bin/{name}");
            assert!(follows(program.as_bytes()));
            let options: [&[&str]; 6] =
                [&[], &["-a"], &["--help"], &["--no-such"], &["/usr/bin/sh"], &["-u", "root"]];
            let ways = options.map(|options| (options, "", ""));
            whole.extend(asked(&program, &ways));
        }
        // Another of coreutils', which is not among them, would show.
        assert!(asked("/usr/bin/ls", &[(&[], "", "")]).contains("QUOTING_STYLE"));
        whole.retain(|name| !USUAL.contains(&name.as_str()));
        assert_eq!(whole, BTreeSet::new());
    }
}
