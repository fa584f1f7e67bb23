//! Rc files whose definitions may as well stand in the rc file at the modulepath's root.
//!
//! An rc file below a modulepath is evaluated in an interpreter of its own, when `avail` comes to
//! its directory or `load` looks into it. At the root it is evaluated first, always and by
//! everybody, in one interpreter with all others. That is the same only for files that define
//! versions' symbols in literal words, of modulefiles that lie beside them, where all may read
//! all of it and nobody else speaks of the same modules. All else is kept: Modules reads both.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::elsewhere::DefinitionReach;
use super::everyone;
use super::reads::ModulefileReaders;
use super::shelf::{Shelf, ShelfRcFile, is_plain};
use crate::tcl;
use crate::tcl::rc::{Defined, Definition};

/// An rc file that can be merged.
pub(super) struct Candidate<'a> {
    /// Its name, from the modulepath on.
    pub(super) name: &'a Path,
    /// What stands at the root instead.
    pub(super) lines: Vec<String>,
    /// The symbols that it defines, with their directories.
    symbols: Vec<String>,
}

/// What can be merged in a modulepath.
#[derive(Default)]
pub(super) struct Candidates<'a> {
    /// By the directory of the root that they lie in: those of one go together.
    pub(super) by_top: BTreeMap<&'a Path, Vec<Candidate<'a>>>,
    /// What cannot, and why.
    pub(super) kept: Vec<(&'a Path, String)>,
}

/// What can be merged in each of the modulepaths of one `module` command.
/// Where they are to be removed, `readers` are those of the modulepaths.
pub(super) fn candidates<'a>(
    shelves: &'a [Shelf<'a>],
    readers: Option<&ModulefileReaders>,
) -> Vec<Candidates<'a>> {
    let tops: Vec<BTreeSet<&Path>> = shelves.iter().map(all_tops).collect();
    let is_elsewhere = |at: usize, top: &Path| {
        tops.iter().enumerate().any(|(other, tops)| other != at && tops.contains(top))
    };
    let mut all: Vec<_> = shelves
        .iter()
        .enumerate()
        .map(|(at, shelf)| of_shelf(shelf, readers, |top| is_elsewhere(at, top)))
        .collect();
    keep_what_others_speak_of(shelves, &mut all);
    all
}

fn all_tops<'a>(shelf: &Shelf<'a>) -> BTreeSet<&'a Path> {
    shelf.entries.keys().filter_map(|name| top_of(name)).collect()
}

/// The directory of the root that a name lies in; none for a name in the root itself.
fn top_of(name: &Path) -> Option<&Path> {
    let top = name.iter().next().map(Path::new)?;
    (top != name).then_some(top)
}

fn of_shelf<'a>(
    shelf: &'a Shelf<'a>,
    readers: Option<&ModulefileReaders>,
    is_elsewhere: impl Fn(&Path) -> bool,
) -> Candidates<'a> {
    let mut candidates = Candidates::default();
    let closed = shelf.root_is_closed();
    let below = shelf.rcs.iter().filter_map(|(name, rc)| Some((*name, top_of(name)?, rc)));
    for (name, top, rc) in below {
        let found = match &closed {
            Some(why) => Err(why.clone()),
            None if is_elsewhere(top) => {
                Err(format!("{} is in another modulepath, too", top.display()))
            }
            None => {
                let need = readers.and_then(|readers| readers.need_of_rc(&shelf.root.join(name)));
                need.map_or_else(|| candidate(shelf, name, rc), Err)
            }
        };
        match found {
            Ok(candidate) => candidates.by_top.entry(top).or_default().push(candidate),
            Err(why) => candidates.kept.push((name, why)),
        }
    }
    let doubled: Vec<_> = candidates
        .by_top
        .iter()
        .filter(|(_, them)| is_doubled(them))
        .map(|(top, _)| *top)
        .collect();
    for top in doubled {
        candidates.keep(top, "a symbol is defined more than once");
    }
    candidates
}

fn is_doubled(candidates: &[Candidate<'_>]) -> bool {
    let mut seen = BTreeSet::new();
    candidates.iter().flat_map(|candidate| &candidate.symbols).any(|symbol| !seen.insert(symbol))
}

impl<'a> Candidates<'a> {
    fn keep(&mut self, top: &Path, why: &str) {
        for candidate in self.by_top.remove(top).unwrap_or_default() {
            self.kept.push((candidate.name, why.to_owned()));
        }
    }
}

/// Keeps the rc files of directories that an rc file which stays may speak of. What is kept may in
/// turn speak of others.
fn keep_what_others_speak_of(shelves: &[Shelf<'_>], all: &mut [Candidates<'_>]) {
    let mut looked_at = BTreeSet::new();
    loop {
        let mut reaches = Vec::new();
        for (at, (shelf, candidates)) in shelves.iter().zip(&*all).enumerate() {
            let merged: BTreeSet<_> =
                candidates.by_top.values().flatten().map(|candidate| candidate.name).collect();
            let staying = shelf.rcs.iter().filter(|(name, _)| !merged.contains(**name));
            for (name, rc) in staying.filter(|(name, _)| looked_at.insert((at, name.to_path_buf())))
            {
                reaches.push((
                    shelf.root.join(name),
                    top_of(name),
                    DefinitionReach::of(&rc.content),
                ));
            }
        }
        if reaches.is_empty() {
            return;
        }
        for candidates in &mut *all {
            let tops: Vec<_> = candidates.by_top.keys().copied().collect();
            for top in tops {
                let text = top.to_string_lossy();
                let includes = |own: &Option<&Path>, reach: &DefinitionReach| {
                    *own == Some(top) || reach.includes(&text)
                };
                if let Some((by, ..)) = reaches.iter().find(|(_, own, reach)| includes(own, reach))
                {
                    let why = format!("{}, which stays, may be about it, too", by.display());
                    candidates.keep(top, &why);
                }
            }
        }
    }
}

fn candidate<'a>(
    shelf: &Shelf<'a>,
    name: &'a Path,
    rc: &ShelfRcFile,
) -> Result<Candidate<'a>, String> {
    let directory = name.parent().and_then(Path::to_str).ok_or("its name is no text")?;
    let defines = rc.defines.as_ref().map_err(String::clone)?;
    if !everyone::may_read(shelf.root, name) {
        return Err("not everyone may read it".into());
    }
    if rc.links != 1 {
        return Err("it has other names (hard links)".into());
    }
    let is_version = name.ends_with(".version");
    let mut found = Candidate { name, lines: Vec::new(), symbols: Vec::new() };
    for Defined { definition, .. } in defines {
        let (version, symbols) = of_own_directory(definition, directory, is_version)?;
        let module = format!("{directory}/{version}");
        is_safe(shelf, &module)?;
        for symbol in &symbols {
            let whole = format!("{directory}/{symbol}");
            if !is_plain(&whole) || symbol.is_empty() || symbol.contains('/') {
                return Err(format!("{symbol} is more than a plain name"));
            }
            if shelf.entries.contains_key(Path::new(&whole)) {
                return Err(format!("the symbol {whole} is a file's name, too"));
            }
            found.symbols.push(whole);
        }
        let words = ["module-version", &module].into_iter();
        found.lines.push(tcl::join(words.chain(symbols.iter().map(String::as_str))));
    }
    Ok(found)
}

/// The version that is spoken of, and its symbols, if it lies in the rc file's own directory.
fn of_own_directory(
    definition: &Definition,
    directory: &str,
    is_version: bool,
) -> Result<(String, Vec<String>), String> {
    match definition {
        Definition::Default(version) if is_version && !version.contains('/') => {
            Ok((version.clone(), vec!["default".into()]))
        }
        Definition::Default(_) => Err("its ModulesVersion has no effect as it is".into()),
        Definition::Symbols { module, symbols } => {
            let own = [&format!("{directory}/"), "./", "/"];
            let version = own.iter().find_map(|own| module.strip_prefix(*own));
            let version = version.filter(|version| !version.contains('/'));
            let version = version.ok_or_else(|| format!("{module} is not beside it"))?;
            Ok((version.to_owned(), symbols.clone()))
        }
        Definition::Alias { .. } => Err("it has a module-alias".into()),
        Definition::Virtual { .. } => Err("it has a module-virtual".into()),
        Definition::Other(words) => {
            let command = words.first().map_or("", String::as_str);
            Err(format!("it has a {command}, which holds from when it is evaluated"))
        }
    }
}

/// Whether a module can be spoken of at the root: it is there, for everyone, and its name is
/// nothing but a name.
fn is_safe(shelf: &Shelf<'_>, module: &str) -> Result<(), String> {
    let name = Path::new(module);
    if !is_plain(module) {
        Err(format!("{module} is more than a plain name"))
    } else if !shelf.is_modulefile(name) {
        Err(format!("{module} is no modulefile that is there"))
    } else if !everyone::may_read(shelf.root, name) {
        Err(format!("not everyone may read {module}"))
    } else {
        Ok(())
    }
}
