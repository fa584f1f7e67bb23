//! An index of names: all that `avail` needs to know of a modulepath, in one file that is read at
//! once instead of every directory, rc file and modulefile.
//!
//! | file | what it holds |
//! |---|---|
//! | `names` | what one modulepath holds |
//! | `build` | an index, made by walking the tree |
//! | `still` | when a look at a tree is one after which every change shows |
//! | `fresh` | whether the tree is still what the index says |
//! | `site` | what is to know of the site's Modules before `avail` can be answered |
//! | `journal` | how undo comes to know of them |
//! | `store` | where indexes are, who may have written them, and how they are replaced |
//!
//! An index says nothing of who may read what is not for everyone: such files and directories are
//! named in it and looked at by each user, and what is in such directories is not in the index.

mod build;
mod fresh;
mod journal;
mod names;
mod site;
mod still;
mod store;
mod virtual_target;

pub use build::{NotIndexable, build};
pub use journal::IndexJournal;
pub use names::{FileName, IndexDirectory, IndexNames, Limited, PathState, RcDefinition, RcFile};
pub use site::SiteNotes;
pub use store::{IndexStore, StoreError, TrustedIndex, parse};
