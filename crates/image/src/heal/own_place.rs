//! What leads above an entry of PYTHONPATH as text: a source that makes a place there from its own
//! `__file__`, and a distribution that lists a file there, such as a command in `bin`. From below a
//! directory of links they would come out somewhere else.
//!
//! What a source computes cannot be known, so each step up that it could take is counted, all together,
//! and one with more steps than it is deep counts as such. Where `..` goes through the filesystem it
//! would have been right; its entry then only stays for itself.

use std::collections::HashMap;

use image_format::tree::{FileNodeId, FileNodeKind, FileTree};

use super::bytecode::{BytecodeKeeper, in_threads, read};
use super::file_of;

/// Of directories that sources are imported from, those with such a file, and its path there.
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
        let leads_up = match source.lists {
            true => lists_above(&text, source.depth),
            false => steps_up(&text) > source.depth,
        };
        if leads_up {
            let (place, entry) = (tree.place(source.id), tree.place(source.entry));
            let shown = place.strip_prefix(entry).unwrap_or(&place).display().to_string();
            found.entry(source.entry).or_insert(shown);
        }
        if !source.lists {
            keeper.keep(tree, id, text);
        }
    }
    found
}

/// Where a distribution lists its files: a wheel's, and an egg's.
const LISTS: [&[u8]; 2] = [b"RECORD", b"installed-files.txt"];

struct ImportedSource {
    entry: FileNodeId,
    id: FileNodeId,
    /// How many steps up the entry is: 1 for a module in it.
    depth: usize,
    /// Whether it is no source, but lists the files of a distribution.
    lists: bool,
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
            _ if node.name.ends_with(b".py") => {
                sources.push(ImportedSource { entry, id, depth, lists: false });
            }
            _ if depth == 2 && LISTS.contains(&&node.name[..]) => {
                sources.push(ImportedSource { entry, id, depth, lists: true });
            }
            _ => {}
        }
    }
}

/// Whether a list of files, which lies below the entry itself, names one above it: RECORD by paths
/// from the entry (PEP 376), installed-files.txt from its own directory.
fn lists_above(list: &[u8], depth: usize) -> bool {
    let steps = |line: &[u8]| line.chunks(3).take_while(|part| *part == b"../").count();
    let is_record = list.contains(&b',');
    let within = if is_record { 0 } else { depth - 1 };
    list.split(|byte| *byte == b'\n')
        .any(|line| steps(line.strip_prefix(b"\"").unwrap_or(line)) > within)
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
    fn a_distribution_lists_what_lies_above_its_entry() {
        for (list, above) in [
            ("a/__init__.py,sha256=x,1\n../../../bin/a,sha256=y,2\n", true),
            ("a/__init__.py,sha256=x,1\na-1.dist-info/RECORD,,\n", false),
            ("\"../../bin/a,b\",,\n", true),
            ("../a/__init__.py\n../a/b.py\nPKG-INFO\n", false),
            ("../a/__init__.py\n../../../../bin/a\n", true),
        ] {
            assert_eq!(lists_above(list.as_bytes(), 2), above, "{list}");
        }
    }

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
