//! Paths in a modulefile's text that lead to a modulepath, however they are spelled: through a
//! symbolic link, with `//`, `.` or `..` in them.

use std::path::{Path, PathBuf};

/// What a path in a text leads to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Leads {
    /// To the modulepath, or to a directory that it lies in: what is added to it may be anything
    /// there.
    Above,
    /// Into it, by these names.
    Into(Vec<String>),
}

/// Where the absolute paths of a text lead, of those that lead to one of these directories.
pub(super) fn leads(text: &str, roots: &[PathBuf]) -> Vec<Leads> {
    let mut paths: Vec<&str> = absolute_paths(text).collect();
    paths.sort_unstable();
    paths.dedup();
    let real = paths.into_iter().map(|path| real(Path::new(path)));
    let to_root = |path: PathBuf| roots.iter().find_map(|root| lead(&path, root));
    real.filter_map(to_root).collect()
}

fn lead(path: &Path, root: &Path) -> Option<Leads> {
    if root.starts_with(path) {
        // Everything lies in `/`.
        return (path != Path::new("/")).then_some(Leads::Above);
    }
    let names = path.strip_prefix(root).ok()?.iter();
    Some(Leads::Into(names.map(|name| name.to_string_lossy().into_owned()).collect()))
}

/// Each `/` that begins a path, with what follows literally.
fn absolute_paths(text: &str) -> impl Iterator<Item = &str> {
    let is_of_name = |char: char| char.is_alphanumeric() || "._-+~@%/".contains(char);
    text.match_indices('/').filter_map(move |(at, _)| {
        let goes_on = text[..at].ends_with(|char| is_of_name(char) || "$})]".contains(char));
        let path = &text[at..];
        let end = path.find(|char| !is_of_name(char)).unwrap_or(path.len());
        (!goes_on).then_some(&path[..end])
    })
}

/// A path without links, as far as it is there.
fn real(path: &Path) -> PathBuf {
    let mut missing = Vec::new();
    for above in path.ancestors() {
        if let Ok(real) = above.canonicalize() {
            return missing.iter().rev().fold(real, |path, name| path.join(name));
        }
        missing.extend(above.file_name());
    }
    path.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_leads_where_it_is_however_it_is_spelled() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap();
        std::fs::create_dir_all(top.join("tree/a")).unwrap();
        std::fs::create_dir(top.join("other")).unwrap();
        std::os::unix::fs::symlink(top.join("tree"), top.join("link")).unwrap();
        let roots = [top.join("tree")];
        let top = top.to_str().unwrap();
        let into = |names: &[&str]| vec![Leads::Into(names.iter().map(|&n| n.into()).collect())];
        for (spelled, expected) in [
            ("link/a", into(&["a"])),
            ("/tree/a", into(&["a"])),
            ("other/../tree/a/N*", into(&["a", "N"])),
            ("tree/./a/.", into(&["a"])),
            ("tree/gone/x", into(&["gone", "x"])),
            ("link", vec![Leads::Above]),
            ("", vec![Leads::Above]),
            ("other/tree", Vec::new()),
            ("treehouse/a", Vec::new()),
        ] {
            let text = format!("setenv HERE {top}/{spelled}; # see https://example.org/tree/a");
            assert_eq!(leads(&text, &roots), expected, "{spelled}");
        }
    }
}
