//! Lua tables of literals, as `serializeTbl` of Lmod (tools/serializeTbl.lua) writes them:
//! `name = { key = value, ["key"] = value, value, }`. A call, an operator or a function in one
//! is somebody's code.

/// Tables in tables: Lmod's have about seven.
const DEPTH: usize = 32;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum LuaValue {
    Table(Vec<(Option<Vec<u8>>, LuaValue)>),
    Text(Vec<u8>),
    /// A number, `true`, `false` or `nil`.
    Other(Vec<u8>),
}

/// Why text is no table of literals.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// It ends where more must follow.
    #[error("it ends in the middle of a table")]
    Cut,
    /// Something that Lua would evaluate.
    #[error("line {line}: {what}")]
    Code {
        /// Where; the first line is 1.
        line: usize,
        /// What.
        what: &'static str,
    },
}

/// The assignments of a file: names and values.
pub(super) fn assignments(text: &[u8]) -> Result<Vec<(Vec<u8>, LuaValue)>, TableError> {
    let mut reader = LuaTableReader { text, at: 0 };
    let mut found = Vec::new();
    loop {
        reader.blanks()?;
        if reader.at == text.len() {
            return Ok(found);
        }
        let name = reader.name();
        reader.blanks()?;
        if name.is_empty() || !reader.takes(b'=') {
            return reader.code("more than assignments of tables");
        }
        found.push((name, reader.value(0)?));
    }
}

impl LuaValue {
    /// The value of a key, in a table.
    pub(super) fn get(&self, key: &[u8]) -> Option<&LuaValue> {
        self.fields()
            .iter()
            .find(|(known, _)| known.as_deref() == Some(key))
            .map(|(_, value)| value)
    }

    /// A table's keys and values; nothing of anything else.
    pub(super) fn fields(&self) -> &[(Option<Vec<u8>>, LuaValue)] {
        match self {
            LuaValue::Table(fields) => fields,
            _ => &[],
        }
    }

    pub(super) fn text(&self) -> Option<&[u8]> {
        match self {
            LuaValue::Text(text) => Some(text),
            _ => None,
        }
    }
}

struct LuaTableReader<'a> {
    text: &'a [u8],
    at: usize,
}

impl LuaTableReader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn takes(&mut self, byte: u8) -> bool {
        let is_it = self.peek() == Some(byte);
        self.at += usize::from(is_it);
        is_it
    }

    fn code<T>(&self, what: &'static str) -> Result<T, TableError> {
        if self.at >= self.text.len() {
            return Err(TableError::Cut);
        }
        let line = 1 + memchr::memchr_iter(b'\n', &self.text[..self.at]).count();
        Err(TableError::Code { line, what })
    }

    /// Blanks and comments to the end of a line.
    fn blanks(&mut self) -> Result<(), TableError> {
        loop {
            match self.peek() {
                Some(b' ' | b'\t' | b'\n' | b'\r' | b';') => self.at += 1,
                Some(b'-') if self.text[self.at..].starts_with(b"--[") => {
                    return self.code("a long comment");
                }
                Some(b'-') if self.text[self.at..].starts_with(b"--") => {
                    let rest = &self.text[self.at..];
                    self.at += memchr::memchr(b'\n', rest).unwrap_or(rest.len());
                }
                _ => return Ok(()),
            }
        }
    }

    fn name(&mut self) -> Vec<u8> {
        let start = self.at;
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
        while self.peek().is_some_and(is_part) {
            self.at += 1;
        }
        self.text[start..self.at].to_vec()
    }

    fn value(&mut self, depth: usize) -> Result<LuaValue, TableError> {
        self.blanks()?;
        match self.peek() {
            Some(b'{') if depth < DEPTH => self.table(depth + 1),
            Some(b'{') => self.code("tables within tables, too many"),
            Some(b'"' | b'\'') => self.quoted().map(LuaValue::Text),
            Some(b'[') => self.long().map(LuaValue::Text),
            _ => {
                let word = self.name();
                let is_literal = matches!(&word[..], b"true" | b"false" | b"nil")
                    || word.first().is_some_and(|byte| byte.is_ascii_digit() || *byte == b'-');
                if is_literal {
                    Ok(LuaValue::Other(word))
                } else {
                    self.code("a value that is no literal")
                }
            }
        }
    }

    fn table(&mut self, depth: usize) -> Result<LuaValue, TableError> {
        self.at += 1;
        let mut fields = Vec::new();
        loop {
            self.blanks()?;
            if self.takes(b'}') {
                return Ok(LuaValue::Table(fields));
            }
            let key = self.key()?;
            fields.push((key, self.value(depth)?));
            self.blanks()?;
            if !self.takes(b',') && self.peek() != Some(b'}') {
                return self.code("a value that is more than a literal");
            }
        }
    }

    /// `name =` or `["name"] =`; none before a value of a list.
    fn key(&mut self) -> Result<Option<Vec<u8>>, TableError> {
        let start = self.at;
        let key = match self.peek() {
            Some(b'[') if !matches!(self.text.get(self.at + 1), Some(b'[' | b'=')) => {
                self.at += 1;
                self.blanks()?;
                let key = match self.peek() {
                    Some(b'"' | b'\'') => self.quoted()?,
                    _ => self.name(),
                };
                self.blanks()?;
                if !self.takes(b']') {
                    return self.code("a key that is no literal");
                }
                key
            }
            _ => self.name(),
        };
        self.blanks()?;
        if !key.is_empty() && self.takes(b'=') {
            return Ok(Some(key));
        }
        self.at = start;
        Ok(None)
    }

    fn quoted(&mut self) -> Result<Vec<u8>, TableError> {
        let quote = self.peek();
        self.at += 1;
        let mut text = Vec::new();
        loop {
            let Some(byte) = self.peek() else { return Err(TableError::Cut) };
            self.at += 1;
            match byte {
                byte if Some(byte) == quote => return Ok(text),
                b'\\' => self.escaped(&mut text)?,
                byte => text.push(byte),
            }
        }
    }

    /// What follows a backslash (Lua 5.3 reference, 3.1), as `%q` writes it.
    fn escaped(&mut self, text: &mut Vec<u8>) -> Result<(), TableError> {
        let Some(byte) = self.peek() else { return Err(TableError::Cut) };
        self.at += 1;
        match byte {
            b'n' => text.push(b'\n'),
            b'r' => text.push(b'\r'),
            b't' => text.push(b'\t'),
            b'0'..=b'9' => {
                let mut number = u32::from(byte - b'0');
                for _ in 0..2 {
                    let Some(digit) = self.peek().filter(u8::is_ascii_digit) else { break };
                    number = number * 10 + u32::from(digit - b'0');
                    self.at += 1;
                }
                text.push(u8::try_from(number).unwrap_or(b'?'));
            }
            b'"' | b'\'' | b'\\' | b'\n' => text.push(byte),
            _ => return self.code("a backslash that Lmod does not write"),
        }
        Ok(())
    }

    /// `[[…]]` and `[==[…]==]`.
    fn long(&mut self) -> Result<Vec<u8>, TableError> {
        self.at += 1;
        let level = self.text[self.at..].iter().take_while(|byte| **byte == b'=').count();
        self.at += level;
        if !self.takes(b'[') {
            return self.code("a value that is no literal");
        }
        let end = [&b"]"[..], &vec![b'='; level], b"]"].concat();
        let rest = &self.text[self.at..];
        let length = memchr::memmem::find(rest, &end).ok_or(TableError::Cut)?;
        self.at += length + end.len();
        Ok(rest[..length].to_vec())
    }
}
