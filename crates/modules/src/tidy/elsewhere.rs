//! What rc files that are not read may be about.
//!
//! An rc file that depends on who reads it stays where it is. But it may define something of
//! another directory, before or after that directory's own rc file, and the order decides. So a
//! directory that it may speak of is left alone, too.

use std::collections::BTreeSet;

/// Commands that define something of a module.
const DEFINING: [&str; 7] = [
    "module-version",
    "module-alias",
    "module-virtual",
    "module-hide",
    "module-forbid",
    "module-tag",
    "ModulesVersion",
];

/// Commands after which any text may be one of those.
const INDIRECT: [&str; 11] = [
    "source", "eval", "subst", "uplevel", "rename", "interp", "proc", "foreach", "apply", "exec",
    "{*}",
];

/// What a script may define something of.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DefinitionReach {
    /// Anything.
    All,
    /// Names that begin with one of these directories, and names in its own directory.
    Tops(BTreeSet<String>),
}

impl DefinitionReach {
    /// What the script may speak of, by its words; nothing is evaluated.
    pub(super) fn of(script: &[u8]) -> DefinitionReach {
        let Ok(text) = std::str::from_utf8(script) else { return DefinitionReach::All };
        if text.contains('\\') || words(text).any(|word| INDIRECT.contains(&word)) {
            return DefinitionReach::All;
        }
        if text.split(['\n', ';']).any(is_computed) {
            return DefinitionReach::All;
        }
        let tops = words(text).filter_map(|word| word.split('/').next()).map(str::to_owned);
        DefinitionReach::Tops(tops.collect())
    }

    /// Whether it may be about this directory of the modulepath's root.
    pub(super) fn includes(&self, top: &str) -> bool {
        match self {
            DefinitionReach::All => true,
            DefinitionReach::Tops(tops) => tops.contains(top),
        }
    }
}

/// Whether a line defines something whose name is not all there.
fn is_computed(line: &str) -> bool {
    let rest = |name: &&str| line.split_once(*name).map(|(_, rest)| rest);
    DEFINING.iter().filter_map(rest).any(|rest| {
        let opens = rest.matches('{').count() > rest.matches('}').count();
        opens || rest.matches('"').count() % 2 == 1 || rest.contains(['$', '['])
    })
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| letter.is_whitespace() || "{}\"[];".contains(letter))
        .filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_speaks_of_the_directories_that_it_names() {
        let script = b"#%Module\nif {[info exists env(X)]} { module-version foo/1.0 default }\n";
        let reach = DefinitionReach::of(script);
        assert!(reach.includes("foo") && !reach.includes("bar"), "{reach:?}");
    }

    #[test]
    fn a_script_that_puts_names_together_may_speak_of_anything() {
        assert_eq!(
            DefinitionReach::of(b"#%Module\nmodule-version $x default"),
            DefinitionReach::All
        );
        assert_eq!(
            DefinitionReach::of(b"#%Module\nforeach x {a b} { module-tag t $x }"),
            DefinitionReach::All
        );
        assert_eq!(DefinitionReach::of(b"#%Module\nsource other"), DefinitionReach::All);
        assert_eq!(
            DefinitionReach::of(b"#%Module\nmodule-version f\\157o/1 x"),
            DefinitionReach::All
        );
        assert_eq!(DefinitionReach::of(b"#%Module\nmodule-version [x] y"), DefinitionReach::All);
    }
}
