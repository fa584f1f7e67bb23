//! What there is in a tree, in numbers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::site::Release;
use crate::tree::{Cookie, ModulepathTree, TreeEntryKind};

/// What there is in a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Census {
    /// Directories that are walked, the modulepath itself left out.
    pub directories: u64,
    /// Files with a cookie that this Modules takes.
    pub modulefiles: u64,
    /// Files with a cookie that asks for a newer one.
    pub newer: u64,
    /// Files without a cookie.
    pub strays: u64,
    /// `.modulerc` and `.version`.
    pub rc_files: u64,
    /// Files and directories that may not be read.
    pub unreadable: u64,
    /// All other names.
    pub others: u64,
}

impl Census {
    /// Counts a tree for a release of Modules; without one, every cookie will do.
    pub fn of(tree: &ModulepathTree, release: Option<&Release>) -> Census {
        let mut census = Census::default();
        for entry in &tree.entries {
            *match &entry.kind {
                TreeEntryKind::Directory { .. } => &mut census.directories,
                TreeEntryKind::Rc(..) => &mut census.rc_files,
                TreeEntryKind::File(Cookie::Missing) => &mut census.strays,
                TreeEntryKind::File(cookie)
                    if release.is_none_or(|release| cookie.is_valid_for(release)) =>
                {
                    &mut census.modulefiles
                }
                TreeEntryKind::File(_) => &mut census.newer,
                TreeEntryKind::Unreadable { .. } => &mut census.unreadable,
                _ => &mut census.others,
            } += 1;
        }
        census
    }
}
