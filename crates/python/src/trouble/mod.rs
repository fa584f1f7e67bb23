//! What is out of the ordinary in how Python imports, by name.
//!
//! | file | what it holds |
//! |---|---|
//! | `bytecode` | missing, stale and unwritable `.pyc`; processes that write the same one |
//! | `link` | `realpath` storms, which grow with the depth of the path |
//! | `installed` | metadata of distributions, zipped and namespace packages, editable installs |

mod bytecode;
mod installed;
mod link;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use recording::query::python::ModuleDirectories;
use recording::shown;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::attribute::PlacedOperation;
use crate::tree::ImportTree;
use recording::module_search::ModuleSearch;

/// Paths that are shown of each.
const EXAMPLES: usize = 3;

/// One thing that is out of the ordinary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PythonTrouble {
    /// What it is.
    pub kind: PythonTroubleKind,
    /// The same in a sentence.
    pub text: String,
    /// How many metadata operations it takes.
    pub metadata_ops: u64,
    /// What it counts beside them, by name.
    pub numbers: BTreeMap<String, u64>,
    /// Some of the files or directories that it is about.
    pub examples: Vec<String>,
}

/// What may be out of the ordinary.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum PythonTroubleKind {
    /// Bytecode that does not fit its source.
    StaleBytecode,
    /// Modules without bytecode.
    MissingBytecode,
    /// Bytecode that was compiled and could not be written.
    UnwritableBytecode,
    /// Several processes that wrote the same bytecode.
    BytecodeRace,
    /// One caller's `realpath` of many paths.
    Realpath,
    /// What distributions say of themselves was searched.
    Metadata,
    /// A zipped package.
    Zip,
    /// An editable install.
    Editable,
    /// A package without `__init__`.
    Namespace,
}

pub(crate) fn troubles(
    placed: &[PlacedOperation],
    tree: &ImportTree,
    known: &ModuleSearch,
    places: &ModuleDirectories,
) -> Vec<PythonTrouble> {
    let mut troubles = bytecode::troubles(placed);
    troubles.extend(link::troubles(placed, tree));
    troubles.extend(installed::metadata(placed, tree));
    troubles.extend(installed::zips(placed, known));
    troubles.extend(installed::editable(placed));
    troubles.extend(installed::namespaces(placed, places));
    troubles.sort_by_key(|trouble| (Reverse(trouble.metadata_ops), trouble.kind));
    troubles
}

/// A trouble, with some of the paths that it is about.
fn trouble<'p>(
    kind: PythonTroubleKind,
    text: String,
    metadata_ops: u64,
    numbers: &[(&str, u64)],
    paths: impl IntoIterator<Item = &'p [u8]>,
) -> PythonTrouble {
    PythonTrouble {
        kind,
        text,
        metadata_ops,
        numbers: numbers.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect(),
        examples: paths.into_iter().take(EXAMPLES).map(shown).collect(),
    }
}
