//! What a tool's prelude notes: lookups of paths below `/proc/becalm/` that are not there.
//!
//! | path | what it means |
//! |---|---|
//! | `begun` | the prelude is in effect; without it nothing is kept |
//! | `env/NAME` | an environment variable was read, or asked for |
//! | `env` | all of the environment may decide |
//! | `unrepeatable/WORD` | something was asked for that is otherwise each time |
//!
//! Letters, digits and `_` of a name stand for themselves, every other byte is `%XX`.

use std::collections::BTreeSet;

/// What the notes of a run say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ToolNotes {
    pub begun: bool,
    pub variables: BTreeSet<Vec<u8>>,
    pub whole_environment: bool,
}

impl ToolNotes {
    /// Reads them; one that is not known counts as all of the environment.
    pub fn of(notes: &[Vec<u8>]) -> ToolNotes {
        let mut all = ToolNotes::default();
        for note in notes {
            match note.strip_prefix(b"env/").map(plain) {
                Some(Some(name)) => drop(all.variables.insert(name)),
                None if note == b"begun" => all.begun = true,
                _ => all.whole_environment = true,
            }
        }
        all
    }
}

/// Why what follows a note cannot be repeated, if it says so.
pub(super) fn refuses(note: &[u8]) -> Option<String> {
    let word = note.strip_prefix(b"unrepeatable/")?;
    Some(match word {
        b"clock" => "it reads the clock".into(),
        b"random" => "it draws random numbers".into(),
        b"process" => "it asks for what is its process's alone".into(),
        b"library" => "it loads a library".into(),
        b"traces" => "it looks at Tcl's traces".into(),
        b"link" => "it links to a variable of the environment".into(),
        b"position" => "it asks where it is in its input or output".into(),
        word => format!("it asks for {}", String::from_utf8_lossy(word)),
    })
}

/// A name without its `%XX`.
fn plain(text: &[u8]) -> Option<Vec<u8>> {
    let mut name = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [byte, after @ ..] = rest {
        rest = after;
        if *byte != b'%' {
            name.push(*byte);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        name.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = after;
    }
    Some(name)
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
        for unknown in ["env", "env/%G0", "env/%2", "new/KIND"] {
            assert!(ToolNotes::of(&[unknown.as_bytes().to_vec()]).whole_environment, "{unknown}");
        }
    }

    #[test]
    fn only_what_cannot_be_repeated_refuses() {
        assert_eq!(refuses(b"unrepeatable/clock").as_deref(), Some("it reads the clock"));
        assert_eq!(refuses(b"unrepeatable/moon").as_deref(), Some("it asks for moon"));
        assert_eq!((refuses(b"env/HOME"), refuses(b"begun")), (None, None));
    }
}
