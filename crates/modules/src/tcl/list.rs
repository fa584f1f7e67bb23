//! Tcl lists (generic/tclUtil.c: `TclFindElement`, `TclScanElement`, `TclConvertElement`).

use std::iter::Peekable;
use std::str::Chars;

/// Why text is no list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// A brace or a quote has no end.
    #[error("a brace or a quote is not closed")]
    Open,
    /// Something follows a closing brace or quote at once.
    #[error("text follows a closing brace or quote")]
    Follows,
}

/// The elements of a list, as Tcl splits it.
///
/// # Errors
/// [`ListError`].
pub fn split(text: &str) -> Result<Vec<String>, ListError> {
    let mut text = text.chars().peekable();
    let mut elements = Vec::new();
    loop {
        while text.next_if(|letter| is_space(*letter)).is_some() {}
        let element = match text.peek() {
            None => return Ok(elements),
            Some('{') => braced(&mut text)?,
            Some('"') => quoted(&mut text)?,
            Some(_) => bare(&mut text),
        };
        if text.peek().is_some_and(|letter| !is_space(*letter)) {
            return Err(ListError::Follows);
        }
        elements.push(element);
    }
}

fn braced(text: &mut Peekable<Chars<'_>>) -> Result<String, ListError> {
    text.next();
    let mut element = String::new();
    let mut depth = 1;
    loop {
        let letter = text.next().ok_or(ListError::Open)?;
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            '\\' => {
                element.push('\\');
                element.extend(text.next());
                continue;
            }
            _ => {}
        }
        if depth == 0 {
            return Ok(element);
        }
        element.push(letter);
    }
}

fn quoted(text: &mut Peekable<Chars<'_>>) -> Result<String, ListError> {
    text.next();
    let mut element = String::new();
    loop {
        match text.next().ok_or(ListError::Open)? {
            '"' => return Ok(element),
            '\\' => backslash(text, &mut element),
            letter => element.push(letter),
        }
    }
}

fn bare(text: &mut Peekable<Chars<'_>>) -> String {
    let mut element = String::new();
    while let Some(letter) = text.next_if(|letter| !is_space(*letter)) {
        match letter {
            '\\' => backslash(text, &mut element),
            letter => element.push(letter),
        }
    }
    element
}

/// What a backslash and what follows mean (Tcl(n), rule 9; `TclParseBackslash`).
fn backslash(text: &mut Peekable<Chars<'_>>, element: &mut String) {
    let Some(letter) = text.next() else {
        element.push('\\');
        return;
    };
    match letter {
        'a' => element.push('\x07'),
        'b' => element.push('\x08'),
        'f' => element.push('\x0c'),
        'n' => element.push('\n'),
        'r' => element.push('\r'),
        't' => element.push('\t'),
        'v' => element.push('\x0b'),
        'x' => number(text, element, letter, 16, 2),
        'u' => number(text, element, letter, 16, 4),
        'U' => number(text, element, letter, 16, 8),
        '\n' => {
            while text.next_if(|letter| matches!(letter, ' ' | '\t')).is_some() {}
            element.push(' ');
        }
        '0'..='7' => {
            let mut value = letter.to_digit(8).unwrap_or(0);
            for _ in 0..2 {
                let Some(digit) = text.peek().and_then(|letter| letter.to_digit(8)) else { break };
                if value * 8 + digit > 0xff {
                    break;
                }
                value = value * 8 + digit;
                text.next();
            }
            element.extend(char::from_u32(value));
        }
        letter => element.push(letter),
    }
}

/// Up to so many digits of a letter's number; without any, the letter that announced them.
fn number(
    text: &mut Peekable<Chars<'_>>,
    element: &mut String,
    announced: char,
    base: u32,
    most: usize,
) {
    let mut value = None;
    for _ in 0..most {
        let Some(digit) = text.peek().and_then(|letter| letter.to_digit(base)) else { break };
        let next = value.unwrap_or(0) * base + digit;
        if next > 0x10_ffff {
            break;
        }
        value = Some(next);
        text.next();
    }
    match value {
        None => element.push(announced),
        Some(value) => element.push(char::from_u32(value).unwrap_or('\u{fffd}')),
    }
}

fn is_space(letter: char) -> bool {
    matches!(letter, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
}

/// A word as Tcl's `list` would write it when it is the first: as it is, in braces, or with
/// backslashes. It can stand in a script, too.
pub fn element(word: &str) -> String {
    written(word, word.starts_with('#'))
}

/// A list of words, as Tcl's `list` would write it.
pub fn join<W: AsRef<str>>(words: impl IntoIterator<Item = W>) -> String {
    let mut list = String::new();
    for (at, word) in words.into_iter().enumerate() {
        let word = word.as_ref();
        if at > 0 {
            list.push(' ');
        }
        list.push_str(&written(word, at == 0 && word.starts_with('#')));
    }
    list
}

/// What `TclScanElement` finds in a word.
#[derive(Default)]
struct Scanned {
    /// Whether it cannot stand as it is.
    needs_quotes: bool,
    /// Whether braces are the usual way to quote it.
    prefers_braces: bool,
    /// Whether braces cannot quote it.
    cannot_be_braced: bool,
}

fn scan(word: &str) -> Scanned {
    let mut scanned = Scanned::default();
    if word.starts_with(['{', '"']) {
        scanned.needs_quotes = true;
        scanned.prefers_braces = true;
    }
    let mut depth = 0_i64;
    let mut letters = word.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '{' => depth += 1,
            '}' => {
                depth -= 1;
                scanned.cannot_be_braced |= depth < 0;
            }
            ']' | '"' => scanned.needs_quotes = true,
            '[' | '$' | ';' | ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c' => {
                scanned.needs_quotes = true;
                scanned.prefers_braces = true;
            }
            '\\' => {
                scanned.needs_quotes = true;
                match letters.peek() {
                    None => scanned.cannot_be_braced = true,
                    Some('\n') => {
                        scanned.cannot_be_braced = true;
                        letters.next();
                    }
                    Some('{' | '}' | '\\') => {
                        scanned.prefers_braces = true;
                        letters.next();
                    }
                    Some(_) => scanned.prefers_braces = true,
                }
            }
            _ => {}
        }
    }
    scanned.cannot_be_braced |= depth != 0;
    scanned
}

fn written(word: &str, quote_hash: bool) -> String {
    if word.is_empty() {
        return "{}".to_owned();
    }
    let mut scanned = scan(word);
    scanned.prefers_braces |= quote_hash;
    if scanned.cannot_be_braced {
        return escaped(word, quote_hash, true);
    }
    if scanned.needs_quotes && !scanned.prefers_braces {
        return escaped(word, quote_hash, false);
    }
    if scanned.needs_quotes || quote_hash { format!("{{{word}}}") } else { word.to_owned() }
}

fn escaped(word: &str, quote_hash: bool, braces: bool) -> String {
    let mut text = String::with_capacity(word.len() + 8);
    for (at, letter) in word.char_indices() {
        match letter {
            '#' if at == 0 && quote_hash => text.push_str("\\#"),
            ']' | '[' | '$' | ';' | ' ' | '\\' | '"' => text.extend(['\\', letter]),
            '{' | '}' if braces => text.extend(['\\', letter]),
            '\t' => text.push_str("\\t"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\x0b' => text.push_str("\\v"),
            '\x0c' => text.push_str("\\f"),
            letter => text.push(letter),
        }
    }
    text
}
