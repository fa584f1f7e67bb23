//! A recording as a flat table: a row for each call, in the order in which calls began.
//!
//! Paths are text that reads back as their bytes: as they are, or as [`crate::shown`] spells them where they
//! are no UTF-8.

use std::borrow::Cow;

use super::jsonl::abi_name;
use crate::query::program_name;
use crate::{Attributor, Event, Outcome, PathId, Phase, Recording, errno_name, shown};

/// A column of the table. Times are in nanoseconds, `at_ns` from the start of the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    At,
    Took,
    Process,
    Pid,
    Thread,
    Program,
    Call,
    Abi,
    MetadataOp,
    Result,
    Error,
    Path,
    OtherPath,
    Fd,
    Flags,
    Site,
    InLoader,
    Phase,
    ByDescriptor,
    Cause,
    Inferred,
}

/// All columns, and their names.
pub(super) const COLUMNS: [(Column, &str); 21] = [
    (Column::At, "at_ns"),
    (Column::Took, "took_ns"),
    (Column::Process, "process"),
    (Column::Pid, "pid"),
    (Column::Thread, "thread"),
    (Column::Program, "program"),
    (Column::Call, "call"),
    (Column::Abi, "abi"),
    (Column::MetadataOp, "metadata_op"),
    (Column::Result, "result"),
    (Column::Error, "error"),
    (Column::Path, "path"),
    (Column::OtherPath, "other_path"),
    (Column::Fd, "fd"),
    (Column::Flags, "flags"),
    (Column::Site, "site"),
    (Column::InLoader, "in_loader"),
    (Column::Phase, "phase"),
    (Column::ByDescriptor, "by_descriptor"),
    (Column::Cause, "cause"),
    (Column::Inferred, "inferred"),
];

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ColumnType {
    /// A number that is never missing and never negative.
    Unsigned,
    /// A number that may be missing.
    Signed,
    /// True or false.
    Flag,
    /// Text that may be missing.
    Text,
}

impl Column {
    /// What it holds.
    pub(super) fn kind(self) -> ColumnType {
        match self {
            Column::At | Column::Took | Column::Process | Column::Pid => ColumnType::Unsigned,
            Column::Thread | Column::Flags => ColumnType::Unsigned,
            Column::Result | Column::Fd => ColumnType::Signed,
            Column::MetadataOp | Column::InLoader => ColumnType::Flag,
            Column::ByDescriptor | Column::Inferred => ColumnType::Flag,
            Column::Program | Column::Call | Column::Abi | Column::Error => ColumnType::Text,
            Column::Path | Column::OtherPath | Column::Site => ColumnType::Text,
            Column::Phase | Column::Cause => ColumnType::Text,
        }
    }
}

/// One value of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Field<'a> {
    Unsigned(u64),
    Signed(Option<i64>),
    Flag(bool),
    Text(Option<Cow<'a, str>>),
}

/// The rows of a recording.
pub(super) struct CallRows<'a> {
    recording: &'a Recording,
    attributor: Attributor<'a>,
}

impl<'a> CallRows<'a> {
    pub(super) fn of(recording: &'a Recording) -> CallRows<'a> {
        CallRows { recording, attributor: Attributor::new(recording) }
    }

    /// What a call has in a column.
    pub(super) fn field(&mut self, column: Column, event: &Event) -> Field<'a> {
        let (returned, failed) = match event.outcome {
            Outcome::Returned(value) => (Some(value), None),
            Outcome::Failed(number) => (None, Some(errno_name(number))),
        };
        match column {
            Column::At => Field::Unsigned(event.start.0),
            Column::Took => Field::Unsigned(event.took.0),
            Column::Process => Field::Unsigned(event.process.0.into()),
            Column::Pid => Field::Unsigned(self.recording.process(event.process).pid.into()),
            Column::Thread => Field::Unsigned(event.thread.into()),
            Column::Flags => Field::Unsigned(event.flags),
            Column::Result => Field::Signed(returned),
            Column::Fd => Field::Signed(event.fd.map(i64::from)),
            Column::MetadataOp => Field::Flag(event.is_metadata()),
            Column::InLoader => Field::Flag(event.in_loader),
            Column::ByDescriptor => Field::Flag(event.by_descriptor),
            Column::Inferred => Field::Flag(self.attributor.attribute(event).inferred),
            Column::Program => Field::Text(self.program(event).map(Cow::Owned)),
            Column::Call => Field::Text(Some(event.call.label())),
            Column::Abi => Field::Text(Some(abi_name(event.call.abi()).into())),
            Column::Error => Field::Text(failed),
            Column::Path => self.path(event.path),
            Column::OtherPath => self.path(event.other_path),
            Column::Site => self.path(event.site),
            Column::Phase => {
                let is_loading = event.phase == Phase::Loading;
                Field::Text(Some(if is_loading { "loading" } else { "running" }.into()))
            }
            Column::Cause => {
                Field::Text(Some(self.attributor.attribute(event).cause.name().into()))
            }
        }
    }

    fn program(&self, event: &Event) -> Option<String> {
        let exec = self.attributor.program(event.process, event.start)?;
        Some(shown(&program_name(self.recording, exec)))
    }

    fn path(&self, path: Option<PathId>) -> Field<'a> {
        Field::Text(path.map(|path| {
            let bytes = self.recording.path(path);
            match std::str::from_utf8(bytes) {
                // Nothing in it reads as such a spelling.
                Ok(text) if !text.contains(r"\x") => Cow::Borrowed(text),
                _ => shown(bytes).into(),
            }
        }))
    }
}
