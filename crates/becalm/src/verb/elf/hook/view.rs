//! `becalm elf hook --json`: Python code, for programs that write it somewhere.

use schemars::JsonSchema;
use serde::Serialize;

/// What `becalm elf hook --json` answers.
#[derive(Serialize, JsonSchema)]
pub struct ElfHook<'a> {
    /// `becalm.elf.hook/1`.
    schema: &'static str,
    /// `easybuild` or `spack`.
    installer: &'a str,
    /// The whole file; its first lines say where it goes.
    code: String,
}

impl ElfHook<'_> {
    /// The code for an installer.
    pub fn of(installer: &str, code: String) -> ElfHook<'_> {
        ElfHook { schema: "becalm.elf.hook/1", installer, code }
    }
}
