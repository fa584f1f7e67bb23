//! Where a list of directories is written: a variable, options of the command, or the program.

use std::collections::HashSet;

use recording::query::clean;
use recording::{Exec, Recording, SEARCH_VARIABLES};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::survey::{split, variable};

/// Where a list comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ListName {
    /// An environment variable, by its name.
    Variable(String),
    /// Options of the command, as the first one is written: `-I`.
    Option(String),
    /// The program's own, as it calls it: `@INC`.
    Program(String),
    /// Nobody knows.
    Unknown,
}

impl ListName {
    /// As it reads in a sentence.
    pub fn words(&self) -> String {
        match self {
            ListName::Variable(name) | ListName::Option(name) | ListName::Program(name) => {
                name.clone()
            }
            ListName::Unknown => "a list that becalm does not know".to_owned(),
        }
    }
}

/// A list that is written somewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeclaredList {
    pub name: ListName,
    pub directories: Vec<Vec<u8>>,
}

/// The lists that a program was given, those of its options first: they are searched first.
pub(crate) fn lists_of(recording: &Recording, exec: &Exec) -> Vec<DeclaredList> {
    let mut lists = options(recording, exec);
    for known in SEARCH_VARIABLES {
        let Some(value) = variable(exec, known.name) else { continue };
        let directories = declared_entries(known.name, value);
        let directories = directories.iter().filter_map(|entry| entry.as_deref());
        let directories = directories.map(|entry| full(recording, exec, entry));
        let name = ListName::Variable(known.name.to_owned());
        lists.push(DeclaredList { name, directories: unique(directories) });
    }
    lists
}

/// The entries of a variable's value in order, each with its directory as it is written; none of an
/// entry that stands for the default, and of a variable that is not known.
pub fn declared_entries<'v>(name: &str, value: &'v str) -> Vec<Option<&'v str>> {
    let known = SEARCH_VARIABLES.iter().find(|known| known.name == name);
    let entries = known.into_iter().flat_map(|known| value.split(known.separator));
    entries.map(directory).collect()
}

/// Of a template (`/a/?.lua`, `/a/?/init.lua`), what stands before its mark; of jars, themselves.
fn directory(entry: &str) -> Option<&str> {
    let plain = match entry.find('?') {
        Some(mark) => entry[..mark].rfind('/').map_or("", |slash| &entry[..slash]),
        None => entry,
    };
    let trimmed = plain.trim_end_matches('/');
    (!trimmed.is_empty()).then_some(trimmed)
}

/// The lists in a command's words. Sources: gcc(1), ld(1), perlrun(1), ruby(1), java(1), emacs(1).
fn options(recording: &Recording, exec: &Exec) -> Vec<DeclaredList> {
    let program = recording::shown(split(recording.path(exec.image)).1);
    let program = program.as_str();
    let (names, separator): (&[&str], Option<char>) = match program {
        "java" | "javac" => (&["-cp", "-classpath", "--class-path"], Some(':')),
        "perl" | "ruby" => (&["-I"], Some(':')),
        "cc1" | "cc1plus" | "cc1obj" | "f951" | "rootcling" | "root.exe" => {
            (&["-I", "-isystem", "-iquote", "-idirafter"], None)
        }
        _ if program.starts_with("clang") => (&["-I", "-isystem", "-internal-isystem"], None),
        _ if program.starts_with("perl") || program.starts_with("ruby") => (&["-I"], Some(':')),
        _ if program.starts_with("emacs") => (&["-L", "--directory"], Some(':')),
        _ if is_linker(program) => (&["-L"], None),
        _ => return Vec::new(),
    };
    let mut lists: Vec<DeclaredList> = Vec::new();
    let mut words = exec.argv.iter().skip(1).map(String::as_str);
    while let Some(word) = words.next() {
        let Some(name) = names.iter().find(|name| word.starts_with(**name)) else { continue };
        let value = match &word[name.len()..] {
            "" => words.next().unwrap_or_default(),
            joined => joined.trim_start_matches('='),
        };
        let entries = value.split(|char| Some(char) == separator);
        let directories = entries.filter(|entry| !entry.is_empty());
        let directories = directories.map(|entry| full(recording, exec, entry));
        match lists.first_mut() {
            Some(list) => list.directories.extend(directories),
            None => {
                let name = ListName::Option((*name).to_owned());
                lists.push(DeclaredList { name, directories: directories.collect() });
            }
        }
    }
    for list in &mut lists {
        list.directories = unique(std::mem::take(&mut list.directories).into_iter());
    }
    lists
}

fn is_linker(program: &str) -> bool {
    matches!(program, "ld" | "collect2" | "ld.gold" | "ld.lld" | "lld" | "mold")
        || program.ends_with("-ld")
        || program.ends_with("-ld.bfd")
}

/// What a program calls its list, where nothing gave it one.
pub(super) fn own_list(recording: &Recording, exec: &Exec) -> Option<&'static str> {
    let image = recording::shown(split(recording.path(exec.image)).1);
    let known: [(&str, &str); 18] = [
        ("perl", "@INC"),
        ("ruby", "$LOAD_PATH"),
        ("lua", "package.path"),
        ("texlua", "package.path"),
        ("node", "node_modules"),
        ("java", "the class path"),
        ("cc1", "the include path"),
        ("gcc", "the compiler's search path"),
        ("g++", "the compiler's search path"),
        ("x86_64-linux-gnu-gcc", "the compiler's search path"),
        ("tclsh", "auto_path"),
        ("wish", "auto_path"),
        ("pkg-config", "pkg-config's path"),
        ("pkgconf", "pkg-config's path"),
        ("cmake", "CMake's prefixes"),
        ("emacs", "load-path"),
        ("R", ".libPaths()"),
        ("man", "the manual path"),
    ];
    let is_it = |(program, _): &&(&str, &str)| match program.len() {
        1 => image == *program,
        _ => image.starts_with(program),
    };
    known.iter().find(is_it).map(|(_, name)| *name)
}

/// An entry as a path from the root, without `..`.
fn full(recording: &Recording, exec: &Exec, entry: &str) -> Vec<u8> {
    let entry = entry.as_bytes();
    match entry.first() {
        Some(b'/') => clean(entry).into_owned(),
        _ => clean(&[recording.path(exec.cwd), b"/", entry].concat()).into_owned(),
    }
}

fn unique(directories: impl Iterator<Item = Vec<u8>>) -> Vec<Vec<u8>> {
    let mut seen = HashSet::new();
    directories.filter(|directory| seen.insert(directory.clone())).collect()
}
