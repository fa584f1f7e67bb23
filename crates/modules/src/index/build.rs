//! An index, made by walking the tree.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use watch::dependencies::has_times_of_an_image;

use super::names::{
    FileName, IndexDirectory, IndexNames, Limited, PathState, RcDefinition, RcFile,
};
use super::still::pause;
use super::virtual_target::{read_cookies, target};
use crate::cache;
use crate::site::{ModulepathOddity, ModulesSite, modulepath};
use crate::tcl::dictionary;
use crate::tcl::rc::{self, Definition, Unread};
use crate::tree::rights::{Everyone, way_is_open};
use crate::tree::{
    ChangeStamp, Cookie, ModulepathTree, Rc, TreeEntry, TreeEntryKind, WalkLimits, walk,
};

/// rc files are some kilobytes; one of a cookbook's virtual modulepath, a megabyte.
const MOST_RC: u64 = 16 << 20;

/// So often a tree is walked until it stands still.
const WALKS: usize = 3;

/// Why `avail` cannot be answered for a modulepath but by Modules itself.
#[derive(Debug, thiserror::Error)]
pub enum NotIndexable {
    /// Its path is relative, has a variable in it, or letters that Tcl reads in another way.
    #[error("{}: not a plain absolute path", path.display())]
    Path {
        /// The modulepath.
        path: PathBuf,
    },
    /// It is no directory that can be listed.
    #[error("{}: no directory that everyone may list", path.display())]
    NotListed {
        /// The modulepath.
        path: PathBuf,
    },
    /// There are more names in it than are looked at.
    #[error("{}: too many names", path.display())]
    TooMany {
        /// The modulepath.
        path: PathBuf,
    },
    /// A name has letters that Modules shows by the locale, or reads in another way.
    #[error("{}: a name that is not plain ASCII", path.display())]
    Name {
        /// The file or directory.
        path: PathBuf,
    },
    /// A FIFO or a device, which `avail` opens, a loop of links, which it follows, or a filesystem that
    /// does not tell of changes.
    #[error("{}: {what}", path.display())]
    Trap {
        /// The file or directory.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// An rc file that depends on who reads it and when, or defines what the index does not know.
    #[error("{}: {why}", path.display())]
    Rc {
        /// The rc file.
        path: PathBuf,
        /// What in it.
        why: String,
    },
    /// A `.modulecache` that does not say what the tree says.
    #[error("{}: the cache is not good: {why}", path.display())]
    Cache {
        /// The cache.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The tree changed while it was walked.
    #[error("{}: changed while it was read", path.display())]
    Changing {
        /// The modulepath.
        path: PathBuf,
    },
    /// A file could not be read.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

/// Makes the index of a modulepath, for the Modules of a site. It is taken without a look at the
/// tree for `lease` seconds after it is written; 0 looks each time.
///
/// # Errors
/// [`NotIndexable`].
pub fn build(
    root: &Path,
    site: &ModulesSite,
    lease: u32,
) -> Result<IndexNames<'static>, NotIndexable> {
    // Slashes at its end are none of its name.
    let root = &root.components().collect::<PathBuf>();
    let text = plain_root(root).ok_or_else(|| NotIndexable::Path { path: root.to_owned() })?;
    let mut before = walk(root, WalkLimits { cookies: false, ..WalkLimits::default() });
    for _ in 0..WALKS {
        std::thread::sleep(pause(stamps(&before).map(|stamp| stamp.changed)));
        let tree = walk(root, WalkLimits::default());
        if is_as_before(&before, &tree) {
            let names = Collector::collect(&tree, text, site, lease)?;
            if names.is_fresh(|_| true, true) {
                return Ok(names);
            }
        }
        before = tree;
    }
    Err(NotIndexable::Changing { path: root.to_owned() })
}

fn stamps(tree: &ModulepathTree) -> impl Iterator<Item = &ChangeStamp> {
    std::iter::once(&tree.top).chain(&tree.entries).filter_map(|entry| entry.stamp.as_ref())
}

/// Whether two walks have found the same files, with the same times.
fn is_as_before(before: &ModulepathTree, now: &ModulepathTree) -> bool {
    let same = |(one, other): (&TreeEntry, &TreeEntry)| {
        let seen = |entry: &TreeEntry| entry.stamp.as_ref().map(PathState::from);
        one.name == other.name && seen(one) == seen(other)
    };
    before.entries.len() == now.entries.len()
        && same((&before.top, &now.top))
        && before.entries.iter().zip(&now.entries).all(same)
}

/// The modulepath as text, if Modules takes it as it stands (`getAbsolutePath`).
fn plain_root(root: &Path) -> Option<&str> {
    let text = root.to_str()?;
    let entries = modulepath(root.as_os_str());
    let is_absolute = matches!(&entries[..], [(_, None::<ModulepathOddity>)]);
    let is_plain = text.bytes().all(is_plain_letter) && !text.contains(['{', '}', '\\', '"', '[']);
    let is_normal = text.strip_prefix('/')?.split('/').all(is_plain_part);
    (is_absolute && is_plain && is_normal).then_some(text)
}

/// Printable ASCII.
fn is_plain_letter(byte: u8) -> bool {
    matches!(byte, 0x20..=0x7e)
}

fn is_plain_part(part: &str) -> bool {
    !matches!(part, "" | "." | "..") && !part.starts_with('~')
}

/// A name of a tree that Tcl's file commands take as it stands.
fn plain_name(name: &Path) -> Option<&str> {
    let text = name.to_str()?;
    (text.bytes().all(is_plain_letter) && text.split('/').all(is_plain_part)).then_some(text)
}

struct Collector<'a> {
    tree: &'a ModulepathTree,
    names: IndexNames<'static>,
    /// Directories that not everyone may read, or that are links: what is in them is left out.
    closed: HashSet<&'a Path>,
    everyone: Everyone,
}

impl<'a> Collector<'a> {
    fn collect(
        tree: &'a ModulepathTree,
        root: &str,
        site: &ModulesSite,
        lease: u32,
    ) -> Result<IndexNames<'static>, NotIndexable> {
        let path = || tree.root.clone();
        let Some(top) = tree.top.stamp.as_ref().filter(|_| tree.is_listed()) else {
            return Err(NotIndexable::NotListed { path: path() });
        };
        let mut everyone = Everyone::default();
        let may_enter = |directory: &Path| everyone.may_enter(directory);
        if !way_is_open(Path::new("/"), &tree.root, may_enter)
            || !everyone.may_read(top, &tree.root)
        {
            return Err(NotIndexable::NotListed { path: path() });
        }
        if let Some(path) = first_on_an_image(tree) {
            let what = "on an image or an overlay, whose times need not tell of a change";
            return Err(NotIndexable::Trap { path, what });
        }
        if tree.is_cut {
            return Err(NotIndexable::TooMany { path: path() });
        }
        let names = IndexNames {
            root: root.to_owned(),
            directories: vec![IndexDirectory { name: "".into(), seen: top.into() }],
            rcs: Vec::new(),
            cookies: Vec::new(),
            files: Vec::new(),
            limited: Vec::new(),
            cache: None,
            lease,
        };
        let mut collector = Collector { tree, names, closed: HashSet::new(), everyone };
        for entry in &tree.entries {
            if entry.name.parent().is_some_and(|parent| collector.closed.contains(parent)) {
                collector.closed.insert(&entry.name);
                continue;
            }
            collector.add(entry, site)?;
        }
        let mut names = collector.names;
        if !read_cookies(&mut names) {
            return Err(NotIndexable::Changing { path: path() });
        }
        names.files.sort_by(|left, right| dictionary(&left.name, &right.name));
        Ok(names)
    }

    fn add(&mut self, entry: &'a TreeEntry, site: &ModulesSite) -> Result<(), NotIndexable> {
        let path = self.tree.path(entry);
        if matches!(entry.kind, TreeEntryKind::IgnoredDirectory | TreeEntryKind::IgnoredFile) {
            return Ok(());
        }
        let Some(name) = plain_name(&entry.name).map(str::to_owned) else {
            return Err(NotIndexable::Name { path });
        };
        let is_open = |stamp: &&ChangeStamp| !entry.is_link && self.everyone.may_read(stamp, &path);
        let open = entry.stamp.as_ref().filter(is_open);
        match (&entry.kind, open) {
            (TreeEntryKind::IgnoredDirectory | TreeEntryKind::IgnoredFile, _) => {}
            (TreeEntryKind::Loop { .. }, _) => {
                return Err(NotIndexable::Trap { path, what: "a loop of links" });
            }
            (TreeEntryKind::Special, _) => {
                return Err(NotIndexable::Trap { path, what: "a FIFO, a socket or a device" });
            }
            (TreeEntryKind::Cache, _) => self.names.cache = cache_as_tree(self.tree, entry, site)?,
            (TreeEntryKind::Rc(_, _), None) => {
                let why = "not everyone may read it, or it is a link".to_owned();
                return Err(NotIndexable::Rc { path, why });
            }
            (TreeEntryKind::Rc(rc, cookie), Some(stamp)) => {
                let rules = rules(&path, *rc, &name, &mut self.everyone)?;
                let (cookie, seen) = (cookie.clone(), stamp.into());
                self.names.rcs.push(RcFile { name, seen, cookie, rules });
            }
            (TreeEntryKind::Directory { .. }, Some(stamp)) => {
                self.names
                    .directories
                    .push(IndexDirectory { name: name.into(), seen: stamp.into() });
            }
            (TreeEntryKind::File(cookie), Some(stamp)) => {
                let cookie = self.names.cookie(cookie.clone());
                let changed = PathState::from(stamp).changed;
                self.names.files.push(FileName { name: name.into(), cookie, changed });
            }
            (
                TreeEntryKind::Directory { .. }
                | TreeEntryKind::Unreadable { is_directory: true, .. },
                _,
            ) => {
                self.closed.insert(&entry.name);
                self.names.limited.push(Limited { name, is_directory: true });
            }
            (
                TreeEntryKind::File(_)
                | TreeEntryKind::Unreadable { is_directory: false, .. }
                | TreeEntryKind::Dangling,
                _,
            ) => {
                let tail = name.rsplit('/').next().unwrap_or(&name);
                if matches!(tail, ".modulerc" | ".version") {
                    let why = "not everyone may read it, or it leads nowhere".to_owned();
                    return Err(NotIndexable::Rc { path, why });
                }
                self.names.limited.push(Limited { name, is_directory: false });
            }
        }
        Ok(())
    }
}

/// The first directory or file of each filesystem that has the times of its image, if there is one.
fn first_on_an_image(tree: &ModulepathTree) -> Option<PathBuf> {
    let mut devices = HashSet::new();
    let mut entries = std::iter::once(&tree.top).chain(&tree.entries);
    let mut is_new =
        |entry: &&TreeEntry| entry.stamp.is_some_and(|stamp| devices.insert(stamp.device));
    let is_image = |entry: &&TreeEntry| is_new(entry) && has_times_of_an_image(&tree.path(entry));
    entries.find(is_image).map(|entry| tree.path(entry))
}

/// A `.modulecache` is what Modules looks at instead of the tree: it has to say the same.
fn cache_as_tree(
    tree: &ModulepathTree,
    entry: &TreeEntry,
    site: &ModulesSite,
) -> Result<Option<PathState>, NotIndexable> {
    if cache::reads_caches(site) {
        let checked = cache::check(&tree.root, Some(site));
        if let Some(fault) = checked.faults.first() {
            let why = fault.what.clone();
            return Err(NotIndexable::Cache { path: tree.path(entry), why });
        }
    }
    Ok(entry.stamp.as_ref().map(PathState::from))
}

/// What an rc file defines.
fn rules(
    path: &Path,
    kind: Rc,
    name: &str,
    everyone: &mut Everyone,
) -> Result<Vec<RcDefinition>, NotIndexable> {
    let wrong = |why: String| NotIndexable::Rc { path: path.to_owned(), why };
    // Its path is put between quotes in a script.
    if name.contains(['{', '}', '\\', '"', '$', '[', ']']) {
        return Err(wrong("its path has letters of Tcl in it".to_owned()));
    }
    let content = crate::tree::content(path, MOST_RC)
        .map_err(|error| NotIndexable::Io { path: path.to_owned(), error })?;
    let defined = match rc::read(&content) {
        Ok(defined) => defined,
        // Nothing of it is evaluated.
        Err(Unread::NoCookie) => return Ok(Vec::new()),
        Err(why) => return Err(wrong(why.to_string())),
    };
    let mut rules = Vec::new();
    let mut default = None;
    for defined in defined {
        let line = defined.line;
        let rule = match defined.definition {
            Definition::Virtual { name: module, file } => {
                virtual_module(path, name, module, &file, everyone)
            }
            definition => rule(definition, name),
        };
        match rule.map_err(|why| wrong(format!("line {line}: {why}")))? {
            // The last one counts, after all else of the file.
            RcDefinition::Default(version) => default = Some(version),
            rule => rules.push(rule),
        }
    }
    // In `.modulerc`, it is nobody's default.
    rules.extend(default.filter(|_| kind == Rc::Version).map(RcDefinition::Default));
    Ok(rules)
}

fn virtual_module(
    path: &Path,
    rc: &str,
    name: String,
    file: &str,
    everyone: &mut Everyone,
) -> Result<RcDefinition, &'static str> {
    if !is_plain_module(&name, !rc.contains('/')) {
        return Err("a name with letters that may mean something");
    }
    let (file, seen) = target(path.parent().unwrap_or(Path::new("/")), file, everyone)?;
    Ok(RcDefinition::Virtual { name, file, cookie: Cookie::NotRead, seen })
}

fn rule(definition: Definition, rc: &str) -> Result<RcDefinition, &'static str> {
    let at_top = !rc.contains('/');
    let rule = match definition {
        Definition::Default(version) => RcDefinition::Default(version),
        Definition::Symbols { module, symbols } => RcDefinition::Symbols { module, symbols },
        Definition::Alias { name, module } => RcDefinition::Alias { name, module },
        Definition::Virtual { .. } | Definition::Other(_) => {
            return Err("hides, forbids or tags modules");
        }
    };
    let is_plain = match &rule {
        RcDefinition::Default(version) => is_plain_word(version) && !version.contains('/'),
        RcDefinition::Symbols { module, symbols } => {
            let plain = |symbol: &String| is_plain_word(symbol) && !symbol.contains('/');
            is_plain_module(module, at_top) && symbols.iter().all(plain)
        }
        RcDefinition::Alias { name, module } => {
            is_plain_module(name, at_top) && is_plain_module(module, at_top)
        }
        RcDefinition::Virtual { .. } => false,
    };
    is_plain.then_some(rule).ok_or("a name with letters that may mean something")
}

/// A module as an rc file may name it; `/v` and `./v` where that is a directory's.
fn is_plain_module(module: &str, at_top: bool) -> bool {
    let name = module.strip_prefix("./").or_else(|| module.strip_prefix('/'));
    if name.is_some() && at_top {
        return false;
    }
    name.unwrap_or(module).trim_end_matches('/').split('/').all(is_plain_word)
        && !module.ends_with("//")
}

/// Not empty, and nothing that Tcl, its patterns or a version specifier give a meaning to.
fn is_plain_word(word: &str) -> bool {
    is_plain_part(&word.replace('/', "-"))
        && !word.starts_with(['-', '#'])
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-+/".contains(&byte))
}
