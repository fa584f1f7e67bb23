//! Sources that make a place above their entry of PYTHONPATH from their own `__file__`, as text: from
//! below a directory of links they would come out somewhere else.
//!
//! What a source computes cannot be known, so each step up that it could take is counted, all together,
//! and one with more steps than it is deep counts as such. Where `..` goes through the filesystem it
//! would have been right; its entry then only stays for itself.

use std::collections::HashMap;

use image_format::tree::{FileNodeId, FileNodeKind, FileTree};

use super::bytecode::{BytecodeKeeper, in_threads, read};
use super::file_of;

/// Of directories that sources are imported from, those with such a source, and its path there.
pub(super) fn left_upwards(
    tree: &mut FileTree,
    entries: &[FileNodeId],
    readers: usize,
    keeper: &mut BytecodeKeeper,
) -> HashMap<FileNodeId, String> {
    let mut sources = Vec::new();
    for entry in entries {
        below(tree, *entry, *entry, 1, &mut sources);
    }
    let texts = in_threads(sources.len(), readers, &|index| {
        let id = file_of(tree, sources[index].id)?;
        Some((id, read(tree, id)?))
    });
    let mut found = HashMap::new();
    for (source, text) in sources.iter().zip(texts) {
        let Some((id, text)) = text else { continue };
        if steps_up(&text) > source.depth {
            let (place, entry) = (tree.place(source.id), tree.place(source.entry));
            let shown = place.strip_prefix(entry).unwrap_or(&place).display().to_string();
            found.entry(source.entry).or_insert(shown);
        }
        keeper.keep(tree, id, text);
    }
    found
}

struct ImportedSource {
    entry: FileNodeId,
    id: FileNodeId,
    /// How many steps up the entry is: 1 for a module in it.
    depth: usize,
}

fn below(
    tree: &FileTree,
    entry: FileNodeId,
    directory: FileNodeId,
    depth: usize,
    sources: &mut Vec<ImportedSource>,
) {
    let FileNodeKind::Directory(children) = &tree.nodes[directory as usize].kind else { return };
    for id in children.iter().copied() {
        let node = &tree.nodes[id as usize];
        match node.kind {
            FileNodeKind::Directory(_) => below(tree, entry, id, depth + 1, sources),
            _ if node.name.ends_with(b".py") => sources.push(ImportedSource { entry, id, depth }),
            _ => {}
        }
    }
}

/// How many steps up a source that knows its place could take.
fn steps_up(source: &[u8]) -> usize {
    let times = |what: &[u8]| places(source, what).count();
    if times(b"__file__") == 0 && times(b"__path__") == 0 && times(b"__spec__") == 0 {
        return 0;
    }
    let parents = places(source, b".parents[").map(|at| {
        let digits = source[at + b".parents[".len()..].iter().take_while(|it| it.is_ascii_digit());
        let number = digits.fold(0_usize, |number, digit| {
            number.saturating_mul(10).saturating_add(usize::from(digit - b'0'))
        });
        number.saturating_add(1)
    });
    let parent = places(source, b".parent").filter(|at| {
        let next = source.get(at + b".parent".len()).copied().unwrap_or_default();
        !next.is_ascii_alphanumeric() && next != b'_'
    });
    // A component of a path, in a text.
    let dots = places(source, b"..").filter(|at| {
        let before = at.checked_sub(1).map_or(b' ', |at| source[at]);
        let after = source.get(at + 2).copied().unwrap_or_default();
        b"\"'/".contains(&before) && b"\"'/".contains(&after)
    });
    let calls = times(b"dirname(") + times(b"pardir") + times(b"dirname,");
    calls + parents.fold(0, usize::saturating_add) + parent.count() + dots.count()
}

/// Where a text is in another.
fn places<'a>(text: &'a [u8], what: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    memchr::memmem::find_iter(text, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_up_counts_and_only_of_a_source_that_knows_its_place() {
        for (source, steps) in [
            ("from os.path import dirname\nx = dirname(dirname(dirname(__file__)))", 3),
            ("x = Path(__file__).parent.parent / 'share'", 2),
            ("x = Path(__file__).resolve().parents[3]", 4),
            ("x = os.path.join(os.path.dirname(__file__), '..', \"..\", '../../x')", 5),
            ("x = os.path.join(__path__[0], os.pardir)", 1),
            ("x = self.parent.parent.parent", 0),
            ("__file__; x = self.parents; y = a.parent_of; z = '...'; from .. import x", 0),
        ] {
            assert_eq!(steps_up(source.as_bytes()), steps, "{source}");
        }
    }
}
