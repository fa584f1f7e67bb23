//! A path that a source names.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use recording::{Name, PathId, Recording};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A path of the recording, or a directory above one: its bytes, never a text made for people.
///
/// JSON has the bytes, as every name is written (docs/schema/names.md). Two are the same if their
/// bytes are.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(transparent)]
pub struct SourcePath {
    /// Its number in the recording; none of a directory that only stands in other paths, and in
    /// findings that were read back.
    #[schemars(skip)]
    pub id: Option<PathId>,
    /// Its bytes.
    pub name: Name,
}

impl SourcePath {
    /// A path of a recording, as it was recorded.
    pub fn of(recording: &Recording, id: PathId) -> SourcePath {
        SourcePath { id: Some(id), name: Name::of(OsStr::from_bytes(recording.path(id))) }
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        self.name.bytes()
    }

    /// The same for the system.
    pub fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(self.bytes()))
    }
}

impl PartialEq for SourcePath {
    fn eq(&self, other: &SourcePath) -> bool {
        self.name == other.name
    }
}

impl Eq for SourcePath {}

impl fmt::Display for SourcePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name.fmt(f)
    }
}

impl Serialize for SourcePath {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.name.serialize(to)
    }
}

impl<'de> Deserialize<'de> for SourcePath {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<SourcePath, D::Error> {
        Ok(SourcePath { id: None, name: Name::deserialize(from)? })
    }
}
