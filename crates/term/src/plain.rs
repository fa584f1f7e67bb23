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

/// One word as a shell takes it back, byte for byte: bare where it may be, in `'…'` where it must be,
/// which sh, bash, dash, ksh, zsh, fish and tcsh read alike, at a prompt, too. What is no text is spelt
/// out: by `printf` in a substitution, which tcsh refuses, and fish before 3.4; where a newline ends it,
/// which a substitution loses, in `$'…'` (bash, zsh, ksh, POSIX 2024), which dash takes for another word,
/// and tcsh 6.24 where it is no UTF-8.
pub fn quoted(word: impl AsRef<OsStr>) -> String {
    let word = word.as_ref().as_bytes();
    match std::str::from_utf8(word) {
        Ok(text) if is_plain_word(text) => text.to_owned(),
        Ok(text) if !text.chars().any(is_steering) => single_quoted(text),
        _ if word.ends_with(b"\n") => dollar_quoted(word),
        _ => print_quoted(word),
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

/// In quotes, a backslash before another or before a quote is one that quotes to fish alone, and an
/// exclamation mark, unless a blank or `=` follows, calls an earlier command back in tcsh, where a
/// backslash hides it: both stand outside of them.
fn single_quoted(text: &str) -> String {
    let mut quoted = String::from("'");
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        match (char, chars.peek()) {
            ('\'', _) => quoted.push_str(r"'\''"),
            ('\\', None | Some('\\' | '\'' | '!')) => quoted.push_str(r"'\\'"),
            ('!', Some(' ' | '=')) => quoted.push('!'),
            ('!', _) => quoted.push_str(r"'\!'"),
            _ => quoted.push(char),
        }
    }
    quoted.push('\'');
    quoted
}

/// The format that printf(1) prints as the word.
fn print_quoted(word: &[u8]) -> String {
    // dash's printf reads an escape before it looks for `%`, and any may take `-` for an option.
    let format = spelt_out(word).replace('%', "%%");
    let format = format.strip_prefix('-').map_or(format.clone(), |rest| format!("\\055{rest}"));
    format!("\"$(printf '{format}')\"")
}

fn dollar_quoted(word: &[u8]) -> String {
    format!("$'{}'", spelt_out(word))
}

/// Bytes in octal, because `\x41` would take in a hexadecimal digit that follows, but for what is itself
/// in quotes of each kind: to a shell that does not know the form the whole is then an error or another
/// word, but one word, and nothing in it is run.
fn spelt_out(word: &[u8]) -> String {
    let mut text = String::new();
    for byte in word {
        match byte {
            b' '..=b'~' if !b"'\"\\$`!".contains(byte) => text.push(char::from(*byte)),
            _ => {
                let _ = write!(text, "\\{byte:03o}");
            }
        }
    }
    text
}

/// A word that every shell takes as it stands: zsh puts a program's path for `=ls`, and a pattern's names
/// for `a^b` where it has extended ones; fish puts its process's number for `%self`.
fn is_plain_word(text: &str) -> bool {
    !text.is_empty() && !text.starts_with(['=', '%']) && text.chars().all(is_bare)
}

fn is_bare(char: char) -> bool {
    char.is_alphanumeric() || "/._-+=:,@%".contains(char)
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

    /// What a shell makes of a word in a line: nothing where it refuses the line.
    fn read_by(shell: &str, word: &[u8], directory: &Path) -> (String, Vec<u8>) {
        let line = format!("/usr/bin/printf '%s|' {}", quoted(OsStr::from_bytes(word)));
        let mut shell = Command::new(shell);
        let said = shell.current_dir(directory).args(["-c", &line]).output().unwrap();
        (line, said.stdout)
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
            "plain.becalm",
            "A=1",
            "=ls",
            "%self",
            "a^b",
            "",
            "a!b",
            "!!",
            r"\!$",
            r"\\!'",
            "if ! [ a != b ]; then !",
        ];
        let directory = tempfile::tempdir().unwrap();
        for shell in ["sh", "bash", "dash", "zsh", "fish", "tcsh"] {
            for word in words {
                let (line, read) = read_by(shell, word.as_bytes(), directory.path());
                assert_eq!(String::from_utf8_lossy(&read), format!("{word}|"), "{shell}: {line}");
            }
        }
        assert_eq!(quoted(r"s/\(a\)/\1/"), r"'s/\(a\)/\1/'");
        assert_eq!(quoted("if ! [ a != b ]"), "'if ! [ a != b ]'");
    }

    const NO_TEXT: [&[u8]; 6] = [
        b"new\nline\x1b[0m\x011f",
        b"\xff\xfe'1",
        b"-v\x01%d%%",
        b"p';touch run #\nz!!",
        b"a\\';touch run;'\nb",
        b"$(touch run)'\n`touch run`\"; touch run; \"",
    ];

    #[test]
    fn what_is_no_text_is_read_back_byte_for_byte_or_refused_and_nothing_in_it_is_run() {
        let directory = tempfile::tempdir().unwrap();
        for word in NO_TEXT {
            for shell in ["sh", "bash", "dash", "zsh", "fish", "tcsh"] {
                let (line, read) = read_by(shell, word, directory.path());
                let expected = if shell == "tcsh" { Vec::new() } else { [word, b"|"].concat() };
                assert_eq!(read, expected, "{shell}: {line}");
            }
        }
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    /// A substitution loses the newline; dash and fish know no `$'…'`, tcsh 6.24 takes its bytes for
    /// characters.
    #[test]
    fn a_word_that_a_newline_ends_is_read_back_by_bash_and_zsh_and_is_one_word_to_all() {
        let directory = tempfile::tempdir().unwrap();
        for word in NO_TEXT.map(|word| [word, b"\n"].concat()) {
            for shell in ["bash", "zsh", "dash", "fish", "tcsh"] {
                let (line, read) = read_by(shell, &word, directory.path());
                match shell {
                    "bash" | "zsh" => {
                        assert_eq!(read, [&word[..], b"|"].concat(), "{line}")
                    }
                    "dash" | "tcsh" => {
                        assert_eq!(read.iter().filter(|byte| **byte == b'|').count(), 1, "{line}");
                    }
                    _ => assert_eq!(read, b"", "{shell}: {line}"),
                }
            }
        }
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
