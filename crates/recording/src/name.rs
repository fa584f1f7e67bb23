//! Names of files and words of commands: bytes, and the one way to write them as text.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A path, or a word of a command: any bytes. As JSON it is the text that [`shown`] gives, which
/// reads back as the same bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(transparent)]
pub struct Name(#[schemars(with = "String")] Vec<u8>);

impl Name {
    /// The name with these bytes.
    pub fn of(bytes: impl AsRef<OsStr>) -> Name {
        Name(bytes.as_ref().as_bytes().to_vec())
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<OsStr> for Name {
    fn as_ref(&self) -> &OsStr {
        OsStr::from_bytes(&self.0)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(&self.0))
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Name, D::Error> {
        Ok(Name(spelled(&Cow::<str>::deserialize(from)?)))
    }
}

/// Bytes as text that holds no control character and reads back as the same bytes: what is no
/// UTF-8, control characters, and a backslash that would read as one of these, as `\x0a`.
pub fn shown(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        let valid = chunk.valid();
        for (at, char) in valid.char_indices() {
            if char.is_control() || escape(&valid.as_bytes()[at..]).is_some() {
                text.extend(char.to_string().bytes().map(|byte| format!("\\x{byte:02x}")));
            } else {
                text.push(char);
            }
        }
        text.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    text
}

/// The same of a path or a word of the system's.
pub fn shown_name(name: impl AsRef<OsStr>) -> String {
    shown(name.as_ref().as_bytes())
}

/// For `serialize_with`: a path as the text that [`shown`] gives, where serde would refuse one that
/// is no UTF-8.
///
/// # Errors
/// Those of `to`.
pub fn serialize_shown<S: Serializer>(name: impl AsRef<OsStr>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&shown_name(name))
}

/// For `serialize_with`: the same of several.
///
/// # Errors
/// Those of `to`.
pub fn serialize_all_shown<S: Serializer>(
    names: &[impl AsRef<OsStr>],
    to: S,
) -> Result<S::Ok, S::Error> {
    to.collect_seq(names.iter().map(shown_name))
}

/// The path that [`shown`] wrote as this text.
pub fn shown_path(text: &str) -> PathBuf {
    PathBuf::from(OsString::from_vec(spelled(text)))
}

/// The bytes that [`shown`] wrote as this text.
fn spelled(text: &str) -> Vec<u8> {
    let mut rest = text.as_bytes();
    let mut bytes = Vec::with_capacity(rest.len());
    while let Some((first, others)) = rest.split_first() {
        let read = escape(rest);
        bytes.push(read.unwrap_or(*first));
        rest = if read.is_some() { &rest[4..] } else { others };
    }
    bytes
}

/// The byte that is spelt out at the start of a text as `\x0a`.
fn escape(text: &[u8]) -> Option<u8> {
    let digits = text.strip_prefix(b"\\x")?.get(..2)?;
    let lower = digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    let digits = std::str::from_utf8(digits).ok().filter(|_| lower)?;
    u8::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_as_text_holds_no_control_character_and_reads_back_byte_for_byte() {
        let names: [(&[u8], &str); 6] = [
            (b"/opt/plain", "/opt/plain"),
            (b"a\tb\nc\x1b\x7f", r"a\x09b\x0ac\x1b\x7f"),
            (b"\xff/\xc3", r"\xff/\xc3"),
            ("\u{9b}\u{e9}".as_bytes(), "\\xc2\\x9b\u{e9}"),
            (br"a\x09b", r"a\x5cx09b"),
            (br"\x\x0g\xFF\", r"\x\x0g\xFF\"),
        ];
        for (bytes, text) in names {
            assert_eq!(shown(bytes), text);
            assert_eq!(spelled(text), bytes, "{text}");
            let json = serde_json::to_string(&Name(bytes.to_vec())).unwrap();
            assert_eq!(serde_json::from_str::<Name>(&json).unwrap().bytes(), bytes);
        }
        let all: Vec<u8> = (0..=255).chain(*b"\\x41\\\\x5c").chain((0..=255).rev()).collect();
        assert_eq!(spelled(&shown(&all)), all);
    }
}
