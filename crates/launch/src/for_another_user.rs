//! What of its environment root hands on to a program that runs as another user, who can read all of it
//! (proc_pid_environ(5)): what decides how programs start, speak and find modules, and nothing else. A password or a
//! token of root's is none of that.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Names.
const NAMES: [&str; 13] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TERM",
    "TZ",
    "COLUMNS",
    "LINES",
    "LD_LIBRARY_PATH",
    "LOADEDMODULES",
    "PYTHONHOME",
    "POSIXLY_CORRECT",
];

/// How names begin: of the locale, and of Environment Modules, Lmod, Tcl and Lua, with what they keep for themselves.
const BEGIN: [&str; 9] =
    ["LANG", "LC_", "MODULE", "__MODULES_", "LMOD_", "__LMOD_", "_LM", "TCL", "LUA_"];

/// Whether a variable is for a program that runs as another user.
pub fn is_for_another_user(name: &OsStr) -> bool {
    let is_of = |begin: &&str| name.as_bytes().starts_with(begin.as_bytes());
    NAMES.iter().any(|known| name == *known) || BEGIN.iter().any(is_of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_programs_need_is_handed_on_and_what_is_roots_alone_is_not() {
        let is_for = |name: &str| is_for_another_user(OsStr::new(name));
        for name in ["PATH", "LC_ALL", "MODULEPATH", "MODULES_CMD", "_LMFILES_", "LMOD_CMD", "HOME"]
        {
            assert!(is_for(name), "{name}");
        }
        for name in ["SECRET", "PATHS", "AWS_SECRET_ACCESS_KEY", "SSH_AUTH_SOCK", "LD_PRELOAD", ""]
        {
            assert!(!is_for(name), "{name}");
        }
    }
}
