//! A script of literal words, after Tcl's rules (Tcl(n), rules 1 to 10; `Tcl_ParseCommand` of
//! generic/tclParse.c).

/// One command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TclCommand {
    /// The line that it begins on; the first is 1.
    pub line: usize,
    /// Its words, without their quotes. There is at least one.
    pub words: Vec<String>,
}

/// Where a script is more than literal words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct DynamicWord {
    /// The line; the first is 1.
    pub line: usize,
    /// What is there.
    pub why: DynamicReason,
}

/// What makes a script more than literal words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DynamicReason {
    /// `$`
    #[error("a variable")]
    Variable,
    /// `[`
    #[error("a command in brackets")]
    Bracket,
    /// `\`
    #[error("a backslash")]
    Backslash,
    /// `{*}`
    #[error("an expansion")]
    Expansion,
    /// A brace or a quote without an end.
    #[error("a brace or quote that is not closed")]
    Open,
    /// Text at once after a closing brace or quote.
    #[error("text after a closing brace or quote")]
    Follows,
    /// Text that is not UTF-8, or has a NUL or ^Z in it.
    #[error("bytes that are not text")]
    Binary,
}

/// The commands of a script of literal words.
///
/// # Errors
/// The first place where it is more than that. (A `$` or `\` that Tcl would take literally is
/// one, too.)
pub fn commands(script: &[u8]) -> Result<Vec<TclCommand>, DynamicWord> {
    let odd = script.iter().position(|byte| matches!(byte, 0 | 0x1a));
    let text = match (std::str::from_utf8(script), odd) {
        (Ok(text), None) => text,
        (Ok(_), Some(at)) => return Err(binary(&script[..at])),
        (Err(error), at) => {
            let at = at.unwrap_or(usize::MAX).min(error.valid_up_to());
            return Err(binary(&script[..at]));
        }
    };
    let mut reader = TclReader { text, at: 0, line: 1 };
    let mut commands = Vec::new();
    while let Some(command) = reader.command()? {
        commands.push(command);
    }
    Ok(commands)
}

fn binary(before: &[u8]) -> DynamicWord {
    DynamicWord {
        line: 1 + before.iter().filter(|byte| **byte == b'\n').count(),
        why: DynamicReason::Binary,
    }
}

struct TclReader<'a> {
    text: &'a str,
    at: usize,
    line: usize,
}

impl TclReader<'_> {
    /// The next byte. All that has a meaning in Tcl is ASCII.
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn bump(&mut self) {
        self.line += usize::from(self.peek() == Some(b'\n'));
        self.at += 1;
    }

    fn skip(&mut self, may: impl Fn(u8) -> bool) {
        while self.peek().is_some_and(&may) {
            self.bump();
        }
    }

    fn fail<T>(&self, why: DynamicReason) -> Result<T, DynamicWord> {
        Err(DynamicWord { line: self.line, why })
    }

    fn command(&mut self) -> Result<Option<TclCommand>, DynamicWord> {
        loop {
            self.skip(|byte| is_space(byte) || is_end(byte));
            match self.peek() {
                Some(b'#') => self.comment(),
                Some(_) => break,
                None => return Ok(None),
            }
        }
        let mut command = TclCommand { line: self.line, words: Vec::new() };
        while self.peek().is_some_and(|byte| !is_end(byte)) {
            command.words.push(self.word()?);
            self.skip(is_space);
        }
        Ok(Some(command))
    }

    /// To the end of the line, unless a backslash continues it.
    fn comment(&mut self) {
        while let Some(byte) = self.peek() {
            self.bump();
            match byte {
                b'\n' => return,
                b'\\' if self.peek().is_some() => self.bump(),
                _ => {}
            }
        }
    }

    fn word(&mut self) -> Result<String, DynamicWord> {
        match self.peek() {
            Some(b'{') => {
                let word = self.braced()?;
                let follows = self.peek().is_some_and(|byte| !is_space(byte) && !is_end(byte));
                match (follows, word.as_str()) {
                    (false, _) => Ok(word),
                    (true, "*") => self.fail(DynamicReason::Expansion),
                    (true, _) => self.fail(DynamicReason::Follows),
                }
            }
            Some(b'"') => {
                let word = self.quoted()?;
                match self.peek() {
                    Some(byte) if !is_space(byte) && !is_end(byte) => {
                        self.fail(DynamicReason::Follows)
                    }
                    _ => Ok(word),
                }
            }
            _ => self.bare(),
        }
    }

    fn bare(&mut self) -> Result<String, DynamicWord> {
        let start = self.at;
        while let Some(byte) = self.peek() {
            match byte {
                _ if is_space(byte) || is_end(byte) => break,
                b'$' => return self.fail(DynamicReason::Variable),
                b'[' => return self.fail(DynamicReason::Bracket),
                b'\\' => return self.fail(DynamicReason::Backslash),
                _ => self.bump(),
            }
        }
        Ok(self.text[start..self.at].to_owned())
    }

    fn quoted(&mut self) -> Result<String, DynamicWord> {
        self.bump();
        let start = self.at;
        loop {
            match self.peek() {
                None => return self.fail(DynamicReason::Open),
                Some(b'"') => break,
                Some(b'$') => return self.fail(DynamicReason::Variable),
                Some(b'[') => return self.fail(DynamicReason::Bracket),
                Some(b'\\') => return self.fail(DynamicReason::Backslash),
                Some(_) => self.bump(),
            }
        }
        let word = self.text[start..self.at].to_owned();
        self.bump();
        Ok(word)
    }

    fn braced(&mut self) -> Result<String, DynamicWord> {
        self.bump();
        let start = self.at;
        let mut depth = 1;
        loop {
            match self.peek() {
                None => return self.fail(DynamicReason::Open),
                // Within braces it is literal, but for braces and the end of a line.
                Some(b'\\') => return self.fail(DynamicReason::Backslash),
                Some(b'{') => depth += 1,
                Some(b'}') => depth -= 1,
                Some(_) => {}
            }
            if depth == 0 {
                break;
            }
            self.bump();
        }
        let word = self.text[start..self.at].to_owned();
        self.bump();
        Ok(word)
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | 0x0b | 0x0c | b'\r')
}

fn is_end(byte: u8) -> bool {
    matches!(byte, b'\n' | b';')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(script: &str) -> Vec<Vec<String>> {
        commands(script.as_bytes()).unwrap().into_iter().map(|command| command.words).collect()
    }

    fn why(script: &[u8]) -> (usize, DynamicReason) {
        let DynamicWord { line, why } = commands(script).unwrap_err();
        (line, why)
    }

    #[test]
    fn words_are_split_at_blanks_and_kept_whole_in_braces_and_quotes() {
        assert_eq!(words("a {b c} \"d  e\"\n;f"), [vec!["a", "b c", "d  e"], vec!["f"]]);
        assert_eq!(words("a b{c}d\"e {x {y} z} {} {*}"), [["a", "b{c}d\"e", "x {y} z", "", "*"]]);
        assert_eq!(words("set x {\n}; y"), [vec!["set", "x", "\n"], vec!["y"]]);
    }

    #[test]
    fn a_comment_begins_where_a_command_may_and_goes_on_after_a_backslash() {
        assert_eq!(words("#%Module\n# a \\\n b\nc #d\n  # e"), [["c", "#d"]]);
    }

    #[test]
    fn whatever_tcl_would_substitute_is_named_with_its_line() {
        assert_eq!(why(b"a\nb $c"), (2, DynamicReason::Variable));
        assert_eq!(why(b"a \"\n[b]\""), (2, DynamicReason::Bracket));
        assert_eq!(why(b"a \\\n b"), (1, DynamicReason::Backslash));
        assert_eq!(why(b"a {b \\} c}"), (1, DynamicReason::Backslash));
        assert_eq!(why(b"{*}{a b}"), (1, DynamicReason::Expansion));
        assert_eq!(why(b"a {b"), (1, DynamicReason::Open));
        assert_eq!(why(b"a {b}c"), (1, DynamicReason::Follows));
        assert_eq!(why(b"a\n\n\xff"), (3, DynamicReason::Binary));
        assert_eq!(why(b"a\n\0"), (2, DynamicReason::Binary));
    }
}
