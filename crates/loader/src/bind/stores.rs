//! Stores of package managers, told by what lies in them.
//!
//! | store | mark | source |
//! |---|---|---|
//! | Spack | `.spack-db` in the root; `.spack` in each prefix | Spack, `lib/spack/spack/database.py`, `store.py` |
//! | EasyBuild | `easybuild` in each prefix, with the build's log | EasyBuild, `easybuild/tools/filetools.py` |
//! | Nix | the path `/nix/store`, or `nix/store` below another root | Nix manual, "Store path" |
//! | Guix | the path `/gnu/store` | Guix manual, "The Store" |

use std::path::{Path, PathBuf};

/// A package manager whose store was recognised.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Manager {
    /// A Spack store: changed files differ from Spack's manifests (`spack verify`).
    Spack,
    /// A prefix that EasyBuild installed.
    EasyBuild,
    /// A Nix store: its paths are promises about contents, checked by hash.
    Nix,
    /// A Guix store, of the same kind.
    Guix,
}

/// Where a store begins, and whose it is.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, schemars::JsonSchema,
)]
pub struct PackageStore {
    /// Whose store it is.
    pub manager: Manager,
    /// The store's root; of EasyBuild, the prefix.
    #[serde(serialize_with = "recording::serialize_shown")]
    #[schemars(with = "recording::Name")]
    pub root: PathBuf,
}

impl Manager {
    /// Whether the manager takes every file of its store to be unchanged for ever.
    pub fn is_immutable(self) -> bool {
        matches!(self, Manager::Nix | Manager::Guix)
    }

    /// The manager's name, as its users write it.
    pub fn name(self) -> &'static str {
        match self {
            Manager::Spack => "Spack",
            Manager::EasyBuild => "EasyBuild",
            Manager::Nix => "Nix",
            Manager::Guix => "Guix",
        }
    }
}

/// The store that an absolute path lies in, if there is one: the path itself or a directory above
/// it.
pub fn store_of(path: &Path) -> Option<PackageStore> {
    path.ancestors().find_map(|directory| {
        let of = |manager| Some(PackageStore { manager, root: directory.to_owned() });
        if directory.ends_with("nix/store") {
            of(Manager::Nix)
        } else if directory.ends_with("gnu/store") {
            of(Manager::Guix)
        } else if directory.join(".spack-db").is_dir() {
            of(Manager::Spack)
        } else if has_easybuild_log(&directory.join("easybuild")) {
            of(Manager::EasyBuild)
        } else {
            None
        }
    })
}

/// The store that a directory says there is: it begins there, or one directory above.
pub(super) fn store_marked_by(directory: &Path) -> Option<PackageStore> {
    let of = |manager, root: &Path| Some(PackageStore { manager, root: root.to_owned() });
    let above = directory.parent()?;
    if directory.ends_with("nix/store") {
        of(Manager::Nix, directory)
    } else if directory.ends_with("gnu/store") {
        of(Manager::Guix, directory)
    } else if directory.ends_with(".spack-db") {
        of(Manager::Spack, above)
    } else if directory.ends_with("easybuild") && has_easybuild_log(directory) {
        of(Manager::EasyBuild, above)
    } else {
        None
    }
}

/// A directory of that name alone may be anybody's.
fn has_easybuild_log(directory: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(directory) else { return false };
    entries.flatten().any(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        name.starts_with("easybuild-") && name.contains(".log")
    })
}
