//! What the tests of images share.

#![allow(dead_code, unused_imports, clippy::unwrap_used)] // Each test program uses a part of it.

#[path = "../../../image-format/tests/support/mod.rs"]
mod tree;

use std::path::{Path, PathBuf};

use image::ImageError;
use image::squash::{self, ImageOptions};

pub use tree::*;

/// Packs a directory.
pub fn pack(directory: &Path, image: &Path, options: &ImageOptions<'_>) -> squash::PathsImage {
    build(&[directory.to_owned()], image, options).unwrap()
}

/// Packs paths, and gives the image its name.
pub fn build(
    paths: &[PathBuf],
    target: &Path,
    options: &ImageOptions<'_>,
) -> Result<squash::PathsImage, ImageError> {
    let (image, built) = squash::build(paths, target, options)?;
    image.keep()?;
    Ok(built)
}
