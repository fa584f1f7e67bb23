//! A modulepath of virtual modules: one rc file that names each module and where its file is. No
//! directory is listed any more, and a new modulefile is not seen before this is done again.

use std::path::{Path, PathBuf};

use super::everyone;
use super::shelf::{Shelf, is_plain};
use super::{Tidying, Virtual, merge};
use crate::tcl;
use crate::tcl::rc::Definition;
use crate::tree::{Cookie, TreeEntryKind};

/// The virtual modulepath for one whose rc files can all be merged.
///
/// # Errors
/// Why it would not show what the modulepath shows.
pub(super) fn of(
    shelf: &Shelf<'_>,
    merge: &merge::Candidates<'_>,
    path: PathBuf,
) -> Result<Virtual, String> {
    if let Some(why) = shelf.root_is_closed() {
        return Err(why);
    }
    if let Some((name, why)) = merge.kept.first() {
        return Err(format!("{} cannot be merged: {why}", shelf.root.join(name).display()));
    }
    if path.symlink_metadata().is_ok() {
        return Err(format!("{} is there already", path.display()));
    }
    let mut lines = vec!["#%Module".to_owned()];
    let names: Vec<_> = shelf.entries.iter().filter(|(_, entry)| is_shown(&entry.kind)).collect();
    let mut modules = 0;
    for (name, _) in names {
        if let Some(line) = module(shelf, name)? {
            lines.push(line);
            modules += 1;
        }
    }
    lines.extend(root_lines(shelf)?);
    lines.extend(merge.by_top.values().flatten().flat_map(|one| one.lines.clone()));
    lines.push(String::new());
    let content = lines.join("\n").into_bytes();
    Ok(Virtual { path, instead_of: shelf.root.to_owned(), modules, content })
}

/// Whether a name is one that somebody is shown, now or later.
fn is_shown(kind: &TreeEntryKind) -> bool {
    match kind {
        TreeEntryKind::File(cookie) => *cookie != Cookie::Missing,
        TreeEntryKind::Directory { .. }
        | TreeEntryKind::Rc(..)
        | TreeEntryKind::Cache
        | TreeEntryKind::IgnoredFile
        | TreeEntryKind::IgnoredDirectory => false,
        TreeEntryKind::Loop { .. }
        | TreeEntryKind::Special
        | TreeEntryKind::Unreadable { .. }
        | TreeEntryKind::Dangling => true,
    }
}

/// The line of one module; none if it asks for a newer release, which shows it to nobody.
fn module(shelf: &Shelf<'_>, name: &Path) -> Result<Option<String>, String> {
    let path = shelf.root.join(name);
    let fails = |why: &str| format!("{}: {why}", path.display());
    let text = name.to_str().filter(|text| is_plain(text));
    let text = text.ok_or_else(|| fails("its name is more than a plain name"))?;
    let kind = shelf.entries.get(name).map(|entry| &entry.kind);
    if !matches!(kind, Some(TreeEntryKind::File(_))) {
        return Err(fails("it cannot be read, or is no file"));
    }
    if !everyone::may_read(shelf.root, name) {
        return Err(fails("not everyone may read it, and all would see its name"));
    }
    if !shelf.is_modulefile(name) {
        return Ok(None);
    }
    let file = path.to_str().ok_or_else(|| fails("its path is no text"))?;
    Ok(Some(tcl::join(["module-virtual", text, file])))
}

/// What the modulepath's own rc file defines, written anew.
fn root_lines(shelf: &Shelf<'_>) -> Result<Vec<String>, String> {
    let defines = shelf.root_rc().and_then(|rc| rc.defines.as_ref().ok());
    defines.into_iter().flatten().map(|defined| line(shelf, &defined.definition)).collect()
}

fn line(shelf: &Shelf<'_>, definition: &Definition) -> Result<String, String> {
    Ok(match definition {
        Definition::Default(version) => tcl::join(["set", "ModulesVersion", version]),
        Definition::Symbols { module, symbols } => {
            let words = ["module-version", module.as_str()].into_iter();
            tcl::join(words.chain(symbols.iter().map(String::as_str)))
        }
        Definition::Alias { name, module } => tcl::join(["module-alias", name, module]),
        Definition::Virtual { name, file } => {
            let file = shelf.root.join(file);
            let file = file.to_str().ok_or("a module-virtual's path is no text")?;
            tcl::join(["module-virtual", name, file])
        }
        Definition::Other(words) => tcl::join(words),
    })
}

/// What is planned where virtual modulepaths are asked for: they alone.
pub(super) fn plan(shelves: &[Shelf<'_>], directory: &Path, tidying: &mut Tidying) {
    let merges = merge::candidates(shelves, None);
    for (at, (shelf, merge)) in shelves.iter().zip(&merges).enumerate() {
        let name = shelf.root.file_name().unwrap_or_default();
        let is_taken = |path: &Path| tidying.virtuals.iter().any(|made| made.path == path);
        let mut path = directory.join(name);
        if is_taken(&path) {
            let mut numbered = name.to_owned();
            numbered.push(format!("-{}", at + 1));
            path = directory.join(numbered);
        }
        match of(shelf, merge, path) {
            Ok(made) => {
                tidying.modulepath[at].clone_from(&made.path);
                tidying.virtuals.push(made);
            }
            Err(reason) => tidying.kept.push(super::Kept {
                path: shelf.root.to_owned(),
                what: super::TidySubject::Virtual,
                reason,
            }),
        }
    }
}
