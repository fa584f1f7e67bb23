//! What of a modulepath's names a pattern finds: the last phases of `getModules`.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use super::config::Config;
use super::found::{AvailName, AvailNames, NameKind, is_dotted, last, split};
use super::pattern::Pattern;
use super::request::AvailFilter;
use super::symbols::RcSymbols;
use crate::tcl::dictionary;

/// What is shown.
pub(super) type Selected<'a> = Vec<(AvailName<'a>, NameKind)>;

pub(super) struct Selection<'f, 'a> {
    found: &'f AvailNames<'a>,
    pattern: &'f Pattern<'f>,
    config: &'f Config,
    filter: AvailFilter,
    selected: FxHashMap<AvailName<'a>, NameKind>,
    /// What was selected of each directory.
    directories: BTreeMap<AvailName<'a>, Vec<AvailName<'a>>>,
    /// What `-d` and `-L` leave.
    kept: FxHashSet<AvailName<'a>>,
    /// Whether a symbol means a hidden module in a directory that is not there otherwise, another
    /// symbol, or, with `-d` and `-L`, a module outside of directories: what is shown depends on
    /// the order in which Tcl keeps names then.
    is_tangled: bool,
}

/// Selects, and leaves out what the filter does not want. None where that cannot be said.
pub(super) fn select<'a>(
    found: AvailNames<'a>,
    pattern: &Pattern<'_>,
    config: &Config,
    filter: AvailFilter,
    symbols: &RcSymbols,
) -> Option<Selected<'a>> {
    if !found.names.has_versions() && filter == AvailFilter::All && symbols.is_empty() {
        return Some(plain(found, pattern));
    }
    let mut selection = Selection {
        found: &found,
        pattern,
        config,
        filter,
        selected: FxHashMap::default(),
        directories: BTreeMap::new(),
        kept: FxHashSet::default(),
        is_tangled: filter != AvailFilter::All && found.defines_broken,
    };
    for (name, what) in found.names.iter() {
        if selection.is_found(name, what) {
            selection.add(name, what);
        }
    }
    if selection.is_tangled {
        return None;
    }
    selection.finish_directories(symbols);
    if filter != AvailFilter::All {
        let kept = &selection.kept;
        selection.selected.retain(|name, _| kept.contains(name));
    }
    Some(selection.selected.into_iter().collect())
}

/// Where nothing has a symbol: no directory is shown, and all else for itself. Of many names, most
/// of the time goes to memory that is touched for the first time: they stay where they are.
fn plain<'a>(found: AvailNames<'a>, pattern: &Pattern<'_>) -> Selected<'a> {
    let is_shown = |what: &NameKind| matches!(what, NameKind::Module | NameKind::Alias(_));
    let all = found.names.into_iter();
    all.filter(|(name, what)| is_shown(what) && pattern.finds(name)).collect()
}

impl<'a> Selection<'_, 'a> {
    fn is_found(&self, name: &str, what: &NameKind) -> bool {
        let is_directory = *what == NameKind::Directory;
        let fits = self.pattern.finds(name) || is_directory && self.pattern.finds_directory(name);
        fits && (!self.found.automatic.contains(name)
            || name.matches('/').count() != self.pattern.depth() && !self.pattern.contains
            || self.pattern.is(name))
    }

    fn add(&mut self, name: &AvailName<'a>, what: &NameKind) {
        self.selected.insert(name.clone(), what.clone());
        let mut tracked = Some(name.clone());
        match what {
            NameKind::Directory => {
                self.directories.entry(name.clone()).or_default();
            }
            NameKind::Version(module) => tracked = self.add_target(name, module),
            NameKind::Broken => tracked = None,
            NameKind::Module | NameKind::Alias(_) => {}
        }
        let Some(tracked) = tracked else { return };
        match split(&tracked) {
            Some((directory, tail)) => self.directories.entry(directory).or_default().push(tail),
            None if self.filter != AvailFilter::All && *what != NameKind::Directory => {
                self.kept.insert(name.clone());
            }
            None => {}
        }
    }

    /// What a symbolic version means is found with it, though it may not fit the pattern. The
    /// target, if it is to be tracked in its directory.
    fn add_target(&mut self, symbol: &str, module: &str) -> Option<AvailName<'a>> {
        let Some(real) = self.found.real_name(module, self.pattern.case) else {
            let directory = module.rsplit_once('/').map(|(directory, _)| directory);
            self.is_tangled |= is_dotted(module)
                && directory.is_some_and(|directory| !self.found.names.contains_key(directory));
            return None;
        };
        let (real, what) = self.found.names.entry(real)?;
        self.is_tangled |= self.filter != AvailFilter::All && !real.contains('/');
        let tracked = (*what != NameKind::Broken).then(|| real.clone());
        let mut targets = vec![real.clone()];
        while let Some(target) = targets.pop() {
            let Some(what) = self.found.names.get(&target) else { continue };
            if matches!(what, NameKind::Version(_)) {
                // Where another symbol is what is meant, it depends on who comes first.
                self.is_tangled |= target != symbol;
                continue;
            }
            if *what == NameKind::Directory && !self.selected.contains_key(&target) {
                self.directories.entry(target.clone()).or_default();
                let inside =
                    self.found.directories.get(&target).map(Vec::as_slice).unwrap_or_default();
                targets.extend(inside.iter().map(|tail| format!("{target}/{tail}").into()));
            }
            if target != *real
                && *what != NameKind::Broken
                && let Some((directory, tail)) = split(&target)
            {
                self.directories.entry(directory).or_default().push(tail);
            }
            self.selected.entry(target).or_insert_with(|| what.clone());
        }
        tracked
    }

    /// Directories without anything are not shown, and others only for their symbols.
    fn finish_directories(&mut self, symbols: &RcSymbols) {
        // Each before the directory that it is in.
        let names: Vec<AvailName<'a>> = self.directories.keys().rev().cloned().collect();
        for name in names {
            let is_directory = self.found.names.get(&name) == Some(&NameKind::Directory);
            let keeps = self.filter != AvailFilter::All;
            if !is_directory || !(self.selected.contains_key(&name) || keeps) {
                continue;
            }
            let mut inside = self.directories.remove(&name).unwrap_or_default();
            if inside.is_empty() {
                self.selected.remove(&name);
                if let Some((parent, tail)) = split(&name)
                    && let Some(siblings) = self.directories.get_mut(&parent)
                {
                    siblings.retain(|sibling| *sibling != tail);
                }
                continue;
            }
            inside.sort_by(|left, right| dictionary(left, right));
            if keeps {
                self.selected.insert(name.clone(), NameKind::Directory);
                self.keep_one_of(&name, &inside);
            } else if !symbols.has_any(&name) {
                self.selected.remove(&name);
            }
        }
    }

    /// `-d` keeps a directory's default, `-L` its highest version.
    fn keep_one_of(&mut self, directory: &str, inside: &[AvailName<'a>]) {
        let highest = inside.last().map(|name| name.as_ref());
        let version = match self.filter {
            AvailFilter::Latest => highest.map(str::to_owned),
            _ => self.default_of(directory, highest),
        };
        let Some(version) = version else { return };
        let name: AvailName<'a> = format!("{directory}/{version}").into();
        if self.selected.get(&name).is_some_and(|what| *what != NameKind::Directory) {
            self.kept.insert(name);
        }
    }

    fn default_of(&self, directory: &str, highest: Option<&str>) -> Option<String> {
        if let Some(NameKind::Version(module)) =
            self.found.names.get(format!("{directory}/default").as_str())
            && (self.selected.contains_key(module.as_str())
                || !self.found.names.contains_key(module.as_str()))
        {
            return Some(last(module).to_owned());
        }
        highest.filter(|_| self.config.implicit_default).map(str::to_owned)
    }
}
