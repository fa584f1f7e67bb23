//! Text that is safe to show and safe to paste.

use std::ffi::OsStr;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// `text` with what steers a terminal spelt out (`\x1b`): control characters, and the marks
/// that turn the direction of writing, which can make a path look like another.
pub fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for char in text.chars() {
        if is_steering(char) {
            for byte in char.encode_utf8(&mut [0; 4]).bytes() {
                let _ = write!(plain, "\\x{byte:02x}");
            }
        } else {
            plain.push(char);
        }
    }
    plain
}

/// One word as a shell takes it back, byte for byte: bare where it may be, in `'…'` where it
/// must be, in `$'…'` (bash, zsh, ksh, POSIX 2024) where it holds what is no text.
pub fn quoted(word: impl AsRef<OsStr>) -> String {
    let word = word.as_ref().as_bytes();
    match std::str::from_utf8(word) {
        Ok(text) if is_plain_word(text) => text.to_owned(),
        Ok(text) if !text.chars().any(is_steering) => single_quoted(text),
        _ => dollar_quoted(word),
    }
}

/// A path as [`quoted`], which no command takes for an option: `./-x` of `-x`.
pub fn quoted_path(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    match path.as_os_str().as_bytes().first() {
        Some(b'-') => quoted(Path::new(".").join(path)),
        _ => quoted(path),
    }
}

/// Words as a shell takes them back, one line: a command to paste.
pub fn shell_line(words: impl IntoIterator<Item: AsRef<OsStr>>) -> String {
    let words = words.into_iter().map(quoted);
    words.collect::<Vec<_>>().join(" ")
}

/// In quotes, a backslash before another or before a quote is one that quotes to fish alone: it stands
/// outside of them.
fn single_quoted(text: &str) -> String {
    let mut quoted = String::from("'");
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        match (char, chars.peek()) {
            ('\'', _) => quoted.push_str(r"'\''"),
            ('\\', None | Some('\\' | '\'')) => quoted.push_str(r"'\\'"),
            _ => quoted.push(char),
        }
    }
    quoted.push('\'');
    quoted
}

fn dollar_quoted(word: &[u8]) -> String {
    let mut text = String::from("$'");
    for byte in word {
        match byte {
            b'\\' => text.push_str(r"\\"),
            // A quote is spelt out, too: to a shell that knows no `$'…'` the whole is then another
            // word, but one word, and nothing in it is run.
            b' '..=b'~' if *byte != b'\'' => text.push(char::from(*byte)),
            // Octal, because `\x41` would take in a hexadecimal digit that follows.
            _ => {
                let _ = write!(text, "\\{byte:03o}");
            }
        }
    }
    text.push('\'');
    text
}

/// A word that every shell takes as it stands: zsh puts a program's path for `=ls`.
fn is_plain_word(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('=') && text.chars().all(is_bare)
}

fn is_bare(char: char) -> bool {
    char.is_alphanumeric() || "/._-+=:,@%^".contains(char)
}

/// Whether a terminal takes a character for more than itself.
pub fn is_steering(char: char) -> bool {
    // Unicode's Bidi_Control characters, and the line and paragraph separators.
    char.is_control()
        || matches!(char, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(char, '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn nothing_that_steers_a_terminal_is_left() {
        assert_eq!(plain("a\x1b[31m\nb\u{9b}c"), "a\\x1b[31m\\x0ab\\xc2\\x9bc");
        assert_eq!(plain("exe\u{202e}gpj"), "exe\\xe2\\x80\\xaegpj");
        assert_eq!(plain("Grüße/文件"), "Grüße/文件");
    }

    #[test]
    fn a_word_for_which_zsh_puts_a_path_is_quoted() {
        assert_eq!(quoted("=ls"), "'=ls'");
        assert_eq!(quoted("--mode=farm"), "--mode=farm");
        assert_eq!(quoted("/a=b"), "/a=b");
    }

    #[test]
    fn no_path_is_taken_for_an_option() {
        assert_eq!(quoted_path("-x.sqsh"), "./-x.sqsh");
        assert_eq!(quoted_path("--a b"), "'./--a b'");
        assert_eq!(quoted_path("a/-x"), "a/-x");
        assert_eq!(quoted_path("-"), "./-");
    }

    #[test]
    fn bash_reads_a_quoted_word_back_byte_for_byte() {
        let words: [&[u8]; 10] = [
            b"plain.becalm",
            b"A=1",
            b"=ls",
            b"",
            b"two words",
            b"it's",
            b"$HOME;`id`\\",
            b"new\nline\x1b[0m\x01f",
            b"\xff\xfe'1",
            "Gr\u{fc}\u{df}e".as_bytes(),
        ];
        for word in words {
            let quoted = quoted(OsStr::from_bytes(word));
            let script = format!("printf %s {quoted}");
            let said = Command::new("bash").arg("-c").arg(script).output().unwrap();
            assert_eq!(said.stdout, word, "{quoted}");
        }
    }

    #[test]
    fn every_shell_reads_a_word_of_text_back() {
        let words = [
            r"a\",
            r"a\\b",
            r"s/\(a\)/\1/",
            r"\'",
            r"it's\",
            "a b\\\\\\c",
            r"\n",
            "$x`y`\"",
            "Gr\u{fc}\u{df}e *",
        ];
        for shell in ["bash", "dash", "zsh", "fish"] {
            for word in words {
                let script = format!("printf %s {}", quoted(word));
                let said = Command::new(shell).args(["-c", &script]).output().unwrap();
                assert_eq!(String::from_utf8_lossy(&said.stdout), word, "{shell}: {script}");
            }
        }
        assert_eq!(quoted(r"s/\(a\)/\1/"), r"'s/\(a\)/\1/'");
    }

    /// dash knows no `$'…'`.
    #[test]
    fn a_shell_that_cannot_read_a_word_back_takes_it_for_one_word_all_the_same() {
        let directory = tempfile::tempdir().unwrap();
        for word in ["p';touch run #\nz", "a\\';touch run;'\n", "$(touch run)'\n`touch run`"] {
            let script = format!("printf '%s\\0' {}", quoted(word));
            let mut dash = Command::new("dash");
            let said = dash.current_dir(&directory).args(["-c", &script]).output().unwrap();
            assert_eq!(said.stdout.iter().filter(|byte| **byte == 0).count(), 1, "{script}");
            assert!(!directory.path().join("run").exists(), "{script}");
        }
    }
}
