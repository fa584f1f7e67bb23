//! What modulefiles and rc files may read of a modulepath when they are evaluated: files that
//! must stay where they are.
//!
//! Tcl is not evaluated here. A command that touches files (`open`, `glob`, `exec` and others) is
//! understood where its words are literal, or name a file beside the modulefile. Of any other it
//! is said that it may read everything.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::script::{OWN, apart, bare, command, last_name, named, plain, words};
use super::shelf::{self, Shelf};
use super::spelled::{Leads, leads};
use crate::tree::{Cookie, TreeEntry, TreeEntryKind};

/// Commands that read files, list directories, or have others do it, whichever those are.
const TOUCHING: [&str; 16] = [
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
    "eval",
    "uplevel",
    "subst",
    "interp",
    "apply",
];
/// Subcommands of `file` that look at a file. Tcl takes the beginning of one for it.
const OF_FILES: [&str; 20] = [
    "atime",
    "attributes",
    "channels",
    "copy",
    "delete",
    "executable",
    "exists",
    "isdirectory",
    "isfile",
    "link",
    "lstat",
    "mkdir",
    "mtime",
    "owned",
    "readable",
    "readlink",
    "size",
    "stat",
    "type",
    "writable",
];
/// After these a word is a command, or kept to be one; after any other word, it is prose or an
/// argument.
const BEFORE: [&str; 18] = [
    "after",
    "alias",
    "append",
    "apply",
    "catch",
    "concat",
    "else",
    "eval",
    "expr",
    "if",
    "interp",
    "lappend",
    "list",
    "namespace",
    "rename",
    "set",
    "then",
    "uplevel",
];
/// What says where a modulefile is, other than `[file dirname $ModulesCurrentModulefile]`.
const PLACES: [&str; 7] = [
    "ModulesCurrentModulefile",
    "_LMFILES_",
    "env(MODULEPATH",
    "getenv MODULEPATH",
    "$MODULEPATH",
    "{MODULEPATH",
    "info script",
];
/// With these, a command is not what its first word says.
const INDIRECT: [&str; 3] = ["[$", "\n$", "; $"];
/// All modulefiles together are not read beyond this, in bytes.
const MOST: usize = 256 << 20;

/// The modulefiles and rc files of the modulepaths of one `module` command.
pub(super) struct ModulefileReaders {
    texts: Vec<ScriptReader>,
    /// Why it is not known what they read.
    unknown: Option<String>,
}

struct ScriptReader {
    path: PathBuf,
    text: String,
    reach: ReadReach,
    /// The last names of the paths that it names: of files, or of directories.
    named: BTreeSet<String>,
    /// Whether it may come upon files whose names begin with a dot.
    finds_hidden: bool,
}

/// What one of them may read beside what it names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ReadReach {
    Nothing,
    /// All that is in its own directory, and below.
    Directory(String),
    /// Everything.
    All(String),
}

impl ModulefileReaders {
    pub(super) fn of(shelves: &[Shelf<'_>]) -> ModulefileReaders {
        let roots: Vec<String> = shelves.iter().flat_map(|shelf| names_of(shelf.root)).collect();
        let real = shelves.iter().filter_map(|shelf| shelf.root.canonicalize().ok());
        let real: Vec<PathBuf> = real.collect();
        let entries = shelves.iter().flat_map(|shelf| {
            shelf.entries.iter().map(move |(name, entry)| (shelf.root.join(name), *entry))
        });
        let (mut due, mut others): (Vec<_>, Vec<_>) =
            entries.partition(|(_, entry)| is_evaluated(entry));
        let mut readers = ModulefileReaders { texts: Vec::new(), unknown: None };
        let mut sourced = BTreeSet::new();
        // What is sourced may source others.
        while !due.is_empty() && readers.unknown.is_none() {
            readers.unknown = readers.read(due, &roots, &real, &mut sourced).err();
            let is_sourced = |(_, entry): &(PathBuf, &TreeEntry)| {
                sourced.contains(&*entry.file_name().to_string_lossy())
            };
            (due, others) = others.into_iter().partition(is_sourced);
        }
        let tails = readers.texts.iter().filter_map(|reader| reader.path.file_name());
        let tails: BTreeSet<_> = tails.map(|tail| tail.to_string_lossy().into_owned()).collect();
        let elsewhere = || sourced.difference(&tails).next();
        if let Some(name) = readers.unknown.is_none().then(elsewhere).flatten() {
            let why = format!("a modulefile sources {name}, which is elsewhere and may read it");
            readers.unknown = Some(why);
        }
        readers
    }

    /// Reads files, and adds the names of what they source.
    fn read(
        &mut self,
        files: Vec<(PathBuf, &TreeEntry)>,
        roots: &[String],
        real: &[PathBuf],
        sourced: &mut BTreeSet<String>,
    ) -> Result<(), String> {
        for (path, entry) in files {
            let content = shelf::content(&path);
            let (content, _) = content.map_err(|why| format!("{}: {why}", path.display()))?;
            let text = String::from_utf8_lossy(&content).into_owned();
            let mut look = TextScan::new(roots, real);
            look.at(&plain(&text), sourced);
            let TextScan { mut reach, named, finds_hidden, .. } = look;
            // What is sourced has for its own directory that of whoever sources it.
            if let (ReadReach::Directory(how), false) = (&reach, is_evaluated(entry)) {
                reach = ReadReach::All(how.clone());
            }
            self.texts.push(ScriptReader { path, text, reach, named, finds_hidden });
        }
        match self.texts.iter().map(|reader| reader.text.len()).sum::<usize>() > MOST {
            true => Err("the modulefiles are too large to be searched for what they read".into()),
            false => Ok(()),
        }
    }

    /// Why an rc file must stay, whose name nobody comes upon by chance.
    pub(super) fn need_of_rc(&self, file: &Path) -> Option<String> {
        if let Some(why) = &self.unknown {
            return Some(why.clone());
        }
        let tail = file.file_name()?.to_string_lossy();
        let others = self.texts.iter().filter(|reader| reader.path != file);
        let reads = |reader: &&ScriptReader| reader.finds_hidden || reader.text.contains(&*tail);
        let by = others.into_iter().find(reads)?;
        Some(format!("{} may read it", by.path.display()))
    }

    /// Why a file of a modulepath must stay where it is, as far as modulefiles are concerned.
    pub(super) fn need(&self, root: &Path, name: &Path) -> Option<String> {
        if let Some(why) = &self.unknown {
            return Some(why.clone());
        }
        let file = root.join(name);
        let parts: Option<Vec<&str>> = name.iter().map(|part| part.to_str()).collect();
        let Some((tail, directories)) = parts.as_deref().and_then(<[&str]>::split_last) else {
            return Some("its name is no text".to_owned());
        };
        self.texts.iter().filter(|reader| reader.path != file).find_map(|reader| {
            let by = reader.path.display();
            let own = reader.path.parent().unwrap_or(Path::new("/"));
            match &reader.reach {
                ReadReach::All(how) => Some(format!("{by} may read it: {how}")),
                ReadReach::Directory(how) if file.starts_with(own) => {
                    Some(format!("{by} may read it: {how}"))
                }
                _ if reader.text.contains(tail) => Some(format!("{by} has its name")),
                _ if directories.iter().any(|directory| reader.named.contains(*directory)) => {
                    Some(format!("{by} names its directory"))
                }
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

fn is_evaluated(entry: &TreeEntry) -> bool {
    match &entry.kind {
        TreeEntryKind::File(cookie) => *cookie != Cookie::Missing,
        TreeEntryKind::Rc(..) => true,
        _ => false,
    }
}

/// A look at one text.
struct TextScan<'a> {
    roots: &'a [String],
    /// The same without links.
    real: &'a [PathBuf],
    reach: ReadReach,
    named: BTreeSet<String>,
    finds_hidden: bool,
}

impl<'a> TextScan<'a> {
    fn new(roots: &'a [String], real: &'a [PathBuf]) -> TextScan<'a> {
        TextScan {
            roots,
            real,
            reach: ReadReach::Nothing,
            named: BTreeSet::new(),
            finds_hidden: false,
        }
    }

    fn may(&mut self, reach: ReadReach) {
        if reach > self.reach {
            self.reach = reach;
        }
    }

    fn at(&mut self, text: &str, sourced: &mut BTreeSet<String>) {
        let all = |how: &str| ReadReach::All(how.to_owned());
        let whole = PLACES.iter().chain(&INDIRECT).find(|place| text.contains(*place));
        if let Some(how) = whole {
            self.may(all(how.trim()));
        }
        let is_up = |part: &str| part == "..";
        if text.contains(OWN) && text.split([' ', '\n', '/', '"', '{', '}', '[', ']']).any(is_up) {
            self.may(all("a path with .. in it"));
        }
        let mut before = ["", ""];
        for (at, word) in words(text) {
            if TOUCHING.contains(&word) && is_command(text, at, before, word) {
                self.command(word, command(&text[at + word.len()..]), sourced);
            }
            before = [before[1], word];
        }
        // A directory, told to a program or kept in a variable.
        self.told(text, OWN, ReadReach::Directory("it names its own directory".to_owned()));
        for root in self.roots {
            self.told(text, root, all("it names the modulepath"));
        }
        for lead in leads(text, self.real) {
            match lead {
                Leads::Above => self.may(all("it names the modulepath, or what that lies in")),
                Leads::Into(names) => self.named.extend(names),
            }
        }
    }

    /// Where a directory is named: the name that follows, or else all that is in it.
    fn told(&mut self, text: &str, directory: &str, reach: ReadReach) {
        for (at, _) in text.match_indices(directory) {
            match named(&text[at + directory.len()..]) {
                Some(name) => drop(self.named.insert(name.to_owned())),
                None => self.may(reach.clone()),
            }
        }
    }

    /// What a command that touches files may read.
    fn command(&mut self, word: &str, arguments: &str, sourced: &mut BTreeSet<String>) {
        let words: Vec<&str> = arguments.split_whitespace().collect();
        let first = words.first().map_or("", |word| bare(word));
        let is_literal = !arguments.contains(['$', '[']);
        let apart = |word: &&str| apart(word, self.roots);
        let is_fine = match word {
            "file" if !first.contains(['$', '[']) && !is_of_files(first) => true,
            "open" | "source" | "file" => {
                let path = words.get(usize::from(word == "file"));
                let is_apart = is_literal && word != "source" && path.is_some_and(apart);
                let rest = path.and_then(|path| Some(&arguments[arguments.find(path)?..]));
                match rest.and_then(last_name) {
                    _ if is_apart => true,
                    Some(name) => {
                        self.named.insert(name.to_owned());
                        if word == "source" {
                            sourced.insert(name.to_owned());
                        }
                        true
                    }
                    None => false,
                }
            }
            "package" => ["require", "provide"].contains(&first),
            _ if is_literal && arguments.contains(OWN) => {
                self.finds_hidden |= word != "glob" || words.iter().any(|word| is_of_hidden(word));
                self.may(ReadReach::Directory(format!("{word} in its own directory")));
                true
            }
            "glob" => {
                self.finds_hidden |= words.iter().any(|word| is_of_hidden(word));
                is_literal && words.iter().filter(|word| !word.starts_with('-')).all(apart)
            }
            // A name without a directory is a program's, or one where the user is.
            "exec" | "system" => {
                is_literal && words.iter().all(|word| !word.contains('/') || apart(word))
            }
            _ => false,
        };
        if !is_fine {
            self.finds_hidden |= !["glob", "open", "source", "file"].contains(&word);
            self.may(ReadReach::All(word.to_owned()));
        }
    }
}

/// Whether a word is a command here, or kept to be one, and not prose.
fn is_command(text: &str, at: usize, before: [&str; 2], word: &str) -> bool {
    let earlier = text[..at].trim_end_matches([' ', '\t']);
    let is_first = earlier.is_empty() || earlier.ends_with(['\n', '[', ';', '{', '}', '"', ':']);
    // `module load` and what follows `module-info mode` load no library.
    let is_module = word == "load" && ["module", "mode", "unload"].contains(&before[1]);
    (is_first || before.iter().any(|word| BEFORE.contains(word))) && !is_module
}

/// Whether a pattern of `glob` may match names that begin with a dot.
fn is_of_hidden(word: &str) -> bool {
    let last = bare(word.rsplit('/').next().unwrap_or(word));
    let is_plain =
        last.starts_with(|letter: char| letter.is_alphanumeric() || "-*?".contains(letter));
    !is_plain || last.contains("hidden")
}

fn is_of_files(subcommand: &str) -> bool {
    !subcommand.is_empty() && OF_FILES.iter().any(|known| known.starts_with(subcommand))
}
