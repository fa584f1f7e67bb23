//! A `module` tool: a script, and the interpreter that its first line names.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::programs::{ASKED_BY_MODULEFILES, STEERS_LOADER};

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

    /// What the first lua evaluates before the tool's own script.
    pub fn prelude(self) -> Option<String> {
        match self {
            ToolLanguage::Tcl => None,
            ToolLanguage::Lua => {
                let text = include_str!("prelude.lua");
                let text = text.replace("%LOADER%", &STEERS_LOADER.join(" "));
                Some(text.replace("%PROGRAMS%", &ASKED_BY_MODULEFILES.join(" ")))
            }
        }
    }

    /// What is evaluated at the end of Tcl's own init.tcl: once by tclsh, and by each interpreter of
    /// Lmod's own process.
    pub fn tcl_prelude(self) -> String {
        let text = match self {
            ToolLanguage::Tcl => concat!(
                "namespace eval ::tcl::becalm {variable hooks {\nvariable ordered 1\n",
                include_str!("prelude.tcl"),
                "set ::tcl::becalm::seldom {\n",
                include_str!("seldom.tcl"),
                "}\n",
                "}}\nnamespace eval ::tcl::becalm $::tcl::becalm::hooks\n",
                include_str!("script.tcl")
            ),
            ToolLanguage::Lua => concat!(
                "namespace eval ::tcl::becalm {}\nset ::tcl::becalm::ordered 0\n",
                include_str!("prelude.tcl"),
                include_str!("embedded.tcl"),
            ),
        };
        code_of(text)
    }

    /// What an interpreter of Lmod's own process evaluates where it needs it, from a file of its own: `%SELDOM%` in
    /// [`ToolLanguage::tcl_prelude`].
    pub fn seldom_tcl(self) -> Option<String> {
        (self == ToolLanguage::Lua).then(|| code_of(include_str!("seldom.tcl")))
    }

    /// The words between interpreter and script that have a prelude at this path evaluated.
    ///
    /// lua evaluates it and then starts the script itself, so that its tracebacks are as they are
    /// without. tclsh needs none.
    fn words(self, prelude: Option<&Path>) -> Vec<OsString> {
        let code = |path: &Path| format!("loadfile(\"{}\")()", path.display()).into();
        prelude.map_or_else(Vec::new, |path| vec!["-e".into(), code(path)])
    }

    /// What the names of environment variables begin with that interpreters read without a note.
    /// Tcl's HOME stands for `~` in paths.
    pub(super) const VARIABLES: &[&str] = &["TCL", "HOME", "LUA_"];
}

/// Without comments and indentation: Tcl reads each byte several times.
fn code_of(text: &str) -> String {
    let lines = text.lines().map(str::trim_start);
    let code = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let code: String = code.flat_map(|line| [line, "\n"]).collect();
    let code = code.replace("%LOADER%", &STEERS_LOADER.join(" "));
    code.replace("%PROGRAMS%", &ASKED_BY_MODULEFILES.join("|"))
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

    /// The words that run it; behind a prelude, if there is one.
    pub fn argv(&self, prelude: Option<&Path>, question: &super::ModuleQuestion) -> Vec<OsString> {
        let mut argv = vec![self.interpreter.clone()];
        argv.extend(self.language.words(prelude));
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::ToolLanguage;

    /// Which of Tcl's commands a text calls, and some words more: what comes first in a line, or after a
    /// bracket.
    fn called(text: &str) -> BTreeSet<&str> {
        let commands = text.split(['\n', '[', '{', ';']);
        let words = commands.filter_map(|command| command.split_whitespace().next());
        words
            .map(|word| word.trim_end_matches(['}', ']']))
            .filter(|word| TCLS.contains(word))
            .collect()
    }

    /// Tcl's own commands (Tcl 8.6 manual, "Tcl Built-In Commands"); those for files, processes and
    /// channels are called by their place (`::open`), or followed.
    const TCLS: &[&str] = &[
        "after",
        "append",
        "apply",
        "array",
        "binary",
        "break",
        "catch",
        "concat",
        "continue",
        "dict",
        "encoding",
        "error",
        "eval",
        "expr",
        "for",
        "foreach",
        "format",
        "global",
        "if",
        "incr",
        "info",
        "interp",
        "join",
        "lappend",
        "lassign",
        "lindex",
        "linsert",
        "list",
        "llength",
        "lmap",
        "lrange",
        "lrepeat",
        "lreplace",
        "lreverse",
        "lsearch",
        "lset",
        "lsort",
        "namespace",
        "proc",
        "regexp",
        "regsub",
        "return",
        "scan",
        "set",
        "source",
        "split",
        "string",
        "subst",
        "switch",
        "tailcall",
        "throw",
        "trace",
        "try",
        "unset",
        "uplevel",
        "upvar",
        "variable",
        "while",
    ];

    #[test]
    fn no_command_is_called_where_a_modulefiles_own_is_not_looked_out_for() {
        let prelude = include_str!("prelude.tcl");
        let list =
            prelude.split_once("set ::tcl::becalm::called {").unwrap().1.split_once('}').unwrap().0;
        let known: BTreeSet<&str> = list.split_whitespace().chain(["source"]).collect();
        let lmods = ToolLanguage::Lua;
        let everywhere = lmods.tcl_prelude() + &lmods.seldom_tcl().unwrap();
        let modulefiles = include_str!("script.tcl").split_once("variable barren {").unwrap().1;
        let modulefiles = modulefiles.split_once("# Words may be cut short").unwrap().0;
        let called: BTreeSet<&str> =
            called(&everywhere).union(&called(modulefiles)).copied().collect();
        assert!(called.len() > 20, "{called:?}");
        // Of Lmod's alone: Modules replaces it.
        assert!(!modulefiles.contains("source") && !prelude.contains("source "));
        assert_eq!(called.difference(&known).collect::<Vec<_>>(), Vec::<&&str>::new());
    }
}
