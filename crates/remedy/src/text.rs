//! How bytes, paths and permissions are written in JSON.
//!
//! What reads as text is text, so that a plan can be read: `"/opt/spack"`. All other bytes are
//! in hexadecimal: `{"hex": "7f454c46"}`. Both are read back for any bytes, so names that are
//! not UTF-8 round-trip.

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes in either form.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum TextForm {
    Text(String),
    Hex(Hex),
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Hex {
    hex: String,
}

impl TextForm {
    fn bytes(self) -> Option<Vec<u8>> {
        match self {
            TextForm::Text(text) => Some(text.into_bytes()),
            TextForm::Hex(Hex { hex }) => from_hex(&hex),
        }
    }
}

/// Bytes as text, if a person can read it.
fn readable(bytes: &[u8]) -> Option<&str> {
    // Nearly all is of these alone, which takes no look at characters.
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~' | b'\0');
    let text = std::str::from_utf8(bytes).ok()?;
    (bytes.iter().all(is_plain) || text.chars().all(is_readable)).then_some(text)
}

/// Whether a character may stand in text that a person reads. NUL ends the strings of an ELF
/// file.
fn is_readable(char: char) -> bool {
    !char.is_control() || matches!(char, '\n' | '\t' | '\0')
}

/// Bytes in hexadecimal.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    let digit = |half: u8| b"0123456789abcdef"[usize::from(half & 15)];
    let mut hex = vec![0; 2 * bytes.len()];
    for (pair, byte) in hex.chunks_exact_mut(2).zip(bytes) {
        pair.copy_from_slice(&[digit(byte >> 4), digit(*byte)]);
    }
    // All of it are digits.
    String::from_utf8(hex).unwrap_or_default()
}

/// Bytes from hexadecimal; none, if it is not that.
pub(crate) fn from_hex(hex: &str) -> Option<Vec<u8>> {
    let half =
        |digit: &u8| char::from(*digit).to_digit(16).and_then(|half| u8::try_from(half).ok());
    let pairs = hex.as_bytes().chunks(2);
    pairs
        .map(|pair| match pair {
            [high, low] => Some(half(high)? << 4 | half(low)?),
            _ => None,
        })
        .collect()
}

/// Bytes.
pub(crate) mod bytes {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        match readable(bytes) {
            Some(text) => serializer.serialize_str(text),
            None => TextForm::Hex(Hex { hex: to_hex(bytes) }).serialize(serializer),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<u8>, D::Error> {
        let form = TextForm::deserialize(deserializer)?;
        form.bytes().ok_or_else(|| D::Error::custom("not hexadecimal"))
    }
}

/// A path.
pub(crate) mod path {
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    use std::path::{Path, PathBuf};

    use super::*;

    pub(crate) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        bytes::serialize(path.as_os_str().as_bytes(), serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<PathBuf, D::Error> {
        bytes::deserialize(deserializer).map(|bytes| OsString::from_vec(bytes).into())
    }
}

/// Paths.
pub(crate) mod paths {
    use std::path::PathBuf;

    use super::*;

    #[derive(Serialize, Deserialize)]
    #[serde(transparent)]
    struct Path(#[serde(with = "path")] PathBuf);

    pub(crate) fn serialize<S: Serializer>(
        paths: &[PathBuf],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(paths.iter().cloned().map(Path))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<PathBuf>, D::Error> {
        let paths = Vec::<Path>::deserialize(deserializer)?;
        Ok(paths.into_iter().map(|path| path.0).collect())
    }
}

/// Permissions, in octal: `"755"`.
pub(crate) mod mode {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(mode: &u32, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{mode:o}"))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
        let text = String::deserialize(deserializer)?;
        u32::from_str_radix(&text, 8)
            .map_err(|_| D::Error::custom("a mode is in octal, as \"755\""))
    }
}

/// What several share.
pub(crate) mod shared {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<T: Serialize, S: Serializer>(
        shared: &Arc<[T]>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        shared[..].serialize(serializer)
    }

    pub(crate) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Arc<[T]>, D::Error> {
        Vec::deserialize(deserializer).map(Arc::from)
    }
}
