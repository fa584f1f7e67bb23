//! Any other processor: what a loader's state consists of is known for x86-64 only.

use std::path::Path;

use crate::{MadePack, PackError, PackOptions};

/// Refuses.
///
/// # Errors
/// [`PackError::Machine`], always.
pub fn make(_: &Path, _: &Path, _: &PackOptions) -> Result<MadePack, PackError> {
    Err(PackError::Machine)
}

/// Why a program is not packed.
pub fn why_not(_: &Path) -> Option<String> {
    Some(PackError::Machine.to_string())
}
