//! One part of a plan.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;

/// What a part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CalmPartKind {
    /// rc files merged and strays moved: `becalm modules tidy`.
    Tidy,
    /// A `.modulecache` that is checked: `becalm modules cache build`.
    Cache,
    /// The index that `avail` is answered from: `becalm modules index`.
    Index,
    /// A file that shells evaluate: `becalm modules hook`.
    Hook,
    /// A timer that keeps indexes and caches true.
    Upkeep,
}

/// What is decided about it, or was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CalmState {
    /// There is nothing to do: it is as it should be.
    There,
    /// It helps, and would be done.
    Planned,
    /// It was done.
    Applied,
    /// It is not done, for a reason.
    LeftOut,
}

/// A part of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CalmPart {
    /// What it is.
    pub part: CalmPartKind,
    /// The modulepath, or the file that is made.
    #[serde(serialize_with = "recording::serialize_shown")]
    #[schemars(with = "recording::Name")]
    pub path: PathBuf,
    /// What is decided, or was done.
    pub state: CalmState,
    /// What is done, or why not.
    pub text: String,
}

impl CalmPart {
    pub(super) fn new(part: CalmPartKind, path: &Path, state: CalmState, text: &str) -> CalmPart {
        CalmPart { part, path: path.to_owned(), state, text: text.to_owned() }
    }

    /// The same, left out.
    pub fn left_out(&mut self, why: String) {
        (self.state, self.text) = (CalmState::LeftOut, why);
    }
}
