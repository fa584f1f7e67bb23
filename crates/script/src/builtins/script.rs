use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::directory;

const FIRST_LINE: &[u8] = b"# Made by becalm run --builtins: see its documentation.\n";

/// A line more than a path, quoted.
const LONGEST: usize = 64 << 10;

/// Whether a value of `BASH_ENV` names a file of ours.
pub(super) fn is_ours(value: &OsStr) -> bool {
    super::begins_with(Path::new(value), FIRST_LINE)
}

/// Whether the file is as it was made.
pub(super) fn is_whole(path: &Path) -> bool {
    directory::read(path, LONGEST).is_some_and(|content| {
        directory::unsealed(&content).is_some_and(|text| text.starts_with(FIRST_LINE))
    })
}

/// What bash reads before a script.
///
/// A trace (`bash -x`) shows nothing of it, and `$_` is what it was: the last word that bash has
/// seen. It is no builtin's name, which `enable` minds silently. A bash that does not take the
/// library goes on without it. Of a library that is younger than the list, which is written last,
/// nobody knows what it is: one that was cut short would end bash (SIGBUS).
pub(super) fn text(library: &Path, users: Option<&OsStr>) -> Vec<u8> {
    let names: Vec<&str> = super::programs::names().collect();
    let mut text = FIRST_LINE.to_vec();
    text.extend(b"{ [[ ! ");
    text.extend(term::quoted(library).bytes());
    text.extend(b" -nt ");
    text.extend(term::quoted(library.with_file_name(super::hosts::LIST)).bytes());
    text.extend(b" ]] && builtin enable -f ");
    text.extend(term::quoted(library).bytes());
    text.extend(
        format!(" {} \"$_\" || builtin : \"$_\"; }} 2>/dev/null\n", names.join(" ")).bytes(),
    );
    if let Some(users) = users.filter(|value| !value.is_empty()) {
        let file = in_double_quotes(users);
        text.extend(b"{ [[ -e ");
        text.extend(&file);
        text.extend(b" ]]; } 2>/dev/null && . ");
        text.extend(&file);
        text.extend(b" || :\n");
    }
    directory::sealed(text)
}

/// bash expands the value of `BASH_ENV` as in double quotes, then a tilde, and does not look for
/// it in `PATH`.
fn in_double_quotes(value: &OsStr) -> Vec<u8> {
    let value = value.as_bytes();
    let mut text = vec![b'"'];
    let rest = match value {
        [b'~', b'/', rest @ ..] => {
            text.extend(b"$HOME/");
            rest
        }
        // A name alone would be looked for in PATH; an expansion may be a whole path.
        name if !name.contains(&b'/') && !name.contains(&b'$') => {
            text.extend(b"./");
            name
        }
        path => path,
    };
    for &byte in rest {
        if byte == b'"' {
            text.push(b'\\');
        }
        text.push(byte);
    }
    text.push(b'"');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(value: &str) -> String {
        String::from_utf8_lossy(&in_double_quotes(OsStr::new(value))).into_owned()
    }

    #[test]
    fn the_users_file_is_named_as_bash_would_find_it() {
        assert_eq!(shown("/a b/env"), "\"/a b/env\"");
        assert_eq!(shown("~/env"), "\"$HOME/env\"");
        assert_eq!(shown("env"), "\"./env\"");
        assert_eq!(shown("$DIR/env"), "\"$DIR/env\"");
        assert_eq!(shown("$FILE"), "\"$FILE\"");
        assert_eq!(shown("/a\"b"), "\"/a\\\"b\"");
    }
}
