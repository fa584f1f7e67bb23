//! What rc files define: symbolic versions and aliases, and what they lead to. It is
//! `module-version`, `module-alias` and `setModuleResolution` of `modulecmd.tcl`, which 5.2 and
//! 5.7 have alike.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::index::{RcDefinition, RcFile};
use crate::tcl::dictionary;
use crate::tree::Cookie;

/// The definitions of all rc files that were read so far, in their order. It grows as `avail`
/// comes by more of them, and one definition can change what an earlier one leads to.
#[derive(Debug, Default)]
pub(super) struct RcSymbols {
    /// rc files that were read, by their paths.
    read: FxHashSet<String>,
    /// `foo/default` -> `foo/1` (`g_moduleVersion`), and the rc file that says so.
    pub(super) versions: FxHashMap<String, Target>,
    /// `alias` -> `foo/1` (`g_moduleAlias`), and the rc file that says so.
    pub(super) aliases: FxHashMap<String, Target>,
    /// Virtual modules (`g_moduleVirtual`, `g_sourceVirtual`).
    pub(super) virtuals: FxHashMap<String, VirtualModule>,
    /// The symbols of a module, sorted (`g_symbolHash`).
    symbols: FxHashMap<String, Vec<String>>,
    /// Symbols that are not shown (`g_hiddenSymHash`).
    hidden: FxHashMap<String, Vec<String>>,
    /// What a name leads to in the end, by one step, and the other way round
    /// (`g_moduleResolved`, `g_resolvedPath`, `g_resolvedHash`).
    resolved: FxHashMap<String, String>,
    next: FxHashMap<String, String>,
    leading_to: FxHashMap<String, Vec<String>>,
    /// `foo` and `foo/default` (`g_moduleAltName`).
    other_name: FxHashMap<String, String>,
    /// Automatic symbols that no rc file came after.
    pending: Vec<(String, String)>,
    /// How many resolutions there were.
    steps: u32,
    /// Whether definitions lead round in a circle, or to one another without end.
    pub(super) is_tangled: bool,
}

/// Definitions of a tree lead to that many others at most, before they count as tangled.
const MOST_STEPS: u32 = 1_000_000;

/// A definition.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) module: String,
    /// The path of the rc file.
    pub(super) source: String,
}

/// A virtual module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VirtualModule {
    /// Its file.
    pub(super) file: String,
    /// What that begins with.
    pub(super) cookie: Cookie,
    /// The path of the rc file.
    pub(super) source: String,
}

/// How a name came to mean another.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DefinedBy<'a> {
    /// `module-alias`
    Alias,
    /// A symbol of a version, by an rc file.
    Symbol(&'a str),
    /// `default` or `latest` that nobody defined.
    Automatic,
}

impl RcSymbols {
    /// Reads an rc file, once.
    pub(super) fn read(&mut self, root: &str, rc: &RcFile) {
        let source = format!("{root}/{}", rc.name);
        if !self.read.insert(source.clone()) {
            return;
        }
        for (name, target) in std::mem::take(&mut self.pending) {
            self.resolve(&name, &target, DefinedBy::Automatic, true, "");
        }
        let directory = rc.name.rsplit_once('/').map_or(".", |(directory, _)| directory);
        for rule in &rc.rules {
            match rule {
                RcDefinition::Default(version) => {
                    let (name, target) =
                        (format!("{directory}/default"), format!("{directory}/{version}"));
                    self.resolve(&name, &target, DefinedBy::Symbol("default"), true, &source);
                }
                RcDefinition::Symbols { module, symbols } => {
                    let (name, version) = relative(module, directory);
                    let module = whole(&name, version.as_deref());
                    for symbol in symbols {
                        let symbolic = format!("{name}/{symbol}");
                        // Who comes first is right.
                        if !self.versions.contains_key(&symbolic) {
                            self.resolve(
                                &symbolic,
                                &module,
                                DefinedBy::Symbol(symbol),
                                true,
                                &source,
                            );
                        }
                    }
                }
                RcDefinition::Virtual { name, file, cookie, .. } => {
                    let (base, version) = own(name, directory);
                    let (file, cookie) = (file.clone(), cookie.clone());
                    let module = VirtualModule { file, cookie, source: source.clone() };
                    // The last one counts, in one modulepath only.
                    let before = self.virtuals.insert(whole(&base, version.as_deref()), module);
                    self.is_tangled |= before.is_some();
                }
                RcDefinition::Alias { name, module } => {
                    let (base, version) = own(name, directory);
                    let alias = whole(&base, version.as_deref());
                    let (name, version) = relative(module, directory);
                    let module = whole(&name, version.as_deref());
                    if self.resolve(&alias, &module, DefinedBy::Alias, true, &source) {
                        let target = Target { module, source: source.clone() };
                        self.aliases.insert(alias, target);
                    }
                }
            }
        }
    }

    /// `foo/default` or `foo/latest` that `avail` has found by itself. It counts for what later
    /// rc files say.
    pub(super) fn automatic(&mut self, name: &str, target: &str) {
        self.pending.push((name.to_owned(), target.to_owned()));
    }

    /// The file of a module of a modulepath.
    pub(super) fn file(&self, root: &str, name: &str) -> String {
        let is_of_root =
            |source: &str| source.strip_prefix(root).is_some_and(|rest| rest.starts_with('/'));
        let made = self.virtuals.get(name).filter(|made| is_of_root(&made.source));
        made.map_or_else(|| format!("{root}/{name}"), |made| made.file.clone())
    }

    /// Whether nothing has a symbol.
    pub(super) fn is_empty(&self) -> bool {
        self.symbols.is_empty()
    }

    /// A symbol is not shown with its module.
    pub(super) fn hide(&mut self, module: &str, symbol: &str) {
        self.hidden.entry(module.to_owned()).or_default().push(symbol.to_owned());
    }

    /// The symbols of a module that are shown, sorted.
    pub(super) fn of(&self, module: &str) -> Vec<&str> {
        let Some(symbols) = self.symbols.get(module) else { return Vec::new() };
        let hidden = self.hidden.get(module);
        let is_shown = |symbol: &&String| !hidden.is_some_and(|hidden| hidden.contains(symbol));
        symbols.iter().filter(is_shown).map(String::as_str).collect()
    }

    /// Whether a directory is shown for its symbols (`doesModuleHaveSym`): an empty list of them
    /// counts, unless some are hidden.
    pub(super) fn has_any(&self, module: &str) -> bool {
        self.symbols.contains_key(module)
            && (!self.hidden.contains_key(module) || !self.of(module).is_empty())
    }

    /// `setModuleResolution`. False if a name would lead to itself.
    fn resolve(
        &mut self,
        name: &str,
        target: &str,
        said: DefinedBy<'_>,
        override_next: bool,
        source: &str,
    ) -> bool {
        self.steps += 1;
        self.is_tangled |= self.steps > MOST_STEPS;
        if self.is_tangled {
            return false;
        }
        let Some(path) = self.path(name, target) else { return false };
        let end = path[path.len() - 1].clone();
        let base = name.rsplit_once('/').map_or(name, |(base, _)| base).to_owned();
        let alternative = (said == DefinedBy::Symbol("default")).then(|| base.clone());
        if alternative.as_ref().is_some_and(|other| path.contains(other)) {
            // `foo` would lead to itself: Modules fills its memory once it comes by there.
            self.is_tangled = true;
            return false;
        }
        if alternative.is_some()
            && let Some(before) = self.resolved.get(name)
            && let Some(symbols) = self.symbols.get_mut(before)
            && let Some(at) = symbols.iter().position(|symbol| symbol == "default")
        {
            symbols.remove(at);
        }
        for name in [Some(name), alternative.as_deref()].into_iter().flatten() {
            self.lead(name, target, &end, override_next);
        }
        if let Some(other) = &alternative {
            self.other_name.insert(other.clone(), name.to_owned());
            self.other_name.insert(name.to_owned(), other.clone());
        }
        let mut moved = self.leading_to.remove(name).unwrap_or_default();
        if let Some(other) = &alternative {
            moved.extend(self.leading_to.remove(other).unwrap_or_default());
        }
        for moved in moved {
            self.resolved.insert(moved.clone(), end.clone());
            self.leading_to.entry(end.clone()).or_default().push(moved);
        }
        self.propagate(name, &base, target, said, &path, alternative.as_deref(), source);
        true
    }

    /// All names from the target to where it leads; none if that is the name itself.
    fn path(&mut self, name: &str, target: &str) -> Option<Vec<String>> {
        let mut path = vec![target.to_owned()];
        loop {
            let end = &path[path.len() - 1];
            if end == name {
                return None;
            }
            match self.next.get(end) {
                Some(next) if !path.contains(next) => path.push(next.clone()),
                Some(_) => {
                    self.is_tangled = true;
                    return None;
                }
                None => return Some(path),
            }
        }
    }

    fn lead(&mut self, name: &str, target: &str, end: &str, override_next: bool) {
        self.resolved.insert(name.to_owned(), end.to_owned());
        if override_next || !self.next.contains_key(name) {
            self.next.insert(name.to_owned(), target.to_owned());
        }
        self.leading_to.entry(end.to_owned()).or_default().push(name.to_owned());
    }

    /// Symbols of a name are symbols of all that it leads to, too.
    #[allow(clippy::too_many_arguments)]
    fn propagate(
        &mut self,
        name: &str,
        base: &str,
        target: &str,
        said: DefinedBy<'_>,
        path: &[String],
        alternative: Option<&str>,
        source: &str,
    ) {
        let mut symbols = self.symbols.get(name).cloned().unwrap_or_default();
        let mut other_module = None;
        match said {
            DefinedBy::Automatic => return,
            DefinedBy::Alias => other_module = Some(target.to_owned()),
            DefinedBy::Symbol(symbol) => {
                if let Some(more) = alternative.and_then(|other| self.symbols.get(other)) {
                    symbols = merged(&symbols, more);
                    self.symbols.insert(name.to_owned(), symbols.clone());
                    self.symbols.insert(base.to_owned(), symbols.clone());
                }
                symbols = merged(&symbols, &[symbol.to_owned()]);
                for module in path {
                    let (module_base, _) = parts(module);
                    if module_base != base {
                        other_module = Some(module.clone());
                        break;
                    }
                    self.attach(module, module_base, &symbols, source);
                }
            }
        }
        if let Some(module) = other_module {
            let module_base = parts(&module).0.to_owned();
            for symbol in symbols {
                let symbolic = format!("{module_base}/{symbol}");
                self.resolve(&symbolic, &module, DefinedBy::Symbol(&symbol), false, source);
            }
        }
    }

    fn attach(&mut self, module: &str, base: &str, symbols: &[String], source: &str) {
        let all = match self.symbols.get(module) {
            Some(before) => merged(before, symbols),
            None => symbols.to_vec(),
        };
        if let Some(other) = self.other_name.get(module) {
            self.symbols.insert(other.clone(), all.clone());
        }
        self.symbols.insert(module.to_owned(), all);
        for symbol in symbols {
            let symbolic = format!("{base}/{symbol}");
            let target = Target { module: module.to_owned(), source: source.to_owned() };
            self.versions.insert(symbolic.clone(), target);
            if !self.resolved.contains_key(&symbolic) {
                self.resolved.insert(symbolic.clone(), module.to_owned());
                self.leading_to.entry(module.to_owned()).or_default().push(symbolic);
            }
        }
    }
}

/// `lsort -dictionary -unique` of both.
fn merged(some: &[String], more: &[String]) -> Vec<String> {
    let mut all = [some, more].concat();
    all.sort_by(|left, right| dictionary(left, right));
    all.dedup_by(|left, right| dictionary(left, right).is_eq());
    all
}

/// A name and its last part (`file dirname`, `file tail`), the last part only if there are two.
fn parts(name: &str) -> (&str, Option<&str>) {
    match name.rsplit_once('/') {
        Some((base, last)) => (base, Some(last)),
        None => (name, None),
    }
}

fn whole(base: &str, version: Option<&str>) -> String {
    match version {
        Some(version) => format!("{base}/{version}"),
        None => base.to_owned(),
    }
}

/// `getModuleNameVersion NAME` in an rc file of a directory: `/v` and `./v` are in it.
fn own(name: &str, directory: &str) -> (String, Option<String>) {
    if let Some(version) = name.strip_prefix("./").or_else(|| name.strip_prefix('/')) {
        return (directory.to_owned(), (!version.is_empty()).then(|| version.to_owned()));
    }
    let (base, version) = parts(name.trim_end_matches('/'));
    (base.to_owned(), version.map(str::to_owned))
}

/// `getModuleNameVersion NAME 1`: and `mpi/1` in `gnu/mpi` is `gnu/mpi/1`.
fn relative(name: &str, directory: &str) -> (String, Option<String>) {
    let (base, version) = own(name, directory);
    let last = directory.rsplit('/').next().unwrap_or(directory);
    if !name.starts_with('/') && !name.starts_with("./") && base == last {
        return (directory.to_owned(), version);
    }
    (base, version)
}
