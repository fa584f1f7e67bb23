//! Paths as they are saved: text, or bytes where they are no text.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Saved {
    Text(String),
    Bytes(Vec<u8>),
}

pub(super) fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    let bytes = path.as_os_str().as_bytes();
    let saved = match std::str::from_utf8(bytes) {
        Ok(text) => Saved::Text(text.to_owned()),
        Err(_) => Saved::Bytes(bytes.to_vec()),
    };
    saved.serialize(to)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
    Ok(match Saved::deserialize(from)? {
        Saved::Text(text) => PathBuf::from(text),
        Saved::Bytes(bytes) => PathBuf::from(OsString::from_vec(bytes)),
    })
}
