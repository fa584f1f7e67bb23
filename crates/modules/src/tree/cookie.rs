//! The magic cookie, the first word of a modulefile: `#%Module`, or `#%Module5.3`.

use serde::{Deserialize, Serialize};

use crate::site::Release;

/// How much of a file `modulecmd` looks at: `[string range $fdata 0 32]` are characters, of up
/// to four bytes each.
pub(super) const LOOKED_AT: usize = 33 * 4;

/// What a file begins with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cookie {
    /// The walk was told to open no file.
    NotRead,
    /// No cookie: not a modulefile.
    Missing,
    /// `#%Module`, without a version.
    Plain,
    /// `#%Module` and what follows at once, as it is written: `5.3`. Text that is no version is
    /// kept, too: `modulecmd` compares it as far as it can.
    Version(String),
}

impl Cookie {
    /// Reads the cookie as `readModuleContent` does: the first word of the first 33 characters,
    /// without `#` at its end.
    pub fn of(beginning: &[u8]) -> Cookie {
        let text = String::from_utf8_lossy(beginning);
        let seen: String = text.chars().take(33).collect();
        let word = seen.split([' ', '\t', '\n', '\r']).next().unwrap_or_default();
        match word.trim_end_matches('#').strip_prefix("#%Module") {
            None => Cookie::Missing,
            Some("") => Cookie::Plain,
            Some(version) => Cookie::Version(version.to_owned()),
        }
    }

    /// Whether a Modules of this release takes the file: it asks for no newer one.
    pub fn is_valid_for(&self, release: &Release) -> bool {
        match self {
            Cookie::NotRead | Cookie::Missing => false,
            Cookie::Plain => true,
            Cookie::Version(asked) => !release.is_older_than(asked),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cookie_is_the_first_word_without_hashes_at_its_end() {
        assert_eq!(Cookie::of(b"#%Module\nx"), Cookie::Plain);
        assert_eq!(Cookie::of(b"#%Module1.0####\n"), Cookie::Version("1.0".into()));
        assert_eq!(Cookie::of(b"#%Module5.6 x"), Cookie::Version("5.6".into()));
        assert_eq!(Cookie::of(b" #%Module"), Cookie::Missing);
        assert_eq!(Cookie::of(b"#%Modul"), Cookie::Missing);
        assert_eq!(Cookie::of(b"\x7fELF\0\0"), Cookie::Missing);
        assert_eq!(Cookie::of(b""), Cookie::Missing);
    }

    #[test]
    fn a_file_that_asks_for_a_newer_release_is_not_taken() {
        let here = Release::parse("5.2.0");
        assert!(Cookie::of(b"#%Module5.2\n").is_valid_for(&here));
        assert!(!Cookie::of(b"#%Module5.3\n").is_valid_for(&here));
        assert!(Cookie::of(b"#%Module\n").is_valid_for(&here));
    }
}
