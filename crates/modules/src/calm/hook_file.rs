//! A file that shells evaluate, so that `module avail` asks becalm first.

use std::path::Path;

use super::files::{MARK, PlannedFile};
use crate::avail::hook::Shell;

/// Among the files of /etc/profile.d it comes after the one that defines `module`.
const NAME: &str = "zz-becalm-modules";

/// Which shells a file is for, by its ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookFile {
    /// bash and zsh; any other shell of this family passes over it.
    Sh,
    /// csh and tcsh.
    Csh,
    /// fish.
    Fish,
}

impl HookFile {
    fn ending(self) -> &'static str {
        match self {
            HookFile::Sh => "sh",
            HookFile::Csh => "csh",
            HookFile::Fish => "fish",
        }
    }

    /// What is in it; `becalm` is the path of the program.
    fn content(self, becalm: &str) -> String {
        match self {
            HookFile::Sh => format!(
                "{MARK}if [ -n \"${{BASH_VERSION:-}}\" ]; then\n{}elif [ -n \"${{ZSH_VERSION:-}}\" ]; \
                 then\neval {}\nfi\n",
                Shell::Bash.hook(becalm),
                // What other shells cannot even read stays a text to them.
                term::quoted(Shell::Zsh.hook(becalm)),
            ),
            HookFile::Csh => format!("{MARK}{}", Shell::Csh.hook(becalm)),
            HookFile::Fish => format!("{MARK}{}", Shell::Fish.hook(becalm)),
        }
    }
}

/// The files for some shells, in a directory.
pub fn hook_files(directory: &Path, shells: &[HookFile], becalm: &str) -> Vec<PlannedFile> {
    let file = |shell: &HookFile| PlannedFile {
        path: directory.join(format!("{NAME}.{}", shell.ending())),
        content: shell.content(becalm),
    };
    shells.iter().map(file).collect()
}

/// How a file is evaluated by the shells that it is for.
pub(super) fn evaluated(path: &Path) -> String {
    let word = if path.extension().is_some_and(|end| end == "sh") { "." } else { "source" };
    format!("{word} {}", term::quoted_path(path))
}
