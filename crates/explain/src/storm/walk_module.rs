//! Which module of a Python program walks.
//!
//! Calls do not say which code made them. What says it is what only one module lists, after that
//! module's own file was opened; and where the walk lies among the files of modules that the process
//! opened, which happens in the order of its imports.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use recording::module_search::distribution;
use recording::query::python::{ModuleDirectories, is_module_file, package_of};
use recording::{Kind, Name, ProcessId, Role};

use super::walk::ImportsAround;
use crate::survey::{MetadataOp, OpId, OpSurvey, split};

/// What asks installed distributions what they are (`*.dist-info`, `*.egg-info`), by the end of the
/// package's directory. Only the last one lists them, to skip the empty ones
/// (`distributions_from_metadata`).
const ASKS_DISTRIBUTIONS: [(&[u8], &str); 3] = [
    (b"/importlib/metadata", "importlib.metadata"),
    (b"/importlib_metadata", "importlib_metadata"),
    (b"/pkg_resources", "pkg_resources"),
];

/// The part of a walk that one Python process made.
pub(super) struct PythonWalk<'s, 'a> {
    survey: &'s OpSurvey<'a>,
    process: ProcessId,
    /// Its operations, in order; never empty.
    ops: Vec<OpId>,
}

impl<'s, 'a> PythonWalk<'s, 'a> {
    /// That of the first Python process of a walk.
    pub fn of(survey: &'s OpSurvey<'a>, walk: &[OpId]) -> Option<PythonWalk<'s, 'a>> {
        let first = walk.iter().find(|id| survey.op(**id).role == Role::Python)?;
        let process = survey.op(*first).process();
        let ops = walk.iter().copied().filter(|id| survey.op(*id).process() == process).collect();
        Some(PythonWalk { survey, process, ops })
    }

    /// The module, where what is walked tells.
    pub fn module(&self) -> Option<Name> {
        let ops = || self.ops.iter().map(|id| self.survey.op(*id));
        let of_distributions = ops().filter(|op| distribution(op.path).is_some()).count();
        if of_distributions * 2 <= self.ops.len() {
            return None;
        }
        let lists = ops().any(|op| op.kind == Kind::List && distribution(op.path) == Some(op.path));
        let opened: HashSet<&[u8]> = self
            .module_files()
            .take_while(|(id, _)| *id < self.ops[0])
            .filter_map(|(_, op)| package_of(op.path))
            .collect();
        let is_opened = |end: &[u8]| opened.iter().any(|package| package.ends_with(end));
        let mut known = ASKS_DISTRIBUTIONS;
        if lists {
            known.reverse();
        }
        let known = known.into_iter().find(|(end, _)| is_opened(end));
        known.map(|(_, name)| Name::of(OsStr::new(name)))
    }

    /// The imports that the walk lies between.
    pub fn imports(&self) -> Option<ImportsAround> {
        let (first, last) = (self.ops[0], self.ops[self.ops.len() - 1]);
        let after = self.module_files().take_while(|(id, _)| *id < first).last();
        let before = self.module_files().find(|(id, _)| *id > last);
        Some(ImportsAround {
            after: self.name(after?.1.path)?,
            before: before.and_then(|(_, op)| self.name(op.path)),
        })
    }

    /// The files of modules that the process opened.
    fn module_files(&self) -> impl Iterator<Item = (OpId, MetadataOp<'a>)> {
        let (survey, process) = (self.survey, self.process);
        survey.numbered().filter(move |(_, op)| {
            let is_file = is_module_file(split(op.path).1) && !op.event.is_change();
            op.process() == process && op.kind == Kind::Open && op.succeeded() && is_file
        })
    }

    fn name(&self, path: &[u8]) -> Option<Name> {
        let entries = self.survey.sys_path.entries().iter();
        let packages = HashSet::new();
        let directories = ModuleDirectories {
            entries: entries.map(|entry| entry.as_slice().into()).collect(),
            packages: &packages,
        };
        directories.module(path).map(|module| Name::of(OsStr::from_bytes(&module)))
    }
}
