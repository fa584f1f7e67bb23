//! A calm file for those who launch by something else than a typed line: a wrapper script, a
//! modulefile, a batch script. Each calls `becalm run`, so that what has changed is refused.

use std::ffi::OsStr;
use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result, bail};
use cure::CalmFile;
use schemars::JsonSchema;
use serde::Serialize;

use super::launched::LaunchedCommand;

/// What is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ScriptKind {
    Shell,
    Modulefile,
    Lua,
    Slurm,
}

/// A script.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LaunchScript {
    /// What it is for.
    kind: ScriptKind,
    /// The script.
    pub text: String,
}

/// What the scripts are made of.
struct ScriptWords {
    /// The calm file, absolute.
    path: String,
    /// What starts the program by it, for a shell; arguments follow.
    launch: String,
    /// What an alias of it is called.
    name: String,
    /// The variable that names the calm file.
    variable: String,
    /// The directory of the command, for a shell.
    directory: String,
    /// What repeats the whole command there, for a shell.
    repeat: String,
}

impl LaunchScript {
    /// The script for a calm file at an absolute path.
    pub fn of(kind: ScriptKind, path: &Path, calm: &CalmFile) -> Result<LaunchScript> {
        let words = ScriptWords::of(kind, path, calm)?;
        let text = match kind {
            ScriptKind::Shell => words.shell(),
            ScriptKind::Modulefile => words.tcl(),
            ScriptKind::Lua => words.lua(),
            ScriptKind::Slurm => words.slurm(),
        };
        Ok(LaunchScript { kind, text })
    }
}

impl ScriptWords {
    fn of(kind: ScriptKind, file: &Path, calm: &CalmFile) -> Result<ScriptWords> {
        let path = file.to_str().context("the calm file's path is no UTF-8: move it")?;
        let command = LaunchedCommand::of(file, calm)?;
        // A batch script passes no arguments on.
        if let Some(why) = command.closed.as_ref().filter(|_| kind != ScriptKind::Slurm) {
            bail!(
                "{}: {why}: becalm fix --apply -o {} -- PROGRAM",
                term::plain(path),
                term::quoted(path)
            );
        }
        let name = command.name.as_deref().or(file.file_stem()).unwrap_or(OsStr::new("app"));
        let name = name.to_string_lossy();
        let is_word = |char: char| char.is_ascii_alphanumeric() || char == '_';
        let with = |is_kept: &dyn Fn(char) -> bool| -> String {
            name.chars().map(|char| if is_kept(char) { char } else { '_' }).collect()
        };
        let variable = with(&is_word).to_uppercase();
        let run = format!("becalm run {} --", term::quoted(path));
        Ok(ScriptWords {
            path: path.to_owned(),
            launch: format!("{run} {}", term::shell_line(command.before_arguments())),
            name: with(&|char| is_word(char) || "-.+".contains(char)),
            // A variable begins with no digit.
            variable: match variable.starts_with(|char: char| char.is_ascii_digit()) {
                true => format!("_{variable}_CALM"),
                false => format!("{variable}_CALM"),
            },
            directory: term::quoted_path(&calm.directory),
            repeat: format!("{run} {}", term::shell_line(&command.whole)),
        })
    }

    fn whatis(&self) -> String {
        format!("{}, started as {} says", self.name, self.path)
    }

    /// A program to put into PATH, before the one that it starts.
    fn shell(&self) -> String {
        format!(
            "#!/bin/bash\n\
             # Starts the program as the calm file says, with the arguments that it is given.\n\
             # Put it into PATH under the name {}.\n\
             exec {} \"$@\"\n",
            self.name, self.launch
        )
    }

    /// An exported function is met by scripts, too, which read no alias; only bash has them.
    fn tcl(&self) -> String {
        let (name, variable) = (&self.name, &self.variable);
        let lines = [
            "#%Module".to_owned(),
            format!(
                "# {name} starts calmed; in batch scripts: srun becalm run \"${variable}\" -- ..."
            ),
            format!("module-whatis {}", tcl_string(&self.whatis())),
            format!("setenv {variable} {}", tcl_string(&self.path)),
            "if {[module-info shell] eq {bash} && [llength [info commands set-function]]} {"
                .to_owned(),
            format!("    set-function {name} {}", tcl_string(&format!("{} \"$@\"", self.launch))),
            "} else {".to_owned(),
            format!("    set-alias {name} {}", tcl_string(&self.launch)),
            "}\n".to_owned(),
        ];
        lines.join("\n")
    }

    fn lua(&self) -> String {
        let (name, variable) = (&self.name, &self.variable);
        let (sh, csh) = (format!("{} \"$@\"", self.launch), format!("{} $*", self.launch));
        let call = |function: &str, words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| lua_string(word)).collect();
            format!("{function}({})\n", words.join(", "))
        };
        format!(
            "-- {name} starts calmed; in batch scripts: srun becalm run \"${variable}\" -- ...\n{}{}{}",
            call("whatis", &[&self.whatis()]),
            call("setenv", &[variable, &self.path]),
            call("set_shell_function", &[name, &sh, &csh]),
        )
    }

    fn slurm(&self) -> String {
        format!(
            "#!/bin/bash\n\
             #SBATCH --job-name={}\n\
             #SBATCH --nodes=1\n\
             #SBATCH --ntasks-per-node=1\n\
             # Ranks of a node share one mount, and compare once what has changed.\n\
             cd {} || exit\n\
             srun {}\n",
            self.name, self.directory, self.repeat
        )
    }
}

/// A word of Tcl in double quotes (Tcl(n), rules 4 and 7 to 9).
fn tcl_string(text: &str) -> String {
    in_quotes(text, &['\\', '"', '$', '[', ']', '{', '}'], |quoted, char| {
        let _ = write!(quoted, "\\u{:04x}", u32::from(char));
    })
}

/// A string of Lua (Lua 5.1, 2.1).
fn lua_string(text: &str) -> String {
    in_quotes(text, &['\\', '"'], |quoted, char| {
        for byte in char.encode_utf8(&mut [0; 4]).bytes() {
            let _ = write!(quoted, "\\{byte:03}");
        }
    })
}

/// Text in double quotes, with a backslash before some characters, and control characters, which
/// could end a line, spelt out.
fn in_quotes(text: &str, escaped: &[char], spell: impl Fn(&mut String, char)) -> String {
    let mut quoted = String::from("\"");
    for char in text.chars() {
        match char {
            char if escaped.contains(&char) => quoted.extend(['\\', char]),
            char if char.is_control() => spell(&mut quoted, char),
            char => quoted.push(char),
        }
    }
    quoted.push('"');
    quoted
}
