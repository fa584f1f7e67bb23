//! `string match` and `string equal` of Tcl, for the patterns that `avail` is asked with: plain
//! ASCII, with `*` and `?` ([`super::AvailRequest`] takes no others).

/// Whether letters of both cases are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LetterCase {
    /// They are two letters.
    Sensitive,
    /// They are one letter.
    Ignored,
}

impl LetterCase {
    /// `string match`, `*` and `?` being the only special letters (`TclByteArrayMatch`).
    pub(super) fn matches(self, pattern: &str, text: &str) -> bool {
        let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
        let (mut at, mut from) = (0, 0);
        // Where to go on when what follows the last `*` fits no longer: it takes one byte more.
        let mut again: Option<(usize, usize)> = None;
        while from < text.len() {
            match pattern.get(at) {
                Some(b'*') => {
                    again = Some((at + 1, from));
                    at += 1;
                }
                Some(letter) if *letter == b'?' || self.is_same(*letter, text[from]) => {
                    at += 1;
                    from += 1;
                }
                _ => match again {
                    Some((star, taken)) => {
                        again = Some((star, taken + 1));
                        (at, from) = (star, taken + 1);
                    }
                    None => return false,
                },
            }
        }
        pattern[at..].iter().all(|letter| *letter == b'*')
    }

    /// `string equal`.
    pub(super) fn equals(self, left: &str, right: &str) -> bool {
        match self {
            LetterCase::Sensitive => left == right,
            LetterCase::Ignored => left.eq_ignore_ascii_case(right),
        }
    }

    /// Whether `text/` begins with `start/`.
    pub(super) fn is_at_start(self, start: &str, text: &str) -> bool {
        let (start, text) = (start.as_bytes(), text.as_bytes());
        let begins = text.len() >= start.len()
            && start.iter().zip(text).all(|(left, right)| self.is_same(*left, *right));
        begins && matches!(text.get(start.len()), None | Some(b'/'))
    }

    fn is_same(self, left: u8, right: u8) -> bool {
        match self {
            LetterCase::Sensitive => left == right,
            LetterCase::Ignored => left.eq_ignore_ascii_case(&right),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::LetterCase::{Ignored, Sensitive};

    #[test]
    fn stars_take_as_much_as_is_needed() {
        for (pattern, text, fits) in [
            ("*", "", true),
            ("gcc*", "gcc/12.2", true),
            ("*b/1*", "libb/1.0", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("?cc", "gcc", true),
            ("?cc", "cc", false),
            ("gcc", "gccx", false),
        ] {
            assert_eq!(Sensitive.matches(pattern, text), fits, "{pattern} {text}");
        }
        assert!(Ignored.matches("GC*/1", "gcc/1"));
        assert!(!Sensitive.matches("GC*/1", "gcc/1"));
    }

    #[test]
    fn a_name_begins_with_whole_parts() {
        assert!(Sensitive.is_at_start("foo", "foo/1"));
        assert!(Sensitive.is_at_start("foo", "foo"));
        assert!(!Sensitive.is_at_start("foo", "foobar"));
        assert!(!Sensitive.is_at_start("foo/", "foo/1"));
    }
}
