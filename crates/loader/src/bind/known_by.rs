//! Whether a library that a path names is still found by its name.
//!
//! What else needs it, or opens it by name, later in the same process, gets what is loaded already.
//! glibc compares the name with those that the library was asked for by, and with its DT_SONAME
//! (`_dl_map_object` in elf/dl-load.c). musl knows no DT_SONAME, and a library that a path named by no
//! name at all, until a search comes to the same file (`load_library` in ldso/dynlink.c).

use std::collections::HashSet;
use std::ffi::OsStr;

use super::collect::ElfFileNames;
use super::resolve::LoaderRun;
use super::wanted::dlopens;
use super::{BindMode, BindOptions};
use crate::{ElfObject, FileId};

/// Which libraries lose their name once they are named by a path.
pub(super) struct NameLoss {
    glibc_names_paths: bool,
    /// Files in starts of musl's loader in which something may open a library by name.
    opening: HashSet<FileId>,
}

impl NameLoss {
    pub fn of(
        options: &BindOptions,
        files: &[ElfFileNames],
        programs: &[LoaderRun],
        alone: &[LoaderRun],
    ) -> NameLoss {
        let is_image = !options.packed.is_empty();
        let glibc_names_paths = options.mode != Some(BindMode::Farm);
        let musl_names_paths = options.mode == Some(BindMode::Needed) || is_image;
        if !musl_names_paths {
            return NameLoss { glibc_names_paths, opening: HashSet::new() };
        }
        let musl = || programs.iter().chain(alone).filter(|run| run.is_musl);
        let calling = dlopens(files, musl());
        let opens = |run: &&LoaderRun| run.members.iter().any(|it| calling.contains(&it.id));
        let opening = musl().filter(opens).flat_map(|run| &run.members).map(|it| it.id).collect();
        NameLoss { glibc_names_paths, opening }
    }

    /// Whether a need of a file by this name, once it is a path, keeps others from finding the library
    /// by the name.
    pub fn concerns(&self, file: FileId, name: &OsStr, library: &ElfObject, is_musl: bool) -> bool {
        match is_musl {
            true => self.opening.contains(&file),
            false => self.glibc_names_paths && library.soname.as_deref() != Some(name),
        }
    }
}
