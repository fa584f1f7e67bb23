//! A modulepath as `modulecmd.tcl` walks it (`findModules`, `getFilesInDirectory`), without its
//! traps: no FIFO is waited for, no loop of links is followed, and what cannot be read is a fact
//! of the tree instead of an error.
//!
//! | file | what it holds |
//! |---|---|
//! | `entry` | what there is in a tree: directories, modulefiles, rc files, strays |
//! | `cookie` | `#%Module` and the version that a file asks for |
//! | `walk` | the walk |
//! | `read` | content of files that others wrote |
//! | `acl` | access control lists of files: whether one is there, whether one denies |
//! | `rights` | whether everyone may read a file, and pass through the directories on the way to it |
//! | `path` | paths of any bytes, as they are saved |

pub mod acl;
mod cookie;
mod entry;
mod path;
mod read;
pub(crate) mod rights;
mod walk;

pub use cookie::Cookie;
pub use entry::{ChangeStamp, Rc, SystemErrno, TreeEntry, TreeEntryKind};
pub use read::content;
pub use walk::{IGNORED_DIRECTORIES, ModulepathTree, WalkLimits, walk};
