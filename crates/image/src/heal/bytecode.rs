//! Whether a module has bytecode that fits it, as Python's importer asks (importlib's
//! SourceLoader.get_code), and bytecode put beside it.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use image_format::tree::{FileNodeId, FileNodeKind, FileTree, TreeAttributes, seconds};
use rustix::fs::{Mode, OFlags, open};

use super::python::{Interpreter, Source};
use super::{BytecodeFault, file_of};

/// Bytes before the code: magic, flags, and time and size of the source, or its hash.
const HEADER: usize = 16;
/// Bytes of files that were read here and need not be read again to be packed.
const MOST_KEPT: usize = 256 << 20;
/// A longer file is no module.
const MOST: u64 = 64 << 20;

/// A module without bytecode that fits.
pub(super) struct UnfitModule {
    pub id: FileNodeId,
    pub was: BytecodeFault,
    /// Its source.
    pub text: Arc<[u8]>,
}

impl UnfitModule {
    pub fn source(&self, tree: &FileTree) -> Source {
        Source { name: tree.place(self.id), text: self.text.clone(), mtime: mtime(tree, self.id) }
    }

    /// Whether bytecode is what was asked for.
    pub fn is_mended_by(&self, pyc: &[u8], tree: &FileTree, python: &Interpreter) -> bool {
        pyc.len() > HEADER && fits(pyc, python, mtime(tree, self.id), self.text.len() as u64)
    }
}

/// What one read of a module's files says.
enum Look {
    Fits {
        pyc: (FileNodeId, Arc<[u8]>),
    },
    Unfit {
        was: BytecodeFault,
        pyc: Option<(FileNodeId, Arc<[u8]>)>,
        text: Arc<[u8]>,
    },
    /// It cannot be read, or changes: whoever packs it says so.
    Unknown,
}

/// Reads files in threads, and keeps what was read for the packing: on a shared filesystem each
/// read is a round trip.
pub(super) struct BytecodeKeeper {
    readers: usize,
    kept: usize,
}

impl BytecodeKeeper {
    pub fn new(readers: usize) -> BytecodeKeeper {
        BytecodeKeeper { readers, kept: 0 }
    }

    /// Those of the modules that this Python would compile.
    pub fn unfit(
        &mut self,
        tree: &mut FileTree,
        modules: &[FileNodeId],
        python: &Interpreter,
    ) -> Vec<UnfitModule> {
        let looks =
            in_threads(modules.len(), self.readers, &|index| look(tree, modules[index], python));
        let mut unfit = Vec::new();
        for (id, look) in modules.iter().zip(looks) {
            let pyc = match look {
                Look::Unknown => None,
                Look::Fits { pyc } => Some(pyc),
                Look::Unfit { was, pyc, text } => {
                    unfit.push(UnfitModule { id: *id, was, text });
                    pyc
                }
            };
            if let Some((id, content)) = pyc {
                self.keep(tree, id, content);
            }
        }
        unfit
    }

    /// What was read need not be read again.
    pub fn keep(&mut self, tree: &mut FileTree, id: FileNodeId, content: Arc<[u8]>) {
        let Some(id) = file_of(tree, id) else { return };
        if let FileNodeKind::File { given: given @ None, size, has_holes: false } =
            &mut tree.nodes[id as usize].kind
            && *size == content.len() as u64
            && self.kept + content.len() <= MOST_KEPT
        {
            self.kept += content.len();
            *given = Some(content);
        }
    }
}

fn look(tree: &FileTree, module: FileNodeId, python: &Interpreter) -> Look {
    let node = &tree.nodes[module as usize];
    let Some(source) = file_of(tree, module) else { return Look::Unknown };
    let FileNodeKind::File { size, .. } = tree.nodes[source as usize].kind else {
        return Look::Unknown;
    };
    // Python takes an empty file for a module as any other.
    let there = match tree.child(node.parent, b"__pycache__") {
        None => None,
        Some(directory) => match &tree.nodes[directory as usize].kind {
            FileNodeKind::Directory(_) => tree.child(directory, &name(tree, module, &python.tag)),
            _ => return Look::Unknown,
        },
    };
    let (was, pyc) = match there {
        None => (BytecodeFault::Missing, None),
        Some(there) => {
            let Some(pyc) = file_of(tree, there) else { return Look::Unknown };
            let Some(content) = read(tree, pyc) else { return Look::Unknown };
            match fits(&content, python, mtime(tree, module), size) {
                true => return Look::Fits { pyc: (pyc, content) },
                false => (BytecodeFault::Stale, Some((pyc, content))),
            }
        }
    };
    match read(tree, source) {
        Some(text) => Look::Unfit { was, pyc, text },
        None => Look::Unknown,
    }
}

/// The time of a module's source in the image.
fn mtime(tree: &FileTree, module: FileNodeId) -> u32 {
    let file = file_of(tree, module).unwrap_or(module);
    seconds(tree.nodes[file as usize].attributes.mtime.0)
}

/// Whether Python takes bytecode for that of a source of this time and size. Of what carries a
/// hash, whoever made it decided when it holds.
fn fits(pyc: &[u8], python: &Interpreter, mtime: u32, size: u64) -> bool {
    let Some((header, _)) = pyc.split_at_checked(HEADER) else { return false };
    let number = |at: usize| {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&header[at..at + 4]);
        u32::from_le_bytes(bytes)
    };
    header.starts_with(&python.magic)
        && match number(4) {
            0 => number(8) == mtime && number(12) == size as u32,
            1 | 3 => true,
            _ => false,
        }
}

/// A file's content, if it is what the tree says.
pub(super) fn read(tree: &FileTree, id: FileNodeId) -> Option<Arc<[u8]>> {
    let node = &tree.nodes[id as usize];
    let FileNodeKind::File { size, given, .. } = &node.kind else { return None };
    if let Some(given) = given {
        return Some(given.clone());
    }
    if *size > MOST {
        return None;
    }
    let path: PathBuf = tree.source(id);
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut file = File::from(open(&path, flags, Mode::empty()).ok()?);
    let mut content = vec![0; *size as usize];
    file.read_exact(&mut content).ok()?;
    node.attributes.still_hold(&file, *size).ok()?.then(|| content.into())
}

/// Puts bytecode beside its source, for whoever may read that.
pub(super) fn put(tree: &mut FileTree, module: FileNodeId, tag: &str, pyc: Arc<[u8]>) {
    let name = name(tree, module, tag);
    let parent = tree.nodes[module as usize].parent;
    let directory = match tree.child(parent, b"__pycache__") {
        Some(directory) => directory,
        None => tree.add_directory(parent, b"__pycache__"),
    };
    let file = file_of(tree, module).unwrap_or(module);
    // The time, by which the image's own freshness knows it, is that of the name.
    let mtime = tree.nodes[module as usize].attributes.mtime;
    let attributes = TreeAttributes { mtime, ..tree.nodes[file as usize].attributes };
    tree.add_content(directory, &name, attributes, pyc);
}

fn name(tree: &FileTree, module: FileNodeId, tag: &str) -> Vec<u8> {
    let name = &tree.nodes[module as usize].name;
    let stem = name.strip_suffix(b".py").unwrap_or(name);
    [stem, b".", tag.as_bytes(), b".pyc"].concat()
}

/// What each number below `end` gives, asked in threads.
pub(super) fn in_threads<T: Send>(
    end: usize,
    threads: usize,
    ask: &(dyn Fn(usize) -> T + Sync),
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let answers: Mutex<Vec<Option<T>>> = Mutex::new((0..end).map(|_| None).collect());
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, end.max(1)) {
            scope.spawn(|| {
                while let index = next.fetch_add(1, Ordering::Relaxed)
                    && index < end
                {
                    let answer = ask(index);
                    answers.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(answer);
                }
            });
        }
    });
    let answers = answers.into_inner().unwrap_or_else(PoisonError::into_inner);
    answers.into_iter().flatten().collect()
}
