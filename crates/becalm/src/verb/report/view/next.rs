//! What to ask next, as a command to paste.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use recording::Cause;
use recording::query::GroupBy;
use term::quoted;

use super::CallReport;

impl CallReport {
    /// The command that goes on where this table stops.
    pub(super) fn next(&self) -> String {
        let recording = self.run.quoted_file();
        let by = |by: GroupBy| format!("becalm report {recording} --by {by}");
        let most = self.table.rows.first();
        match self.table.by {
            GroupBy::Cause => match most.and_then(|row| cause(&row.key)) {
                Some(Cause::LoaderStart | Cause::LoaderDlopen) => by(GroupBy::Library),
                Some(Cause::PythonImport | Cause::ModuleTool) => by(GroupBy::Module),
                Some(Cause::Shell) => by(GroupBy::Process),
                _ => by(GroupBy::Prefix),
            },
            GroupBy::Prefix => match (&self.below, most) {
                (None, Some(row)) if row.metadata_ops > 0 => {
                    format!(
                        "{} --below {}",
                        by(GroupBy::Prefix),
                        quoted(OsStr::from_bytes(&row.raw_key))
                    )
                }
                _ => by(GroupBy::Cause),
            },
            GroupBy::Process => by(GroupBy::Cause),
            GroupBy::Line => self.run.repeated("becalm fork lines"),
            GroupBy::Library | GroupBy::Module | GroupBy::Syscall => {
                self.run.repeated("becalm fix")
            }
        }
    }
}

fn cause(name: &str) -> Option<Cause> {
    Cause::ALL.into_iter().find(|cause| cause.name() == name)
}
