//! A modulepath as this user sees it: the index, and a look at what is not for everyone.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};

use super::Unable;
use super::config::Config;
use super::found::last;
use super::pattern::Pattern;
use crate::index::{FileName, IndexNames, IndexStore, RcFile, StoreError, TrustedIndex};
use crate::tree::{Cookie, TreeEntryKind, WalkLimits, walk};
use crate::watched::watched_index;

/// Some MB of names, of which every user has to look at each.
const MOST_LIMITED: usize = 10_000;

/// `modulecmd.tcl` looks at 33 characters.
const LOOKED_AT: u64 = 33 * 4;

/// A modulepath, as this user sees it.
#[derive(Debug)]
pub(super) struct ModulepathView<'a> {
    names: IndexNames<'a>,
    /// Files that not everyone sees, as this user does.
    own: Vec<FileName<'a>>,
    /// Directories that this user may not list.
    unreadable: Vec<String>,
}

/// The index of a modulepath. None if there is no such directory: Modules passes over it.
pub(super) fn held(root: &Path, store: &IndexStore) -> Result<Option<TrustedIndex>, Unable> {
    match store.held(root) {
        Ok(held) => Ok(Some(held)),
        Err(StoreError::Absent { .. }) if is_nowhere(root) => Ok(None),
        Err(error) => Err(Unable::Index(error)),
    }
}

impl<'a> ModulepathView<'a> {
    /// A modulepath, if the tree is still what its index says, as far as Modules would look at it
    /// for these patterns: it opens files if it checks their cookies.
    pub(super) fn of(
        root: &Path,
        held: &'a TrustedIndex,
        patterns: &[Pattern<'_>],
        config: &Config,
    ) -> Result<ModulepathView<'a>, Unable> {
        let names = held.names(root)?;
        let is_leased = held.age.as_secs() < u64::from(names.lease);
        let walked = |top: &str| patterns.iter().any(|pattern| pattern.walks_into(top));
        let is_current = is_leased && names.cache_is_as_seen()
            || watched_index(root) == Some(held.seen)
            || names.is_fresh(walked, config.checks_cookies);
        if !is_current {
            return Err(Unable::Stale(root.to_owned()));
        }
        let mut view = ModulepathView { names, own: Vec::new(), unreadable: Vec::new() };
        view.look()?;
        Ok(view)
    }

    pub(super) fn root(&self) -> &str {
        &self.names.root
    }

    pub(super) fn rcs(&self) -> impl Iterator<Item = &RcFile> {
        self.names.rcs.iter()
    }

    pub(super) fn cookies(&self) -> &[Cookie] {
        &self.names.cookies
    }

    pub(super) fn files(&self) -> impl Iterator<Item = &FileName<'a>> {
        self.names.files.iter().chain(&self.own)
    }

    pub(super) fn unreadable(&self) -> impl Iterator<Item = &String> {
        self.unreadable.iter()
    }

    /// Whether it holds files and directories and nothing else: no rc file, nothing that each user
    /// sees in another way, and no directory with the name of a symbol that Modules itself defines.
    pub(super) fn is_plain(&self) -> bool {
        let is_symbol = |name: &str| matches!(last(name), "default" | "latest");
        self.names.rcs.is_empty()
            && self.own.is_empty()
            && self.unreadable.is_empty()
            && !self.names.directories.iter().any(|directory| is_symbol(&directory.name))
    }

    /// How many files there are.
    pub(super) fn len(&self) -> usize {
        self.names.files.len() + self.own.len()
    }

    /// Looks at what not everyone may read.
    fn look(&mut self) -> Result<(), Unable> {
        let limited = std::mem::take(&mut self.names.limited);
        for limited in &limited {
            match limited.is_directory {
                true => self.look_into(&limited.name)?,
                false => {
                    let cookie = self.look_at(&limited.name)?;
                    self.add(limited.name.clone(), cookie);
                }
            }
            if self.own.len() > MOST_LIMITED {
                return Err(Unable::Limited(Path::new(&self.names.root).join(&limited.name)));
            }
        }
        Ok(())
    }

    fn add(&mut self, name: String, cookie: Cookie) {
        let cookie = self.names.cookie(cookie);
        self.own.push(FileName { name: name.into(), cookie, changed: 0 });
    }

    /// A file. One that this user may not read is no modulefile.
    fn look_at(&self, name: &str) -> Result<Cookie, Unable> {
        let path = Path::new(&self.names.root).join(name);
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let Ok(file) = open(&path, flags, Mode::empty()).map(File::from) else {
            // A FIFO that may not be read is one that Modules does not wait for.
            return Ok(Cookie::Missing);
        };
        // It became something else, which Modules may wait for.
        if !file.metadata().is_ok_and(|about| about.is_file()) {
            return Err(Unable::Stale(path));
        }
        let mut beginning = Vec::new();
        match file.take(LOOKED_AT).read_to_end(&mut beginning) {
            Ok(_) => Ok(Cookie::of(&beginning)),
            Err(_) => Ok(Cookie::Missing),
        }
    }

    /// A directory, and all in it.
    fn look_into(&mut self, name: &str) -> Result<(), Unable> {
        let path = Path::new(&self.names.root).join(name);
        let limits = WalkLimits { entries: MOST_LIMITED, ..WalkLimits::default() };
        let tree = walk(&path, limits);
        if !tree.is_listed() {
            self.unreadable.push(name.to_owned());
            return Ok(());
        }
        let odd = || Err(Unable::Limited(path.clone()));
        if tree.is_cut {
            return odd();
        }
        for entry in &tree.entries {
            let Some(inside) = entry.name.to_str().filter(|name| is_plain(name)) else {
                return odd();
            };
            let inside = format!("{name}/{inside}");
            match &entry.kind {
                TreeEntryKind::Directory { .. }
                | TreeEntryKind::IgnoredDirectory
                | TreeEntryKind::IgnoredFile => {}
                TreeEntryKind::Unreadable { is_directory: true, .. } => {
                    self.unreadable.push(inside)
                }
                TreeEntryKind::File(cookie) => self.add(inside, cookie.clone()),
                TreeEntryKind::Unreadable { is_directory: false, .. } | TreeEntryKind::Dangling => {
                    self.add(inside, Cookie::Missing);
                }
                // rc files, loops, what avail would wait for; and what only the modulepath's top
                // has: there, `.version` and `.modulecache` are something else.
                _ => return odd(),
            }
        }
        // What a walk from the top reads as an rc file.
        let has_rc =
            [".version", ".modulerc", ".modulecache"].iter().any(|rc| path.join(rc).exists());
        if has_rc { odd() } else { Ok(()) }
    }
}

fn is_plain(name: &str) -> bool {
    let is_plain = |part: &str| !part.starts_with('~');
    name.bytes().all(|byte| matches!(byte, 0x20..=0x7e)) && name.split('/').all(is_plain)
}

fn is_nowhere(root: &Path) -> bool {
    matches!(std::fs::metadata(root), Err(error) if error.kind() == std::io::ErrorKind::NotFound)
}
