//! A `.modulecache`, read as what it records. Nothing in it is evaluated.
//!
//! `modulecmd.tcl` evaluates it as a Tcl script (`execute-cachefile`). What its `cachebuild`
//! writes (`formatModuleCacheContent`) is five commands with literal words, quoted as Tcl's
//! `list` quotes them; anything else in a cache is somebody's code.

use std::borrow::Cow;
use std::ops::Range;

/// What marks the moment that a cache of becalm's shows, in nanoseconds since 1970.
const AS_OF: &str = "# becalm: as of ";

/// A cache file.
#[derive(Debug, PartialEq, Eq)]
pub struct Script<'a> {
    /// The release that its first line asks for: `5.3`.
    pub asks: &'a str,
    /// The moment before the walk that it shows, where becalm published it, in nanoseconds since
    /// 1970. A file whose inode has not changed since is as recorded.
    pub as_of: Option<i128>,
    /// What it records.
    pub entries: Vec<CacheCommand<'a>>,
}

/// One command of it.
#[derive(Debug, PartialEq, Eq)]
pub struct CacheCommand<'a> {
    /// The file or directory, from the modulepath on.
    pub name: Cow<'a, [u8]>,
    /// What is recorded of it.
    pub says: Says<'a>,
    /// Where its text is, without the end of its line.
    pub text: Range<usize>,
}

/// What a cache records of a name.
#[derive(Debug, PartialEq, Eq)]
pub enum Says<'a> {
    /// `modulefile-content`
    Modulefile {
        /// When it was changed last, in seconds since 1970.
        modified: i64,
        /// The release in its cookie; empty for none.
        asks: Cow<'a, [u8]>,
        /// All of it.
        body: Cow<'a, [u8]>,
    },
    /// `modulerc-content`
    Rc {
        /// All of it.
        body: Cow<'a, [u8]>,
    },
    /// `modulefile-invalid`
    Invalid {
        /// Why, in words of the release that built the cache.
        message: Cow<'a, [u8]>,
    },
    /// `limited-access-file`: looked at by each user anew.
    LimitedFile,
    /// `limited-access-directory`: walked by each user anew.
    LimitedDirectory,
}

/// Why a file is no cache that `cachebuild` wrote.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CacheOddity {
    /// It ends where more must follow.
    #[error("line {line}: it ends in the middle of an entry")]
    Cut {
        /// Where the entry began; the first line is 1.
        line: usize,
    },
    /// There is nothing in it.
    #[error("it is empty")]
    Empty,
    /// Its first line is none of a cache.
    #[error("line 1: it does not begin with #%Module and a version")]
    NoCache,
    /// Something that Modules would evaluate and `cachebuild` never writes.
    #[error("line {line}: {what}")]
    Code {
        /// Where; the first line is 1.
        line: usize,
        /// What.
        what: &'static str,
    },
}

/// Reads a cache.
///
/// # Errors
/// The first place where it is not what `cachebuild` writes.
pub fn parse(text: &[u8]) -> Result<Script<'_>, CacheOddity> {
    if text.is_empty() {
        return Err(CacheOddity::Empty);
    }
    let head = memchr::memchr(b'\n', text).unwrap_or(text.len());
    let asks = header(&text[..head])?;
    let mut reader = CacheReader { text, at: head, began: head };
    let mut script = Script { asks, as_of: None, entries: Vec::new() };
    while let Some(line) = reader.line()? {
        match line {
            CacheScriptLine::Comment(comment) => {
                let rest = text.get(reader.at + 1..).unwrap_or_default();
                script.as_of = script.as_of.or_else(|| as_of(comment, rest));
            }
            CacheScriptLine::Entry(entry) => script.entries.push(entry),
        }
    }
    Ok(script)
}

/// The release in the first line, which is a comment to Tcl: it must not go on in the next.
fn header(line: &[u8]) -> Result<&str, CacheOddity> {
    let line = std::str::from_utf8(line).map_err(|_| CacheOddity::NoCache)?;
    let asks = line.strip_prefix("#%Module").map(|rest| rest.trim_end_matches('#'));
    let is_version = |text: &&str| {
        text.starts_with(|letter: char| letter.is_ascii_digit())
            && text.len() <= 16
            && text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '.')
    };
    asks.filter(is_version).ok_or(CacheOddity::NoCache)
}

/// The line by which becalm knows a cache that it has built, and that all below is as it was then:
/// the moment that it shows, and the CRC-32 of what follows.
pub(super) fn stamp(as_of: i128, rest: &[u8]) -> String {
    format!("{AS_OF}{as_of} {:08x}", crc32fast::hash(rest))
}

fn as_of(comment: &[u8], rest: &[u8]) -> Option<i128> {
    let text = std::str::from_utf8(comment).ok()?.strip_prefix(AS_OF)?;
    let as_of = text.split_once(' ')?.0.parse().ok()?;
    (stamp(as_of, rest).as_bytes() == comment).then_some(as_of)
}

enum CacheScriptLine<'a> {
    Comment(&'a [u8]),
    Entry(CacheCommand<'a>),
}

struct CacheReader<'a> {
    text: &'a [u8],
    at: usize,
    /// Where the command that is being read began.
    began: usize,
}

impl<'a> CacheReader<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn cut<T>(&self) -> Result<T, CacheOddity> {
        Err(CacheOddity::Cut { line: self.line_of(self.began) })
    }

    fn code<T>(&self, what: &'static str) -> Result<T, CacheOddity> {
        Err(CacheOddity::Code { line: self.line_of(self.at), what })
    }

    /// Counted only where it is told.
    fn line_of(&self, at: usize) -> usize {
        1 + memchr::memchr_iter(b'\n', &self.text[..at.min(self.text.len())]).count()
    }

    /// The next line that says something. Each must be ended, as `puts` ends it.
    fn line(&mut self) -> Result<Option<CacheScriptLine<'a>>, CacheOddity> {
        while self.peek() == Some(b'\n') {
            self.at += 1;
        }
        self.began = self.at;
        match self.peek() {
            // `cachebuild` ends the last line, too.
            None if self.text.ends_with(b"\n") => Ok(None),
            None => self.cut(),
            Some(b'#') => self.comment().map(|comment| Some(CacheScriptLine::Comment(comment))),
            Some(_) => self.entry().map(|entry| Some(CacheScriptLine::Entry(entry))),
        }
    }

    fn comment(&mut self) -> Result<&'a [u8], CacheOddity> {
        let Some(length) = memchr::memchr(b'\n', &self.text[self.at..]) else { return self.cut() };
        let comment = &self.text[self.at..self.at + length];
        if comment.contains(&b'\\') {
            return self.code("a comment that may go on in the next line");
        }
        self.at += length;
        Ok(comment)
    }

    fn entry(&mut self) -> Result<CacheCommand<'a>, CacheOddity> {
        let mut words: [Cow<'a, [u8]>; 5] = Default::default();
        let mut many = 0;
        loop {
            if many == words.len() {
                return self.code("a command with more words than any of a cache has");
            }
            words[many] = self.word()?;
            many += 1;
            match self.peek() {
                Some(b' ') => self.at += 1,
                Some(b'\n') => break,
                None => return self.cut(),
                Some(_) => return self.code("text after a closing brace"),
            }
        }
        let text = self.began..self.at;
        let [command, name, third, fourth, fifth] = words;
        let says = match (&*command, many) {
            (b"modulefile-content", 5) => {
                let modified = std::str::from_utf8(&third).ok().and_then(|text| text.parse().ok());
                let Some(modified) = modified else { return self.code("a time that is no number") };
                Says::Modulefile { modified, asks: release(&fourth), body: fifth }
            }
            (b"modulerc-content", 4) => Says::Rc { body: fourth },
            (b"modulefile-invalid", 4) => Says::Invalid { message: fourth },
            (b"limited-access-file", 2) => Says::LimitedFile,
            (b"limited-access-directory", 2) => Says::LimitedDirectory,
            (
                b"modulefile-content"
                | b"modulerc-content"
                | b"modulefile-invalid"
                | b"limited-access-file"
                | b"limited-access-directory",
                _,
            ) => return self.code("an entry with too few or too many words"),
            _ => {
                self.at = self.began;
                return self.code("a command that is none of a cache");
            }
        };
        if !is_below(&name) {
            self.at = self.began;
            return self.code("an entry for a file that is not below the modulepath");
        }
        Ok(CacheCommand { name, says, text })
    }

    fn word(&mut self) -> Result<Cow<'a, [u8]>, CacheOddity> {
        match self.peek() {
            None => self.cut(),
            Some(b'{') => self.braced().map(Cow::Borrowed),
            Some(b'"') => self.code("a word in quotes, in which Tcl substitutes"),
            Some(_) => self.bare(),
        }
    }

    /// Within braces Tcl substitutes nothing but a backslash at the end of a line.
    fn braced(&mut self) -> Result<&'a [u8], CacheOddity> {
        let start = self.at + 1;
        let mut depth = 0_usize;
        loop {
            let Some(next) = memchr::memchr3(b'{', b'}', b'\\', &self.text[self.at..]) else {
                return self.cut();
            };
            self.at += next;
            match self.text[self.at] {
                b'{' => depth += 1,
                b'}' => depth -= 1,
                _ if self.text.get(self.at + 1) == Some(&b'\n') => {
                    return self.code("a line that goes on in the next");
                }
                _ => self.at += 1,
            }
            self.at += 1;
            if depth == 0 {
                return Ok(&self.text[start..self.at - 1]);
            }
            if self.at >= self.text.len() {
                return self.cut();
            }
        }
    }

    fn bare(&mut self) -> Result<Cow<'a, [u8]>, CacheOddity> {
        let start = self.at;
        let mut escaped: Option<Vec<u8>> = None;
        while let Some(byte) = self.peek() {
            let literal = match byte {
                b' ' | b'\n' => break,
                b'$' => return self.code("a variable"),
                b'[' => return self.code("a command in brackets"),
                b';' => return self.code("a second command in a line"),
                b'\t' | b'\r' | 0x0b | 0x0c => return self.code("a blank that is no space"),
                b'\\' => {
                    let so_far = &self.text[start..self.at];
                    let word = escaped.get_or_insert_with(|| so_far.to_vec());
                    self.at += 1;
                    let Some(byte) = self.text.get(self.at) else { return self.cut() };
                    let Some(meant) = backslash(*byte) else {
                        return self.code("a backslash that Tcl's lists never have");
                    };
                    word.push(meant);
                    self.at += 1;
                    continue;
                }
                byte => byte,
            };
            if let Some(word) = &mut escaped {
                word.push(literal);
            }
            self.at += 1;
        }
        Ok(match escaped {
            Some(word) => Cow::Owned(word),
            None => Cow::Borrowed(&self.text[start..self.at]),
        })
    }
}

/// What `TclConvertElement` writes with a backslash.
fn backslash(byte: u8) -> Option<u8> {
    match byte {
        b'n' => Some(b'\n'),
        b't' => Some(b'\t'),
        b'r' => Some(b'\r'),
        b'v' => Some(0x0b),
        b'f' => Some(0x0c),
        b'{' | b'}' | b'[' | b']' | b'$' | b';' | b' ' | b'\\' | b'"' | b'#' => Some(byte),
        _ => None,
    }
}

/// The release in a recorded cookie: `5.6` of `#%Module5.6`.
fn release<'a>(header: &Cow<'a, [u8]>) -> Cow<'a, [u8]> {
    let length = b"#%Module".len().min(header.len());
    match header {
        Cow::Borrowed(header) => Cow::Borrowed(&header[length..]),
        Cow::Owned(header) => Cow::Owned(header[length..].to_vec()),
    }
}

/// Whether a name leads to something below the modulepath.
fn is_below(name: &[u8]) -> bool {
    let is_part = |part: &[u8]| !part.is_empty() && part != b"." && part != b"..";
    !name.contains(&0) && name.split(|byte| *byte == b'/').all(is_part)
}
