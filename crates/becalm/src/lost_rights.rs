//! A command that has rights of its own (set-user-id), where it is started without them and nobody watches.
//!
//! What is recorded says so itself, of each program: `recorded::say_blinds`. In a user namespace without a
//! recorder only the command's own program is looked at.

use launch::Command;
use recording::shown_name;
use rustix::process::geteuid;

/// The line for a command that an ordinary user starts in a user namespace, if there is one to say. To be asked
/// where its looks cost nobody anything: outside of a rehearsal, inside of an image, whose own files are the user's.
/// (Inside, all other users are nobody: who is nobody is told nothing there.)
pub fn of(command: &Command) -> Option<String> {
    let program = command.file().ok().filter(|_| !geteuid().is_root())?;
    launch::gives_rights(&program).then(|| {
        format!(
            "{} gets privileges when it is executed; in a user namespace it does not, so it may do less or fail",
            shown_name(&program)
        )
    })
}
