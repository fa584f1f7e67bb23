//! What a modulepath offers, before anybody asked for something: the first phases of
//! `getModules` of `modulecmd.tcl`.

use std::borrow::Cow;

use rustc_hash::{FxHashMap, FxHashSet};

use super::catalog::Catalog;
use super::config::{Config, Style};
use super::glob::LetterCase;
use super::pattern::Pattern;
use super::request::AvailFilter;
use super::symbols::RcSymbols;
use super::view::ModulepathView;
use crate::tcl::dictionary;
use crate::tree::Cookie;

/// A name, of the index or of an rc file.
pub(super) type AvailName<'a> = Cow<'a, str>;

/// What a name is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NameKind {
    Module,
    /// What it means.
    Alias(String),
    /// A symbolic version, and what it means.
    Version(String),
    /// A directory that has something in it, and its default, if it has one.
    Directory,
    /// No modulefile: it may not be read, or has no cookie.
    Broken,
}

/// All names of a modulepath, and what directories hold.
pub(super) struct AvailNames<'a> {
    pub(super) names: Catalog<'a>,
    /// The last parts of what is in a directory, sorted as Modules sorts versions.
    pub(super) directories: FxHashMap<AvailName<'a>, Vec<AvailName<'a>>>,
    /// `default` and `latest` that nobody defined.
    pub(super) automatic: FxHashSet<String>,
    /// Whether something that an rc file defines has the name of a file that is no modulefile: what
    /// `-d` and `-L` make of that is not modelled.
    pub(super) defines_broken: bool,
    /// Whether a directory has the name of such a symbol: which of them is there depends on the
    /// order in which Tcl keeps names.
    is_tangled: bool,
}

/// What is found while one command runs, and stays.
#[derive(Debug, Default)]
pub(super) struct AvailState {
    pub(super) symbols: RcSymbols,
    /// Names with the tag `hidden`.
    pub(super) hidden: FxHashSet<String>,
    /// Whether any modulepath can have symbols. Where none has, directories are not shown, and what
    /// they hold decides nothing.
    has_symbols: bool,
    /// What of each modulepath has been walked (`g_foundModulesMemCache`).
    walked: FxHashMap<String, Vec<String>>,
}

impl AvailState {
    pub(super) fn new(has_symbols: bool) -> AvailState {
        AvailState { has_symbols, ..AvailState::default() }
    }

    /// What is walked for a pattern: what was walked before, if that has all of it. None where
    /// it was walked twice: which of both is taken depends on the order in which Tcl keeps them.
    fn walk(&mut self, root: &str, wanted: &str) -> Option<String> {
        let before = self.walked.entry(root.to_owned()).or_default();
        if before.iter().any(|walked| walked == wanted) {
            return Some(wanted.to_owned());
        }
        let mut with_all =
            before.iter().filter(|walked| LetterCase::Sensitive.matches(walked, wanted));
        match (with_all.next(), with_all.next()) {
            (Some(walked), None) => Some(walked.clone()),
            (Some(_), Some(_)) => None,
            (None, _) => {
                before.push(wanted.to_owned());
                Some(wanted.to_owned())
            }
        }
    }
}

impl<'a> AvailNames<'a> {
    /// Reads what rc files say and puts all names together. None where that depends on what Tcl
    /// does in no certain order.
    pub(super) fn of(
        view: &ModulepathView<'a>,
        config: &Config,
        pattern: &Pattern<'_>,
        filter: AvailFilter,
        state: &mut AvailState,
    ) -> Option<AvailNames<'a>> {
        let pattern = &pattern.walking(state.walk(view.root(), pattern.walked())?);
        read_rcs(view, config, pattern, &mut state.symbols);
        let names = Catalog::with_room_for(view.len());
        let directories = FxHashMap::default();
        let automatic = FxHashSet::default();
        let (defines_broken, is_tangled) = (false, false);
        let mut found = AvailNames { names, directories, automatic, defines_broken, is_tangled };
        found.add_files(view, config, pattern);
        let targeted = found.add_definitions(view, &state.symbols);
        found.add_virtuals(view, config, &state.symbols);
        found.leave_out_dotted(config, pattern, filter, &targeted, state);
        // A pattern may name a symbol that Modules itself defines.
        if state.has_symbols || filter != AvailFilter::All || !pattern.fits_all() {
            found.fill_directories();
            let is_directory = |name: &String| found.directories.contains_key(name.as_str());
            found.is_tangled |= state.symbols.virtuals.keys().any(is_directory);
            found.add_directories(config, pattern, &mut state.symbols);
        }
        (!found.is_tangled).then_some(found)
    }

    fn add_files(&mut self, view: &ModulepathView<'a>, config: &Config, pattern: &Pattern<'_>) {
        let is_valid =
            |cookie: &Cookie| !config.checks_cookies || cookie.is_valid_for(&config.release);
        let valid: Vec<bool> = view.cookies().iter().map(is_valid).collect();
        for file in view.files().filter(|file| pattern.walks_into(top(&file.name))) {
            let is_module = valid.get(file.cookie as usize) == Some(&true);
            let what = if is_module { NameKind::Module } else { NameKind::Broken };
            self.names.push(file.name.clone(), what);
        }
        for directory in view.unreadable().filter(|directory| pattern.walks_into(top(directory))) {
            self.names.insert(Cow::Owned(directory.clone()), NameKind::Broken);
        }
    }

    /// Definitions of this modulepath's rc files. What each module's symbols are.
    fn add_definitions(
        &mut self,
        view: &ModulepathView<'_>,
        symbols: &RcSymbols,
    ) -> FxHashMap<String, Vec<String>> {
        let root = format!("{}/", view.root());
        let mut targeted: FxHashMap<String, Vec<String>> = FxHashMap::default();
        for (name, target) in &symbols.versions {
            if target.source.starts_with(&root) {
                let module = target.module.clone();
                targeted.entry(module.clone()).or_default().push(name.clone());
                self.define(name, NameKind::Version(module));
            }
        }
        for (name, target) in &symbols.aliases {
            if target.source.starts_with(&root) {
                self.define(name, NameKind::Alias(target.module.clone()));
            }
        }
        targeted
    }

    /// Virtual modules of this modulepath's rc files. One that has the name of something else is
    /// Modules' to tell.
    fn add_virtuals(&mut self, view: &ModulepathView<'_>, config: &Config, symbols: &RcSymbols) {
        let root = format!("{}/", view.root());
        for (name, made) in &symbols.virtuals {
            if !made.source.starts_with(&root) {
                continue;
            }
            let is_valid = !config.checks_cookies || made.cookie.is_valid_for(&config.release);
            self.is_tangled |= self.names.contains_key(name);
            self.defines_broken |= !is_valid;
            let what = if is_valid { NameKind::Module } else { NameKind::Broken };
            self.names.insert(Cow::Owned(name.clone()), what);
        }
    }

    fn define(&mut self, name: &str, what: NameKind) {
        self.defines_broken |= self.names.get(name) == Some(&NameKind::Broken);
        self.names.insert(Cow::Owned(name.to_owned()), what);
    }

    /// Names with a dot at the beginning of a part, unless they are asked for.
    fn leave_out_dotted(
        &mut self,
        config: &Config,
        pattern: &Pattern<'_>,
        filter: AvailFilter,
        targeted: &FxHashMap<String, Vec<String>>,
        state: &mut AvailState,
    ) {
        let is_asked = |name: &str, what: &NameKind| {
            let symbols = targeted.get(name).map(Vec::as_slice).unwrap_or_default();
            let by_default = filter == AvailFilter::Defaults;
            let is_default =
                |symbol: &str| by_default && symbol == format!("{}/default", pattern.text());
            let is_version = matches!(what, NameKind::Version(_));
            symbols.iter().any(|symbol| pattern.is(symbol) || is_default(symbol))
                || by_default && is_version && last(name) == "default"
        };
        let names = self.names.iter().map(|(name, _)| name);
        let dotted: Vec<AvailName<'_>> = names.filter(|name| is_dotted(name)).cloned().collect();
        for name in dotted {
            let Some(what) = self.names.get(&name) else { continue };
            if !config.shows_hidden && !pattern.asks_for_dotted(&name) && !is_asked(&name, what) {
                if let NameKind::Version(module) = what {
                    state.symbols.hide(module, last(&name));
                }
                self.names.remove(&name);
            }
            state.hidden.insert(name.into_owned());
        }
    }

    fn fill_directories(&mut self) {
        let mut last_parent: Option<AvailName<'a>> = None;
        let mut inside: Vec<AvailName<'a>> = Vec::new();
        for (name, what) in self.names.iter() {
            if matches!(what, NameKind::Version(_) | NameKind::Broken) {
                continue;
            }
            let mut child = name.clone();
            // Names come directory by directory.
            if let Some((parent, tail)) = split(&child)
                && last_parent.as_ref() == Some(&parent)
            {
                inside.push(tail);
                continue;
            }
            flush(&mut self.directories, last_parent.take(), &mut inside);
            last_parent = split(&child).map(|(parent, _)| parent);
            while let Some((parent, tail)) = split(&child) {
                let known = self.directories.entry(parent.clone()).or_default();
                let is_first = known.is_empty();
                // Later: sorted, each once.
                known.push(tail);
                if !is_first {
                    break;
                }
                child = parent;
            }
        }
        flush(&mut self.directories, last_parent, &mut inside);
        for children in self.directories.values_mut() {
            children.sort_by(|left, right| dictionary(left, right));
            children.dedup();
        }
    }

    /// Directories, unless something else has the name, with the symbols that Modules gives them.
    fn add_directories(&mut self, config: &Config, pattern: &Pattern<'_>, symbols: &mut RcSymbols) {
        let directories: Vec<AvailName<'a>> = self
            .directories
            .keys()
            .filter(|name| !self.names.contains_key(name))
            .cloned()
            .collect();
        for directory in directories {
            let named = self.named_default(&directory);
            let highest =
                self.directories.get(&directory).and_then(|children| children.last()).cloned();
            let default = named.or_else(|| {
                highest.clone().filter(|_| config.implicit_default).map(Cow::into_owned)
            });
            if config.automatic_symbols && pattern.may_name(&directory) {
                let highest = highest.map(Cow::into_owned);
                for (symbol, version) in [("default", default), ("latest", highest)] {
                    let version = version.unwrap_or_default();
                    self.add_automatic(&directory, symbol, &version, pattern, symbols);
                }
            }
            self.names.insert(directory, NameKind::Directory);
        }
    }

    fn add_automatic(
        &mut self,
        directory: &str,
        symbol: &str,
        version: &str,
        pattern: &Pattern<'_>,
        symbols: &mut RcSymbols,
    ) {
        let name = format!("{directory}/{symbol}");
        let module = format!("{directory}/{version}");
        let before = self.names.get(name.as_str());
        let is_directory = self.directories.contains_key(name.as_str());
        self.is_tangled |= is_directory && matches!(before, None | Some(NameKind::Directory));
        let is_new = before.is_none();
        if is_new || before == Some(&NameKind::Broken) {
            symbols.automatic(&name, &module);
        }
        // They lead to what is found without them where all is found.
        if is_new && !pattern.fits_all() {
            self.automatic.insert(name.clone());
            self.names.insert(Cow::Owned(name), NameKind::Version(module));
        }
    }

    /// The last part of what `directory/default` means, if an rc file says so.
    pub(super) fn named_default(&self, directory: &str) -> Option<String> {
        match self.names.get(format!("{directory}/default").as_str()) {
            Some(NameKind::Version(module)) => Some(last(module).to_owned()),
            _ => None,
        }
    }

    /// The name that something has, letters of both cases being the same if they are to be.
    pub(super) fn real_name<'s>(&'s self, name: &'s str, case: LetterCase) -> Option<&'s str> {
        if let Some((known, _)) = self.names.entry(name) {
            return Some(known);
        }
        if case == LetterCase::Sensitive {
            return None;
        }
        let known = self.names.iter().map(|(known, _)| known.as_ref());
        let same = known.filter(|known| case.equals(known, name));
        same.max_by(|left, right| dictionary(left, right))
    }
}

/// What a directory holds is put down at once.
fn flush<'a>(
    directories: &mut FxHashMap<AvailName<'a>, Vec<AvailName<'a>>>,
    directory: Option<AvailName<'a>>,
    inside: &mut Vec<AvailName<'a>>,
) {
    if let Some(directory) = directory.filter(|_| !inside.is_empty()) {
        directories.entry(directory).or_default().append(inside);
    }
}

/// rc files of what is walked, in the order that this release reads them.
fn read_rcs(
    view: &ModulepathView<'_>,
    config: &Config,
    pattern: &Pattern<'_>,
    symbols: &mut RcSymbols,
) {
    let is_walked = |name: &str| !name.contains('/') || pattern.walks_into(top(name));
    let valid = |rc: &&crate::index::RcFile| rc.cookie.is_valid_for(&config.release);
    let mut rcs: Vec<_> = view.rcs().filter(|rc| is_walked(&rc.name)).filter(valid).collect();
    match config.style {
        Style::Since52 | Style::Since55 => rcs.sort_by(|left, right| left.name.cmp(&right.name)),
        Style::Since57 => rcs.sort_by(|left, right| depth_first(&left.name, &right.name)),
    }
    for rc in rcs {
        symbols.read(view.root(), rc);
    }
}

/// A directory's own rc files come first, then those of its directories, each with all below it.
fn depth_first(left: &str, right: &str) -> std::cmp::Ordering {
    fn directory(name: &str) -> Vec<&str> {
        let mut parts: Vec<&str> = name.split('/').collect();
        parts.pop();
        parts
    }
    directory(left).cmp(&directory(right)).then_with(|| left.cmp(right))
}

/// The first part of a name.
fn top(name: &str) -> &str {
    name.split('/').next().unwrap_or(name)
}

/// The last part of a name.
pub(super) fn last(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// A name's directory and last part, if it has a directory.
pub(super) fn split<'a>(name: &AvailName<'a>) -> Option<(AvailName<'a>, AvailName<'a>)> {
    match name {
        Cow::Borrowed(name) => {
            let (parent, tail) = name.rsplit_once('/')?;
            Some((Cow::Borrowed(parent), Cow::Borrowed(tail)))
        }
        Cow::Owned(name) => {
            let (parent, tail) = name.rsplit_once('/')?;
            Some((Cow::Owned(parent.to_owned()), Cow::Owned(tail.to_owned())))
        }
    }
}

/// `isModuleDotHidden`
pub(super) fn is_dotted(name: &str) -> bool {
    name.starts_with('.') || name.as_bytes().windows(2).any(|pair| pair == b"/.")
}
