//! A SIF that something is laid over, and what its root says about that.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use image_format::sif::{Arch, Filesystem, Sif, SifPart};
use image_format::squash::{NodeKind, SquashImage, SquashNode, SquashReadError};
use image_format::tree::{FileNodeKind, FileTree};

use super::{opened, read};
use crate::error::ImageError;
use crate::{OutsideReference, Reference};

/// Links that one path may go through (Linux: MAXSYMLINKS).
const LINKS: usize = 40;

/// Where libraries are, in most distributions.
const LIBRARIES: [&str; 8] = [
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib/powerpc64le-linux-gnu",
];

/// A SIF that something is added to, in a new file.
pub(super) struct Base {
    pub path: PathBuf,
    file: File,
    sif: Sif,
    /// Its root; none where it is compressed in a way that is not known here.
    root: Option<SquashImage>,
}

impl Base {
    pub fn open(path: &Path) -> Result<Base, ImageError> {
        let file = opened(path)?;
        let sif = read(path, &file)?;
        let root = root(path, &file, &sif)?;
        Ok(Base { path: path.to_owned(), file, sif, root })
    }

    /// For which processors it is.
    pub fn arch(&self) -> Arch {
        if self.sif.arch == Arch::UNKNOWN { Arch::native() } else { self.sif.arch }
    }

    /// What it holds, and more.
    pub fn with<'a>(&'a self, more: Vec<SifPart<'a>>) -> Result<Vec<SifPart<'a>>, ImageError> {
        let path = || self.path.clone();
        self.sif
            .with(&self.file, more)
            .map_err(|source| ImageError::Closed { path: path(), source })
    }

    /// It is not replaced itself.
    pub fn check_target(&self, target: &Path) -> Result<(), ImageError> {
        let identity = |there: std::fs::Metadata| (there.dev(), there.ino());
        let own = self.file.metadata().map(identity).map_err(ImageError::at("stat", &self.path))?;
        match target.metadata().map(identity) {
            Ok(there) if there == own => {
                Err(ImageError::Unfit { path: target.to_owned(), why: "it is the base itself" })
            }
            _ => Ok(()),
        }
    }

    /// The directories above what is packed look as they do in the base, which they are laid over.
    /// One that is a symbolic link there would hide all that the link leads to.
    pub fn take_over(&self, tree: &mut FileTree) -> Result<(), ImageError> {
        let Some(root) = &self.root else { return Ok(()) };
        for id in 0..tree.nodes.len() as u32 {
            let node = &tree.nodes[id as usize];
            let is_top = tree.nodes[node.parent as usize].is_above;
            if !matches!(node.kind, FileNodeKind::Directory(_)) || !(node.is_above || is_top) {
                continue;
            }
            let below = tree.below(id);
            let there = self.look(root, &below).map_err(|error| self.damaged(&error))?;
            match there {
                Some((node, NodeKind::Directory)) if tree.nodes[id as usize].is_above => {
                    let there = root.attributes(node).map_err(|error| self.damaged(&error))?;
                    let own = &mut tree.nodes[id as usize].attributes;
                    (own.mode, own.uid, own.gid) = (there.mode, there.uid, there.gid);
                }
                None | Some((_, NodeKind::Directory)) => {}
                Some(_) => {
                    return Err(ImageError::Unfit {
                        path: tree.place(id),
                        why: "in the base it is no directory: laid over that, it would hide what the \
                              base has there",
                    });
                }
            }
        }
        Ok(())
    }

    /// What is at a path from the root; no link is followed.
    fn look(
        &self,
        root: &SquashImage,
        below: &Path,
    ) -> Result<Option<(SquashNode, NodeKind)>, SquashReadError> {
        let Some(node) = root.find(below)? else { return Ok(None) };
        Ok(Some((node, root.attributes(node)?.kind)))
    }

    fn damaged(&self, error: &SquashReadError) -> ImageError {
        ImageError::At {
            operation: "read its root",
            path: self.path.clone(),
            source: std::io::Error::other(error.to_string()),
        }
    }

    /// Whether something that is used from what is packed is in the base.
    pub fn has(&self, outside: &OutsideReference) -> bool {
        let Some(root) = &self.root else { return false };
        match outside.by {
            Reference::Library => LIBRARIES
                .iter()
                .any(|directory| leads_somewhere(root, &Path::new(directory).join(&outside.what))),
            _ => leads_somewhere(root, &outside.what),
        }
    }
}

/// The squashfs that the root is, if it can be read.
fn root(path: &Path, file: &File, sif: &Sif) -> Result<Option<SquashImage>, ImageError> {
    let is_squashfs = |it: &&image_format::sif::SifObject| {
        it.partition.is_some_and(|it| it.filesystem == Filesystem::Squashfs)
    };
    let Some(object) = sif.primary().filter(is_squashfs) else { return Ok(None) };
    let file = file.try_clone().map_err(ImageError::at("open", path))?;
    match SquashImage::open_part(file, object.offset, object.size) {
        Ok(image) => Ok(Some(image)),
        Err(SquashReadError::Unsupported(_)) => Ok(None),
        Err(error) => Err(ImageError::At {
            operation: "read its root",
            path: path.to_owned(),
            source: std::io::Error::other(error.to_string()),
        }),
    }
}

/// Whether there is something at an absolute path in an image, with links followed in it.
fn leads_somewhere(image: &SquashImage, path: &Path) -> bool {
    let mut left: Vec<_> = names(path);
    let mut directories = vec![image.root()];
    let mut links = 0;
    while let Some(name) = left.pop() {
        if name == b".." {
            if directories.len() > 1 {
                directories.pop();
            }
            continue;
        }
        let at = directories[directories.len() - 1];
        let Ok(Some(node)) = image.lookup(at, &name) else { return false };
        match image.target(node) {
            Ok(target) => {
                links += 1;
                if links > LINKS {
                    return false;
                }
                if target.starts_with(b"/") {
                    directories.truncate(1);
                }
                left.extend(names(Path::new(OsStr::from_bytes(&target))));
            }
            Err(_) => directories.push(node),
        }
    }
    true
}

/// The names in a path, the first one last.
fn names(path: &Path) -> Vec<Vec<u8>> {
    let name = |part: Component<'_>| match part {
        Component::Normal(name) => Some(name.as_bytes().to_vec()),
        Component::ParentDir => Some(b"..".to_vec()),
        _ => None,
    };
    path.components().rev().filter_map(name).collect()
}
