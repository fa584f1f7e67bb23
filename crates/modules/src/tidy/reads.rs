//! What modulefiles and rc files may read of a modulepath when they are evaluated: files that
//! must stay where they are.
//!
//! Tcl is not evaluated here. A command that touches files (`open`, `glob`, `exec` and others) is
//! understood where its words are literal, or name a file beside the modulefile. Of any other it
//! is said that it may read everything.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::shelf::{self, Shelf};
use crate::tree::{Cookie, Entry, Kind};

/// Commands that read files, list folders, or have others do it. `file` is only its
/// subcommands that look at a file.
const TOUCHING: [&str; 12] = [
    "glob",
    "open",
    "source",
    "source-sh",
    "file",
    "exec",
    "system",
    "cd",
    "load",
    "package",
    "auto_path",
    "execute",
];
/// Subcommands of `file` that only look at a path's letters.
const OF_LETTERS: [&str; 9] = [
    "dirname",
    "join",
    "tail",
    "rootname",
    "extension",
    "split",
    "normalize",
    "nativename",
    "pathtype",
];
/// What says where a modulefile is, other than as [`BESIDE`].
const PLACES: [&str; 4] = ["ModulesCurrentModulefile", "_LMFILES_", "MODULEPATH", "script"];
/// The modulefile's own folder.
const BESIDE: &str = "[file dirname $ModulesCurrentModulefile]";
/// Stands for it: no letter of Tcl's.
const OWN: &str = "\u{1}";
/// All modulefiles together are not read beyond this, in bytes.
const MOST: usize = 256 << 20;

/// The modulefiles and rc files of the modulepaths of one `module` command.
pub(super) struct Readers {
    texts: Vec<Reader>,
    /// Why it is not known what they read.
    unknown: Option<String>,
}

struct Reader {
    path: PathBuf,
    text: String,
    reach: Reach,
}

/// What one of them may read beside what it names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reach {
    Nothing,
    /// All that is in its own folder, and below.
    Folder(String),
    /// Everything.
    All(String),
}

impl Readers {
    pub(super) fn of(shelves: &[Shelf<'_>]) -> Readers {
        let mut readers = Readers { texts: Vec::new(), unknown: None };
        let roots: Vec<String> = shelves.iter().flat_map(|shelf| names_of(shelf.root)).collect();
        let mut bytes = 0;
        let mut sourced = BTreeSet::new();
        let entries = shelves.iter().flat_map(|shelf| {
            shelf.entries.iter().map(move |(name, entry)| (shelf.root.join(name), *entry))
        });
        let entries: Vec<(PathBuf, &Entry)> = entries.collect();
        let mut read = vec![false; entries.len()];
        // What is sourced may source others.
        while readers.unknown.is_none() {
            let mut is_done = true;
            for ((path, entry), read) in entries.iter().zip(&mut read) {
                let tail = entry.file_name().to_string_lossy();
                if *read || !(is_evaluated(entry) || sourced.contains(&*tail)) {
                    continue;
                }
                (*read, is_done) = (true, false);
                match shelf::content(path) {
                    Ok((content, _)) => {
                        bytes += content.len();
                        let text = String::from_utf8_lossy(&content).into_owned();
                        let reach = reach(&text, &roots, &mut sourced);
                        readers.texts.push(Reader { path: path.clone(), text, reach });
                    }
                    Err(why) => {
                        let why = format!("{} may read it: {why}", path.display());
                        readers.unknown = Some(why);
                    }
                }
            }
            if bytes > MOST {
                let why = "the modulefiles are too large to be searched for what they read";
                readers.unknown = Some(why.to_owned());
            }
            if is_done {
                break;
            }
        }
        readers
    }

    /// Why a file must stay where it is, as far as modulefiles are concerned.
    pub(super) fn need(&self, file: &Path) -> Option<String> {
        if let Some(why) = &self.unknown {
            return Some(why.clone());
        }
        let Some(tail) = file.file_name().and_then(|tail| tail.to_str()) else {
            return Some("its name is no text".to_owned());
        };
        self.texts.iter().filter(|reader| reader.path != file).find_map(|reader| {
            let by = reader.path.display();
            let folder = reader.path.parent().unwrap_or(Path::new("/"));
            match &reader.reach {
                Reach::All(how) => Some(format!("{by} may read it ({how})")),
                Reach::Folder(how) if file.starts_with(folder) => {
                    Some(format!("{by} may read it ({how})"))
                }
                _ if reader.text.contains(tail) => Some(format!("{by} has its name")),
                _ => None,
            }
        })
    }
}

/// A path as it is named, and as it is.
fn names_of(root: &Path) -> Vec<String> {
    let real = root.canonicalize().ok();
    let both = [Some(root.to_owned()), real].into_iter().flatten();
    both.map(|path| path.to_string_lossy().into_owned()).collect()
}

fn is_evaluated(entry: &Entry) -> bool {
    match &entry.kind {
        Kind::File(cookie) => *cookie != Cookie::Missing,
        Kind::Rc(..) => true,
        _ => false,
    }
}

/// What a text may read beside what it names; adds the names of what it sources.
fn reach(text: &str, roots: &[String], sourced: &mut BTreeSet<String>) -> Reach {
    let text = plain(text);
    let mut reach = Reach::Nothing;
    if text.contains(OWN) && text.contains("..") {
        return Reach::All("a path with .. in it".to_owned());
    }
    for (word, rest) in tokens(&text) {
        let found = if TOUCHING.contains(&word) {
            by_command(word, command(rest), roots, sourced)
        } else if PLACES.contains(&word) {
            Reach::All(word.to_owned())
        } else {
            continue;
        };
        reach = reach.max(found);
    }
    // Its folder, told to a program or kept in a variable.
    let told = text.match_indices(OWN).any(|(at, _)| named(&text[at + OWN.len()..]).is_none());
    let own = || Reach::Folder("it names its own folder".to_owned());
    if told { reach.max(own()) } else { reach }
}

/// A text without comments and words for people, in which variables that are set once, to a literal
/// path or to the modulefile's own folder, are what they are set to.
fn plain(text: &str) -> String {
    let joined = text.replace("\\\n", " ").replace(BESIDE, OWN);
    let is_said = |line: &str| {
        let first = line.split_whitespace().next().unwrap_or("");
        first.starts_with('#') || first == "module-whatis" && !line.contains(['[', '$'])
    };
    let lines = joined.lines().filter(|line| !is_said(line.trim_start()));
    let mut plain: String = lines.flat_map(|line| [line, "\n"]).collect();
    let sets: Vec<(String, String)> = plain.lines().filter_map(set).collect();
    for (name, value) in sets {
        let bare = tokens(&plain).filter(|(word, _)| *word == name).count();
        let used = |before: &str| plain.matches(before).count();
        let (dollar, braced) = (format!("${name}"), format!("${{{name}}}"));
        // Each of its tokens but the one of `set` reads it.
        if bare == 1 + exact(&plain, &dollar) + used(&braced) {
            plain = replaced(&plain.replace(&braced, &value), &dollar, &value);
        }
    }
    plain
}

/// `set NAME VALUE`, where the value is a literal absolute path or the modulefile's own folder.
fn set(line: &str) -> Option<(String, String)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let ["set", name, value] = words[..] else { return None };
    let value = value.trim_matches(['"', '{', '}']);
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

/// The words of a text, each with what follows it.
fn tokens(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let start = rest.find(is_of_word)?;
        let from = &rest[start..];
        let end = from.find(|letter| !is_of_word(letter)).unwrap_or(from.len());
        let (word, after) = from.split_at(end);
        rest = after;
        Some((word, after))
    })
}

/// What follows a command's name, to the command's end.
fn command(rest: &str) -> &str {
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

/// What a command that touches files may read beside what it names.
fn by_command(
    word: &str,
    arguments: &str,
    roots: &[String],
    sourced: &mut BTreeSet<String>,
) -> Reach {
    let words: Vec<&str> = arguments.split_whitespace().collect();
    let first = words.first().map_or("", |word| word.trim_matches(['"', '{', '}']));
    if word == "file" && OF_LETTERS.contains(&first) {
        return Reach::Nothing;
    }
    let is_literal = !arguments.contains(['$', '[']);
    let is_apart = |word: &&str| !word.contains(['/', OWN_LETTER]) || apart(word, roots);
    let all = || Reach::All(word.to_owned());
    match word {
        // One file, by a word's last name.
        "open" | "source" | "file" => {
            let paths = if word == "file" { &words[words.len().min(1)..] } else { &words[..] };
            let Some(path) = paths.first() else { return all() };
            let rest = &arguments[arguments.find(path).unwrap_or(0)..];
            match last_name(rest) {
                _ if word != "source" && is_literal && apart(path, roots) => Reach::Nothing,
                Some(name) if word == "source" => {
                    sourced.insert(name.to_owned());
                    if apart(path, roots) { all() } else { Reach::Nothing }
                }
                Some(_) => Reach::Nothing,
                None => all(),
            }
        }
        _ if is_literal && arguments.contains(OWN) => {
            Reach::Folder(format!("{word} in its own folder"))
        }
        // Whoever lists a folder without a path lists the one that the user is in.
        "glob" if is_literal && words.iter().all(|word| apart(word, roots)) => Reach::Nothing,
        "exec" | "system" if is_literal && words.iter().all(|word| is_apart(&word)) => {
            Reach::Nothing
        }
        "package" if first == "require" || first == "provide" => Reach::Nothing,
        _ => all(),
    }
}

const OWN_LETTER: char = '\u{1}';

/// Whether a word is a literal path that neither leads into a modulepath nor to one of the folders
/// above.
fn apart(word: &str, roots: &[String]) -> bool {
    let word = word.trim_matches(['"', '{', '}']);
    let literal = &word[..word.find(['$', '[', '*', '?', '\\']).unwrap_or(word.len())];
    literal.len() > 1
        && literal.starts_with('/')
        && !word.contains("..")
        && roots.iter().all(|root| !root.starts_with(literal) && !literal.starts_with(root))
}

/// The last name of the first word of a text, if it is literal.
fn last_name(text: &str) -> Option<&str> {
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

/// What is named by the path that goes on here: `/named` after the folder.
fn named(text: &str) -> Option<&str> {
    let path = text.trim_start_matches(['"', '}']).strip_prefix('/')?;
    let end = path.find(|letter| !is_of_path(letter)).unwrap_or(path.len());
    let ends = path[end..].chars().next().is_none_or(|after| " \t\n\"]};".contains(after));
    (end > 0 && ends).then_some(&path[..end])
}
