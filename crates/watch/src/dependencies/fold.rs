//! Fewer dependencies that say as much: what is not there, many times over, and what is no link (`links`).
//!
//! An interpreter looks for each of its libraries below each directory of its path, and most of
//! them are not there. Where a directory above is not there, that says the same of all below it; where
//! it is, and nothing has changed in it, no name has come to it.

use std::collections::{HashMap, HashSet};
use std::ffi::CString;

use super::{AnswerDependency, StatAttributes, links, settled};

/// So many absent names of one directory are taken together: a change beside them, as of a home
/// directory, does not concern fewer.
const TOGETHER: usize = 8;

/// The same dependencies of a command that began at a moment, in seconds since 1970, and has just
/// ended; those on what is not there come last.
pub fn folded(dependencies: Vec<AnswerDependency>, began: i64) -> Vec<AnswerDependency> {
    let mut fold = AbsentNames::default();
    let mut kept: Vec<AnswerDependency> = Vec::with_capacity(dependencies.len());
    let listed: HashSet<CString> = dependencies
        .iter()
        .filter_map(|dependency| match dependency {
            AnswerDependency::Content { path, .. } => Some(path.clone()),
            _ => None,
        })
        .collect();
    let mut directories: Vec<(CString, Vec<AbsentName>)> = Vec::new();
    let mut places: HashMap<CString, usize> = HashMap::new();
    for dependency in dependencies {
        let Some(name) = absent(&dependency).map(|name| fold.topmost(name)) else {
            kept.push(dependency);
            continue;
        };
        let directory = directory(&name.path);
        let at = *places.entry(directory.clone()).or_insert_with(|| {
            directories.push((directory, Vec::new()));
            directories.len() - 1
        });
        if !directories[at].1.contains(&name) {
            directories[at].1.push(name);
        }
    }
    for (directory, names) in directories {
        let is_listed = listed.contains(&directory);
        let told =
            if is_listed || names.len() < TOGETHER { None } else { unchanged(&directory, began) };
        let (links, names): (Vec<_>, Vec<_>) = match is_listed || told.is_some() {
            true => names.into_iter().partition(AbsentName::is_link),
            false => (names, Vec::new()),
        };
        kept.extend(links.into_iter().map(AbsentName::dependency));
        if let (Some(told), false) = (told, names.is_empty()) {
            kept.push(AnswerDependency::Content { path: directory, told });
        }
    }
    links::joined(kept)
}

/// A path that is not there.
#[derive(Clone, PartialEq, Eq)]
struct AbsentName {
    path: CString,
    /// Whether a link that leads to nothing is not there either.
    follow: bool,
}

impl AbsentName {
    /// What it leads to may come to be without a change beside it.
    fn is_link(&self) -> bool {
        StatAttributes::of(&self.path, false) != Err(rustix::io::Errno::NOENT)
    }

    fn dependency(self) -> AnswerDependency {
        let AbsentName { path, follow } = self;
        AnswerDependency::Attributes { path, follow, told: Err(libc::ENOENT) }
    }
}

/// What a dependency says is not there, whoever asks and for what.
fn absent(dependency: &AnswerDependency) -> Option<AbsentName> {
    let (path, follow) = match dependency {
        AnswerDependency::Attributes { path, follow, told: Err(libc::ENOENT) } => (path, *follow),
        AnswerDependency::Access { path, told: libc::ENOENT, .. } => (path, true),
        _ => return None,
    };
    Some(AbsentName { path: path.clone(), follow })
}

#[derive(Default)]
struct AbsentNames {
    known: HashSet<CString>,
    there: HashSet<CString>,
}

impl AbsentNames {
    /// The first directory on the way to a path that is not there, or the path itself.
    fn topmost(&mut self, name: AbsentName) -> AbsentName {
        let bytes = name.path.to_bytes();
        let ends = bytes.iter().enumerate().skip(1).filter(|(_, byte)| **byte == b'/');
        for (end, _) in ends {
            let Ok(above) = CString::new(&bytes[..end]) else { break };
            if self.is_absent(&above) {
                return AbsentName { path: above, follow: true };
            }
        }
        name
    }

    fn is_absent(&mut self, directory: &CString) -> bool {
        if self.there.contains(directory) {
            return false;
        }
        if self.known.contains(directory) {
            return true;
        }
        let is_absent = StatAttributes::of(directory, true) == Err(rustix::io::Errno::NOENT);
        let known = if is_absent { &mut self.known } else { &mut self.there };
        known.insert(directory.clone());
        is_absent
    }
}

/// The directory that a path is in.
fn directory(path: &CString) -> CString {
    let bytes = path.to_bytes();
    let end = bytes.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    CString::new(&bytes[..end.max(1)]).unwrap_or_default()
}

/// A directory's attributes, where nothing has come to it since before a moment.
fn unchanged(directory: &CString, began: i64) -> Option<StatAttributes> {
    let told = StatAttributes::of(directory, true).ok()?;
    let margin = settled::margin(directory, told.device)?;
    (told.has_content() && told.changed.0 < began - margin).then_some(told)
}
