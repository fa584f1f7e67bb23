//! What must be hidden where Modules no longer looks for cookies (`mcookie_check eval`): it then
//! shows every file by its name. A file is hidden from exactly those to whom it is not shown
//! today; where that cannot be said, cookies are checked further.

use std::path::Path;

use super::everyone;
use super::shelf::{Shelf, is_plain};
use super::{Hidden, View};
use crate::site::User;
use crate::tcl;
use crate::tree::{Cookie, Entry, Kind, acl};

/// The lines that a modulepath needs.
///
/// # Errors
/// Why its names cannot be shown as they are today.
pub(super) fn lines(
    shelf: &Shelf<'_>,
    at: usize,
    leaving: &[&Path],
    views: &[View],
) -> Result<Vec<Hidden>, String> {
    let mut hidden = Vec::new();
    for (name, entry) in &shelf.entries {
        if leaving.contains(name) || !is_listed(entry) {
            continue;
        }
        let path = shelf.root.join(name);
        let says = line(shelf, at, entry, views);
        let found = says.map_err(|why| format!("{}: {why}", path.display()))?;
        if let Some((line, why)) = found {
            hidden.push(Hidden { path, line, why });
        }
    }
    if let Some(why) = shelf.root_is_closed().filter(|_| !hidden.is_empty()) {
        return Err(format!("{}: {why}", shelf.root.display()));
    }
    Ok(hidden)
}

/// Whether `avail` would show the name without a look into the file.
fn is_listed(entry: &Entry) -> bool {
    match entry.kind {
        Kind::File(_) | Kind::Special | Kind::Dangling => true,
        Kind::Unreadable { is_folder, .. } => !is_folder,
        _ => false,
    }
}

fn line(
    shelf: &Shelf<'_>,
    at: usize,
    entry: &Entry,
    views: &[View],
) -> Result<Option<(String, &'static str)>, String> {
    let name = entry.name.to_str().ok_or("its name is no text")?;
    let hide = |options: &[&str]| -> Result<String, String> {
        if !is_plain(name) {
            return Err("its name is more than a plain name".into());
        }
        let words = ["module-hide", "--hard"].iter().chain(options).copied();
        Ok(tcl::join(words.chain([name])))
    };
    match &entry.kind {
        Kind::File(Cookie::Missing) => Ok(Some((hide(&[])?, "it is no modulefile"))),
        Kind::File(Cookie::Version(asked)) if !shelf.is_modulefile(&entry.name) => {
            if !asked.chars().all(|letter| letter.is_ascii_digit() || letter == '.') {
                return Err(format!("it asks for the release {asked:?}"));
            }
            let hide = hide(&[])?;
            let line = format!("if {{[versioncmp $ModuleToolVersion {asked}] < 0}} {{ {hide} }}");
            Ok(Some((line, "it asks for a newer Modules")))
        }
        Kind::File(_)
            if everyone::may_read(shelf.root, &entry.name)
                || everyone::who_lists_it_may_read(shelf.root, &entry.name) =>
        {
            Ok(None)
        }
        Kind::File(_) => {
            let readers = readers(shelf, entry)?;
            agrees_with(views, at, &entry.name, &readers)?;
            Ok(Some((hide(&["--not-user", &tcl::join(&readers)])?, "others may not read it")))
        }
        _ => Err("it cannot be read, or is no file".into()),
    }
}

/// The names of those who may read a file that others may not.
fn readers(shelf: &Shelf<'_>, entry: &Entry) -> Result<Vec<String>, String> {
    let path = shelf.root.join(&entry.name);
    let stamp = entry.stamp.ok_or("nothing is known of it")?;
    if entry.is_link || acl::has_list(&path) || stamp.mode & 0o044 != 0 {
        return Err("who may read it cannot be said by users' names".into());
    }
    let owner_may = stamp.user != 0 && stamp.mode & 0o400 != 0;
    let mut readers = vec!["root".to_owned()];
    if owner_may {
        let owner = User::named(&stamp.user.to_string()).map_err(|error| error.to_string())?;
        readers.push(owner.name);
    }
    Ok(readers)
}

/// Whether the users who were asked see the file just as its permissions say: a filesystem that
/// keeps root out, or a security module, may know better.
fn agrees_with(views: &[View], at: usize, name: &Path, readers: &[String]) -> Result<(), String> {
    for view in views {
        let Some(tree) = view.trees.get(at) else { continue };
        let Some(entry) = tree.entries.iter().find(|entry| entry.name == name) else { continue };
        let reads = matches!(entry.kind, Kind::File(_));
        if reads != readers.contains(&view.user.name) {
            return Err(format!("{} sees it otherwise than its permissions say", view.user.name));
        }
    }
    Ok(())
}
