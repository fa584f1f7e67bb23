//! Which shells of a recording would have the library of `becalm run --builtins`.

use std::collections::HashSet;
use std::ptr;

use recording::{Exec, Recording};

use crate::binding::base_name;

/// How a shell comes to the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShellReach {
    /// bash reads the file that `BASH_ENV` names, whoever starts it.
    ReadsOurFile,
    /// It is started with it: by becalm, or by what has been started so.
    ByItsStarter,
}

/// The programs of a recording that are started with a library.
pub(crate) struct Reach<'r> {
    recording: &'r Recording,
    /// Each is one of the recording's own.
    hosts: HashSet<*const Exec>,
}

impl<'r> Reach<'r> {
    pub(crate) fn of(recording: &'r Recording) -> Reach<'r> {
        let mut reach = Reach { recording, hosts: HashSet::new() };
        // Who starts a process comes before it.
        for process in &recording.processes {
            let parent = process.parent;
            let mut starter = parent.and_then(|id| recording.program(id, process.started));
            let mut is_first = process.parent.is_none();
            for exec in &process.execs {
                let is_reached = is_first || starter.is_some_and(|at| reach.passes_on(at));
                let name = base_name(recording.path(exec.image));
                let starts_shells = script::builtins::starts_shells(&recording::shown(name));
                if is_reached && (is_shell(recording, exec) || starts_shells) {
                    reach.hosts.insert(exec);
                }
                starter = Some(exec);
                is_first = false;
            }
        }
        reach
    }

    /// How a shell would have the library; none if it is no shell, or would not.
    pub(crate) fn shell(&self, exec: &Exec) -> Option<ShellReach> {
        if reads_our_file(self.recording, exec) {
            return Some(ShellReach::ReadsOurFile);
        }
        let is = self.hosts.contains(&ptr::from_ref(exec)) && is_shell(self.recording, exec);
        is.then_some(ShellReach::ByItsStarter)
    }

    /// Whether the programs that it starts have the library, where they are shells or start such.
    pub(crate) fn passes_on(&self, exec: &Exec) -> bool {
        self.hosts.contains(&ptr::from_ref(exec)) || reads_our_file(self.recording, exec)
    }
}

/// A shell with its user's privileges, for a script, be it named `sh`.
fn is_shell(recording: &Recording, exec: &Exec) -> bool {
    let mut options = exec.argv.iter().skip(1).take_while(|word| word.starts_with(['-', '+']));
    [&b"bash"[..], b"dash"].contains(&base_name(recording.path(exec.image)))
        && options.all(|word| word.starts_with("--") || !word.contains(['p', 'i', 'r', 'l']))
}

/// Whether it is a bash that reads the file that BASH_ENV names: not as `sh`, with its user's
/// privileges, for a script.
fn reads_our_file(recording: &Recording, exec: &Exec) -> bool {
    let name = |path| base_name(recording.path(path));
    let is_script = exec.path != exec.image;
    let own = name(exec.image) == b"bash" && (is_script || name(exec.path) == b"bash");
    let mut options = exec.argv.iter().skip(1).take_while(|word| word.starts_with(['-', '+']));
    // A login shell reads its profiles before ours, and what these start is not done inside.
    let is_login = exec.argv.first().is_some_and(|word| word.starts_with('-'));
    own && !is_login
        && options.all(|word| !word.starts_with("--") && !word.contains(['p', 'i', 'r', 'l']))
}
