//! An rc file as what it defines, where that is the same for everybody and at all times.

use super::{DynamicWord, TclCommand, commands};
use crate::tree::Cookie;

/// Characters of an unknown command that an error shows.
const SHOWN: usize = 60;

/// What one command of an rc file defines. Names are as they are written: `/v` and `./v` mean
/// the rc file's own directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Definition {
    /// `set ModulesVersion VERSION`: the default of the directory that it lies in. It counts in
    /// `.version` only.
    Default(String),
    /// `module-version MODULE SYMBOL…`
    Symbols {
        /// The module.
        module: String,
        /// Names for its version, `default` above all.
        symbols: Vec<String>,
    },
    /// `module-alias NAME MODULE`
    Alias {
        /// The new name.
        name: String,
        /// What it means.
        module: String,
    },
    /// `module-virtual NAME FILE`
    Virtual {
        /// The module's name.
        name: String,
        /// Its file, from the rc file's directory on, or absolute.
        file: String,
    },
    /// `module-hide`, `module-forbid`, `module-tag` and what comes, with all its words: global,
    /// and, by its options, for some users or times.
    Other(Vec<String>),
}

/// One definition, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defined {
    /// The line; the first is 1.
    pub line: usize,
    /// What it defines.
    pub definition: Definition,
}

/// Why an rc file is not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unread {
    /// It has no cookie: Modules does not evaluate it.
    #[error("no magic cookie")]
    NoCookie,
    /// It is more than literal words.
    #[error(transparent)]
    Dynamic(#[from] DynamicWord),
    /// A command that is not one of the definitions, or one with words that do not fit it.
    #[error("line {line}: {command}")]
    Command {
        /// The line; the first is 1.
        line: usize,
        /// The command's name, or the whole of a short one.
        command: String,
    },
}

/// Reads an rc file that is the same for everybody, by its words.
///
/// # Errors
/// Why it cannot be said what it defines without evaluating it.
pub fn read(content: &[u8]) -> Result<Vec<Defined>, Unread> {
    if Cookie::of(content) == Cookie::Missing {
        return Err(Unread::NoCookie);
    }
    commands(content)?.into_iter().map(defined).collect()
}

fn defined(command: TclCommand) -> Result<Defined, Unread> {
    let line = command.line;
    let unknown = |words: &[String]| {
        let mut command = words.join(" ");
        if command.chars().count() > SHOWN {
            command = words[0].chars().take(SHOWN).collect();
        }
        Unread::Command { line, command }
    };
    let words: Vec<&str> = command.words.iter().map(String::as_str).collect();
    let definition = match words[..] {
        ["set", "ModulesVersion", version] => Definition::Default(version.to_owned()),
        ["module-version", module, ref symbols @ ..] if !symbols.is_empty() => {
            let symbols = symbols.iter().map(|symbol| (*symbol).to_owned()).collect();
            Definition::Symbols { module: module.to_owned(), symbols }
        }
        ["module-alias", name, module] => {
            Definition::Alias { name: name.to_owned(), module: module.to_owned() }
        }
        ["module-virtual", name, file] => {
            Definition::Virtual { name: name.to_owned(), file: file.to_owned() }
        }
        ["module-hide" | "module-forbid", _, ..] | ["module-tag", _, _, ..] => {
            Definition::Other(command.words)
        }
        _ => return Err(unknown(&command.words)),
    };
    Ok(Defined { line, definition })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_rc_file_of_literal_words_says_what_it_defines() {
        let content = b"#%Module5.0\n# mine\nmodule-version ./1.0 default {a b}\n\
            set ModulesVersion 2\nmodule-hide --not-user {x y} foo";
        let read = read(content).unwrap();
        assert_eq!(read[0].line, 3);
        assert_eq!(
            read[0].definition,
            Definition::Symbols {
                module: "./1.0".into(),
                symbols: vec!["default".into(), "a b".into()]
            }
        );
        assert_eq!(read[1].definition, Definition::Default("2".into()));
        assert!(matches!(read[2].definition, Definition::Other(_)));
    }

    #[test]
    fn what_needs_evaluation_is_not_read() {
        assert_eq!(read(b"module-version a/1 x"), Err(Unread::NoCookie));
        assert!(matches!(read(b"#%Module\nmodule-version $x y"), Err(Unread::Dynamic(_))));
        let error = read(b"#%Module\n\nif {1} {module-alias a b}").unwrap_err();
        assert_eq!(error.to_string(), "line 3: if 1 module-alias a b");
    }
}
