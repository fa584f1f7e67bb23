//! A command, recorded with the hook that makes Python say what it imports.

use std::ffi::OsString;

use python::Hook;
use recording::Recording;
use watch::Finished;

use crate::exit::Failure;
use crate::{python_path, recorded};

/// Runs and records a command; with the hook, unless it may not be brought to it.
pub(super) fn record(
    command: &[OsString],
    wants_hook: bool,
) -> Result<(Recording, Option<Hook>, Finished), Failure> {
    let wanted = recorded::RecordRequest::of(command);
    let takes_hook = wants_hook && launch::takes_hook(command);
    let hook = takes_hook.then(|| Hook::new(python_path::given().as_deref()));
    // The command runs all the same: what imports cause is then inferred from paths.
    let no_hook = hook.as_ref().and_then(|hook| hook.as_ref().err());
    no_hook.into_iter().for_each(|why| term::warn(&format!("{why}; so it is done without")));
    let Some(Ok(hook)) = hook else {
        let (recording, finished) = recorded::and_read(&wanted)?;
        return Ok((recording, None, finished));
    };
    let record = || recorded::and_read(&wanted);
    let (recording, finished) = python_path::instead(&hook.python_path(), record)?;
    Ok((recording, Some(hook), finished))
}
