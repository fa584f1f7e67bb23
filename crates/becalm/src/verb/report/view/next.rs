//! What to ask next, as a command to paste.

use recording::Cause;
use recording::query::By;
use term::quoted;

use super::Report;

impl Report {
    /// The command that goes on where this table stops.
    pub(super) fn next(&self) -> String {
        let recording = self.run.quoted_file();
        let by = |by: By| format!("becalm report {recording} --by {by}");
        let most = self.table.rows.first();
        match self.table.by {
            By::Cause => match most.and_then(|row| cause(&row.key)) {
                Some(Cause::LoaderStart | Cause::LoaderDlopen) => by(By::Library),
                Some(Cause::PythonImport | Cause::ModuleTool) => by(By::Module),
                Some(Cause::Shell) => by(By::Process),
                _ => by(By::Prefix),
            },
            By::Prefix => match (&self.below, most) {
                (None, Some(row)) if row.metadata > 0 => {
                    format!("{} --below {}", by(By::Prefix), quoted(&row.raw_key))
                }
                _ => by(By::Cause),
            },
            By::Process => by(By::Cause),
            By::Line => format!("becalm fork lines -- {}", self.run.command_line()),
            By::Library | By::Module | By::Syscall => {
                format!("becalm check -- {}", self.run.command_line())
            }
        }
    }
}

fn cause(name: &str) -> Option<Cause> {
    Cause::ALL.into_iter().find(|cause| cause.name() == name)
}
