//! Paths in JSON: as text, where they are text, otherwise as a list of bytes.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A path as it is written.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum PathText {
    /// What is UTF-8.
    Utf8(String),
    /// Any other.
    Bytes(Vec<u8>),
}

impl From<&Path> for PathText {
    fn from(path: &Path) -> PathText {
        match path.to_str() {
            Some(text) => PathText::Utf8(text.to_owned()),
            None => PathText::Bytes(path.as_os_str().as_bytes().to_vec()),
        }
    }
}

impl From<PathText> for PathBuf {
    fn from(text: PathText) -> PathBuf {
        match text {
            PathText::Utf8(text) => PathBuf::from(text),
            PathText::Bytes(bytes) => PathBuf::from(OsString::from_vec(bytes)),
        }
    }
}

/// Writes a path: for serde's `with`.
///
/// # Errors
/// The serializer's.
pub fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    PathText::from(path).serialize(serializer)
}

/// Reads one.
///
/// # Errors
/// Where it is neither a text nor a list of bytes.
pub fn deserialize<'de, D: Deserializer<'de>>(source: D) -> Result<PathBuf, D::Error> {
    Ok(PathText::deserialize(source)?.into())
}

/// The same for a list of them.
pub mod list {
    use super::*;

    /// Writes paths.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(paths.iter().map(|path| PathText::from(path.as_path())))
    }

    /// Reads them.
    ///
    /// # Errors
    /// As for one.
    pub fn deserialize<'de, D: Deserializer<'de>>(source: D) -> Result<Vec<PathBuf>, D::Error> {
        Ok(Vec::<PathText>::deserialize(source)?.into_iter().map(PathBuf::from).collect())
    }
}
