//! What Python puts first on `sys.path`: the script's directory, or the working directory
//! (<https://docs.python.org/3/library/sys_path_init.html>).

use crate::query::python::split;
use crate::{Exec, Recording};

/// What would be `sys.path[0]`, relative to the working directory or not. Whether anything is depends
/// on options (`-I`, `-P`), too.
pub(super) struct StartOfPath {
    /// The script: itself the entry where it is a directory or an archive with a `__main__.py`.
    pub script: Option<Vec<u8>>,
    /// Its directory; empty for the working directory.
    pub directory: Vec<u8>,
}

impl StartOfPath {
    pub(super) fn of(recording: &Recording, exec: &Exec) -> StartOfPath {
        let path = recording.path(exec.path);
        let script = match is_interpreter(split(path).1) {
            true => script(exec.argv.get(1..).unwrap_or_default()).map(str::as_bytes),
            // What a `#!` line starts.
            false => Some(path),
        };
        StartOfPath {
            script: script.map(<[u8]>::to_vec),
            directory: script.map_or(Vec::new(), |script| split(script).0.to_vec()),
        }
    }
}

/// `python3`, `python3.11d`, `pypy3`.
fn is_interpreter(name: &[u8]) -> bool {
    let version = [&b"python"[..], b"pypy"].iter().find_map(|program| name.strip_prefix(*program));
    version.is_some_and(|rest| {
        rest.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'd' | b'm' | b't' | b'u'))
    })
}

/// The script that these arguments name; none for `-c`, `-m` and standard input.
fn script(arguments: &[String]) -> Option<&str> {
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let Some(options) = argument.strip_prefix('-') else { return Some(argument) };
        if options.is_empty() {
            return None;
        }
        if options.starts_with('-') {
            // Of the long ones only this has a value of its own.
            if argument == "--check-hash-based-pycs" {
                arguments.next();
            }
            continue;
        }
        for (at, option) in options.char_indices() {
            match option {
                'c' | 'm' => return None,
                'W' | 'X' => {
                    if at + 1 == options.len() {
                        arguments.next();
                    }
                    break;
                }
                _ => {}
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_is_the_first_argument_that_is_no_option_nor_its_value() {
        let found = |line: &str| {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            script(&words).map(str::to_owned)
        };
        for line in ["x.py -c", "-u x.py", "-X dev x.py", "-Wi x.py", "-Bs -W i x.py y"] {
            assert_eq!(found(line).as_deref(), Some("x.py"), "{line}");
        }
        for line in ["", "-c x.py", "-m x.py", "-Im x", "- x.py", "-X dev"] {
            assert_eq!(found(line), None, "{line}");
        }
    }

    #[test]
    fn an_interpreter_is_told_from_a_script_by_its_name() {
        for name in ["python", "python3.11", "python3.13t", "pypy3"] {
            assert!(is_interpreter(name.as_bytes()), "{name}");
        }
        for name in ["python-config", "ipython", "run.py"] {
            assert!(!is_interpreter(name.as_bytes()), "{name}");
        }
    }
}
