//! The calls that an `avail` makes on a modulepath, before and after.

use std::path::Path;

use crate::audit::{ModuleCommand, predict};
use crate::site::ModulesSite;
use crate::tidy::Tidying;
use crate::tree::{ModulepathTree, TreeEntryKind};

/// Of Modules, by the model of `audit`.
pub(super) fn walked(tree: &ModulepathTree, site: &ModulesSite) -> u64 {
    predict(&ModuleCommand::Avail, &[tree], site).calls.all()
}

/// Of becalm, which looks once at each directory, rc file and modulefile.
pub(super) fn indexed(tree: &ModulepathTree) -> u64 {
    let is_looked_at = |kind: &TreeEntryKind| {
        !matches!(kind, TreeEntryKind::IgnoredFile | TreeEntryKind::IgnoredDirectory)
    };
    1 + tree.entries.iter().filter(|entry| is_looked_at(&entry.kind)).count() as u64
}

/// Of becalm, once the tree is tidied.
pub(super) fn indexed_and_tidied(tree: &ModulepathTree, tidying: &Tidying) -> u64 {
    let here = |path: &Path| path.starts_with(&tree.root);
    let merged = tidying.merged.iter().filter(|merged| here(&merged.path)).count();
    let moved = tidying.moved.iter().filter(|moved| here(&moved.from)).count();
    let new = tidying.roots.iter().filter(|root| root.there.is_none() && here(&root.path)).count();
    (indexed(tree) + new as u64).saturating_sub((merged + moved) as u64)
}

/// Of Modules, once the tree is tidied.
pub(super) fn walked_and_tidied(
    tree: &ModulepathTree,
    site: &ModulesSite,
    tidying: &Tidying,
) -> u64 {
    let saved = tidying.saved_in.iter().find(|(root, _)| *root == tree.root);
    walked(tree, site).saturating_sub(saved.map_or(0, |(_, saved)| *saved))
}
