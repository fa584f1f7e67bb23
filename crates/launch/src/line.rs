//! A command written as one line of text, split as a POSIX shell splits it, without a shell.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::Command;

/// A command written as one line: variables for its environment, and its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    /// `VAR=value` before the command, in order.
    pub environment: Vec<(OsString, OsString)>,
    /// The command's name and arguments; at least one word.
    pub argv: Vec<OsString>,
}

/// Why a line is no simple command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// Nothing in it, or variables only.
    #[error("there is no command in it")]
    Empty,
    /// A quote that does not end.
    #[error("the {0} that begins there has no end")]
    Open(&'static str),
    /// What only a shell can do.
    #[error("'{found}' is for a shell to {what}: quote it, or write {}", by_shell(.line))]
    Shell {
        /// The character.
        found: char,
        /// What a shell does at it.
        what: &'static str,
        /// The line.
        line: String,
    },
    /// A zero byte, which no argument can hold.
    #[error("it holds a zero byte")]
    Zero,
}

fn by_shell(line: &str) -> String {
    format!("sh -c '{}'", line.replace('\'', r"'\''"))
}

impl CommandLine {
    /// Splits a line into words by the rules of POSIX 2017, Shell Command Language, 2.2
    /// (quoting) and 2.10.2 rule 7 (assignments before the command). What a shell would expand
    /// or act on (`$`, `*`, `|`, `>`, `;`, …) is refused where it is not quoted: no shell is run
    /// behind the user's back, since it would be measured with the command.
    ///
    /// # Errors
    /// [`LineError`].
    pub fn parse(text: &OsStr) -> Result<CommandLine, LineError> {
        let words = Splitter { text: text.as_bytes(), at: 0 }.words()?;
        let is_assignment = |word: &Word| word.assigned.is_some();
        let variables = words.iter().take_while(|word| is_assignment(word)).count();
        let mut words = words.into_iter();
        let environment = words.by_ref().take(variables).map(Word::into_variable).collect();
        let argv: Vec<_> = words.map(|word| OsString::from_vec(word.bytes)).collect();
        if argv.is_empty() {
            return Err(LineError::Empty);
        }
        Ok(CommandLine { environment, argv })
    }

    /// The command without its environment.
    pub fn command(&self) -> Command {
        Command::of(self.argv.clone())
    }
}

/// A word, and where its `=` is if it is an assignment to a name.
#[derive(Default)]
struct Word {
    bytes: Vec<u8>,
    assigned: Option<usize>,
    quoted: bool,
}

impl Word {
    fn into_variable(self) -> (OsString, OsString) {
        let at = self.assigned.unwrap_or(self.bytes.len());
        let value = self.bytes.get(at + 1..).unwrap_or_default().to_vec();
        (OsStr::from_bytes(&self.bytes[..at]).to_owned(), OsString::from_vec(value))
    }

    /// Takes in a character that is not quoted.
    fn bare(&mut self, byte: u8) {
        if byte == b'=' && self.assigned.is_none() && !self.quoted && is_name(&self.bytes) {
            self.assigned = Some(self.bytes.len());
        }
        self.bytes.push(byte);
    }
}

fn is_name(bytes: &[u8]) -> bool {
    let is_first = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'_';
    bytes.first().is_some_and(is_first)
        && bytes.iter().all(|byte| is_first(byte) || byte.is_ascii_digit())
}

struct Splitter<'a> {
    text: &'a [u8],
    at: usize,
}

impl Splitter<'_> {
    fn words(mut self) -> Result<Vec<Word>, LineError> {
        let mut words = Vec::new();
        if self.text.contains(&0) {
            return Err(LineError::Zero);
        }
        loop {
            while self.peek().is_some_and(is_blank) {
                self.at += 1;
            }
            if self.peek().is_none() {
                return Ok(words);
            }
            words.push(self.word()?);
        }
    }

    fn word(&mut self) -> Result<Word, LineError> {
        let mut word = Word::default();
        while let Some(byte) = self.peek().filter(|byte| !is_blank(*byte)) {
            self.at += 1;
            match byte {
                b'\'' => self.single_quoted(&mut word)?,
                b'"' => self.double_quoted(&mut word)?,
                b'\\' => self.escaped(&mut word),
                // A lone [ is a command's name.
                b'[' if word.bytes.is_empty() && self.peek().is_none_or(is_blank) => {
                    word.bytes.push(b'[');
                }
                b'~' | b'#' if !word.bytes.is_empty() || word.quoted => word.bare(byte),
                _ => match for_a_shell(byte) {
                    Some(what) => return Err(self.shell(byte, what)),
                    None => word.bare(byte),
                },
            }
        }
        Ok(word)
    }

    /// 2.2.2: everything up to the next single quote, as it is.
    fn single_quoted(&mut self, word: &mut Word) -> Result<(), LineError> {
        let rest = &self.text[self.at..];
        let end = rest.iter().position(|byte| *byte == b'\'');
        let end = end.ok_or(LineError::Open("single quote"))?;
        word.bytes.extend(&rest[..end]);
        word.quoted = true;
        self.at += end + 1;
        Ok(())
    }

    /// 2.2.3: a backslash quotes only what would be special, a dollar and a backquote still are.
    fn double_quoted(&mut self, word: &mut Word) -> Result<(), LineError> {
        word.quoted = true;
        while let Some(byte) = self.peek() {
            self.at += 1;
            match (byte, self.peek()) {
                (b'"', _) => return Ok(()),
                (b'\\', Some(b'\n')) => self.at += 1,
                (b'\\', Some(next @ (b'$' | b'`' | b'"' | b'\\'))) => {
                    word.bytes.push(next);
                    self.at += 1;
                }
                (b'$' | b'`', _) => return Err(self.shell(byte, "expand")),
                _ => word.bytes.push(byte),
            }
        }
        Err(LineError::Open("double quote"))
    }

    /// 2.2.1: the next character as it is; a newline joins two lines.
    fn escaped(&mut self, word: &mut Word) {
        match self.peek() {
            Some(b'\n') => self.at += 1,
            Some(byte) => {
                word.bytes.push(byte);
                word.quoted = true;
                self.at += 1;
            }
            None => word.bytes.push(b'\\'),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn shell(&self, found: u8, what: &'static str) -> LineError {
        let line = String::from_utf8_lossy(self.text).into_owned();
        LineError::Shell { found: char::from(found), what, line }
    }
}

fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// What a shell does at a character that is not quoted; none if nothing.
fn for_a_shell(byte: u8) -> Option<&'static str> {
    Some(match byte {
        b'$' | b'`' | b'~' | b'*' | b'?' | b'[' => "expand",
        b'|' | b'&' | b';' | b'(' | b')' | b'\n' => "run several commands with",
        b'<' | b'>' => "redirect with",
        b'#' => "take for a comment",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::process;

    use super::*;

    fn parse(text: &str) -> Result<CommandLine, LineError> {
        CommandLine::parse(OsStr::new(text))
    }

    /// The words that a shell makes of the line.
    fn words_by_sh(line: &str) -> Vec<Vec<u8>> {
        let script = format!("set -- {line}\nprintf '%s\\0' \"$@\"");
        let said = process::Command::new("sh").args(["-c", &script]).output().unwrap();
        let mut words: Vec<_> = said.stdout.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect();
        words.pop();
        words
    }

    #[test]
    fn words_are_those_that_a_shell_makes() {
        for line in [
            "ls -l /usr",
            "  spaced\t out  ",
            "echo 'single $HOME * \"' \"double \\\" \\\\ \\$x \\a ' *\"",
            r"back\ slash a\'b \* \$ \\ end",
            "joined'quotes'\"in\"one ''",
            "a \"\" b",
            "tilde~inside hash#inside {a,b} {} %x a=b ! [ x = y ]x",
            "[ -e x",
            "new\\\nline \"in \\\n quotes\"",
            "Grüße 'ü'",
        ] {
            if let Ok(parsed) = parse(line) {
                let ours: Vec<_> = parsed.argv.into_iter().map(OsString::into_vec).collect();
                assert_eq!(ours, words_by_sh(line), "{line}");
            } else {
                assert!(line.contains("]x"), "{line}");
            }
        }
    }

    #[test]
    fn assignments_before_the_command_go_to_its_environment_as_in_a_shell() {
        let line = parse("LD_BIND_NOW=1 _x2='a b' EMPTY= env VAR=kept").unwrap();
        let variable = |name: &str, value: &str| (name.into(), value.into());
        assert_eq!(
            line.environment,
            [variable("LD_BIND_NOW", "1"), variable("_x2", "a b"), variable("EMPTY", "")]
        );
        assert_eq!(line.argv, ["env", "VAR=kept"]);
        // No names, so no assignments: a shell looks for commands called so.
        for word in ["2x=1", "'a'=1", r"a\b=1", "=1", "a-b=1"] {
            let parsed = parse(&format!("{word} true")).unwrap();
            assert_eq!((parsed.environment.len(), parsed.argv.len()), (0, 2), "{word}");
        }
    }

    #[test]
    fn what_only_a_shell_can_do_is_refused_and_the_message_says_how() {
        for line in [
            "ls | wc",
            "a; b",
            "a && b",
            "a > f",
            "a < f",
            "echo $HOME",
            "echo \"$HOME\"",
            "echo `id`",
            "ls *.c",
            "ls ?",
            "ls [ab]",
            "ls ~",
            "~/x",
            "(a)",
            "a # b",
            "a\nb",
        ] {
            let error = parse(line).unwrap_err().to_string();
            assert!(error.contains(&format!("sh -c '{line}'")), "{error}");
        }
        let error = parse("echo 'it' | cat").unwrap_err().to_string();
        assert!(error.ends_with(r"sh -c 'echo '\''it'\'' | cat'"), "{error}");
    }

    #[test]
    fn a_line_without_a_command_or_with_an_open_quote_is_refused() {
        assert_eq!(parse(""), Err(LineError::Empty));
        assert_eq!(parse(" \t"), Err(LineError::Empty));
        assert_eq!(parse("A=1 B=2"), Err(LineError::Empty));
        assert_eq!(parse("echo 'a"), Err(LineError::Open("single quote")));
        assert_eq!(parse("echo \"a"), Err(LineError::Open("double quote")));
        assert_eq!(parse("a\0b"), Err(LineError::Zero));
    }
}
