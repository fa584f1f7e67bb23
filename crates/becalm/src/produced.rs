//! An image gets its name through the journal, so that undo takes it back.

use std::io;
use std::path::{Path, PathBuf};

use image::squash::UnnamedImage;
use remedy::{Error, Plan, Step};

use crate::asked_to_end::journal_options;

/// Gives an image its name: in place of what has it, or, if it is to be new, only where nothing has.
/// Where no journal can be kept, it is named without, and that is said.
///
/// # Errors
/// What has its name cannot be replaced; what cannot be written.
pub fn keep(image: UnnamedImage, title: String, is_new: bool) -> anyhow::Result<()> {
    take_access(&image)?;
    let (path, source) = (whole(image.target())?, whole(image.path())?);
    let step = Step::Take { path, source, is_new };
    let plan = Plan { title, steps: vec![step], ..Plan::default() };
    let (state, named) = match remedy::state_directory() {
        Ok(state) => {
            let options = journal_options(state.clone());
            (Some(state), image.named_by(|| remedy::apply(&plan, &options).map(drop)))
        }
        Err(error) => (None, Err(error)),
    };
    match named {
        Err(error) if is_of_the_journal(&error, state.as_deref()) && image.path().exists() => {
            term::warn(&format!("{error}: becalm undo will not know of the image"));
            Ok(image.keep()?)
        }
        named => Ok(named?),
    }
}

/// A file's path, without `..` and symbolic links in that of its directory.
fn whole(file: &Path) -> io::Result<PathBuf> {
    let file = std::path::absolute(file)?;
    match (file.parent(), file.file_name()) {
        (Some(directory), Some(name)) => Ok(directory.canonicalize()?.join(name)),
        _ => Ok(file),
    }
}

/// Opens an image to whom the one was open whose place it takes; says so where it holds what not
/// everybody can read, and is therefore its owner's alone.
///
/// # Errors
/// Those of changing its permissions.
pub fn take_access(image: &UnnamedImage) -> anyhow::Result<()> {
    if let Some(private) = image.take_access()? {
        let (image, private) = (image.target().display(), private.display());
        term::warn(&format!(
            "{image}: only its owner can read it, as {private} is not for everybody to read; chmod or \
             chgrp shares it"
        ));
    }
    Ok(())
}

/// Whether it is the state directory that cannot be written, or is not this user's.
fn is_of_the_journal(error: &Error, state: Option<&Path>) -> bool {
    let Some(state) = state else { return true };
    match error {
        Error::NoLock { .. } | Error::NoState | Error::Foreign { .. } => true,
        Error::Call { path, .. } => path.starts_with(state) || state.starts_with(path),
        Error::NoRoom { directory, .. } => state.starts_with(directory),
        _ => false,
    }
}
