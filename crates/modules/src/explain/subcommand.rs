//! The words of a `module` command line.

/// A command that can be run only to look at what it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subcommand {
    /// As it was typed: `load`.
    pub name: String,
    /// What it does with modulefiles.
    pub work: SubcommandWork,
}

/// What a command does with modulefiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubcommandWork {
    /// It lists names: looks at no more of a file than its first line.
    Lists,
    /// It evaluates every modulefile that it lists.
    EvaluatesAll,
    /// It evaluates those that are named.
    EvaluatesNamed,
}

/// Why a command is not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotExplained {
    /// No word of it is a command.
    #[error("no command: name one, as in 'becalm modules explain avail'")]
    Nothing,
    /// It may write something, or is none that is known.
    #[error(
        "{0}: only what changes no file is run to be explained: avail, list, load, unload, switch, \
         purge, reload, restore, show, whatis, search, path, is-avail, spider, savelist and the like"
    )]
    Unknown(String),
}

/// What each does; from modulecmd.tcl, short names included. What writes collections, caches or
/// files of start-up is not among them.
const KNOWN: [(SubcommandWork, &[&str]); 3] = [
    (
        SubcommandWork::Lists,
        &[
            "avail",
            "av",
            "list",
            "li",
            "aliases",
            "savelist",
            "is-saved",
            "is-loaded",
            "is-used",
            "use",
        ],
    ),
    (SubcommandWork::EvaluatesAll, &["whatis", "search", "keyword", "apropos", "spider"]),
    (
        SubcommandWork::EvaluatesNamed,
        &[
            "load",
            "add",
            "load-any",
            "add-any",
            "try-load",
            "try-add",
            "unload",
            "del",
            "rm",
            "remove",
            "switch",
            "swap",
            "sw",
            "purge",
            "reload",
            "refresh",
            "update",
            "restore",
            "reset",
            "show",
            "display",
            "help",
            "test",
            "path",
            "paths",
            "is-avail",
            "info-loaded",
            "lint",
            "saveshow",
            "mod-to-sh",
        ],
    ),
];

impl Subcommand {
    /// From the words after `module`: the first that is no option.
    ///
    /// # Errors
    /// [`NotExplained`].
    pub fn of(words: &[String]) -> Result<Subcommand, NotExplained> {
        let name = words.iter().find(|word| !word.starts_with('-')).ok_or(NotExplained::Nothing)?;
        let known = KNOWN.iter().find(|(_, names)| names.contains(&name.as_str()));
        match known {
            Some((work, _)) => Ok(Subcommand { name: name.clone(), work: *work }),
            None => Err(NotExplained::Unknown(name.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str]) -> Result<SubcommandWork, NotExplained> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        Subcommand::of(&words).map(|command| command.work)
    }

    #[test]
    fn what_writes_files_is_not_run_only_to_be_looked_at() {
        assert_eq!(of(&["-t", "avail"]), Ok(SubcommandWork::Lists));
        assert_eq!(of(&["load", "save"]), Ok(SubcommandWork::EvaluatesNamed));
        for writes in ["save", "saverm", "cachebuild", "cacheclear", "initadd", "edit", "stash"] {
            assert_eq!(of(&[writes]), Err(NotExplained::Unknown(writes.to_owned())), "{writes}");
        }
        assert_eq!(of(&["-t"]), Err(NotExplained::Nothing));
    }
}
