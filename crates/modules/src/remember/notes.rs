//! What a tool's prelude notes: lookups of paths below `/proc/becalm/` that are not there; or of names that
//! begin with `/.becalm:`, with `:` in the place of `/`.
//!
//! | path | what it means |
//! |---|---|
//! | `begun` | the prelude is in effect; without it nothing is kept |
//! | `env/NAME` | an environment variable was read, or asked for |
//! | `env` | all of the environment may decide |
//! | `later` | names of variables are noted together: all of them, if `all` comes |
//! | `envs/NAME/NAME…` | these were read, or asked for |
//! | `all` | from now on, they are noted one by one |
//! | `until/SECONDS` | the answer is another from this moment on, in seconds since 1970 |
//! | `age/SECONDS` | it was asked of files whether they were changed this long ago or less |
//! | `child/WORD` | the next child depends on what was noted before, and is not followed |
//! | `becomes/PATH` | the next child is a shell, which becomes the program at this path |
//! | `temporary` | the next file that is made is the tool's own, and is removed again |
//! | `pager/WORDS` | the next child, started by these words with a zero byte between them, shows the user what is written to it, on standard error |
//! | `changed` | the tool has changed its environment, which a pager would see |
//! | `terminal` | the size of the terminal at standard input was used |
//! | `getcwd` | the next getcwd(2) decides nothing |
//! | `cwd` | the working directory decides |
//! | `user`, `user/known` | an interpreter is made, which asks what the user is called and reads its prelude; it has |
//! | `unrepeatable/WORD` | something was asked for that is otherwise each time |
//!
//! Letters, digits and `_` of a name stand for themselves, every other byte is `%XX`.

use std::collections::BTreeSet;

use watch::dependencies::{AnswerDependency, unescaped_note};

/// What the notes of a run say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ToolNotes {
    pub begun: bool,
    pub variables: BTreeSet<Vec<u8>>,
    pub whole_environment: bool,
    /// Whether variables were asked for that are not among these.
    pub lacks_variables: bool,
    pub terminal: bool,
    pub working_directory: bool,
    /// The words that start a pager.
    pub pager: Vec<Vec<u8>>,
    until: BTreeSet<i64>,
    ages: BTreeSet<i64>,
}

impl ToolNotes {
    /// Reads them; one that is not known counts as all of the environment.
    pub fn of(notes: &[Vec<u8>]) -> ToolNotes {
        let mut all = ToolNotes::default();
        for note in notes {
            if all.take_in(note).is_none() {
                all.whole_environment = true;
            }
        }
        all
    }

    fn take_in(&mut self, note: &[u8]) -> Option<()> {
        let mut parts = note.splitn(2, |byte| *byte == b'/');
        let (kind, rest) = (parts.next()?, parts.next());
        let number = || std::str::from_utf8(rest?).ok()?.parse::<i64>().ok();
        match (kind, rest) {
            (b"begun", None) => self.begun = true,
            (b"later", None) => self.lacks_variables = true,
            (b"all", None) => self.lacks_variables = false,
            (b"envs", Some(names)) => {
                for name in names.split(|byte| *byte == b'/') {
                    self.variables.insert(unescaped_note(name)?);
                }
            }
            (b"env", Some(name)) => drop(self.variables.insert(unescaped_note(name)?)),
            (b"until", Some(_)) => drop(self.until.insert(number()?)),
            (b"age", Some(_)) => drop(self.ages.insert(number()?)),
            (b"terminal", None) => self.terminal = true,
            (b"cwd", None) => self.working_directory = true,
            (b"pager", Some(words)) => {
                self.pager =
                    unescaped_note(words)?.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect()
            }
            (b"changed", None)
            | (b"child" | b"becomes", Some(_))
            | (b"getcwd" | b"user" | b"temporary", None)
            | (b"user", Some(b"known")) => {}
            _ => return None,
        }
        Some(())
    }

    /// Between which moments an answer holds that began to be given at one, in seconds since 1970,
    /// where that was noted. A file that was younger than an age ceases to be; one that was older
    /// stays so.
    pub fn clock(&self, from: i64, dependencies: &[AnswerDependency]) -> Option<AnswerDependency> {
        if self.until.is_empty() && self.ages.is_empty() {
            return None;
        }
        let modified = dependencies.iter().filter_map(|dependency| match dependency {
            AnswerDependency::Attributes { told: Ok(file), .. }
            | AnswerDependency::Content { told: file, .. } => Some(file.modified.0),
            _ => None,
        });
        let grow_old = modified
            .flat_map(|modified| self.ages.iter().map(move |age| modified.saturating_add(*age)));
        let ends = grow_old.chain(self.until.iter().copied());
        let until = ends.filter(|end| *end >= from).min().unwrap_or(i64::MAX);
        Some(AnswerDependency::Clock { from, until })
    }
}

/// Why what follows a note cannot be repeated, if it says so.
pub(super) fn refuses(note: &[u8]) -> Option<String> {
    let word = note.strip_prefix(b"unrepeatable/")?;
    Some(match word {
        b"clock" => "it reads the clock".into(),
        b"random" => "it draws random numbers".into(),
        b"process" => "it asks for what is its process's alone".into(),
        b"program" => "it starts a program".into(),
        b"memory" => "it asks how much memory it uses".into(),
        b"library" => "it loads a library".into(),
        b"traces" => "it looks at Tcl's traces".into(),
        b"access" => "it asks when a file was last read".into(),
        b"error" => "it asks in a way that fails".into(),
        b"interpreter" => "it makes an interpreter of its own".into(),
        b"link" => "it links to a variable of the environment".into(),
        b"environment" => "it unsets the whole environment".into(),
        b"command" => "it replaces a command of Tcl's".into(),
        b"position" => "it asks where it is in its input or output".into(),
        word => format!("it asks for {}", String::from_utf8_lossy(word)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_byte_for_byte_and_what_is_not_known_is_everything() {
        let notes = ["begun", "env/HOME", "env/A%2FB%25%FF"].map(|note| note.as_bytes().to_vec());
        let read = ToolNotes::of(&notes);
        let names = [b"HOME".to_vec(), b"A/B%\xff".to_vec()];
        assert_eq!((read.begun, read.whole_environment), (true, false));
        assert_eq!(read.variables, names.into());
        for unknown in ["env", "env/%G0", "env/%2", "new/KIND", "terminal/3", "age/x"] {
            assert!(ToolNotes::of(&[unknown.as_bytes().to_vec()]).whole_environment, "{unknown}");
        }
    }

    #[test]
    fn names_that_are_noted_together_are_all_there_once_that_is_said() {
        let read = |notes: &[&str]| {
            let notes: Vec<Vec<u8>> = notes.iter().map(|note| note.as_bytes().to_vec()).collect();
            ToolNotes::of(&notes)
        };
        let some = read(&["begun", "later", "envs/A/B%2F", "envs/C"]);
        let names = [b"A".to_vec(), b"B/".to_vec(), b"C".to_vec()];
        assert_eq!((some.variables, some.lacks_variables), (names.into(), true));
        assert!(!read(&["begun", "later", "envs/A", "all", "env/B"]).lacks_variables);
        assert!(!read(&["begun", "env/A"]).lacks_variables);
        assert!(read(&["envs/A/%2"]).whole_environment);
    }

    #[test]
    fn what_is_compared_with_the_clock_holds_until_the_first_moment_that_changes_it() {
        let clock = |notes: &[&str]| {
            let notes: Vec<Vec<u8>> = notes.iter().map(|note| note.as_bytes().to_vec()).collect();
            match ToolNotes::of(&notes).clock(9, &[]) {
                Some(AnswerDependency::Clock { until, .. }) => Some(until),
                _ => None,
            }
        };
        assert_eq!(clock(&["begun"]), None);
        assert_eq!(clock(&["age/86400"]), Some(i64::MAX));
        assert_eq!(
            clock(&["until/5", "until/9999999999", "until/9999999998"]),
            Some(9_999_999_998)
        );
    }

    #[test]
    fn only_what_cannot_be_repeated_refuses() {
        assert_eq!(refuses(b"unrepeatable/clock").as_deref(), Some("it reads the clock"));
        assert_eq!(refuses(b"unrepeatable/moon").as_deref(), Some("it asks for moon"));
        assert_eq!((refuses(b"env/HOME"), refuses(b"begun")), (None, None));
    }
}
