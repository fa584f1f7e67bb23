//! Rules about rc files: `.modulerc` and `.version`.

use std::collections::HashMap;
use std::path::Path;

use super::finding::{AuditFinding, AuditRule};
use super::report::FindingContext;
use crate::tcl::rc::{Defined, Definition, Unread, read};
use crate::tcl::{DynamicReason, join, split};
use crate::tree::{Cookie, ModulepathTree, Rc, TreeEntry, TreeEntryKind, content};

/// More than this of an rc file is not read.
const MOST: u64 = 1 << 20;

/// Why an rc file must stay where it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WhyNot {
    /// It is at the top already.
    #[error("it is at the modulepath's root")]
    AtTop,
    /// It cannot be read, or is more than literal words.
    #[error("{0}")]
    Unread(String),
    /// It defines nothing, or more than one thing: an error in the middle of merged lines ends
    /// them all.
    #[error("it does not define exactly one thing")]
    NotOne,
    /// It lies beside another rc file, whose order counts.
    #[error("its directory has two rc files")]
    Beside,
    /// It defines something of other directories, or something that is global.
    #[error("it is about more than its own directory")]
    Elsewhere,
    /// What it names is not there, or not for everyone.
    #[error("what it names is not a modulefile that everyone may read")]
    NoTarget,
    /// Not everyone may read it: moved, it would be told to all.
    #[error("not everyone may read it")]
    Private,
    /// It is reached through a link.
    #[error("it is reached through a link")]
    Linked,
}

/// The rc files of a tree that could be lines of the modulepath's own.
pub struct Movable<'a> {
    tree: &'a ModulepathTree,
    names: HashMap<&'a Path, &'a TreeEntry>,
}

impl<'a> Movable<'a> {
    /// Of that tree.
    pub fn of(tree: &'a ModulepathTree) -> Movable<'a> {
        let names = tree.entries.iter().map(|entry| (entry.name.as_path(), entry));
        Movable { tree, names: names.collect() }
    }

    /// Whether an rc file could be a line of the modulepath's own rc file without a difference
    /// to anybody, by its words: then that line. What the line does among others there is not
    /// looked at.
    ///
    /// # Errors
    /// Why it must stay.
    pub fn line(&self, entry: &TreeEntry) -> Result<String, WhyNot> {
        let directory = entry.name.parent().filter(|directory| !directory.as_os_str().is_empty());
        let directory = directory.ok_or(WhyNot::AtTop)?;
        let bytes =
            content(&self.tree.path(entry), MOST).map_err(|why| WhyNot::Unread(why.to_string()))?;
        let definitions = read(&bytes).map_err(|why| WhyNot::Unread(why.to_string()))?;
        self.everyone_may_read(entry)?;
        if self.is_beside_another(entry, directory) {
            return Err(WhyNot::Beside);
        }
        let [Defined { definition, .. }] = &definitions[..] else { return Err(WhyNot::NotOne) };
        let (version, symbols) = match (definition, &entry.kind) {
            (Definition::Default(version), TreeEntryKind::Rc(Rc::Version, _)) => {
                (version.as_str(), vec!["default".to_owned()])
            }
            (Definition::Symbols { module, symbols }, _) => {
                (version_of(module, directory).ok_or(WhyNot::Elsewhere)?, symbols.clone())
            }
            _ => return Err(WhyNot::Elsewhere),
        };
        let target = directory.join(version);
        if version.is_empty() || version.contains('/') || !self.is_public_module(&target) {
            return Err(WhyNot::NoTarget);
        }
        let target = target.to_str().ok_or(WhyNot::NoTarget)?.to_owned();
        Ok(join(["module-version".to_owned(), target].into_iter().chain(symbols)))
    }

    fn is_beside_another(&self, entry: &TreeEntry, directory: &Path) -> bool {
        let mut names = [".modulerc", ".version"].iter().map(|name| directory.join(name));
        names.any(|name| name != entry.name && self.names.contains_key(name.as_path()))
    }

    fn everyone_may_read(&self, entry: &TreeEntry) -> Result<(), WhyNot> {
        if !self.tree.top.stamp.is_some_and(|stamp| stamp.everyone_may_read()) {
            return Err(WhyNot::Private);
        }
        for one in entry.name.ancestors().filter_map(|name| self.names.get(name)) {
            if !one.stamp.is_some_and(|stamp| stamp.everyone_may_read()) {
                return Err(WhyNot::Private);
            }
            if one.is_link {
                return Err(WhyNot::Linked);
            }
        }
        Ok(())
    }

    fn is_public_module(&self, name: &Path) -> bool {
        self.names.get(name).is_some_and(|entry| {
            matches!(entry.kind, TreeEntryKind::File(Cookie::Plain | Cookie::Version(_)))
                && entry.stamp.is_some_and(|stamp| stamp.everyone_may_read())
        })
    }
}

/// `/v` and `./v` mean the rc file's directory; `DIRECTORY/v` does so by its name.
fn version_of<'a>(module: &'a str, directory: &Path) -> Option<&'a str> {
    let own = [Some("."), Some(""), directory.to_str()];
    own.iter().flatten().find_map(|own| module.strip_prefix(own)?.strip_prefix('/'))
}

/// What the rc files of a tree give rise to.
pub(super) fn findings(tree: &ModulepathTree, about: &FindingContext<'_>) -> Vec<AuditFinding> {
    let rc_files = tree.entries.iter().filter(|entry| matches!(entry.kind, TreeEntryKind::Rc(..)));
    let movable = Movable::of(tree);
    rc_files.filter_map(|entry| finding(&movable, entry, about)).collect()
}

fn finding(
    movable: &Movable<'_>,
    entry: &TreeEntry,
    about: &FindingContext<'_>,
) -> Option<AuditFinding> {
    let path = movable.tree.path(entry);
    let TreeEntryKind::Rc(_, cookie) = &entry.kind else { return None };
    if breaks(&path) {
        let text = "Modules puts this path in braces".to_owned();
        return Some(about.finding(AuditRule::BreakingName, &path, text, 0));
    }
    if let Cookie::Version(asked) = cookie
        && !about.takes(asked)
    {
        return Some(about.finding(
            AuditRule::NewerCookie,
            &path,
            format!("it asks for Modules {asked}"),
            5,
        ));
    }
    if *cookie == Cookie::Missing {
        return Some(about.finding(
            AuditRule::RcWithoutCookie,
            &path,
            "no magic cookie".to_owned(),
            5,
        ));
    }
    let bytes = content(&path, MOST).ok()?;
    if let Err(Unread::Dynamic(dynamic)) = read(&bytes)
        && matches!(dynamic.why, DynamicReason::Open | DynamicReason::Follows)
    {
        let mut broken = about.finding(AuditRule::BrokenRc, &path, dynamic.why.to_string(), 0);
        broken.line = Some(dynamic.line);
        return Some(broken);
    }
    let line = movable.line(entry).ok()?;
    Some(about.finding(AuditRule::MovableRc, &path, format!("could be: {line}"), 6))
}

/// Whether a path is another word, or none, when it is put in braces, as `execute-modulerc` of
/// 5.2 to 5.7 does (`interp eval $itrp set ::ModulesCurrentModulefile "{$modfile}"`).
fn breaks(path: &Path) -> bool {
    let path = path.to_string_lossy();
    split(&format!("{{{path}}}")) != Ok(vec![path.into_owned()])
}
