//! What one node keeps, and so what its metadata server is asked.
//!
//! A model of the kernel's walk along a path (path_resolution(7); `fs/namei.c`, `fs/fuse/dir.c`):
//!
//! - Each component that the node does not know is one lookup. A name that was found, and one
//!   that was not, is known for as long as the profile says, to all processes of the node.
//! - A missing component ends the walk: what lies below it is never asked for while 'no such
//!   file' is kept.
//! - Attributes come with the lookup, so `stat`, `access` and `chdir` cost nothing beside it, and
//!   `fstat` nothing at all.
//! - An open and a listing cost one operation where the profile says `asked`; where it says
//!   `kept`, an open is paid by its lookup, and a listing holds as long as a name.
//! - What changes the tree, extended attributes, and statfs are asked each time.
//!
//! Symbolic links: where a path leads through one is not seen in a system call, so the walk goes
//! along the text; reading one costs an operation, and its text is kept as a name is.

use std::path::PathBuf;

use recording::Nanos;
use rustc_hash::FxHashMap;

use crate::{Ask, Cache, Kind, Profile, Question, Span, Wants};

/// What a node keeps. At first nothing: a cold node.
pub struct Node {
    rules: Cache,
    shared: Shared,
    names: FxHashMap<Box<[u8]>, u32>,
    children: FxHashMap<(u32, u32), u32>,
    entries: Vec<Entry>,
}

/// Which paths are on the shared filesystem.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shared {
    /// Its mount points. A mount point itself is known to the node without asking.
    pub roots: Vec<PathBuf>,
    /// Directories below them that are something else: a mount of another kind.
    pub except: Vec<PathBuf>,
}

/// What the server is asked for one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// How many operations of each kind, in the order of [`Kind::ALL`].
    pub operations: [u32; Kind::ALL.len()],
    /// How many of them find no such file.
    pub missing: u32,
}

/// One operation that the server is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation<'a> {
    /// What.
    pub kind: Kind,
    /// On what: an absolute path without `.` and `..`.
    pub path: &'a [u8],
    /// Whether the answer is that there is no such file.
    pub missing: bool,
    /// Whether the node keeps the answer, so that its other processes need not ask.
    pub kept: bool,
}

/// What is known of one name.
#[derive(Clone, Copy)]
struct Entry {
    parent: u32,
    /// Whether the server is asked for this name: it is below a shared root.
    served: bool,
    /// Whether what is below it may be.
    below: bool,
    found: Option<Nanos>,
    missing: Option<Nanos>,
    /// When its listing came, or its text.
    read: Option<Nanos>,
    /// Whether a listing is under way that the server answers.
    listing: bool,
}

/// Entries that a node keeps at most; then it drops all, as a kernel short of memory does.
const MOST_ENTRIES: usize = 1 << 20;
/// The root directory.
const ROOT: u32 = 0;

impl Node {
    /// A cold node.
    pub fn new(profile: &Profile, shared: Shared) -> Node {
        Node::keeping(profile.cache, shared)
    }

    /// A cold node that keeps what these rules say.
    pub(crate) fn keeping(rules: Cache, shared: Shared) -> Node {
        let mut node = Node {
            rules,
            shared,
            names: FxHashMap::default(),
            children: FxHashMap::default(),
            entries: Vec::new(),
        };
        node.drop_all();
        node
    }

    /// Forgets everything.
    pub fn drop_all(&mut self) {
        self.names.clear();
        self.children.clear();
        let below = self.shared.contains(b"/");
        let root = Entry { served: false, below, ..Entry::unknown(ROOT) };
        self.entries = vec![root];
    }

    /// How much of what the server is asked for this call, at this moment. Moments must not go
    /// back.
    pub fn ask(&mut self, at: Nanos, question: &Question) -> Asked {
        let mut asked = Asked::default();
        self.ask_each(at, question, |operation| asked.add(&operation));
        asked
    }

    /// The same, each operation in the order in which the server is asked.
    pub fn ask_each(&mut self, at: Nanos, question: &Question, mut each: impl FnMut(Operation)) {
        if self.entries.len() > MOST_ENTRIES {
            self.drop_all();
        }
        let mut clean = Vec::with_capacity(question.path.len());
        if let Some(other) = question.other_path {
            let end = self.walk(at, other, true, &mut clean, &mut each);
            self.forget(end.entry);
        }
        let end = match question.wants {
            // A listing goes by the descriptor of its directory: no name is looked up.
            Wants::Entries { .. } => self.walk(at, question.path, false, &mut clean, &mut |_| {}),
            _ => self.walk(at, question.path, question.missing, &mut clean, &mut each),
        };
        if !end.arrived && question.wants != Wants::Change {
            return;
        }
        if self.entries[end.entry as usize].below {
            let path = if clean.is_empty() { b"/" } else { &clean[..] };
            self.arrive(at, end.entry, question.wants, &mut |kind, kept| {
                each(Operation { kind, path, missing: false, kept });
            });
        }
    }

    /// Walks along a path and asks for each name that is not known.
    fn walk(
        &mut self,
        at: Nanos,
        path: &[u8],
        missing: bool,
        clean: &mut Vec<u8>,
        each: &mut impl FnMut(Operation),
    ) -> End {
        clean.clear();
        let mut here = ROOT;
        let mut parts = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).peekable();
        while let Some(part) = parts.next() {
            match part {
                b"." => continue,
                b".." => {
                    here = self.entries[here as usize].parent;
                    clean.truncate(clean.iter().rposition(|byte| *byte == b'/').unwrap_or(0));
                    continue;
                }
                _ => {}
            }
            clean.push(b'/');
            clean.extend_from_slice(part);
            here = self.child(here, part, clean);
            let is_last = parts.peek().is_none();
            let name = Name { entry: here, path: clean, is_missing: missing && is_last };
            if !self.look(at, name, missing, each) {
                return End { entry: here, arrived: false };
            }
        }
        End { entry: here, arrived: !missing }
    }

    /// Makes a name known, and says whether the walk goes on below it. A walk that is known to
    /// arrive is stopped by no 'no such file' of before: somebody has made it since.
    fn look(
        &mut self,
        at: Nanos,
        name: Name,
        may_stop: bool,
        each: &mut impl FnMut(Operation),
    ) -> bool {
        let Cache { entries: found_for, negatives: missing_for, .. } = self.rules;
        let Name { entry, path, is_missing } = name;
        let entry = &mut self.entries[entry as usize];
        if !entry.served {
            return !is_missing;
        }
        if may_stop && holds(entry.missing, missing_for, at) {
            return false;
        }
        if !is_missing && holds(entry.found, found_for, at) {
            return true;
        }
        let kept = if is_missing { missing_for } else { found_for } != Span::ZERO;
        each(Operation { kind: Kind::Lookup, path, missing: is_missing, kept });
        entry.found = (!is_missing).then_some(at);
        entry.missing = is_missing.then_some(at);
        !is_missing
    }

    /// Asks for what the call wants where its path has led to.
    fn arrive(&mut self, at: Nanos, here: u32, wants: Wants, each: &mut impl FnMut(Kind, bool)) {
        let Cache { entries: kept_for, open, list, .. } = self.rules;
        let keeps = kept_for != Span::ZERO;
        let entry = &mut self.entries[here as usize];
        match wants {
            Wants::Attributes | Wants::Directory => {}
            Wants::Open if open == Ask::Asked => each(Kind::Open, false),
            Wants::Open => {}
            Wants::Entries { end } if list == Ask::Asked => {
                // The end of a listing comes with its last part, or is the whole of an empty one.
                if !end || !entry.listing {
                    each(Kind::List, false);
                }
                entry.listing = !end;
            }
            Wants::Entries { end } => {
                if entry.listing || !holds(entry.read, kept_for, at) {
                    if !end || !entry.listing {
                        each(Kind::List, keeps);
                    }
                    entry.listing = !end;
                    entry.read = Some(at);
                }
            }
            Wants::Link => {
                if !holds(entry.read, kept_for, at) {
                    each(Kind::Readlink, keeps);
                    entry.read = Some(at);
                }
            }
            Wants::Xattr => each(Kind::Xattr, false),
            Wants::Statfs => each(Kind::Statfs, false),
            Wants::Change => {
                each(Kind::Change, false);
                self.forget(here);
            }
        }
    }

    fn child(&mut self, parent: u32, name: &[u8], path: &[u8]) -> u32 {
        let name = match self.names.get(name) {
            Some(name) => *name,
            None => {
                let number = self.names.len() as u32;
                self.names.insert(name.into(), number);
                number
            }
        };
        let Node { children, entries, shared, .. } = self;
        *children.entry((parent, name)).or_insert_with(|| {
            let above = entries[parent as usize].below;
            let below = shared.contains(path);
            let number = entries.len() as u32;
            entries.push(Entry { served: above && below, below, ..Entry::unknown(parent) });
            number
        })
    }

    fn forget(&mut self, here: u32) {
        let Entry { parent, served, below, .. } = self.entries[here as usize];
        self.entries[here as usize] = Entry { served, below, ..Entry::unknown(parent) };
    }
}

/// A name on the way.
struct Name<'a> {
    entry: u32,
    path: &'a [u8],
    is_missing: bool,
}

/// Where a walk ended.
struct End {
    entry: u32,
    /// Whether it got to what the path names.
    arrived: bool,
}

impl Entry {
    fn unknown(parent: u32) -> Entry {
        Entry {
            parent,
            served: false,
            below: false,
            found: None,
            missing: None,
            read: None,
            listing: false,
        }
    }
}

/// Whether what came at `since` is still trusted.
fn holds(since: Option<Nanos>, lifetime: Span, at: Nanos) -> bool {
    since.is_some_and(|since| {
        lifetime == Span::FOREVER || at.0.saturating_sub(since.0) < lifetime.nanos().0
    })
}

impl Shared {
    /// What is below these directories.
    pub fn below(roots: impl IntoIterator<Item = PathBuf>) -> Shared {
        Shared { roots: roots.into_iter().collect(), except: Vec::new() }
    }

    /// Whether a path is a root or below one: of roots and exceptions, the longest that it is
    /// below decides.
    pub fn contains(&self, path: &[u8]) -> bool {
        use std::os::unix::ffi::OsStrExt;
        let longest = |directories: &[PathBuf]| {
            let directories = directories.iter().map(|directory| directory.as_os_str().as_bytes());
            directories.filter(|directory| is_below(path, directory)).map(<[u8]>::len).max()
        };
        longest(&self.roots) > longest(&self.except)
    }
}

/// Whether `path` is `directory` or below it, by whole components.
fn is_below(path: &[u8], directory: &[u8]) -> bool {
    let directory = directory.strip_suffix(b"/").unwrap_or(directory);
    path.strip_prefix(directory).is_some_and(|rest| matches!(rest.first(), None | Some(b'/')))
}

impl Asked {
    /// All of it.
    pub fn total(&self) -> u32 {
        self.operations.iter().sum()
    }

    /// Those of one kind.
    pub fn of(&self, kind: Kind) -> u32 {
        self.operations[kind as usize]
    }

    /// Counts one operation.
    pub fn add(&mut self, operation: &Operation) {
        self.operations[operation.kind as usize] += 1;
        self.missing += u32::from(operation.missing);
    }
}
