//! What the files of ranks are called.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use recording::Rank;

use crate::LaunchedRank;
use crate::launched::host;

/// The path with its placeholders filled in.
pub(crate) fn named(path: &Path, launched: Option<&LaunchedRank>) -> PathBuf {
    let Some(text) = path.to_str().filter(|text| text.contains('%')) else {
        return path.to_owned();
    };
    let node = launched.map_or_else(host, |it| it.rank.node.clone());
    let rank = launched.map_or(0, |launched| launched.rank.rank);
    text.replace("%r", &rank.to_string()).replace("%n", &safe(&node)).into()
}

/// `start.becalm` and `n1`: `start.n1.becalm`.
pub(crate) fn beside(path: &Path, word: &str) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(".");
    name.push(word);
    if let Some(end) = path.extension() {
        name.push(".");
        name.push(end);
    }
    path.with_file_name(name)
}

pub(crate) fn holds(path: &Path, placeholder: &str) -> bool {
    path.to_string_lossy().contains(placeholder)
}

/// One directory for the ranks of one run on one node that were given one path.
pub(crate) fn directory_name(rank: &Rank, target: &Path) -> String {
    let mut hash = DefaultHasher::new();
    (&rank.run, &rank.node, target).hash(&mut hash);
    let user = rustix::process::geteuid().as_raw();
    let (run, node) = (safe(&rank.run), safe(&rank.node));
    format!("becalm-{user}-{run}-{node}-{:016x}", hash.finish())
}

/// A name from the environment as a part of a file's name.
pub(crate) fn safe(name: &str) -> String {
    let kept = |char: char| char.is_ascii_alphanumeric() || "-_.".contains(char);
    let name: String = name.chars().map(|char| if kept(char) { char } else { '-' }).collect();
    name.as_str().get(..64).unwrap_or(&name).to_owned()
}
