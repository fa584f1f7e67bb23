//! What a file's content was, in 32 bytes: SHA-256, so that `sha256sum` can check it.

use std::fmt;

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use crate::text;

/// A SHA-256 digest.
#[derive(Clone, Copy, PartialEq, Eq, Hash, JsonSchema)]
#[schemars(transparent)]
pub struct Digest(#[schemars(with = "String")] [u8; 32]);

impl Digest {
    /// The digest of bytes.
    pub fn of(bytes: &[u8]) -> Digest {
        Digest(Sha256::digest(bytes).into())
    }
}

/// A digest in the making.
#[derive(Default)]
pub(crate) struct Hasher(Sha256);

impl Hasher {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str(&text::to_hex(&self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Digest, D::Error> {
        let hex = String::deserialize(deserializer)?;
        let bytes = text::from_hex(&hex).and_then(|bytes| bytes.try_into().ok());
        bytes.map(Digest).ok_or_else(|| D::Error::custom("a digest has 64 hexadecimal digits"))
    }
}
