//! What is looked for in an image that was just written, so that it can be said, and kept in the image.

use std::io;
use std::path::PathBuf;

use image_format::squash::{SquashImage, SquashReadError, SquashSummary};
use image_format::tree::{FileNodeId, FileTree};

use crate::out::Out;
use crate::{ImageError, OutsideReference};

/// What is found.
pub(crate) struct WrittenFacts {
    /// What lies outside, and is used.
    pub outside: Vec<OutsideReference>,
    /// The inodes of bytecode that Python takes without a look at its source, sorted. To find it later, a
    /// block would have to be read for nearly each file of bytecode.
    pub unchecked: Vec<u32>,
    /// The inodes of files of the trace, sorted. Their place would not tell: what is empty has none, and
    /// others have the same content or a part of the same block.
    pub opened: Vec<u32>,
}

impl WrittenFacts {
    /// Of the image from a byte of `out` on, in which these paths come first.
    pub fn of(
        tree: &FileTree,
        first: &[PathBuf],
        out: &Out,
        start: u64,
        summary: &SquashSummary,
    ) -> Result<WrittenFacts, ImageError> {
        let file = out.file().try_clone().map_err(ImageError::at("read", out.target()))?;
        let image = SquashImage::open_part(file, start, summary.image_bytes);
        let facts = image.and_then(|image| {
            let outside = crate::outside::survey(tree, &image, &summary.elf)?;
            let unchecked = inodes(tree, &image, &summary.unchecked)?;
            let order = tree.order(first);
            let opened = inodes(tree, &image, &order.files[..order.traced])?;
            Ok(WrittenFacts { outside, unchecked, opened })
        });
        facts.map_err(io::Error::other).map_err(ImageError::at("read back", out.target()))
    }
}

/// The numbers of the inodes of these files, sorted.
fn inodes(
    tree: &FileTree,
    image: &SquashImage,
    files: &[FileNodeId],
) -> Result<Vec<u32>, SquashReadError> {
    let mut inodes = Vec::new();
    for id in files {
        if let Some(node) = image.find(&tree.below(*id))? {
            inodes.push(image.attributes(node)?.inode);
        }
    }
    inodes.sort_unstable();
    Ok(inodes)
}
