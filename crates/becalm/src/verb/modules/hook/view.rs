//! `becalm modules hook --json`: shell code, for programs that write it somewhere.

use schemars::JsonSchema;
use serde::Serialize;

/// What `becalm modules hook --json` answers.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ModulesHook {
    /// `becalm.modules.hook/1`.
    schema: &'static str,
    /// `bash`, `zsh`, `fish` or `csh`.
    shell: &'static str,
    /// What the shell is to evaluate once `module` is defined.
    code: String,
}

impl ModulesHook {
    /// The code for a shell.
    pub fn of(shell: &'static str, code: String) -> ModulesHook {
        ModulesHook { schema: "becalm.modules.hook/1", shell, code }
    }
}
