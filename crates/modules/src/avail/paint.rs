//! Colours, as `sgr` of `modulecmd.tcl` writes them.

use super::Unable;
use super::config::Config;

/// Codes, and which of them were used, in the order of first use.
#[derive(Debug)]
pub(super) struct Paint {
    codes: Option<Vec<(String, String)>>,
    used: Vec<String>,
}

impl Paint {
    pub(super) fn new(config: &Config) -> Paint {
        Paint { codes: config.colors.clone(), used: Vec::new() }
    }

    pub(super) fn is_on(&self) -> bool {
        self.codes.is_some()
    }

    /// Whether something has a colour (`isSgrkeyColored`).
    pub(super) fn has(&self, key: &str) -> bool {
        self.code(key).is_some_and(|code| !code.is_empty())
    }

    fn code(&self, key: &str) -> Option<&str> {
        let codes = self.codes.as_ref()?;
        codes.iter().find(|(known, _)| known == key).map(|(_, code)| code.as_str())
    }

    /// A text in some colours, with the text that was asked for in another one.
    pub(super) fn text(&mut self, keys: &[&str], text: &str, marks: &[(String, String)]) -> String {
        if self.codes.is_none() {
            return text.to_owned();
        }
        let mut set = String::new();
        let mut reset = 22;
        for key in keys {
            let Some(code) = self.code(key).map(str::to_owned) else { continue };
            if !self.used.iter().any(|used| used == key) {
                self.used.push((*key).to_owned());
            }
            if !set.is_empty() {
                set.push(';');
            }
            set.push_str(&code);
            // What is bold or faint only is reset by itself.
            if set != "1" && set != "2" {
                reset = 0;
            }
        }
        let text = marked(text, marks);
        match set.is_empty() {
            true => text,
            false => format!("\x1b[{set}m{text}\x1b[{reset}m"),
        }
    }

    /// What is asked for, and how it is written: patterns without stars at their ends
    /// (`prepareMapToHightlightSubstr`).
    pub(super) fn marks(&mut self, patterns: &[&str]) -> Vec<(String, String)> {
        if !self.has("hi") {
            return Vec::new();
        }
        let mut marks = Vec::new();
        for pattern in patterns {
            let wanted = pattern.trim_end_matches(['*', '?']);
            if !wanted.is_empty() && !wanted.contains(['*', '?']) {
                marks.push((wanted.to_owned(), self.text(&["hi"], wanted, &[])));
            }
        }
        marks
    }

    /// Which colours were used that the key explains, in the order that Tcl keeps them
    /// (`array names`): by the hash of their names, the last one first.
    ///
    /// # Errors
    /// Where that depends on the order of what was shown.
    pub(super) fn key(&self) -> Result<Vec<&str>, Unable> {
        let explained = |key: &&String| matches!(key.as_str(), "mp" | "di" | "al" | "sy" | "de");
        let used: Vec<&str> = self.used.iter().filter(explained).map(String::as_str).collect();
        let of_names = used.iter().filter(|key| matches!(**key, "di" | "al" | "de")).count();
        if of_names > 1 {
            return Err(Unable::Order("a key of several colours"));
        }
        let mut key: Vec<(u32, usize, &str)> = Vec::new();
        for (at, used) in used.into_iter().enumerate() {
            key.push((hash(used) & 3, usize::MAX - at, used));
        }
        key.sort_unstable();
        Ok(key.into_iter().map(|(_, _, used)| used).collect())
    }
}

/// `TclHashObjKey` of generic/tclObj.c.
fn hash(key: &str) -> u32 {
    key.bytes().fold(0, |hash: u32, byte| hash.wrapping_mul(9).wrapping_add(byte.into()))
}

/// `string map`: at each place the first text of the map that fits.
fn marked(text: &str, marks: &[(String, String)]) -> String {
    let mut rest = text;
    let mut out = String::with_capacity(text.len());
    while let Some(letter) = rest.chars().next() {
        match marks.iter().find(|(wanted, _)| rest.starts_with(wanted.as_str())) {
            Some((wanted, written)) => {
                out.push_str(written);
                rest = &rest[wanted.len()..];
            }
            None => {
                out.push(letter);
                rest = &rest[letter.len_utf8()..];
            }
        }
    }
    out
}
