//! Which starts of programs a shell would do itself, by what a recording knows of them: their words and
//! variables.
//!
//! These are the rules of `loadable/` before it looks at files (docs/run-builtins.md, "What is done in the shell").

use std::ops::RangeInclusive;

/// What a shell would do itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InsideByWords {
    /// Whatever its files are, as long as it succeeds in silence.
    Always,
    /// If its files are such that the shell takes them: regular, small, of ASCII.
    ByItsFiles,
    /// The same, if what it reads comes from a file or within one substitution, and not from a pipe.
    ByItsInput,
}

/// The words that a program may have.
struct KnownWords {
    /// Letters of options without a value.
    letters: &'static str,
    /// Letters of options with one.
    valued: &'static str,
    /// How many words that are no options.
    operands: RangeInclusive<usize>,
    /// How many of these are no files, of a program that reads files or else its standard input.
    reads_behind: Option<usize>,
    is_certain: bool,
}

const ANY: usize = usize::MAX;

fn known_words(name: &str) -> Option<KnownWords> {
    let row = |letters, valued, operands, reads_behind, is_certain| {
        Some(KnownWords { letters, valued, operands, reads_behind, is_certain })
    };
    match name {
        "basename" => row("", "", 1..=2, None, true),
        "dirname" | "rmdir" | "touch" => row("", "", 1..=ANY, None, true),
        "mkdir" => row("p", "", 1..=ANY, None, true),
        "mv" => row("f", "", 2..=ANY, None, true),
        "readlink" => row("f", "", 1..=1, None, true),
        "realpath" => row("", "", 1..=1, None, true),
        "rm" => row("f", "", 1..=ANY, None, true),
        "chmod" | "cp" => row("", "", 2..=ANY, None, false),
        "date" => row("u", "", 1..=1, None, false),
        "expr" => row("", "", 3..=3, None, false),
        // With -f there mostly is one, which only the program replaces.
        "ln" => row("sn", "", 2..=2, None, false),
        "ls" => row("1adA", "", 0..=ANY, None, false),
        "uname" => row("snrvm", "", 0..=0, None, false),
        "cat" => row("", "", 0..=ANY, Some(0), false),
        "cut" => row("s", "fbcd", 0..=1, Some(0), false),
        "grep" => row("qvF", "", 1..=2, Some(1), false),
        "head" | "tail" => row("0123456789", "n", 0..=1, Some(0), false),
        "sed" => row("n", "e", 0..=ANY, Some(1), false),
        "sort" => row("ru", "", 0..=1, Some(0), false),
        "tr" => row("dcs", "", 1..=2, Some(2), false),
        "wc" => row("l", "", 0..=1, Some(0), false),
        _ => None,
    }
}

/// Programs whose answer hangs on the locale: a shell does them in C, POSIX and C.UTF-8 only.
const OF_LOCALES: &[&str] = &["cut", "expr", "grep", "ls", "sed", "sort", "tr"];

/// Options and operands as getopt(3) of the library reads them: no option behind an operand.
struct Given<'w> {
    options: String,
    operands: Vec<&'w str>,
}

fn given<'w>(words: &'w [String], known: &KnownWords) -> Option<Given<'w>> {
    let is_option = |word: &str| word.len() > 1 && word.starts_with('-');
    let mut given = Given { options: String::new(), operands: Vec::new() };
    let mut words = words.iter().map(String::as_str).peekable();
    while let Some(word) = words.next_if(|word| is_option(word)) {
        match word {
            "--" => {
                given.operands.extend(words);
                return Some(given);
            }
            "--parents" if known.letters.contains('p') => given.options.push('p'),
            "--force" if known.letters.contains('f') => given.options.push('f'),
            "--symbolic" if known.letters.contains('s') => given.options.push('s'),
            _ => {
                let mut letters = word[1..].chars();
                while let Some(letter) = letters.next() {
                    given.options.push(letter);
                    if known.valued.contains(letter) {
                        let has_value = !letters.as_str().is_empty() || words.next().is_some();
                        letters = "".chars();
                        has_value.then_some(())?;
                    } else if !known.letters.contains(letter) {
                        return None;
                    }
                }
            }
        }
    }
    given.operands.extend(words);
    (!given.operands.iter().any(|word| is_option(word))).then_some(given)
}

/// What a shell would do itself of a program that succeeds, by its name and the words behind it. None where it
/// starts the program for certain.
pub fn inside_by_words(name: &str, words: &[String]) -> Option<InsideByWords> {
    let known = known_words(name)?;
    let given = given(words, &known)?;
    let operands = &given.operands;
    let is_one = known.operands.contains(&operands.len())
        && match name {
            "chmod" => is_plain_mode(operands[0]),
            "date" => operands[0].starts_with('+'),
            "expr" => operands[1] == ":",
            "wc" => given.options == "l",
            _ => true,
        };
    // sed's first word is its script, where no -e is.
    let no_files = match name {
        "sed" if given.options.contains('e') => Some(0),
        _ => known.reads_behind,
    };
    is_one.then_some(match no_files {
        _ if known.is_certain => InsideByWords::Always,
        Some(no_files) if operands.len() <= no_files => InsideByWords::ByItsInput,
        _ => InsideByWords::ByItsFiles,
    })
}

/// Whether a shell does a program of this name itself whatever its files are.
pub fn is_always_inside(name: &str) -> bool {
    known_words(name).is_some_and(|known| known.is_certain)
}

fn is_plain_mode(mode: &str) -> bool {
    let is_octal =
        (1..=4).contains(&mode.len()) && mode.bytes().all(|byte| (b'0'..b'8').contains(&byte));
    is_octal || ["+x", "a+x", "u+x"].contains(&mode)
}

/// Whether a shell starts each program since this variable is exported: it has the loader or the program
/// do something else (`changes_programs` of loadable/plain.c). becalm's own libraries do not.
pub fn is_for_programs(variable: &str, value: &str) -> bool {
    const HARMLESS: &[&str] = &["LD_LIBRARY_PATH", "LD_RUN_PATH", "LD_BIND_NOW", "LD_GOLD"];
    let mut preloaded = preloaded(value);
    match variable {
        "LD_PRELOAD" => !preloaded.all(is_our_library),
        "LOCPATH" | "_POSIX2_VERSION" => true,
        _ => variable.starts_with("LD_") && !HARMLESS.contains(&variable),
    }
}

/// Whether a shell that is started with this variable has the library.
pub fn has_builtins(variable: &str, value: &str) -> bool {
    match variable {
        "BASH_ENV" => {
            let mut parts = value.rsplit('/');
            let is_ours =
                |directory: &str| directory.starts_with("builtins-") && directory.len() == 25;
            parts.next() == Some("bash_env") && parts.next().is_some_and(is_ours)
        }
        "LD_PRELOAD" => preloaded(value).any(is_our_library),
        _ => false,
    }
}

fn preloaded(value: &str) -> impl Iterator<Item = &str> {
    value.split([':', ' ']).filter(|library| !library.is_empty())
}

fn is_our_library(library: &str) -> bool {
    const OURS: &[&str] = &["/becalm-builtins.so", "/becalm-dash.so", "/becalm-launcher.so"];
    OURS.iter().any(|ours| library.ends_with(ours))
}

/// Whether a shell starts a program of this name since a variable has another locale than those that it knows.
pub fn is_of_another_locale(name: &str, variable: &str, value: &str) -> bool {
    let is_locale = variable.starts_with("LC_") || variable == "LANG";
    is_locale
        && OF_LOCALES.contains(&name)
        && !["", "C", "POSIX", "C.UTF-8", "C.utf8"].contains(&value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Option<InsideByWords> {
        let mut words = line.split(' ').map(str::to_owned);
        let name = words.next().unwrap();
        inside_by_words(&name, &words.collect::<Vec<_>>())
    }

    #[test]
    fn words_that_a_shell_takes_are_told_from_those_that_it_leaves() {
        use InsideByWords::{Always, ByItsFiles, ByItsInput};
        for (line, expected) in [
            ("mkdir -p a b", Always),
            ("mkdir --parents a", Always),
            ("rm -f a", Always),
            ("basename -- -a", Always),
            ("chmod 644 a", ByItsFiles),
            ("chmod a+x a b", ByItsFiles),
            ("expr abc : a", ByItsFiles),
            ("date +%s", ByItsFiles),
            ("ls -1A a", ByItsFiles),
            ("grep -q a b", ByItsFiles),
            ("grep -qF a", ByItsInput),
            ("sed s/a/b/", ByItsInput),
            ("sed -n -e p a", ByItsFiles),
            ("sed -e p", ByItsInput),
            ("cut -d: -f 1", ByItsInput),
            ("cut -d : -f1 a", ByItsFiles),
            ("head -1 a", ByItsFiles),
            ("tail -n +2 a", ByItsFiles),
            ("tr a b", ByItsInput),
            ("wc -l a", ByItsFiles),
            ("cat", ByItsInput),
            ("uname -s", ByItsFiles),
        ] {
            assert_eq!(of(line), Some(expected), "{line}");
        }
        for line in [
            "mkdir -m 755 a",
            "mkdir a -p",
            "rm -rf a",
            "chmod g-w a",
            "chmod -R 644 a",
            "expr 1 + 1",
            "date",
            "grep -E a b",
            "sed -i p a",
            "sort -k 2 a",
            "wc a",
            "wc -c a",
            "cut -d",
            "awk x",
            "cp -p a b",
            "ln -sf a b",
            "basename",
        ] {
            assert_eq!(of(line), None, "{line}");
        }
    }

    #[test]
    fn variables_of_the_loader_and_of_other_locales_leave_a_program_to_itself() {
        assert!(is_for_programs("LD_PRELOAD", "/a.so") && is_for_programs("LOCPATH", "/a"));
        assert!(is_for_programs("LD_PRELOAD", "/a.so:/run/becalm-dash.so"));
        assert!(!is_for_programs("LD_PRELOAD", "/run/becalm-dash.so"));
        assert!(has_builtins("LD_PRELOAD", "/a.so:/run/becalm-dash.so"));
        assert!(has_builtins("BASH_ENV", "/tmp/becalm-0/builtins-0000000000000004/bash_env"));
        assert!(!has_builtins("BASH_ENV", "/home/builtins-of-mine/bash_env"));
        assert!(!is_for_programs("LD_LIBRARY_PATH", "/a") && !is_for_programs("LD_GOLD", "x"));
        assert!(is_of_another_locale("sed", "LANG", "de_DE.UTF-8"));
        assert!(!is_of_another_locale("sed", "LC_ALL", "C.UTF-8"));
        assert!(!is_of_another_locale("mkdir", "LANG", "de_DE.UTF-8"));
    }
}
