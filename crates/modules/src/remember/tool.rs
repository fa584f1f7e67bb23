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
    /// Lmod.
    Lua,
}

impl ToolLanguage {
    fn of(interpreter: &[u8]) -> Option<ToolLanguage> {
        let name = interpreter.rsplit(|byte| *byte == b'/').next()?;
        let languages = [(&b"tclsh"[..], ToolLanguage::Tcl), (b"lua", ToolLanguage::Lua)];
        let is_other = name.starts_with(b"luajit");
        let mut known = languages.into_iter().filter(|(begins, _)| name.starts_with(begins));
        known.next().filter(|_| !is_other).map(|(_, language)| language)
    }

    /// Scripts that are evaluated before the tool's own: tclsh's at the end of its init.tcl; lua's
    /// first one by itself, and the second by that, where Lmod evaluates Tcl in its own process.
    pub fn preludes(self) -> &'static [&'static str] {
        const TCL: &str = concat!(include_str!("prelude.tcl"), include_str!("script.tcl"));
        const EMBEDDED: &str = concat!(include_str!("prelude.tcl"), include_str!("embedded.tcl"));
        match self {
            ToolLanguage::Tcl => &[TCL],
            ToolLanguage::Lua => &[include_str!("prelude.lua"), EMBEDDED],
        }
    }

    /// The words between interpreter and script that have preludes at these paths evaluated.
    ///
    /// lua evaluates it and then starts the script itself, so that its tracebacks are as they are
    /// without. tclsh needs none.
    fn words(self, preludes: &[PathBuf]) -> Vec<OsString> {
        let [first, rest @ ..] = preludes else { return Vec::new() };
        match self {
            ToolLanguage::Tcl => Vec::new(),
            ToolLanguage::Lua => {
                let rest: Vec<String> =
                    rest.iter().map(|path| format!("\"{}\"", path.display())).collect();
                let code = format!("loadfile(\"{}\")({})", first.display(), rest.join(","));
                vec!["-e".into(), code.into()]
            }
        }
    }

    /// What the names of environment variables begin with that interpreters read without a note.
    /// Tcl's HOME stands for `~` in paths.
    pub(super) const VARIABLES: &[&str] = &["TCL", "HOME", "LUA_"];
}

impl AnsweringTool {
    /// The tool whose script this is.
    ///
    /// # Errors
    /// It cannot be read, or its first line names no interpreter that is known.
    pub fn at(script: &Path) -> io::Result<AnsweringTool> {
        let mut line = Vec::new();
        File::open(script)?.take(LINE_MOST).read_to_end(&mut line)?;
        let unknown = || io::Error::other("its first line names neither tclsh nor lua");
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let words = line.strip_prefix(b"#!").ok_or_else(unknown)?;
        let mut words = words.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let interpreter = words.next_back().ok_or_else(unknown)?;
        let language = ToolLanguage::of(interpreter).ok_or_else(unknown)?;
        let interpreter = OsString::from_vec(interpreter.to_vec());
        Ok(AnsweringTool { script: script.to_owned(), interpreter, language })
    }

    /// The words that run it; behind preludes, if there are any.
    pub fn argv(&self, preludes: &[PathBuf], question: &super::ModuleQuestion) -> Vec<OsString> {
        let mut argv = vec![self.interpreter.clone()];
        argv.extend(self.language.words(preludes));
        argv.push(self.script.clone().into());
        argv.extend(question.words.iter().cloned());
        argv
    }

    /// Whether its script can be named to its interpreter as it is, and that is always the same.
    pub(super) fn is_plain(&self) -> bool {
        let script = self.script.as_os_str().as_bytes();
        // What a search of PATH finds is another thing with another PATH.
        let is_absolute = |path: &[u8]| path.starts_with(b"/");
        is_absolute(script)
            && is_absolute(self.interpreter.as_bytes())
            && script.iter().all(|byte| byte.is_ascii_graphic())
    }
}
