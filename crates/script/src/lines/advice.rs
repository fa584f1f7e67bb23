//! What to write instead, where only an edit of the script helps.

use schemars::JsonSchema;
use serde::Serialize;

use super::ScriptLine;

/// What to write in a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Advice {
    /// The program that it is about.
    pub program: String,
    /// What to do, in a sentence without a full stop.
    pub text: String,
    /// What stands in the line now, where it was found there.
    pub instead_of: Option<String>,
    /// What to write in its place.
    pub write: Option<String>,
}

/// What can be written instead of what a line started.
pub(super) fn advice(line: &ScriptLine) -> Vec<Advice> {
    let shell = ["bash", "sh", "dash", "ksh", "zsh"].contains(&line.runs.as_str());
    let mut all: Vec<Advice> = Vec::new();
    for program in &line.programs {
        let Some(name) = program.name.as_deref() else { continue };
        // What stands elsewhere (in what a variable says, in another script) is not to be written
        // differently here.
        if !shell || line.text.as_deref().is_some_and(|text| !is_named(text, name)) {
            continue;
        }
        let found =
            line.text.as_deref().and_then(|text| substituted(text, name, line.runs == "bash"));
        let Some(text) = said(name, line.runs == "bash", line.in_loop) else { continue };
        let (instead_of, write) = match found {
            Some((of, write)) => (Some(of), Some(write)),
            None => (None, None),
        };
        all.push(Advice { program: name.to_owned(), text, instead_of, write });
    }
    if all.is_empty()
        && shell
        && line.programs.iter().any(|program| program.name.is_none() && program.processes > 1)
    {
        all.push(Advice {
            program: "a subshell".to_owned(),
            text: SUBSHELL.to_owned(),
            instead_of: None,
            write: None,
        });
    }
    all
}

/// What to do about a subshell that executes nothing.
pub const SUBSHELL: &str = "call the function without `$( … )` or backquotes, let it set a variable instead of printing; \
     and read a file with `read` in a loop instead of `$(<file)`";

/// A line that is not understood whole, as one that goes on in the next, starts no more of one
/// program at once.
const MOST_UNSEEN: u64 = 9;

/// How many processes of a program a line starts at most each time that it is run.
pub(super) fn most_at_once(text: Option<&str>, program: Option<&str>) -> u64 {
    let Some(text) = text else { return MOST_UNSEEN };
    let goes_on = ["\\", "|", "&&", "||", "(", "{", "then", "do"];
    let named = match program {
        Some(name) => named(text, name) as u64,
        None => text.matches(['(', '`', '|', '&']).count() as u64,
    };
    match named == 0 || goes_on.iter().any(|end| text.ends_with(end)) {
        true => named + MOST_UNSEEN,
        false => named,
    }
}

/// What to do about a program that a line starts, where there is anything.
fn said(program: &str, bash: bool, in_loop: bool) -> Option<String> {
    let alone = instead(program, bash);
    let together = if in_loop { instead_of_a_loop(program) } else { None };
    match (alone, together) {
        (Some(alone), Some(together)) => Some(format!("{alone}, or {together}")),
        (one, other) => one.or(other).map(str::to_owned),
    }
}

/// What does at once what a loop starts a program for over and over.
fn instead_of_a_loop(program: &str) -> Option<&'static str> {
    Some(match program {
        "sed" | "tr" | "cut" | "head" | "tail" | "wc" | "grep" | "awk" | "gawk" | "mawk" => {
            "filter the whole list once, outside the loop"
        }
        "mv" | "cp" => {
            "move a directory's files at once: `mv -t DIRECTORY FILE…`, or the whole directory by its name"
        }
        "mkdir" => {
            "make a directory once: `[ -d \"$directory\" ] || mkdir -p \"$directory\"`, where it is `mkdir -p` now"
        }
        "rm" | "rmdir" | "ln" | "chmod" | "chown" | "touch" | "stat" | "readlink" | "realpath"
        | "ls" | "file" | "install" => {
            "give it many files at once (`xargs`, `find … -exec … {} +`)"
        }
        "git" => "ask once for all: `git for-each-ref`, `git cat-file --batch`, `git ls-files`",
        "python" | "python3" | "perl" | "ruby" => "do the whole loop in one such process",
        _ => return None,
    })
}

/// What does the same as a program without a process of its own, in bash or in any shell. Bash's
/// manual, 'Shell Parameter Expansion' and 'Bash Builtin Commands'.
fn instead(program: &str, bash: bool) -> Option<&'static str> {
    Some(match program {
        "dirname" => {
            "`${path%/*}` is the same only where `path` is like `directory/name`: with a slash, but none \
             at its end, and none else right before the name; write a case for all others (`name`, \
             `/name`, `directory/`)"
        }
        "basename" => {
            "`${path##*/}` is the same only where `path` has no slash at its end, and `${name%.suffix}` \
             only where the suffix is not the whole name; write a case for all others"
        }
        "cat" if bash => "use `$(<file)` or `while read`, and give files to programs as arguments",
        "cat" => "use `while read`, and give files to programs as arguments",
        "expr" | "bc" => {
            "`$(( … ))` is the same only for whole numbers of 64 bits without zeros before them"
        }
        "seq" if bash => "use `for ((i = 1; i <= n; i++))`, for whole numbers",
        "seq" => "count with `i=$((i + 1))`, in whole numbers",
        "date" if bash => {
            "bash's `printf '%(%F %T)T' -1` knows the formats of strftime(3), not those of GNU date \
             alone (`%N`)"
        }
        "echo" | "printf" | "test" | "[" | "true" | "false" | "kill" => {
            "the shell has a builtin of that name, which the full path or `env` passes over; mind that \
             options beyond POSIX may differ"
        }
        "pwd" => "the shell's builtin `pwd -P` does what the program does",
        "sed" | "tr" | "cut" | "head" | "tail" | "wc" if bash => {
            "use `${text//a/b}`, `${text,,}`, `read -r` or `${#text}`"
        }
        "sed" | "tr" | "cut" | "head" | "tail" | "wc" => {
            "use `${text%…}`, `${text#…}`, `read -r` or `${#text}`"
        }
        "grep" | "awk" | "gawk" | "mawk" if bash => "use `[[ $text =~ … ]]`",
        "grep" | "awk" | "gawk" | "mawk" => "use `case $text in`",
        _ => return None,
    })
}

/// Whether a line has a word that is a program's name, by itself or at the end of a path.
fn is_named(text: &str, program: &str) -> bool {
    named(text, program) > 0
}

/// How often it has.
fn named(text: &str, program: &str) -> usize {
    let is_part = |char: char| char.is_alphanumeric() || "_-.+".contains(char);
    let places = text.match_indices(program).filter(|(at, _)| {
        !text[..*at].ends_with(is_part) && !text[at + program.len()..].starts_with(is_part)
    });
    places.count()
}

/// From the first to the last substitution in a line that has a program, as it stands there, and what is the same
/// whatever its variables hold; none where the line has the program elsewhere, too, which would stay. `dirname`,
/// `basename` and `expr` have nothing of the kind.
fn substituted(text: &str, program: &str, bash: bool) -> Option<(String, String)> {
    let mut of_program = substitutions(text);
    of_program.retain(|(_, _, inner)| {
        let word = inner.split_whitespace().next();
        word.is_some_and(|word| word.rsplit('/').next() == Some(program))
    });
    of_program.sort_unstable();
    let (begin, end) = (of_program.first()?.0, of_program.last()?.1);
    let mut written = String::new();
    let mut at = begin;
    for (from, to, inner) in &of_program {
        written += &text[at..*from];
        written += &instead_of_substitution(program, inner, bash)?;
        at = *to;
    }
    (named(text, program) == of_program.len()).then(|| (text[begin..end].to_owned(), written))
}

fn instead_of_substitution(program: &str, inner: &str, bash: bool) -> Option<String> {
    let words: Vec<&str> = inner.split_whitespace().skip(1).filter(|word| *word != "--").collect();
    match (program, &words[..]) {
        ("cat", [file]) if bash && is_one_file(file) => Some(format!("$(<{file})")),
        _ => None,
    }
}

/// The command substitutions of a line that have none in them: where each is, and what is in it.
fn substitutions(text: &str) -> Vec<(usize, usize, &str)> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("$(").filter(|(at, _)| !text[*at..].starts_with("$((")) {
        let inner = &text[at + 2..];
        if let Some(end) = inner.find([')', '(', '`'])
            && inner[end..].starts_with(')')
        {
            found.push((at, at + 2 + end + 1, &inner[..end]));
        }
    }
    let mut rest = 0;
    while let Some(at) = text[rest..].find('`').map(|at| at + rest) {
        let Some(length) = text[at + 1..].find('`') else { break };
        found.push((at, at + 1 + length + 1, &text[at + 1..at + 1 + length]));
        rest = at + 1 + length + 1;
    }
    found
}

/// Whether a word is the name of one file, to `cat` as behind `<`: neither an option nor standard
/// input. What a variable holds may be a directory, of which bash says nothing.
fn is_one_file(word: &str) -> bool {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "/._-+,:@%".contains(char);
    let quoted = word.strip_prefix('"').and_then(|word| word.strip_suffix('"'));
    let text = quoted.unwrap_or(word);
    !text.is_empty() && !text.starts_with('-') && text.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{is_named, most_at_once, said, substituted};

    /// What a variable may hold.
    const HOSTILE: [&str; 24] = [
        "",
        "/",
        "//",
        "///",
        ".",
        "..",
        "name",
        "/name",
        "directory/name",
        "directory/",
        "/directory/",
        "a//b",
        "a/b//",
        "//a",
        "-n",
        "--help",
        "-",
        "a b/c d",
        " /x ",
        "new\nline/x\n",
        "*/*",
        "08",
        "9999999999999999999",
        "x.c",
    ];

    /// Lines as scripts have them.
    const LINES: [(&str, &str); 18] = [
        ("dirname", "$(dirname \"$v\")"),
        ("dirname", "$(dirname -- \"$v\")"),
        ("dirname", "`dirname $v`"),
        ("dirname", "$(/usr/bin/dirname ${v})"),
        ("basename", "$(basename \"$v\")"),
        ("basename", "$(basename $v .c)"),
        ("basename", "`basename -- \"${v}\"`"),
        ("expr", "$(expr $v + 1)"),
        ("expr", "$(expr $v \\* 2)"),
        ("expr", "$(expr 2 + 3)"),
        ("cat", "$(cat $v)"),
        ("cat", "$(cat \"$v\")"),
        ("cat", "$(cat -- \"$v\")"),
        ("cat", "$(cat plain)"),
        ("cat", "$(cat \"./$v\")"),
        ("cat", "$(cat ./$v)"),
        ("cat", "`cat \"plain\"`"),
        ("cat", "$(cat -n)"),
    ];

    /// What a word is to bash, with its variable.
    fn word(word: &str, value: &str) -> (String, Option<i32>) {
        let directory = tempfile::tempdir().unwrap();
        for name in ["plain", "name", "-", "-n", "a b", "x.c"] {
            std::fs::write(directory.path().join(name), format!("of {name}\n\n")).unwrap();
        }
        let script = format!("x={word}; s=$?; printf '%s|%s' \"$x\" $s");
        let mut bash = Command::new("bash");
        bash.args(["-c", &script]).env("v", value).env("LC_ALL", "C");
        let ran = bash.current_dir(directory.path()).stdin(std::process::Stdio::null());
        let ran = ran.output().unwrap();
        (String::from_utf8_lossy(&ran.stdout).into_owned(), ran.status.code())
    }

    #[test]
    fn what_is_to_be_written_is_the_same_whatever_a_variable_holds() {
        let mut written = 0;
        for (program, line) in LINES {
            let Some((of, write)) = substituted(&format!("x={line}"), program, true) else {
                continue;
            };
            assert_eq!(of, line);
            written += 1;
            for value in HOSTILE {
                assert_eq!(word(&of, value), word(&write, value), "{of} {write} {value:?}");
            }
        }
        assert_eq!(written, 2, "some can be written");
    }

    /// What the words of `instead` say of their expressions.
    #[test]
    fn the_conditions_that_are_said_are_the_ones_that_hold() {
        for value in HOSTILE.into_iter().filter(|value| !value.starts_with('-')) {
            let (directory, name) = value.rsplit_once('/').unwrap_or(("", value));
            if !directory.is_empty() && !name.is_empty() && !directory.ends_with('/') {
                assert_eq!(
                    word("$(dirname \"$v\")", value),
                    word("$(echo \"${v%/*}\")", value),
                    "{value:?}"
                );
            }
            if !value.ends_with('/') {
                let write = "$(echo \"${v##*/}\")";
                assert_eq!(word("$(basename \"$v\")", value), word(write, value), "{value:?}");
            }
        }
    }

    #[test]
    fn a_file_with_a_name_of_its_own_is_read_by_bash() {
        let found = substituted("v=$(cat VERSION)", "cat", true);
        assert_eq!(found, Some(("$(cat VERSION)".to_owned(), "$(<VERSION)".to_owned())));
        assert_eq!(substituted("v=$(cat VERSION)", "cat", false), None);
        let found = substituted("v=$(x) w=`cat \"/proc/uptime\"`", "cat", true).unwrap();
        assert_eq!(found.1, "$(<\"/proc/uptime\")");
    }

    #[test]
    fn all_that_a_line_reads_by_a_program_is_written_otherwise_or_none() {
        let written = |text| substituted(text, "cat", true);
        let both = Some(("`cat A` \"$(cat B)".to_owned(), "$(<A) \"$(<B)".to_owned()));
        assert_eq!(written("f `cat A` \"$(cat B)\""), both);
        assert_eq!(written("f $(cat A) $(cat A | head)"), None);
        assert_eq!(written("f `cat A`; cat B"), None);
        assert_eq!(written("f $(cat A) $(cat *)"), None);
        assert_eq!(written("concat $(cat A) bobcat cat.c").unwrap().1, "$(<A)");
    }

    #[test]
    fn what_is_not_understood_is_left_alone() {
        for text in [
            "v=$(cat a | head)",
            "v=$(cat a b)",
            "v=$(cat $(ls))",
            "v=$(cat ~/x)",
            "v=$(cat *.txt)",
            "v=$(cat -)",
            "v=$(cat \"/proc/$pid/stat\")",
            "é=$(cat",
            "`",
            "",
        ] {
            assert_eq!(substituted(text, "cat", true), None, "{text}");
        }
    }

    #[test]
    fn a_program_is_named_by_a_word_of_its_own() {
        for text in
            ["dirname x", "x=$(/usr/bin/dirname y)", "a|dirname", "\\dirname", "\"dirname\" x"]
        {
            assert!(is_named(text, "dirname"), "{text}");
        }
        for text in ["x=$(f)", "mydirname x", "dirname_of x", "$cmd a", "dirname-all", ""] {
            assert!(!is_named(text, "dirname"), "{text}");
        }
    }

    #[test]
    fn what_is_said_of_loops_is_said_in_loops_alone() {
        for program in ["sed", "grep", "mv", "mkdir", "rm", "git", "python3"] {
            let (alone, looped) = (said(program, true, false), said(program, true, true).unwrap());
            assert!(!alone.clone().is_some_and(|text| text.contains("loop")), "{program}");
            assert!(looped.len() > alone.unwrap_or_default().len(), "{program}");
        }
        assert_eq!(said("dirname", true, true), said("dirname", true, false));
    }

    #[test]
    fn a_line_starts_as_many_at_once_as_it_names() {
        assert_eq!(most_at_once(Some("x=$(sed a | sed b)"), Some("sed")), 2);
        assert_eq!(most_at_once(Some("x=$(sed a)"), Some("sed")), 1);
        // What may start more than can be seen there is no loop's yet.
        assert!(most_at_once(Some("sed a |"), Some("sed")) > 5);
        assert!(most_at_once(Some("$tool a"), Some("sed")) > 5);
        assert!(most_at_once(None, Some("sed")) > 5);
    }
}
