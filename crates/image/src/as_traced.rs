//! Whether a command is the one that an image's order comes from, so that it will ask for what that
//! one used.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Whether a traced command, by the words that [`leading`] keeps of it, is in a command line: in this
/// order, wherever, as a launcher may come before.
pub(crate) fn is_as_traced(traced: &[String], command: &[impl AsRef<OsStr>]) -> bool {
    let command: Vec<&[u8]> = command.iter().map(|word| word.as_ref().as_bytes()).collect();
    let [program, rest @ ..] = traced else { return false };
    let is_it = |words: &[&[u8]]| {
        name(words[0]) == name(program.as_bytes())
            && words[1..].iter().zip(rest).all(|(word, traced)| *word == traced.as_bytes())
    };
    command.windows(traced.len()).any(is_it)
}

/// The words by which a command is known again: its program, and what follows up to the first word
/// that is no option (the script, the code, the module). Further arguments are of one run, and may be
/// nobody else's to know.
pub(crate) fn leading(traced: &[String]) -> &[String] {
    let own = traced.first().filter(|word| name(word.as_bytes()) == b"env").map_or(0, |_| {
        let is_setting = |word: &&String| word.starts_with('-') || word.contains('=');
        1 + traced[1..].iter().take_while(is_setting).count()
    });
    let traced = &traced[own..];
    let operand = traced.iter().skip(1).position(|word| !word.starts_with('-'));
    &traced[..operand.map_or(traced.len(), |at| at + 2)]
}

/// A program is the same by whatever path.
fn name(program: &[u8]) -> &[u8] {
    let path = Path::new(OsStr::from_bytes(program));
    path.file_name().map_or(program, OsStr::as_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_known_by_its_program_and_the_first_word_that_is_no_option() {
        let is = |traced: &str, command: &str| {
            let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
            is_as_traced(leading(&words(traced)), &words(command))
        };
        assert!(is("python3 app.py --seed 1", "/usr/bin/python3 app.py --seed 2"));
        assert!(is("python3 app.py", "mpirun -n 4 env A=b python3 app.py"));
        assert!(is("/usr/bin/env A=b python3 -c code", "python3 -c code more"));
        assert!(is("python3 -s -c code", "python3 -s -c code"));
        assert!(is("emacs", "emacs --version"));
        assert!(!is("python3 app.py", "python3 other.py"));
        assert!(!is("python3 -c code", "python3 -c other"));
        assert!(!is("python3 app.py", "python3"));
        assert!(!is("python3 app.py", "app.py python3"));
        assert!(!is("env A=b", "env A=b"));
        assert!(!is_as_traced(&[], &["python3"]));
    }
}
