//! What to write instead, where only an edit of the script helps.

use serde::Serialize;

use super::Line;

/// What to write in a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
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
pub(super) fn advice(line: &Line) -> Vec<Advice> {
    let shell = ["bash", "sh", "dash", "ksh", "zsh"].contains(&line.runs.as_str());
    let mut all: Vec<Advice> = Vec::new();
    for program in &line.programs {
        let Some(name) = program.name.as_deref() else { continue };
        if !shell {
            continue;
        }
        let found =
            line.text.as_deref().and_then(|text| substituted(text, name, line.runs == "bash"));
        let Some(text) = instead(name, line.runs == "bash") else { continue };
        let (instead_of, write) = match found {
            Some((of, write)) => (Some(of), Some(write)),
            None => (None, None),
        };
        all.push(Advice { program: name.to_owned(), text: text.to_owned(), instead_of, write });
    }
    if all.is_empty()
        && shell
        && line.programs.iter().any(|program| program.name.is_none() && program.starts > 1)
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
pub const SUBSHELL: &str = "call the function without `$( … )`, let it set a variable instead of printing; and read a \
     file with `read` in a loop instead of `$(<file)`";

/// What does the same as a program without a process of its own, in bash or in any shell. Bash's
/// manual, 'Shell Parameter Expansion' and 'Bash Builtin Commands'.
pub fn instead(program: &str, bash: bool) -> Option<&'static str> {
    Some(match program {
        "dirname" => "use `${path%/*}` instead (a path without a slash needs a case of its own)",
        "basename" => "use `${path##*/}` instead, and `${name%.suffix}` for the suffix",
        "cat" if bash => "use `$(<file)` or `while read`, and give files to programs as arguments",
        "cat" => "use `while read`, and give files to programs as arguments",
        "expr" | "bc" => "use `$(( … ))` for whole numbers",
        "seq" if bash => "use `for ((i = 1; i <= n; i++))`",
        "seq" => "count with `i=$((i + 1))`",
        "date" if bash => "use bash's `printf '%(%F %T)T'`",
        "echo" | "printf" | "test" | "[" | "true" | "false" | "pwd" | "kill" => {
            "use the shell's builtin: the full path or `env` starts the program instead"
        }
        "sed" | "tr" | "cut" | "head" | "tail" | "wc" if bash => {
            "use `${text//a/b}`, `${text,,}`, `read -r` or `${#text}`, or filter the whole list \
             once, outside the loop"
        }
        "sed" | "tr" | "cut" | "head" | "tail" | "wc" => {
            "use `${text%…}`, `${text#…}`, `read -r` or `${#text}`, or filter the whole list \
             once, outside the loop"
        }
        "grep" | "awk" | "gawk" | "mawk" if bash => {
            "use `[[ $text =~ … ]]`, or filter the whole list once, outside the loop"
        }
        "grep" | "awk" | "gawk" | "mawk" => {
            "use `case $text in`, or filter the whole list once, outside the loop"
        }
        "mv" | "cp" => {
            "move a folder's files at once: `mv -t FOLDER FILE…`, or the whole folder by its name"
        }
        "mkdir" => "make a folder once: `[ -d \"$folder\" ] || mkdir -p \"$folder\"`",
        "rm" | "rmdir" | "ln" | "chmod" | "chown" | "touch" | "stat" | "readlink" | "realpath"
        | "ls" | "file" | "install" => {
            "give it many files at once (`xargs`, `find … -exec … {} +`)"
        }
        "git" => "ask once for all: `git for-each-ref`, `git cat-file --batch`, `git ls-files`",
        "python" | "python3" | "perl" | "ruby" => "do the whole loop in one such process",
        _ => return None,
    })
}

/// The substitution in a line that has a program for one variable, as it stands there, and what
/// does the same: `$(dirname "$path")`.
fn substituted(text: &str, program: &str, bash: bool) -> Option<(String, String)> {
    let (at, end, inner) = substitutions(text).into_iter().find(|(_, _, inner)| {
        inner.split_whitespace().next().map(|word| word.rsplit('/').next() == Some(program))
            == Some(true)
    })?;
    let words: Vec<&str> = inner.split_whitespace().skip(1).filter(|word| *word != "--").collect();
    let write = match (program, &words[..]) {
        ("dirname", [path]) => format!("${{{}%/*}}", variable(path)?),
        ("basename", [path]) => format!("${{{}##*/}}", variable(path)?),
        ("cat", [file]) if bash && !file.starts_with('-') && is_one_word(file) => {
            format!("$(<{file})")
        }
        ("expr", _) => format!("$(({}))", arithmetic(&words)?),
        _ => return None,
    };
    Some((text[at..end].to_owned(), write))
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

/// The name in `"$name"`, `$name`, `${name}`.
fn variable(word: &str) -> Option<&str> {
    let word = word.strip_prefix('"').map_or(Some(word), |word| word.strip_suffix('"'))?;
    let name = word.strip_prefix('$')?;
    let name = name.strip_prefix('{').map_or(Some(name), |name| name.strip_suffix('}'))?;
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let is_place = name.len() == 1 && name.chars().all(|c| c.is_ascii_digit());
    (is_name || is_place).then_some(name)
}

fn is_one_word(word: &str) -> bool {
    !word.contains(['|', ';', '&', '<', '>', '*', '?'])
}

/// `$a + 1` of expr, as `a + 1`.
fn arithmetic(words: &[&str]) -> Option<String> {
    let [left, sign, right] = words else { return None };
    let sign = sign.trim_matches(['\\', '\'', '"']);
    if !["+", "-", "*", "/", "%"].contains(&sign) {
        return None;
    }
    let operand = |word: &str| -> Option<String> {
        let number = !word.is_empty() && word.chars().all(|c| c.is_ascii_digit());
        if number { Some(word.to_owned()) } else { variable(word).map(str::to_owned) }
    };
    Some(format!("{} {sign} {}", operand(left)?, operand(right)?))
}

#[cfg(test)]
mod tests {
    use super::substituted;

    #[track_caller]
    fn writes(text: &str, program: &str, instead_of: &str, write: &str) {
        let found = substituted(text, program, true);
        assert_eq!(found, Some((instead_of.to_owned(), write.to_owned())), "{text}");
    }

    #[test]
    fn a_substitution_with_one_variable_is_written_out() {
        writes("d=$(dirname \"$path\")", "dirname", "$(dirname \"$path\")", "${path%/*}");
        writes("d=`dirname $1`/x", "dirname", "`dirname $1`", "${1%/*}");
        writes(
            "a=$(x) b=$(/usr/bin/basename -- ${f})",
            "basename",
            "$(/usr/bin/basename -- ${f})",
            "${f##*/}",
        );
        writes("n=$(expr $n + 1)", "expr", "$(expr $n + 1)", "$((n + 1))");
        writes("v=$(cat VERSION)", "cat", "$(cat VERSION)", "$(<VERSION)");
    }

    #[test]
    fn what_is_not_understood_is_left_alone() {
        for text in [
            "d=$(dirname $(readlink -f \"$0\"))",
            "d=$(dirname \"$a\" \"$b\")",
            "d=$(dirname \"${a%x}\")",
            "d=$(dirname \"$a/b\")",
            "dirname \"$a\" | read d",
            "n=$(expr length $n)",
            "v=$(cat a | head)",
            "é=$(cat",
            "`",
            "",
        ] {
            for program in ["dirname", "expr", "cat"] {
                assert_eq!(substituted(text, program, true), None, "{text}");
            }
        }
    }
}
