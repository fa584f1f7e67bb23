//! A `module` tool: a script, and the interpreter that its first line names.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// A first line is not longer (binfmt_script(5) takes 256 bytes).
const LINE_MOST: u64 = 256;

/// A tool whose answers can be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnsweringTool {
    /// Its script: `modulecmd.tcl`, or Lmod's `lmod`.
    pub script: PathBuf,
    /// What its first line names.
    pub interpreter: OsString,
    /// The language of both.
    pub language: ToolLanguage,
}

/// What a tool is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolLanguage {
    /// Environment Modules.
    Tcl,
}

impl ToolLanguage {
    fn of(interpreter: &[u8]) -> Option<ToolLanguage> {
        let name = interpreter.rsplit(|byte| *byte == b'/').next()?;
        name.starts_with(b"tclsh").then_some(ToolLanguage::Tcl)
    }

    /// A script that is evaluated before the tool's own, which is then its first argument.
    pub fn prelude(self) -> &'static str {
        match self {
            ToolLanguage::Tcl => include_str!("prelude.tcl"),
        }
    }

    /// What the names of environment variables begin with that interpreters read without a note.
    /// Tcl's HOME stands for `~` in paths.
    pub(super) const VARIABLES: &[&str] = &["TCL", "HOME"];
}

impl AnsweringTool {
    /// The tool whose script this is.
    ///
    /// # Errors
    /// It cannot be read, or its first line names no interpreter that is known.
    pub fn at(script: &Path) -> io::Result<AnsweringTool> {
        let mut line = Vec::new();
        File::open(script)?.take(LINE_MOST).read_to_end(&mut line)?;
        let unknown = || io::Error::other("its first line names no tclsh");
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let words = line.strip_prefix(b"#!").ok_or_else(unknown)?;
        let mut words = words.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let interpreter = words.next_back().ok_or_else(unknown)?;
        let language = ToolLanguage::of(interpreter).ok_or_else(unknown)?;
        let interpreter = OsString::from_vec(interpreter.to_vec());
        Ok(AnsweringTool { script: script.to_owned(), interpreter, language })
    }

    /// The words that run it; behind a prelude, which is a script at another path.
    pub fn argv(&self, prelude: Option<&Path>, question: &super::ModuleQuestion) -> Vec<OsString> {
        let mut argv = vec![self.interpreter.clone()];
        argv.extend(prelude.map(|path| path.as_os_str().to_owned()));
        argv.push(self.script.clone().into());
        argv.extend(question.words.iter().cloned());
        argv
    }

    /// Whether a script at this path can be named to its interpreter as it is.
    pub(super) fn is_plain(&self) -> bool {
        let path = self.script.as_os_str().as_bytes();
        path.starts_with(b"/") && path.iter().all(|byte| byte.is_ascii_graphic())
    }
}
