//! What the dynamic loader does, told from the files it reads.
//!
//! | file | what it holds |
//! |---|---|
//! | `facts` | what an ELF file says of its own search: SONAME, NEEDED, RPATH, RUNPATH, PT_INTERP |
//! | `source` | bytes at an offset, of a file that may be cut or hostile |

mod facts;
mod source;

pub use facts::{ElfError, facts};
