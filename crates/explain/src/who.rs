//! What a person would call a program.

use recording::{Exec, Recording, Role, shown_name};

use crate::survey::split;

/// The name of a program: that of the script, where an interpreter runs one.
///
/// `emacs`, `unpack.sh`, `python3 -c`, `bash` (where it reads its commands from a pipe).
pub(crate) fn name(recording: &Recording, exec: &Exec) -> String {
    let own = base(recording, exec);
    if exec.path != exec.image && !interprets(&own) {
        return own;
    }
    match Role::of(recording, exec) {
        Role::Shell | Role::Python | Role::ModuleTool => match first_word(&exec.argv) {
            Some(word) if word.starts_with('-') => format!("{own} {}", shown_name(word)),
            Some(script) => shown_name(last(script)),
            None => own,
        },
        Role::Other => own,
    }
}

/// The name with the interpreter in brackets, where there is one: `unpack.sh (bash)`.
pub(crate) fn full_name(recording: &Recording, exec: &Exec) -> String {
    let name = name(recording, exec);
    let (_, image) = split(recording.path(exec.image));
    let image = recording::shown(image);
    // `python3 -c` tells that python3.11 runs.
    let first = name.split(' ').next().unwrap_or_default();
    let is_told = image.is_empty() || first.starts_with(&image) || image.starts_with(first);
    if is_told || Role::of(recording, exec) == Role::Other {
        name
    } else {
        format!("{name} ({image})")
    }
}

/// What was executed, without its directory.
fn base(recording: &Recording, exec: &Exec) -> String {
    let (_, name) = split(recording.path(exec.path));
    if name.is_empty() {
        exec.argv.first().map_or_else(|| "?".to_owned(), |word| shown_name(last(word)))
    } else {
        recording::shown(name)
    }
}

/// Whether a file of that name runs scripts: `/bin/sh` is a symbolic link to what runs.
fn interprets(name: &str) -> bool {
    ["sh", "bash", "dash", "zsh", "ksh", "tcsh", "csh", "fish"].contains(&name)
        || name.starts_with("python")
        || name.starts_with("tclsh")
        || name.starts_with("lua")
}

/// The script among an interpreter's arguments, or the option that stands for one (`-c`,
/// `-lc`, `-m`).
fn first_word(argv: &[String]) -> Option<&str> {
    let mut words = argv.iter().skip(1).map(String::as_str);
    loop {
        let word = words.next()?;
        let short = word.starts_with('-') && !word.starts_with("--");
        if short && word.ends_with(['c', 'm']) {
            return Some(word);
        }
        // ExplainOptions with a value of their own: bash's -o and -O, python's -W and -X.
        if ["-o", "-O", "+o", "+O", "-W", "-X", "--rcfile", "--init-file"].contains(&word) {
            words.next();
        } else if !word.starts_with(['-', '+']) || word == "-" {
            return Some(word).filter(|word| *word != "-");
        }
    }
}

fn last(path: &str) -> &str {
    path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(path)
}
