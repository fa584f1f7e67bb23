//! The Singularity Image Format: the container in one file that Apptainer and SingularityCE run.
//!
//! | file | what it holds |
//! |---|---|
//! | `format` | header and descriptors, field for field |
//! | `reader` | a file's objects; no number believed |
//! | `writer` | parts into a file, reproducible |
//! | `extend` | a SIF and more as a new one |
//! | `sparse` | a part's bytes without its zeros |
//! | `root` | what `run` and `shell` need in a container's root |
//! | `arch` | for which processors a root is |

mod arch;
mod extend;
mod format;
mod reader;
mod root;
mod sparse;
mod writer;

pub use extend::NotExtendable;
pub use format::{Arch, Filesystem, Partition, Role, SifObjectKind};
pub use reader::{Link, Sif, SifObject, SifReadError, uuid_text};
pub use root::{Container, INSPECT_METADATA};
pub(crate) use writer::uuid;
pub use writer::{SifPart, SifWriteError, WrittenSif, next_partition, write, write_telling};
