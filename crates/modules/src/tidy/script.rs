//! The text of a modulefile, looked at and not evaluated: its words, its commands, and the paths in
//! them.

/// The modulefile's own directory.
const BESIDE: &str = "[file dirname $ModulesCurrentModulefile]";
/// Stands for it: no letter of Tcl's.
pub(super) const OWN: &str = "\u{1}";

/// A text without comments and words for people, in which variables that are set once, to a literal
/// path or to the modulefile's own directory, are what they are set to.
pub(super) fn plain(text: &str) -> String {
    let joined = text.replace("\\\n", " ").replace(BESIDE, OWN);
    let is_said = |line: &str| {
        let first = line.split_whitespace().next().unwrap_or("");
        first.starts_with('#') || first == "module-whatis" && !line.contains(['[', '$'])
    };
    let lines = joined.lines().map(str::trim_start).filter(|line| !is_said(line));
    let mut plain: String = lines.flat_map(|line| [line, "\n"]).collect();
    let sets: Vec<(String, String)> = plain.lines().filter_map(set).collect();
    for (name, value) in sets {
        let all = words(&plain).filter(|(_, word)| *word == name).count();
        let (dollar, braced) = (format!("${name}"), format!("${{{name}}}"));
        // Each of its tokens but the one of `set` reads it.
        if all == 1 + exact(&plain, &dollar) + plain.matches(&braced).count() {
            let told = (name, value);
            let others = plain.lines().filter(|line| set(line).as_ref() != Some(&told));
            let others: String = others.flat_map(|line| [line, "\n"]).collect();
            plain = replaced(&others.replace(&braced, &told.1), &dollar, &told.1);
        }
    }
    plain
}

/// `set NAME VALUE`, where the value is a literal absolute path or the modulefile's own directory.
fn set(line: &str) -> Option<(String, String)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let ["set", name, value] = words[..] else { return None };
    let value = bare(value);
    let is_literal = value == OWN || value.starts_with('/') && value.chars().all(is_of_path);
    let is_name = name.chars().all(|letter| letter.is_alphanumeric() || letter == '_');
    (is_literal && is_name).then(|| (name.to_owned(), value.to_owned()))
}

/// Whether a letter is one of a path that Tcl takes as it is.
fn is_of_path(letter: char) -> bool {
    letter.is_alphanumeric() || "/._+-".contains(letter)
}

fn is_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_' || letter == '-'
}

/// Where a variable is read, and not one whose name begins so.
fn exact(text: &str, dollar: &str) -> usize {
    let ends = |at: usize| !text[at + dollar.len()..].starts_with(is_of_word);
    text.match_indices(dollar).filter(|(at, _)| ends(*at)).count()
}

fn replaced(text: &str, dollar: &str, value: &str) -> String {
    let mut out = String::new();
    let mut from = 0;
    for (at, _) in text.match_indices(dollar) {
        if !text[at + dollar.len()..].starts_with(is_of_word) {
            out += &text[from..at];
            out += value;
            from = at + dollar.len();
        }
    }
    out + &text[from..]
}

/// The words of a text, each with where it is.
pub(super) fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + text[at..].find(is_of_word)?;
        let length = text[start..].find(|letter| !is_of_word(letter));
        at = length.map_or(text.len(), |length| start + length);
        Some((start, &text[start..at]))
    })
}

/// What follows a command's name, to the command's end.
pub(super) fn command(rest: &str) -> &str {
    let mut depth = 0;
    let end = rest.find(|letter| {
        match letter {
            '[' | '{' => depth += 1,
            ']' | '}' if depth == 0 => return true,
            ']' | '}' => depth -= 1,
            ';' | '\n' => return depth == 0,
            _ => {}
        }
        false
    });
    &rest[..end.unwrap_or(rest.len())]
}

/// Whether a word is a literal path that neither leads into a modulepath nor to one of the
/// directories above.
pub(super) fn apart(word: &str, roots: &[String]) -> bool {
    let word = bare(word.trim_start_matches(['0', '1', '2', '>', '<', '&', '|']));
    let literal = &word[..word.find(['$', '[', '*', '?', '\\']).unwrap_or(word.len())];
    literal.len() > 1
        && literal.starts_with('/')
        && !word.contains("..")
        && roots.iter().all(|root| !root.starts_with(literal) && !literal.starts_with(root))
}

/// The last name of the first word of a text, if it is literal.
pub(super) fn last_name(text: &str) -> Option<&str> {
    let mut depth = 0;
    let end = text.find(|letter: char| {
        match letter {
            '[' => depth += 1,
            ']' => depth -= 1,
            letter => return depth == 0 && letter.is_whitespace(),
        }
        depth < 0
    });
    let word = text[..end.unwrap_or(text.len())].trim_matches(['"', '{', '}']);
    let name = word.rsplit('/').next().unwrap_or(word);
    let is_literal = !name.is_empty() && name.chars().all(is_of_path);
    (is_literal && !word.contains("..")).then_some(name)
}

/// The last name of the path that goes on here, after a directory: `/etc/named`.
pub(super) fn named(text: &str) -> Option<&str> {
    let path = text.trim_start_matches(['"', '}']).strip_prefix('/')?;
    let end = path.find(|letter| !is_of_path(letter)).unwrap_or(path.len());
    let ends = path[end..].chars().next().is_none_or(|after| " \t\n\"]};".contains(after));
    let name = path[..end].rsplit('/').next().unwrap_or("");
    (ends && !name.is_empty()).then_some(name)
}

/// A word without what is around it.
pub(super) fn bare(word: &str) -> &str {
    word.trim_matches(['"', '{', '}'])
}
