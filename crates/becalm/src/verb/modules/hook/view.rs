//! `becalm modules hook --json`: shell code, for programs that write it somewhere.

use serde::Serialize;

/// What `becalm modules hook --json` answers.
#[derive(Debug, Serialize)]
pub struct ModulesHook {
    schema: &'static str,
    shell: &'static str,
    code: String,
}

impl ModulesHook {
    /// The code for a shell.
    pub fn of(shell: &'static str, code: String) -> ModulesHook {
        ModulesHook { schema: "becalm.modules.hook/1", shell, code }
    }
}
