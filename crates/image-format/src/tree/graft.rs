//! Files that a tree has besides those that were found on disk.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use super::{FileNode, FileNodeId, FileNodeKind, FileTree, PathTarget, TreeAttributes};
use crate::SquashWriteError;

/// A file, directory or link to be added to a root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddedFile {
    /// Where, from the root, without a slash before it. Directories come before what is in them.
    pub path: &'static str,
    /// What.
    pub what: AddedContent,
    /// Whether what is there already stays. A directory always does.
    pub keeps_existing: bool,
}

/// What is added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddedContent {
    /// A directory of mode 0755.
    Directory,
    /// A file that can be executed, of mode 0755.
    Script(String),
    /// A file of mode 0644.
    Text(String),
    /// A symbolic link, and where it leads.
    Link(&'static str),
}

impl AddedContent {
    fn node(&self) -> (FileNodeKind, u16) {
        let file = |text: &String| FileNodeKind::File {
            size: text.len() as u64,
            has_holes: false,
            given: Some(text.as_bytes().into()),
        };
        match self {
            AddedContent::Directory => (FileNodeKind::Directory(Vec::new()), 0o755),
            AddedContent::Script(text) => (file(text), 0o755),
            AddedContent::Text(text) => (file(text), 0o644),
            AddedContent::Link(to) => (FileNodeKind::Symlink(to.as_bytes().to_vec()), 0o777),
        }
    }
}

impl FileTree {
    /// Adds files of the root directory's owner and this time, in seconds since 1970. Those that
    /// are to replace something that is there do; what they lie in may be a symbolic link.
    ///
    /// # Errors
    /// Where one is in the way of another, or what it lies in is no directory of the tree.
    pub fn add(&mut self, additions: &[AddedFile], time: u32) -> Result<(), SquashWriteError> {
        additions.iter().try_for_each(|addition| self.add_one(addition, time))
    }

    fn add_one(&mut self, addition: &AddedFile, time: u32) -> Result<(), SquashWriteError> {
        let path = self.stands_for.join(addition.path);
        let unfit = |why| {
            Err(SquashWriteError::Unfit { path: self.layout.base().join(addition.path), why })
        };
        let keeps = addition.keeps_existing || addition.what == AddedContent::Directory;
        let above = path.parent().unwrap_or(Path::new("/"));
        let name = path.file_name().unwrap_or_default().as_bytes();
        let directory = match self.find(above) {
            PathTarget::Inside(id) if self.is_directory(id) => id,
            _ if keeps => return Ok(()),
            _ => return unfit("the directory above it is none, or leads out of the root"),
        };
        match self.child(directory, name) {
            Some(_) if keeps => Ok(()),
            Some(there) if self.is_directory(there) => {
                unfit("it is a directory, and a container has a file there")
            }
            Some(there) => {
                self.forget(there);
                let node = self.new_node(addition, directory, name, time);
                self.nodes[there as usize] = node;
                Ok(())
            }
            None => {
                let node = self.new_node(addition, directory, name, time);
                self.insert(node);
                Ok(())
            }
        }
    }

    /// Adds a directory that is as the one above it, whose time stays.
    pub fn add_directory(&mut self, above: FileNodeId, name: &[u8]) -> FileNodeId {
        let attributes = self.nodes[above as usize].attributes;
        let kind = FileNodeKind::Directory(Vec::new());
        let id = self.nodes.len() as FileNodeId;
        self.insert(plain_node(name, above, attributes, kind));
        id
    }

    /// Gives a directory a symbolic link.
    pub fn add_link(&mut self, directory: FileNodeId, name: &[u8], target: &[u8]) {
        let attributes = self.nodes[directory as usize].attributes;
        let attributes = TreeAttributes { mode: 0o777, ..attributes };
        let kind = FileNodeKind::Symlink(target.to_vec());
        self.insert(plain_node(name, directory, attributes, kind));
    }

    /// Gives a directory a file of this content, in place of what it has under that name, with
    /// these attributes but the right to execute it.
    pub fn add_content(
        &mut self,
        directory: FileNodeId,
        name: &[u8],
        attributes: TreeAttributes,
        content: Arc<[u8]>,
    ) {
        let attributes = TreeAttributes { mode: attributes.mode & 0o666, ..attributes };
        let size = content.len() as u64;
        let kind = FileNodeKind::File { size, has_holes: false, given: Some(content) };
        let node = plain_node(name, directory, attributes, kind);
        match self.child(directory, name) {
            Some(there) => {
                self.forget(there);
                self.nodes[there as usize] = node;
            }
            None => self.insert(node),
        }
    }

    fn is_directory(&self, id: FileNodeId) -> bool {
        matches!(self.nodes[id as usize].kind, FileNodeKind::Directory(_))
    }

    fn new_node(
        &self,
        addition: &AddedFile,
        parent: FileNodeId,
        name: &[u8],
        time: u32,
    ) -> FileNode {
        let (kind, mode) = addition.what.node();
        let TreeAttributes { uid, gid, .. } = self.nodes[0].attributes;
        let mtime = (i64::from(time), 0);
        let attributes = TreeAttributes { mode, uid, gid, mtime, ctime: (0, 0), identity: (0, 0) };
        plain_node(name, parent, attributes, kind)
    }

    /// A name is to be another file's: further names of the file that it was lose their first.
    fn forget(&mut self, id: FileNodeId) {
        let mut first = None;
        for (other, node) in (0..).zip(&mut self.nodes) {
            if node.first_name == Some(id) {
                node.first_name = first;
                first = first.or(Some(other));
            }
        }
    }

    fn insert(&mut self, node: FileNode) {
        let id = self.nodes.len() as FileNodeId;
        let FileNodeKind::Directory(siblings) = &self.nodes[node.parent as usize].kind else {
            return;
        };
        let at = siblings.partition_point(|it| self.nodes[*it as usize].name < node.name);
        if let FileNodeKind::Directory(siblings) = &mut self.nodes[node.parent as usize].kind {
            siblings.insert(at, id);
        }
        self.nodes.push(node);
    }
}

/// A node that no file of the disk stands for.
fn plain_node(
    name: &[u8],
    parent: FileNodeId,
    attributes: TreeAttributes,
    kind: FileNodeKind,
) -> FileNode {
    FileNode {
        name: name.to_vec(),
        parent,
        attributes: TreeAttributes { identity: (0, 0), ..attributes },
        kind,
        first_name: None,
        xattrs: Vec::new(),
        has_acl: None,
        without_acl: None,
        is_above: false,
        patches: None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::super::{ImageLayout, ScanOptions};
    use super::*;

    fn scan(root: &Path) -> FileTree {
        let layout = ImageLayout::of(&[root.to_owned()]).unwrap();
        let wanted = ScanOptions { readers: 1, xattrs: false, ..ScanOptions::default() };
        FileTree { stands_for: "/".into(), ..FileTree::scan(layout, wanted).unwrap() }
    }

    fn text(path: &'static str, keeps_existing: bool) -> AddedFile {
        AddedFile { path, what: AddedContent::Text("new".to_owned()), keeps_existing }
    }

    fn given(tree: &FileTree, path: &str) -> Option<Vec<u8>> {
        let PathTarget::Inside(id) = tree.find(Path::new(path)) else { panic!("{path}") };
        match &tree.nodes[id as usize].kind {
            FileNodeKind::File { given, .. } => given.as_deref().map(<[u8]>::to_vec),
            other => panic!("{path}: {other:?}"),
        }
    }

    #[test]
    fn what_is_there_stays_or_is_replaced_as_each_addition_says() {
        let root = tempfile::tempdir().unwrap();
        for name in ["kept", "replaced"] {
            fs::write(root.path().join(name), "old").unwrap();
        }
        // Further names of a file that loses its first one.
        for name in ["second", "third"] {
            fs::hard_link(root.path().join("replaced"), root.path().join(name)).unwrap();
        }
        let mut tree = scan(root.path());
        tree.add(&[text("kept", true), text("replaced", false), text("more", true)], 7).unwrap();
        assert_eq!(given(&tree, "/kept"), None);
        assert_eq!(given(&tree, "/replaced").unwrap(), b"new");
        assert_eq!(given(&tree, "/more").unwrap(), b"new");
        assert_eq!(given(&tree, "/second"), None);
        let first_of = |path: &str| match tree.find(Path::new(path)) {
            PathTarget::Inside(id) => (id, tree.nodes[id as usize].first_name),
            other => panic!("{other:?}"),
        };
        assert_eq!(first_of("/second").1, None);
        assert_eq!(first_of("/third").1, Some(first_of("/second").0));
    }

    #[test]
    fn directories_above_may_be_links_that_stay_in_the_root() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("real")).unwrap();
        symlink("/real", root.path().join("absolute")).unwrap();
        symlink("nowhere", root.path().join("dangling")).unwrap();
        let mut tree = scan(root.path());
        tree.add(&[text("absolute/file", false), text("dangling/file", true)], 7).unwrap();
        assert_eq!(given(&tree, "/real/file").unwrap(), b"new");
        assert!(tree.add(&[text("dangling/file", false)], 7).is_err());
        assert!(tree.add(&[text("real", false)], 7).is_err(), "a directory is no file");
    }
}
