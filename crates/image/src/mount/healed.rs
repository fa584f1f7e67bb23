//! Bytecode that was compiled while the image was made: it has no file among the sources that it
//! could be compared with.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use image_format::squash::{ListingPosition, NodeKind, SquashEntry, SquashNode};

use super::bytecode_dirs::is_packed_unchecked;
use super::layer::ImageLayer;

/// Of a directory's `__pycache__`, the names of what was compiled into it; none where the entry
/// is another, or nothing was.
pub(super) fn bytecode(
    layer: &ImageLayer,
    directory: SquashNode,
    entry: &SquashEntry,
) -> Option<BTreeSet<Vec<u8>>> {
    let healed = layer.manifest().is_some_and(|manifest| manifest.healed > 0);
    if !healed || entry.name != b"__pycache__" || entry.kind != NodeKind::Directory {
        return None;
    }
    let mut names = BTreeSet::new();
    // A damaged image is said to be so by whatever reads it.
    let _ = layer.image.list(entry.node, ListingPosition::default(), &mut |file| {
        if file.kind == NodeKind::File && was_compiled(layer, directory, &file) {
            names.insert(file.name);
        }
        ControlFlow::Continue(())
    });
    (!names.is_empty()).then_some(names)
}

/// Whether a directory's `__pycache__` is of the image alone: the sources had none.
pub(super) fn is_made(layer: &ImageLayer, directory: SquashNode, entry: &SquashEntry) -> bool {
    bytecode(layer, directory, entry)
        .is_some_and(|made| layer.entries(entry.node).iter().all(|one| made.contains(&one.name)))
}

/// It has the time of its source, which no bytecode has that was written after that; and it names
/// its source, which such as Python takes unasked does not.
fn was_compiled(layer: &ImageLayer, directory: SquashNode, file: &SquashEntry) -> bool {
    let image = &layer.image;
    let Some(end) = file.name.iter().position(|byte| *byte == b'.') else { return false };
    let source = [&file.name[..end], b".py"].concat();
    let Ok(Some(source)) = image.lookup(directory, &source) else { return false };
    let times = image.attributes(source).and_then(|it| Ok((it, image.attributes(file.node)?)));
    times.is_ok_and(|(source, bytecode)| source.mtime == bytecode.mtime)
        && !is_packed_unchecked(layer, file.node)
}
