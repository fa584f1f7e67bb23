//! What differs between builds of musl's loader.

use std::ffi::OsString;

use super::loader_file;

/// One build of musl's loader (ldso/dynlink.c).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Musl {
    /// The architecture in its names, e.g. `x86_64` in `/etc/ld-musl-x86_64.path`.
    pub arch: OsString,
    /// The directories it searches where there is no path file, separated by colons.
    pub default_path: OsString,
}

impl Musl {
    /// The loader for this architecture.
    pub fn new(arch: impl Into<OsString>) -> Musl {
        Musl { arch: arch.into(), default_path: "/lib:/usr/local/lib:/usr/lib".into() }
    }

    /// What the loader's bytes tell.
    pub(super) fn of(bytes: &[u8]) -> Option<Musl> {
        Some(Musl::new(loader_file::musl_arch(bytes)?))
    }
}
